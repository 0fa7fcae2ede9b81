"""The layers of the native code: there is no circle between files, nor between the folders of core/."""

import re
from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FOLDERS = ("core", "hooks", "preload", "probes", "tracer", "zonesort")
SUFFIXES = {".c", ".h", ".cpp", ".hpp"}

INCLUDE = re.compile(r'^\s*#\s*include\s*"([^"]+)"', re.MULTILINE)
# Comments, strings, and preprocessor lines with those that continue them.
NOT_CODE = re.compile(
    r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"|^\s*#(?:\\\n|[^\n])*', re.DOTALL | re.MULTILINE
)
BRACES = re.compile(r"\{[^{}]*\}")
NOT_LINKED = re.compile(r"static\b|typedef\b|_Static_assert\b|(struct|enum|union)( \w+)?( \0)?$")
DECLARED = re.compile(r"(?:\w+[\s*]+)+(\w+) ?(?:\(.*|\[.*|,.*)?$")

Graph = dict[str, set[str]]


def sources(folder: str) -> Iterator[Path]:
    return (path for path in sorted((ROOT / folder).rglob("*")) if path.suffix in SUFFIXES)


def unit(path: Path) -> str:
    """A header and the source file of the same name are one unit."""
    return str(path.relative_to(ROOT).with_suffix(""))


def included(path: Path) -> Iterator[Path]:
    """The headers of this repository that a file includes: beside it, or named from the root."""
    for name in INCLUDE.findall(path.read_text()):
        found = [near for base in (path.parent, ROOT) if (near := base / name).is_file()]
        assert found, f"{path} includes {name}, which is nowhere"
        yield found[0].resolve()


def includes(*folders: str) -> Graph:
    """Returns, by unit of these folders, the units that it includes."""
    graph: Graph = {}
    for path in (path for folder in folders for path in sources(folder)):
        graph.setdefault(unit(path), set()).update(unit(header) for header in included(path))
    return {of: targets - {of} for of, targets in graph.items()}


def statements(path: Path) -> Iterator[str]:
    """Returns what a C file has at file scope. Bodies, fields and initializers are cut to a zero byte."""
    code, before = NOT_CODE.sub(" ", path.read_text()), ""
    while code != before:
        code, before = BRACES.sub("\0", code), code
    for part in re.split(r";|(?<=\0)(?=\s*\n)", code):
        yield " ".join(part.split())


def linked_name(statement: str) -> str | None:
    """The function or variable with external linkage that a statement declares or defines."""
    if NOT_LINKED.match(statement):
        return None
    head = re.split(r" ?__attribute__| ?=", statement.removeprefix("EXPORT "))[0]
    found = DECLARED.match(head.removesuffix("\0").strip())
    return found[1] if found else None


def definitions(folder: str) -> Graph:
    """Returns, by header of C code, the units that define what it declares and that its users depend on."""
    defined = {}
    for path in sources(folder):
        for statement in statements(path) if path.suffix == ".c" else ():
            is_prototype = "(" in statement and not statement.endswith("\0")
            if (name := linked_name(statement)) and not is_prototype:
                defined[name] = unit(path)
    graph: Graph = {}
    for path in sources(folder):
        if path.suffix == ".h":
            names = {linked_name(statement) for statement in statements(path)}
            graph[unit(path)] = {of for name, of in defined.items() if name in names} - {unit(path)}
    return graph


def between_rooms(graph: Graph) -> Graph:
    """The same graph between the folders of core/; a folder within one is part of it."""
    rooms: Graph = {}
    for of, targets in graph.items():
        here = of.split("/")[1]
        rooms.setdefault(here, set()).update(there for to in targets if (there := to.split("/")[1]) != here)
    return rooms


def assert_no_circle(graph: Graph) -> None:
    try:
        tuple(TopologicalSorter(graph).static_order())
    except CycleError as error:
        pytest.fail(f"a circle: {' <- '.join(error.args[1])}")


def test_no_circle_of_includes_between_files() -> None:
    graph = includes(*FOLDERS)
    assert {of.split("/")[0] for of, targets in graph.items() if targets} == set(FOLDERS)
    assert_no_circle(graph)


@pytest.mark.parametrize("folder", ["preload", "zonesort"])
def test_no_circle_of_calls_between_files(folder: str) -> None:
    """A header that declares what another unit defines would hide a call upwards."""
    graph = includes(folder)
    for header, definers in definitions(folder).items():
        graph[header] |= definers
    assert_no_circle(graph)


def test_no_circle_between_folders_of_core() -> None:
    assert_no_circle(between_rooms(includes("core")))


def test_the_machine_model_needs_no_allocator_of_frames() -> None:
    graph = includes("core")
    reached, ahead = set(), [of for of in graph if of.startswith("core/machine/")]
    assert ahead
    while ahead:
        here = ahead.pop()
        if here not in reached:
            reached.add(here)
            ahead += graph[here]
    assert not [of for of in reached if of.startswith("core/frames/")]
