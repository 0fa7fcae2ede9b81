"""No published figure decides its own row: a study compares with it, draws it, and does nothing else.

Each number of a study says where it is from, or what it is. Machine files state a source for every number,
which their reader enforces.
"""

import ast
import math
from collections.abc import Iterator
from pathlib import Path

import pytest

from pagelens.frames import load_mix
from pagelens.reproduce import programs, studies

FILES = sorted(Path(studies.__file__).parent.glob("[a-z]*.py"))
PROGRAMS = sorted(Path(programs.__file__).parent.glob("[a-z]*.py"))
UNITS = ("GIB", "MIB")
DRAWS = ("_figure", "_scatter", "_histogram", "_panel")  # functions that draw
COMPARES = ("Row", "near", "value", "abs", "drawing")
# Why a published constant may do more in a study.
KNOWN = {
    "io_cori.HDF5_MB_S": "Haswell's rate is the input from which KNL's is predicted",
    "io_cori.OWN_CORES": "its ends are the inputs, and the points between are compared",
    "page_walks.TRIPS": "its keys are the sizes of the pages that the rows are for",
    "snoop_filter.PERIOD_MIB": "shorter periods are tried first, and none may hold",
    "two_level.SPEEDUP": "the two sockets' speedup is the input from which KNL's is predicted",
    "xeon_max.FITS": "the size, in an input row, that tells which frames the nodes had",
    "xeon_max.FLAT_DDR": "the row that shows DDR's speed as an input of the machine file",
    "xeon_max.CURVE": "its sizes are the axis of the curve",
}


def published_names(tree: ast.Module) -> set[str]:
    """Return the constants in the published value of any row."""
    found = set()
    for call in (node for node in ast.walk(tree) if isinstance(node, ast.Call)):
        if isinstance(call.func, ast.Name) and call.func.id == "Row" and len(call.args) > 3:
            found |= {n.id for n in ast.walk(call.args[3]) if isinstance(n, ast.Name) and n.id.isupper()}
    return found


def uses(tree: ast.Module, names: set[str]) -> Iterator[tuple[str, int]]:
    """Yield where one of the names is read outside of a comparison and a drawing."""

    def walk(node: ast.AST, allowed: bool) -> Iterator[tuple[str, int]]:
        if isinstance(node, ast.FunctionDef):
            allowed = node.name.startswith(DRAWS)
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            allowed = allowed or node.func.id in COMPARES
        allowed = allowed or isinstance(node, ast.Compare)
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load) and node.id in names and not allowed:
            yield node.id, node.lineno
        for child in ast.iter_child_nodes(node):
            yield from walk(child, allowed)

    return walk(tree, False)


def misuses(name: str, text: str) -> list[str]:
    tree = ast.parse(text)
    return [
        f"{name}.{constant} in line {line}"
        for constant, line in uses(tree, published_names(tree))
        if f"{name}.{constant}" not in KNOWN
    ]


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_published_figure_is_compared_and_nothing_else(path: Path) -> None:
    assert misuses(path.stem, path.read_text()) == []


def test_a_constant_that_decides_its_own_row_is_found() -> None:
    text = "SPEED = 3\nx = simulate(SPEED)\ny = Row('a', 'b', K, value('3', s=SPEED), x)\n"
    assert misuses("study", text) == ["study.SPEED in line 2"]
    assert misuses("study", text.replace("simulate(SPEED)", "simulate(2)")) == []


def unexplained(text: str) -> list[str]:
    """Return the constants with a number that no comment on their lines, or above their group, explains."""
    lines = text.splitlines()
    found, explained = [], False
    for node in ast.parse(text).body:
        if not isinstance(node, ast.Assign | ast.AnnAssign):
            continue
        target = node.targets[0] if isinstance(node, ast.Assign) else node.target
        own = any("#" in line for line in lines[node.lineno - 1 : node.end_lineno])
        above = lines[node.lineno - 2] if node.lineno > 1 else ""
        # A line of comment holds for the constants after it, up to an empty line or the next comment.
        explained = above.startswith("#") or (explained and above != "")
        names = [n.id for n in ast.walk(target) if isinstance(n, ast.Name) and n.id not in UNITS]
        if names and _has_number(node.value) and not own and not explained:
            found += names
    return found


