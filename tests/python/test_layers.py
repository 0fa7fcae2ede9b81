"""The floors of the package: no room imports one above it, and there is no circle between modules."""

import ast
import functools
import subprocess
import sys
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2] / "pagelens"

# From the ground up. Modules at the package's root lie on the ground floor.
FLOORS = (
    ("values", "report"),
    ("address",),
    ("host",),
    ("machine",),
    ("frames", "accesses"),
    ("replay",),
    ("ensemble", "conflicts", "io"),
    ("explain", "place", "audit"),
    ("measure", "run", "fix", "lab", "reproduce", "diff", "site"),
    ("api", "study", "cli"),
)
# Of two rooms on one floor, the first may import the second.
BESIDE = {
    ("values", "report"),
    ("measure", "run"),
    ("lab", "run"),
    ("lab", "fix"),
    ("reproduce", "measure"),
    ("reproduce", "lab"),
    ("site", "measure"),
    ("site", "fix"),
    ("site", "run"),
    ("study", "api"),
    ("cli", "api"),
    ("cli", "study"),
}
FLOOR = {room: floor for floor, rooms in enumerate(FLOORS) for room in rooms}


def modules() -> dict[str, Path]:
    found = {}
    for path in ROOT.rglob("*.py"):
        parts = ["pagelens", *path.relative_to(ROOT).with_suffix("").parts]
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


MODULES = modules()


def imports(path: Path) -> set[str]:
    """The modules of pagelens that a file imports, here and there or only for types."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            names = {f"{node.module}.{alias.name}" for alias in node.names}
            found |= {name if name in MODULES else node.module for name in names}
    return found & MODULES.keys()


@functools.cache
def edges() -> dict[str, set[str]]:
    """What each module imports. The package itself names what it offers for type checkers."""
    return {name: imports(path) for name, path in MODULES.items() if name != "pagelens"}


def room(module: str) -> str | None:
    """The room of a module, None for those at the root."""
    parts = module.split(".")
    return parts[1] if len(parts) > 1 and parts[1] in FLOOR else None


def test_every_folder_has_a_floor_and_there_are_at_most_ten() -> None:
    folders = {path.parent.name for path in ROOT.glob("*/__init__.py")}
    assert folders == set(FLOOR)
    assert len(FLOORS) <= 10


def upward() -> dict[str, str]:
    """Returns, by module, the room above it that it imports. Modules at the root import no room."""
    found = {}
    for importer, targets in edges().items():
        if importer == "pagelens.__main__":
            continue
        here = room(importer)
        for target in targets:
            there = room(target)
            if there is None or there == here or (here, there) in BESIDE:
                continue
            if here is None or FLOOR[there] >= FLOOR[here]:
                found[importer] = there
    return found


def test_no_room_imports_one_above_it() -> None:
    assert upward() == {}


def test_there_is_no_circle_between_modules() -> None:
    try:
        tuple(TopologicalSorter(edges()).static_order())
    except CycleError as error:
        pytest.fail(f"a circle: {' <- '.join(error.args[1])}")


def exported(package: str) -> set[str]:
    """The names that a package offers: those of its stub, which are loaded lazily, or of its __all__."""
    stub = MODULES[package].with_suffix(".pyi")
    if stub.exists():
        tree = ast.parse(stub.read_text())
        return {
            alias.asname or ""
            for node in ast.walk(tree)
            if isinstance(node, ast.ImportFrom)
            for alias in node.names
        }
    for node in ast.walk(ast.parse(MODULES[package].read_text())):
        if isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "") == "__all__":
            return set(ast.literal_eval(node.value))
    return set()


def is_package(module: str) -> bool:
    return MODULES[module].name == "__init__.py"


def beyond_what_is_exported() -> set[str]:
    """Returns what commands import of rooms that no package of the room exports."""
    found = set()
    for importer, path in MODULES.items():
        for node in ast.walk(ast.parse(path.read_text())):
            if room(importer) != "cli" or not isinstance(node, ast.ImportFrom):
                continue
            module = node.module or ""
            if room(module) in (None, "cli"):
                continue
            offered = exported(module) if is_package(module) else set()
            names = {alias.name for alias in node.names} - offered
            found |= {f"{importer}: {module}.{name}" for name in names}
    return found


def test_commands_import_only_what_rooms_export() -> None:
    assert beyond_what_is_exported() == set()


def test_no_room_exports_a_name_of_its_modules() -> None:
    """Otherwise the imports that came before would decide which of the two a name stands for."""
    lazy = [package for package, path in MODULES.items() if path.with_suffix(".pyi").exists()]
    assert lazy
    assert {f"{package}.{name}" for package in lazy for name in exported(package)} & MODULES.keys() == set()


def test_the_package_imports_nothing_until_it_is_asked() -> None:
    code = "import sys, pagelens; print(*(name for name in sys.modules if name.startswith('pagelens.')))"
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert done.stdout.split() == []
