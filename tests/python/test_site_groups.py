"""Call sites that are one object: recursion, and libraries without symbols."""

import subprocess
from pathlib import Path

import numpy as np
import pytest
from machine_roles import FLAT_BEHIND_L3

from pagelens.accesses.site_groups import MOST_FRAMES, group_sites
from pagelens.accesses.symbols import Location, _folded
from pagelens.accesses.trace import open_trace
from pagelens.accesses.tracer import TraceRequest, trace_program
from pagelens.machine import load_machine
from pagelens.place.plan_builder import build_plan
from pagelens.place.profile import profile
from pagelens.report import shorten_object, shorten_objects

PROGRAM = Path(__file__).parent.parent / "programs" / "recursion.c"


class Symbols:
    """Addresses are 100 a function; those from 1000 on are of a library without symbols."""

    def function(self, address: int) -> tuple[str, int | None]:
        return ("app", address // 100 * 100) if address < 1000 else ("lib", None)


def grouped(*stacks: list[int]) -> list[list[int]]:
    """The stacks, by number, that are one object."""
    groups = group_sites(dict(enumerate(stacks, 1)), Symbols(), "app")  # type: ignore[arg-type]
    found: dict[int, list[int]] = {}
    for site in range(1, len(stacks) + 1):
        found.setdefault(groups.get(site, site), []).append(site)
    return sorted(found.values())


def test_depths_of_a_recursion_are_one_object() -> None:
    assert grouped([101, 901], [101, 150, 901], [101, 160, 150, 901]) == [[1, 2, 3]]
    assert grouped([101, 201, 901], [101, 201, 102, 202, 901]) == [[1, 2]]  # two that call each other


def test_lines_and_callers_are_told_apart() -> None:
    assert grouped([101, 901], [102, 901], [101, 902], [101, 201, 901]) == [[1], [2], [3], [4]]


def test_a_stack_that_was_cut_goes_with_the_whole_one_that_it_begins() -> None:
    deep = [101, *[150] * (MOST_FRAMES - 1)]
    assert grouped(deep, [101, 150, 901]) == [[1, 2]]
    assert grouped([101, 150, 901], deep, [101, *[160] * (MOST_FRAMES - 1)]) == [[1, 2, 3]]
    assert grouped(deep, [102, 150, 901]) == [[1], [2]]
    straight = list(range(101, 101 + 100 * MOST_FRAMES, 100))[:MOST_FRAMES]
    assert grouped(straight, [*straight[:3], 901]) == [[1], [2]]  # no recursion: cut elsewhere


def test_a_library_without_symbols_is_one_frame() -> None:
    assert grouped([1001, 901], [1234, 1250, 901], [1001, 902]) == [[1, 2], [3]]


def test_sites_of_a_program_without_symbols_stay_apart_however_it_was_called() -> None:
    class Stripped:
        def function(self, address: int) -> tuple[str, int | None]:
            return "/home/user/app", None

    sites = {1: [101, 901], 2: [102, 901]}
    for called in ("app", "./app", "/home/user/app"):
        assert group_sites(sites, Stripped(), called) == {}  # type: ignore[arg-type]


def test_names_have_each_function_once_and_libraries_without_symbols() -> None:
    stack = [
        Location("lib.so", 5),
        Location("lib.so", 9),
        Location("app", 20, "walk", 0, "w.c", 3),
        Location("app", 30, "walk", 0, "w.c", 4),
        Location("app", 70),
    ]
    assert _folded(stack, "app") == ["lib.so (no symbols)", "walk (w.c:3)", "app+0x46"]


def test_a_recursive_program(tmp_path: Path) -> None:
    """Hundreds of sites are a few objects, and a plan still finds the blocks of each."""
    app = tmp_path / "app"
    subprocess.run(["gcc", "-O0", "-g", PROGRAM, "-o", app], check=True)
    trace_program(TraceRequest([str(app)], str(tmp_path / "app.trace")))
    workload = open_trace(tmp_path / "app.trace")
    assert len(workload.trace.call_sites) > 300
    [build] = [found for found in workload.objects if found.name.startswith("build (recursion.c:13)")]
    assert build.births == 500 * 16
    assert len([found for found in workload.objects if "recursion.c" in found.name]) <= 6
    assert len({build.site, *build.other_sites}) > 300
    machine = load_machine(FLAT_BEHIND_L3)
    profiled = profile(workload, machine, 1)
    plan = build_plan(profiled, workload, np.ones(len(profiled.objects)), 1e9)
    assert len([planned for planned in plan.objects if planned.name == build.name]) == 256


@pytest.mark.parametrize(
    ("name", "width", "shown"),
    [
        ("solve (cg.c:12)", 20, "solve (cg.c:12)"),
        ("deep::name<with, templates>::allocate (file.cpp:1234)", 36, "deep::nam…::allocate (file.cpp:1234)"),
        ("solve (cg.c:12) from run (m.c:3) from main (m.c:9)", 38, "solve (cg.c:12) from main (m.c:9)"),
        ("assemble_rows (cg.c:12) from setup_all (m.c:9)", 40, "assembl… (cg.c:12) from setup_a… (m.c:9)"),
        ("[.data/.bss of libsomething.so]", 20, "[.data/.b…ething.so]"),
        (
            "new_array+0x2d (a.so) from a.so (no symbols) from fast_call+0x8a (a.so)",
            31,
            "new_ar…+0x2d from fast_ca…+0x8a",
        ),
        ("new_array+0x2d (_array.cpython-311.so)", 20, "new_array+0x2d (_ar…"),
    ],
)
def test_names_that_are_cut_keep_file_and_line(name: str, width: int, shown: str) -> None:
    assert shorten_object(name, width) == shown
    assert len(shown) <= width


@pytest.mark.parametrize("width", [46, 36, 21])
def test_names_that_are_cut_do_not_look_alike(width: int) -> None:
    inner = "new_user_memory+0x2d (_array.cpython-311-x86_64-linux-gnu.so)"
    outer = ("", "from_descr+0x1f (_array.so)", "from_descr+0x1f (_array.so) from fastcall+0x8a (_array.so)")
    names = [" from ".join(filter(None, (inner, caller))) for caller in outer]
    shown = shorten_objects(names, width)
    assert len(set(shown)) == len(names)
    assert max(map(len, shown)) <= width
    assert all(caller in text for caller, text in zip(("", "from_descr", "fastcall"), shown, strict=True))
