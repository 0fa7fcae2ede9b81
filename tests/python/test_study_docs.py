"""The examples of docs/study.md run as they stand there, one after the other."""

import re
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[2] / "docs/study.md"
BLOCK = re.compile(r"^```(?P<language>toml|python)\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL)
FOREIGN = ("pandas", "duckdb", "xarray")


def test_the_examples_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for package in FOREIGN:
        pytest.importorskip(package)
    monkeypatch.chdir(tmp_path)
    blocks = list(BLOCK.finditer(PAGE.read_text()))
    file = next(block["text"] for block in blocks if block["language"] == "toml")
    (tmp_path / "ways.toml").write_text(file)
    names: dict[str, object] = {}
    code = [block["text"] for block in blocks if block["language"] == "python"]
    for text in code:
        exec(text, names)
    assert len(code) == 5
    assert "gain" in names


def test_ranges_and_samples_are_read_as_the_page_states_them() -> None:
    from pagelens.study.study_file import read_study

    blocks = [block["text"] for block in BLOCK.finditer(PAGE.read_text()) if block["language"] == "toml"]
    import tomllib

    file, ranges, sample = map(tomllib.loads, blocks)
    file["inputs"] |= ranges
    stated = read_study(file | sample)
    assert len(stated.file.varied) == 4