def _has_number(value: ast.AST | None) -> bool:
    """Tell whether there is a number other than an index, such as the one in COLOURS[0]."""
    if isinstance(value, ast.Constant):
        return isinstance(value.value, int | float) and not isinstance(value.value, bool)
    parts = [value.value] if isinstance(value, ast.Subscript) else ast.iter_child_nodes(value or ast.Pass())
    return any(_has_number(part) for part in parts if isinstance(part, ast.expr | ast.keyword))


@pytest.mark.parametrize("path", [*FILES, *PROGRAMS], ids=lambda path: path.stem)
def test_each_number_of_a_study_says_where_it_is_from(path: Path) -> None:
    assert unexplained(path.read_text()) == []


def test_a_number_without_a_word_is_found() -> None:
    text = "A = 3  # table 1\nB = 4\n\n# GB/s\nC = 5\nD = {1: 6}\n\nE = (7,)\nF = 'x'\n"
    assert unexplained(text) == ["B", "E"]


# Of a function: counts of arrays and halves, and units. They say nothing about a machine or a document.
OF_NO_SOURCE = {0, 1, 2, 0.5, 100, 1e3, 1e6, 1e9, 8, 64}
# Calls that are a row of the page or a part of one, where a figure stands beside its source, and calls that
# choose how much is simulated.
ROWS = ("Row", "value", "near", "pick", "_rate", "_ratio", "_shown", "_tail", "_period")


def loose(text: str) -> list[str]:
    """Return the numbers in functions that no row and no comment explains.

    Comparisons are the readings of claims, which their rows state. A shift counts bits of an address, and a
    function with a Figure or with axes only draws.
    """
    lines = text.splitlines()
    found = []

    def walk(node: ast.AST, inside: bool) -> None:
        if isinstance(node, ast.FunctionDef):
            inside = not _draws(node)
        elif isinstance(node, ast.Compare) or (isinstance(node, ast.Call) and _name(node.func) in ROWS):
            return
        elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.LShift | ast.RShift):
            walk(node.left, inside)
            return
        elif isinstance(node, ast.FormattedValue):
            walk(node.value, inside)  # and not the digits of its format
            return
        number = isinstance(node, ast.Constant) and isinstance(node.value, int | float)
        if inside and number and abs(node.value) not in OF_NO_SOURCE and "#" not in lines[node.lineno - 1]:
            found.append(f"{node.value} in line {node.lineno}")
        for child in ast.iter_child_nodes(node):
            walk(child, inside)

    walk(ast.parse(text), False)
    return found


def _name(function: ast.expr) -> str:
    return function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")


def _draws(function: ast.FunctionDef) -> bool:
    calls = {_name(node.func) for node in ast.walk(function) if isinstance(node, ast.Call)}
    return "Figure" in calls or any(argument.arg == "axes" for argument in function.args.args)


@pytest.mark.parametrize("path", [*FILES, *PROGRAMS], ids=lambda path: path.stem)
def test_each_number_in_a_function_is_in_a_row_or_says_what_it_is(path: Path) -> None:
    assert loose(path.read_text()) == []


def test_a_number_in_a_function_is_found() -> None:
    text = (
        "def run(context):\n    x = simulate(17)\n    y = 3.5 * x  # table 2\n    z = x << 12\n"
        "    n = context.pick(30, 4)\n    return Row('a', 'b', K, value('9', s=9), x > 5)\n"
    )
    assert loose(text) == ["17 in line 2"]


def test_the_mix_of_llnl_has_the_published_share_of_small_jobs() -> None:
    mix = load_mix("llnl")
    small = 0.15 * (96 << 30)  # bytes; below it are 90% of the jobs
    below = math.log(small / mix.smallest_job_bytes) / math.log(
        mix.largest_job_bytes / mix.smallest_job_bytes
    )
    assert below == pytest.approx(0.9, abs=0.005)
