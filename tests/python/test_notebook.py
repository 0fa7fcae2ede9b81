"""The cells of examples/notebook.ipynb run from the top, without Jupyter, and show what its text says."""

import ast
import json
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
SMALLER = {"nodes=6": "nodes=2", '"40", "3"': '"24", "1"'}


def cells() -> list[str]:
    notebook = json.loads((ROOT / "examples/notebook.ipynb").read_text())
    return ["".join(cell["source"]) for cell in notebook["cells"] if cell["cell_type"] == "code"]


def run(cell: str, names: dict[str, Any]) -> object:
    """Runs a cell with less to do; the value of its last expression, as a notebook shows it."""
    for stated, smaller in SMALLER.items():
        cell = cell.replace(stated, smaller)
    tree = ast.parse(cell)
    last = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) else None
    exec(compile(tree, "cell", "exec"), names)
    return eval(compile(ast.Expression(last.value), "cell", "eval"), names) if last is not None else None


def test_the_notebook_runs_and_shows_what_it_says(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    monkeypatch.setenv("MPLBACKEND", "agg")
    names: dict[str, Any] = {}
    shown = [run(cell, names) for cell in cells()]
    explanation, remedies, by_policy, machine, sweep, _, compared = shown[1:]
    assert "<svg" in explanation._repr_html_()  # type: ignore[attr-defined]
    assert "<svg" in remedies._repr_svg_()  # type: ignore[attr-defined]
    assert by_policy["policy"].to_list() == ["aged", "aged+zonesort", "2m"]  # type: ignore[index]
    assert "memory-side cache" in repr(machine)
    assert (sweep["1"] > sweep["2"]).all()  # type: ignore[index]
    aged, spread = compared["conflict_share"]  # type: ignore[index]
    assert spread == 0 < aged
