"""`pagelens run --plan` on this machine's node 0: what is bound to it, whatever else the machine has.

That pages really lie on one of two nodes is seen in a guest: test_lab_plan.py.
"""

import json
import re
import shutil
import struct
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from machine_trees import lay_out, read_tree
from plan_programs import MIB, plan_of, planned, planned_variable, returns
from run_library import LIBRARY, PROGRAMS, build

from pagelens.accesses.elf_file import ElfFile
from pagelens.host.system import System
from pagelens.place.plan import NO_LIMIT, Plan, PlannedObject, write_plan
from pagelens.run.memory_tiers import Tiers, find_tiers
from pagelens.run.plan_handover import module_paths
from pagelens.run.plan_sites import locate_plan

Run = Callable[..., subprocess.CompletedProcess[str]]
MESH = MIB >> 12  # pages


@pytest.fixture(scope="session")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Each object is allocated by a function of its name."""
    return build(PROGRAMS / "planned.cpp", tmp_path_factory.mktemp("planned") / "planned", compiler="g++")


@pytest.fixture
def run_planned(pagelens: Run, tmp_path: Path) -> Callable[..., tuple[dict[str, str], dict[str, Any], str]]:
    """Runs the program by a plan: what it says of its objects, its report's plan, and stderr."""

    def run(
        plan: Plan,
        program: Path,
        *words: str,
        options: tuple[str, ...] = (),
        fast: tuple[str, ...] = ("--fast-node", "0"),
    ) -> tuple[dict[str, str], dict[str, Any], str]:
        write_plan(plan, tmp_path / "plan.toml")
        some = ("run", "--plan", "plan.toml", *fast, "--json", "-o", "report.json", *options)
        done = pagelens(*some, "--", program, *words, env={"XDG_CACHE_HOME": str(tmp_path / "cache")})
        assert done.returncode == 0, done.stderr
        said = dict(line.split(": ", 1) for line in done.stdout.splitlines())
        report = json.loads((tmp_path / "report.json").read_text())
        return said, report["plan"], done.stderr

    return run


def bound(line: str) -> list[tuple[int, bool]]:
    """Runs of pages: how many, and whether they are bound."""
    return [(int(count), policy != "default") for count, policy in re.findall(r"(\d+) x (\S+) on 0", line)]


def test_blocks_of_all_functions_lie_where_planned_and_no_others(
    run_planned: Callable[..., Any], program: Path
) -> None:
    names = {"mesh": "take_mesh", "zeroed": "take_zeroed", "new": "take_new", "aligned": "take_aligned",
             "grown": "grow"}  # fmt: skip
    objects = [planned(name, *returns(program, function)[:1]) for name, function in names.items()]
    said, plan, stderr = run_planned(plan_of(program, *objects), program, *names, "other")
    for name in names:
        pages = sum(count for count, _ in bound(said[name]))
        assert bound(said[name]) == [(pages, True)], (name, said[name])
        assert pages >= MESH
    assert bound(said["other"]) == [(MESH, False)]
    assert stderr == ""
    assert [one["blocks"] for one in plan["objects"]] == [1] * len(names)
    assert plan["peak_fast_bytes"] == len(names) * MIB
    for one in plan["objects"]:
        assert one["to_be_fast"] == {"fast_bytes": MIB, "slow_bytes": 0, "untouched_bytes": 0}


@pytest.mark.parametrize("share", [0.25, 0.5, 0.9])
def test_of_a_share_the_first_pages_are_bound(
    run_planned: Callable[..., Any], program: Path, share: float
) -> None:
    mesh = planned("mesh", *returns(program, "take_mesh"), share=share)
    table = planned_variable("table", f"{program.name}!table", share=share)
    said, plan, _ = run_planned(plan_of(program, mesh, table), program, "mesh", "table")
    pages = round(share * MESH)
    assert bound(said["mesh"]) == [(pages, True), (MESH - pages, False)]
    (first, is_bound), (_, other) = bound(said["table"])
    assert first == pytest.approx(share * 128, abs=1.5)  # without what it shares with its neighbours
    assert (is_bound, other) == (True, False)
    assert plan["objects"][0]["others"]["fast_bytes"] == (MESH - pages) << 12  # of this machine's one node


@pytest.mark.parametrize("policy", ["interleave", "bind", "prefer"])
def test_an_object_has_the_policy_that_is_planned(
    run_planned: Callable[..., Any], program: Path, policy: str
) -> None:
    """Blocks, mappings and variables; small blocks stay where they are, and no capacity limits anything."""
    mesh = planned("mesh", *returns(program, "take_mesh"), policy=policy, nodes=(0,))
    mapped = planned("mapped", *returns(program, "take_mapped"), policy=policy, nodes=(0,))
    rows = planned("rows", *returns(program, "take_row"), policy=policy, nodes=(0,))
    table = planned_variable("table", f"{program.name}!table").model_copy(
        update={"tier": "nodes", "policy": policy, "nodes": [0]}
    )
    plan = plan_of(program, mesh, mapped, rows, table, capacity=NO_LIMIT)
    said, report, stderr = run_planned(plan, program, "mesh", "mapped", "rows", "table", "other", fast=())
    assert stderr == ""
    for name, pages in (("mesh", MESH), ("mapped", MESH)):
        assert re.findall(r"(\d+) x (\w+)(?::\d+)? on 0", said[name]) == [(str(pages), policy)], said[name]
    assert f" x {policy}:0 on 0" in said["table"]
    assert bound(said["other"]) == [(MESH, False)]
    assert said["rows"] == "0 of 100 fast, 0 wrong"
    blocks = {one["name"]: one for one in report["objects"]}
    assert blocks["mesh"]["bytes_on_node"] == {"0": MIB}
    assert blocks["rows"]["blocks"] == 0


def test_the_report_says_which_nodes_pages_lie_on(pagelens: Run, program: Path, tmp_path: Path) -> None:
    mesh = planned("mesh", *returns(program, "take_mesh"), policy="interleave", nodes=(0,))
    write_plan(plan_of(program, mesh, capacity=NO_LIMIT), tmp_path / "plan.toml")
    done = pagelens("run", "--plan", tmp_path / "plan.toml", "--report", "--", program, "mesh")
    assert "plan: 1 of 1 objects had blocks\n" in done.stderr
    assert "mesh: 1 block, 1.0 MiB at the peak; 100% on node 0\n" in done.stderr


def test_a_node_that_is_not_here_is_refused(pagelens: Run, program: Path, tmp_path: Path) -> None:
    mesh = planned("mesh", *returns(program, "take_mesh"), policy="bind", nodes=(0, 900))
    write_plan(plan_of(program, mesh, capacity=NO_LIMIT), tmp_path / "plan.toml")
    done = pagelens("run", "--plan", tmp_path / "plan.toml", "--", program, "mesh")
    assert done.returncode == 2
    assert "node 900: no such node with memory; here: 0" in done.stderr


def test_a_site_is_told_from_another_by_who_calls(run_planned: Callable[..., Any], program: Path) -> None:
    (innermost,), (wrapping,) = returns(program, "take_mesh"), returns(program, "wrapper")
    (second,) = returns(program, "take_in_second")
    said, plan, _ = run_planned(
        plan_of(program, planned("second", innermost, wrapping, second)), program, "first", "second", "mesh"
    )
    assert bound(said["second"]) == [(MESH, True)]
    assert bound(said["first"]) == bound(said["mesh"]) == [(MESH, False)]
    # All blocks of the function, but those of one caller.
    slow = planned("first", innermost, wrapping, *returns(program, "take_in_first"), tier="slow")
    said, plan, _ = run_planned(
        plan_of(program, planned("all", innermost), slow), program, "first", "second", "mesh"
    )
    assert bound(said["second"]) == bound(said["mesh"]) == [(MESH, True)]
    assert bound(said["first"]) == [(MESH, False)]
    assert [one["blocks"] for one in plan["objects"]] == [2, 0]


@pytest.mark.parametrize(
    "pages", [(), ("--pages", "thp"), ("--pages", "2m"), ("--stagger", "--period", "4KiB")]
)
def test_small_blocks_are_pooled_and_keep_what_is_written(
    run_planned: Callable[..., Any], program: Path, pages: tuple[str, ...]
) -> None:
    rows = planned("rows", *returns(program, "take_row"))
    new = planned("new-rows", *returns(program, "take_new_row"), share=0.5)
    mesh = planned("mesh", *returns(program, "take_mesh"), share=0.5)
    words = ("rows", "new-rows", "threads", "fork", "mesh", "steps")
    said, plan, stderr = run_planned(plan_of(program, rows, new, mesh), program, *words, options=pages)
    assert said["rows"] == "100 of 100 fast, 0 wrong"
    fast = int(said["new-rows"].split()[0])
    assert 30 <= fast <= 70  # every other block
    assert said["new-rows"].endswith("0 wrong")
    assert (said["threads"], said["fork"]) == ("done", "0")
    for line in (said["child"], said["mesh"]):
        (first, is_bound), (second, other) = bound(line)
        assert (first + second, is_bound, other) == (MESH, True, False)
        assert first - MESH // 2 in ((-1, 0) if "--stagger" in pages else (0,))  # it may begin within a page
    by_name = {one["name"]: one for one in plan["objects"]}
    assert by_name["rows"]["pooled_blocks"] == by_name["rows"]["blocks"] == 4000 + 1334 + 160_000
    assert by_name["rows"]["short_bytes"] == 0
    assert by_name["mesh"]["blocks"] == 102  # and the child's are the child's
    assert by_name["mesh"]["peak_bytes"] <= 3 * MIB
    assert "2 MiB are free" not in stderr  # planned blocks ask for nothing of the pool


def moving_plan(program: Path, capacity: int = 64 * MIB) -> Plan:
    """Makes mesh fast in the first region and all others in the second; a part of each is fast outside."""
    first, second = {"first": 1.0, "second": 0.0}, {"second": 1.0, "first": 0.0}
    return plan_of(
        program,
        planned("mesh", *returns(program, "take_mesh"), share=0.25, shares=first),
        planned("zeroed", *returns(program, "take_zeroed"), share=0.0, shares=second),
        planned("mapped", *returns(program, "take_mapped"), share=0.5, shares=second),
        planned_variable("table", f"{program.name}!table", share=0.0, shares=second),
        capacity=capacity,
    )


@pytest.mark.parametrize("pages", [(), ("--pages", "thp"), ("--stagger", "--period", "4KiB")])
def test_objects_move_between_regions(
    run_planned: Callable[..., Any], program: Path, pages: tuple[str, ...]
) -> None:
    said, report, stderr = run_planned(moving_plan(program), program, "regions", options=pages)
    assert stderr == ""

    def fast(name: str) -> float:
        runs = bound(said[name])
        assert [is_bound for _, is_bound in runs] in ([True], [False], [True, False]), said[name]
        count = sum(count for count, _ in runs)
        return sum(count for count, is_bound in runs if is_bound) / count

    def fast_in(region: str) -> list[float]:
        return [fast(f"{region}-{name}") for name in ("mesh", "zeroed", "mapped", "table")]

    about = pytest.approx  # a block may begin within a page, and a variable shares some with its neighbours
    for number in (1, 2):
        assert fast_in(f"first{number}") == about([1, 0, 0, 0], abs=0.01)
        assert fast_in(f"second{number}") == about([0, 1, 1, 1], abs=0.02)
    assert fast_in("before") == about([0.25, 0, 0.5, 0], abs=0.01)
    assert fast_in("outside") == about([0, 1, 1, 1], abs=0.02)  # an end moves nothing
    # As the region says in which they are born.
    assert (fast("first-born"), fast("second-born")) == (about(1, abs=0.01), 0)
    assert fast("within-mesh") == about(0.25, abs=0.01)  # the innermost region decides, known or not
    assert said["regions"] == "0 wrong, grown"
    assert fast("child-zeroed") == about(1, abs=0.01)
    assert report["peak_fast_bytes"] <= 3 * MIB + MIB // 2  # mapped has grown
    moves = report["moves"]
    # Two regions, twice; in the last two another one, and back.
    assert (moves["changes"], moves["skipped"]) == (8, 0)


def test_regions_that_never_end_are_left_as_others_begin(
    run_planned: Callable[..., Any], program: Path
) -> None:
    said, report, _ = run_planned(moving_plan(program), program, "begun")
    assert bound(said["begun"]) == [(MESH, True)]
    assert report["moves"]["changes"] == 200


def test_a_thread_that_ends_within_a_region_leaves_it_to_others(
    run_planned: Callable[..., Any], program: Path
) -> None:
    said, report, _ = run_planned(moving_plan(program), program, "ended")
    assert bound(said["ended"]) == [(MESH, True)]  # by a thread that may have the place of one that ended
    assert bound(said["ended-main"]) == [(MESH, False)]  # by the one that lives, and by no other
    assert bound(said["ended-child"]) == [(MESH, True)]
    assert report["moves"]["changes"] == 3  # of the process itself


def test_what_moves_in_finds_the_room_of_what_has_moved_out(
    run_planned: Callable[..., Any], program: Path
) -> None:
    said, report, _ = run_planned(moving_plan(program, 3 * MIB), program, "regions")
    assert bound(said["first2-mesh"]) == [(MESH, True)]
    assert bound(said["second2-zeroed"]) == bound(said["second2-mapped"]) == [(MESH, True)]
    assert report["peak_fast_bytes"] <= 3 * MIB
    said, report, _ = run_planned(moving_plan(program, MIB), program, "regions")
    assert bound(said["first2-mesh"]) == [(MESH, True)]
    assert report["peak_fast_bytes"] == MIB
    pages = sum(count for name in ("mesh", "zeroed", "mapped", "table")
                for count, is_bound in bound(said[f"second2-{name}"]) if is_bound)  # fmt: skip
    assert pages == MESH


@pytest.mark.parametrize("pages", [(), ("--pages", "thp")])
@pytest.mark.parametrize("share", [1.0, 0.5])
def test_mappings_lie_where_planned_and_are_followed(
    run_planned: Callable[..., Any], program: Path, share: float, pages: tuple[str, ...]
) -> None:
    def runs(pages: int, fast: float) -> list[tuple[int, bool]]:
        parts = [(round(fast * pages), True), (pages - round(fast * pages), False)]
        return [(count, is_bound) for count, is_bound in parts if count]

    mapped = planned("mapped", *returns(program, "take_mapped"), share=share)
    said, report, stderr = run_planned(plan_of(program, mapped), program, "mapped", options=pages)
    assert stderr == ""
    for name in ("mapped", "mapped-filled", "mapped-cut"):
        assert bound(said[name]) == runs(MESH, share), (name, said[name])
    assert bound(said["mapped-first"]) == [(MESH // 4, True)]
    assert bound(said["mapped-last"]) == [(MESH // 4, share == 1)]
    assert bound(said["mapped-grown"]) == runs(2 * MESH, share)
    assert bound(said["mapped-shrunk"]) == bound(said["mapped-moved"]) == [(MESH // 2, True)]
    assert bound(said["mapped-over"]) == [(MESH, False)]
    assert said["mapped-wrong"] == "0"
    (one,) = report["objects"]
    assert one["blocks"] == one["mappings"] == 1005
    assert one["peak_bytes"] == round((1 + 1 + 0.5 + 2) * MIB)
    # At the end the first three are there, of the third two quarters.
    assert report["peak_fast_bytes"] == round(
        (share * 2 + 0.25 + (0.25 if share == 1 else 0) + share * 2) * MIB
    )
    assert one["short_bytes"] == 0


def test_mappings_of_handlers_and_those_that_leave_their_place_behind(
    run_planned: Callable[..., Any], program: Path
) -> None:
    """A page that was there before anybody touched it would escape userfaultfd."""
    mapped = planned("mapped", *returns(program, "take_mapped"), share=0.5)
    said, report, stderr = run_planned(plan_of(program, mapped), program, "odd")
    assert stderr == ""
    assert said["odd"] == "0 present, 0 wrong"
    assert bound(said["odd-gone"]) == [(MESH // 2, True), (MESH // 2, False)]
    assert bound(said["odd-left"]) == [(MESH, False)]
    assert said["handler"] == "mapped"
    assert report["peak_fast_bytes"] <= 2 * MIB


def test_what_mappings_give_back_is_there_for_others(run_planned: Callable[..., Any], program: Path) -> None:
    mapped = planned("mapped", *returns(program, "take_mapped"))
    mesh = planned("mesh", *returns(program, "take_mesh"))
    plan = plan_of(program, mapped, mesh, capacity=4 * MIB)
    said, report, _ = run_planned(plan, program, "mapped", "mesh")
    assert bound(said["mapped-cut"]) == [(MESH, True)]
    # Two and a half are there, and one that grows to two has room for half of what it grows by.
    assert bound(said["mapped-grown"]) == [(MESH * 3 // 2, True), (MESH // 2, False)]
    assert bound(said["mesh"]) == [(MESH, True)]
    assert report["peak_fast_bytes"] == 4 * MIB
    assert report["objects"][0]["short_bytes"] == MIB // 2


def test_no_more_than_the_capacity_is_used_at_a_time(run_planned: Callable[..., Any], program: Path) -> None:
    plan = plan_of(
        program,
        planned("mesh", *returns(program, "take_mesh")),
        planned("rows", *returns(program, "take_row")),
        capacity=MIB + (MIB >> 1),
    )
    said, report, _ = run_planned(plan, program, "mesh", "first", "steps", "rows")
    assert bound(said["mesh"]) == [(MESH, True)]
    assert bound(said["first"]) == [(MESH // 2, True), (MESH // 2, False)]
    assert said["rows"] == "0 of 100 fast, 0 wrong"
    assert report["peak_fast_bytes"] == plan.capacity
    mesh, rows = report["objects"]
    assert mesh["short_bytes"] == MIB // 2 + 100 * MIB
    assert rows["blocks"] == 0
    assert rows["short_bytes"] > 0


def test_what_time_steps_free_is_there_for_the_next_ones(
    run_planned: Callable[..., Any], program: Path
) -> None:
    objects = (planned("mesh", *returns(program, "take_mesh")), planned("new", *returns(program, "take_new")))
    said, report, _ = run_planned(plan_of(program, *objects, capacity=MIB), program, "steps", "new")
    assert bound(said["new"])[-1] == (MESH, True)  # what the steps kept has made room
    assert [one["short_bytes"] for one in report["objects"]] == [0, 0]
    rows = planned("rows", *returns(program, "take_row"))
    said, report, _ = run_planned(
        plan_of(program, rows, objects[0], capacity=MIB), program, "threads", "mesh"
    )
    assert bound(said["mesh"]) == [(MESH, True)]  # and what is left of slabs without blocks
    assert report["objects"][0]["pooled_blocks"] > 0


def test_another_build_is_found_by_its_symbols(run_planned: Callable[..., Any], program: Path) -> None:
    inner = f"{program.name}!take_mesh+0x999"
    objects = (
        planned("mesh", inner, f"{program.name}!main+0x7", size=5),
        planned("larger", inner, f"{program.name}!main+0x70", share=0.5, size=7),
        planned("gone", f"{program.name}!take_gone+0x1"),
        planned("nameless", f"{program.name}+0x1234"),
        planned("clone", f"{program.name}!take_other.constprop.0+0x4"),
        planned_variable("no table", f"{program.name}!no_table"),
    )
    said, report, stderr = run_planned(
        plan_of(program, *objects, build_id="ab12"), program, "mesh", "other", "new"
    )
    assert bound(said["mesh"]) == [(MESH // 2, True), (MESH // 2, False)]
    assert bound(said["other"]) == [(MESH, True)]
    assert bound(said["new"])[-1] == (MESH, False)
    assert [one["blocks"] for one in report["objects"]] == [0, 1, 0, 0, 1, 0]
    assert stderr.splitlines() == [
        "pagelens run: --plan: planned is another build than the plan's; "
        "its sites are found by symbols alone",
        "pagelens run: --plan: not in the program: planned!take_gone, planned!+0x1234, planned!no_table; "
        "3 objects ('gone', ...) are not placed",
        "pagelens run: --plan: 1 site is that of another in this build ('mesh' as 'larger'); "
        "the one of most bytes decides",
    ]


@pytest.mark.parametrize(
    ("given", "bound", "said"),
    [
        ({}, "close cores", "threads of OpenMP run bound: OMP_PROC_BIND=close OMP_PLACES=cores"),
        ({"OMP_PLACES": "sockets"}, "- sockets", "threads = 'close': OMP_PLACES=sockets is set, and decides"),
    ],
)
def test_threads_are_bound_as_planned_unless_the_user_has_bound_them(
    pagelens: Run, tmp_path: Path, given: dict[str, str], bound: str, said: str
) -> None:
    write_plan(Plan(format=1, program="sh", machine="any", threads="close"), tmp_path / "plan.toml")
    shown = "echo ${OMP_PROC_BIND--} ${OMP_PLACES--}"
    done = pagelens("run", "--plan", "plan.toml", "--", "/bin/sh", "-c", shown, env=given)
    assert (done.returncode, done.stdout) == (0, f"{bound}\n")
    assert done.stderr == f"pagelens run: --plan: {said}\n"


def test_a_plan_of_another_program_is_said_to_be(program: Path, tmp_path: Path) -> None:
    plan = plan_of(program, planned("mesh", *returns(program, "take_mesh")), build_id="ab12")
    other = tmp_path / "other"
    shutil.copy(program, other)
    assert locate_plan(plan, module_paths(plan, other)).said == [
        "other is not planned, which the plan is of, or another build of it; "
        "its sites are found by symbols alone"
    ]


def test_a_library_of_the_program_has_its_sites_too(run_planned: Callable[..., Any], tmp_path: Path) -> None:
    (tmp_path / "mesh.c").write_text(
        "#include <stdlib.h>\nchar *mesh(void) { char *volatile block = malloc(1 << 20); return block; }\n"
    )
    (tmp_path / "app.c").write_text("""
        #include <stdio.h>
        #include <string.h>
        char *mesh(void);
        int main(void) { char *block = mesh(); memset(block, 1, 1 << 20); return block[5] - 1; }
    """)
    library = build(tmp_path / "mesh.c", tmp_path / "libmesh.so.1", "-shared", "-fPIC")
    linked = ("-Wl,--no-as-needed", str(library), f"-Wl,-rpath,{tmp_path}")
    app = build(tmp_path / "app.c", tmp_path / "app", *linked)
    site = planned("mesh", *returns(library, "mesh"), *returns(app, "main", "mesh"))
    plan = plan_of(app, site)
    both = plan.model_copy(update={"modules": [*plan.modules, *plan_of(library).modules]})
    _, report, stderr = run_planned(both, app)
    assert stderr == ""
    assert report["objects"][0]["to_be_fast"]["fast_bytes"] == MIB


MARKS = """
    #include "HOOKS/pagelens.h"
    void enter(void) { pagelens_region_begin("in it"); }
    void leave(void) { pagelens_region_end("in it"); pagelens_region_begin("in another"); }
"""
MARKED = """
    #include <stdlib.h>
    #include <string.h>
    void enter(void);
    void leave(void);
    char *mesh(void) { char *volatile block = malloc(1 << 20); return block; }
    int main(int words, char **word) {
        char *block = mesh();
        memset(block, 1, 1 << 20);
        enter();
        if (words > 1) leave();
        return block[7] - 1;
    }
"""


@pytest.mark.parametrize("stripped", [False, True])
def test_markers_are_heard_in_libraries_and_without_symbols(
    run_planned: Callable[..., Any], tmp_path: Path, stripped: bool
) -> None:
    (tmp_path / "marks.c").write_text(MARKS.replace("HOOKS", str(Path(__file__).parents[2] / "hooks")))
    (tmp_path / "app.c").write_text(MARKED)
    library = build(tmp_path / "marks.c", tmp_path / "libmarks.so", "-shared", "-fPIC", "-O3", "-flto")
    if stripped:
        subprocess.run(["strip", library], check=True)
    linked = ("-Wl,--no-as-needed", str(library), f"-Wl,-rpath,{tmp_path}")
    app = build(tmp_path / "app.c", tmp_path / "app", *linked)
    plan = plan_of(app, planned("mesh", *returns(app, "mesh"), share=0.0, shares={"in it": 1.0}))
    for words, fast in (((), MIB), (("and leave",), 0)):
        _, report, stderr = run_planned(plan, app, *words)
        assert stderr == ""
        (mesh,) = report["objects"]
        assert mesh["to_be_fast"]["fast_bytes"] == fast
        assert report["moves"]["changes"] == 1 + len(words)


FORTRAN = """
    program app
        use pagelens
        implicit none
        real(8), allocatable :: mesh(:)
        allocate(mesh(131072))
        mesh = 1
        call pagelens_region_begin("in it")
        if (mesh(7) /= 1) stop 1
        call pagelens_region_end("in it")
    end program
"""


def test_markers_of_fortran_are_heard(run_planned: Callable[..., Any], tmp_path: Path) -> None:
    if shutil.which("gfortran") is None:
        pytest.skip("no gfortran here")
    (tmp_path / "app.f90").write_text(FORTRAN)
    hooks, app = Path(__file__).parents[2] / "hooks", tmp_path / "app"
    sources = [hooks / "pagelens.f90", tmp_path / "app.f90", hooks / "pagelens_fortran.c"]
    subprocess.run(["gfortran", "-O0", f"-J{tmp_path}", "-o", app, *sources], check=True)
    (site,) = returns(app, "MAIN__", "malloc")
    plan = plan_of(app, planned("mesh", site, share=0.0, shares={"in it": 1.0}))
    _, report, stderr = run_planned(plan, app)
    assert stderr == ""
    assert report["objects"][0]["to_be_fast"]["fast_bytes"] == MIB
    assert report["moves"]["changes"] == 1


def test_a_program_whose_markers_nobody_hears_is_told_of(
    run_planned: Callable[..., Any], compile_c: Callable[[str], Path]
) -> None:
    app = compile_c(MARKED.replace("void enter(void);", "void enter(void) {}").replace(
        "void leave(void);", "void leave(void) {}"))  # fmt: skip
    plan = plan_of(app, planned("mesh", *returns(app, "mesh"), share=0.25, shares={"in it": 1.0}))
    _, report, stderr = run_planned(plan, app)
    assert "the program has no markers of regions that can be heard" in stderr
    assert len(stderr.splitlines()) == 1
    assert report["objects"][0]["to_be_fast"]["fast_bytes"] == MIB // 4


def test_a_program_is_found_behind_a_link_to_it(
    run_planned: Callable[..., Any], program: Path, tmp_path: Path
) -> None:
    link = tmp_path / "link"
    link.symlink_to(program)
    plan = plan_of(program, planned("mesh", *returns(program, "take_mesh")))
    # As `pagelens place -- ./link` writes it: modules are files, the program is what was started.
    said, report, stderr = run_planned(plan.model_copy(update={"program": "link"}), link, "mesh")
    assert stderr == ""
    assert bound(said["mesh"]) == [(MESH, True)]
    assert report["objects"][0]["blocks"] == 1


@pytest.mark.parametrize("size", [1 << 16, 1 << 18])
def test_of_variables_of_one_name_that_of_the_planned_size_is_meant(size: int, tmp_path: Path) -> None:
    sources = []
    for number in (16, 18):
        source = tmp_path / f"{number}.c"
        source.write_text(f"static char table[1 << {number}]; char* table_{number}(void) {{ return table; }}")
        sources.append(source)
    main = tmp_path / "main.c"
    main.write_text("int main(void) { return 0; }")
    app = tmp_path / "app"
    subprocess.run(["gcc", "-O1", "-o", app, *sources, main], check=True)
    wanted = planned_variable("table", "app!table").model_copy(update={"bytes": size - 4096})  # whole pages
    (found,) = locate_plan(plan_of(app, wanted), {"app": app}).variables
    assert found.size == size
    # And whichever has the planned address, as long as it is the same build.
    elf = ElfFile(app)
    (other,) = (one for one in elf.variables(1) if one.name == "table" and one.size != size)
    elf.close()
    addressed = wanted.model_copy(update={"variable": f"app!table@{other.address:#x}"})
    (found,) = locate_plan(plan_of(app, addressed), {"app": app}).variables
    assert (found.address, found.size) == (other.address, other.size)
    (found,) = locate_plan(plan_of(app, addressed, build_id="00"), {"app": app}).variables
    assert found.size == size
    gone = wanted.model_copy(update={"variable": "app!table@0x1"})
    located = locate_plan(plan_of(app, gone), {"app": app})
    assert not located.variables
    assert located.said == ["not in the program: app!table@0x1; 'table' is not placed"]


@pytest.mark.long
def test_ten_thousand_sites_are_run(run_planned: Callable[..., Any], program: Path) -> None:
    last = returns(program, "take_mesh")
    main = returns(program, "main")
    objects = [planned(f"object {i}", f"{program.name}+{i:#x}", *main[:15]) for i in range(10_000)]
    plan = plan_of(program, *objects, planned("mesh", *last))
    said, report, _ = run_planned(plan, program, "mesh", "new")
    assert bound(said["mesh"]) == [(MESH, True)]
    assert len(report["objects"]) == 10_001
    assert report["objects"][-1]["blocks"] == 1


def test_the_report_in_words(pagelens: Run, program: Path, tmp_path: Path) -> None:
    write_plan(
        plan_of(program, planned("mesh", *returns(program, "take_mesh"), share=0.5)), tmp_path / "p.toml"
    )
    done = pagelens("run", "--plan", "p.toml", "--fast-node", "0", "--report", "--", program, "mesh")
    lines = done.stderr.splitlines()
    assert "  plan: 1 of 1 objects had blocks; at the peak 512 KiB of 64 MiB of fast memory" in lines
    assert (
        "  mesh: 1 block, 1.0 MiB at the peak; 50% of its pages were to be fast, 100% were" in lines
    )  # this machine has one node


LINES = {
    "no node": ([], "no NUMA node here is known to be faster than the others; --fast-node N names one"),
    "not of it": (
        ["--fast-node", "0"],
        "nothing of it is in true (it is of planned); the program runs without",
    ),
}


@pytest.mark.parametrize("case", LINES)
def test_what_cannot_be_had_is_a_line_and_the_program_runs(
    pagelens: Run, program: Path, tmp_path: Path, case: str
) -> None:
    if case == "no node" and find_tiers(System()) is not None:
        pytest.skip("this machine has a fast node")
    words, says = LINES[case]
    plan = plan_of(program, planned("mesh", *returns(program, "take_mesh")), build_id="00")
    write_plan(plan, tmp_path / "plan.toml")
    what = ["/bin/true"] if case == "not of it" else ["/bin/echo", "done"]
    done = pagelens("run", "--plan", "plan.toml", *words, "--", *what)
    assert (done.returncode, done.stdout) == (0, "" if case == "not of it" else "done\n")
    assert says in done.stderr.splitlines()[-1]


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ("--plan none.toml --fast-node 0", ["--plan", "none.toml", "cannot read"]),
        ("--plan plan.toml --fast-node 999", ["--fast-node 999", "no such node", "here: 0"]),
        ("--plan plan.toml --fast-node 0 --slow-node 0", ["--slow-node 0", "is the fast node, too"]),
        ("--pages thp --fast-node 0", ["--fast-node 0", "is of --plan"]),
        ("--pages thp --slow-node 0", ["--slow-node 0", "is of --plan"]),
        ("--plan plan.toml --frames best --cache 4MiB", ["--plan and --frames best"]),
        ("--plan large.toml --fast-node 0", ["capacity 8 TiB", "node 0 has", "plan for at most that much"]),
        ("--plan bad.toml --fast-node 0", ["bad.toml:1", "unknown key 'formt'", "did you mean format"]),
    ],
)
def test_wrong_words_are_one_line(
    in_process: Run, program: Path, tmp_path: Path, words: str, says: list[str]
) -> None:
    plan = plan_of(program, planned("mesh", *returns(program, "take_mesh")))
    write_plan(plan, tmp_path / "plan.toml")
    write_plan(plan.model_copy(update={"capacity": 8 << 40}), tmp_path / "large.toml")
    (tmp_path / "bad.toml").write_text("formt = 1\n")
    done = in_process("run", *words.split(), "--", program)
    assert (done.returncode, done.stdout) == (2, "")
    assert len(done.stderr.splitlines()) == 1
    assert all(word in done.stderr for word in says), done.stderr


def test_a_damaged_file_is_a_line_and_the_program_runs(
    run_planned: Callable[..., Any], program: Path, tmp_path: Path
) -> None:
    """The file is cut at many places, and bytes of all its tables are changed."""
    run_planned(moving_plan(program), program)
    (handed,) = (tmp_path / "cache" / "pagelens" / "plans").iterdir()
    good, lines = handed.read_bytes(), 0
    damaged = [good[:cut] for cut in range(0, len(good), 160)]
    damaged += [good[:at] + bytes([good[at] ^ 0xFF]) + good[at + 1 :] for at in range(0, len(good), 31)]
    for content in damaged:
        handed.write_bytes(content)
        done = subprocess.run(
            [program, "mesh", "mark"],
            env={"LD_PRELOAD": str(LIBRARY), "PAGELENS_RUN": "pages=4k", "PAGELENS_PLAN": str(handed)},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        assert done.stdout.startswith("mesh: ")
        lines += "is damaged; the program runs without it" in done.stderr
    assert lines > len(good) // 160


def test_a_site_that_goes_in_circles_is_a_damaged_file(
    run_planned: Callable[..., Any], program: Path, tmp_path: Path
) -> None:
    (inner,), (outer,) = returns(program, "take_mesh"), returns(program, "wrapper")
    run_planned(plan_of(program, planned("mesh", inner, outer)), program)
    (handed,) = (tmp_path / "cache" / "pagelens" / "plans").iterdir()
    good = handed.read_bytes()
    at, count = struct.unpack_from("<2Q", good, 8 + 16 + 2 * 8 * 16 + 2 * 16)  # preload/plan_file.h
    assert count == 3  # where sites begin, and the two frames
    for step in range(count):
        place, first, following, planned_object = struct.unpack_from("<4I", good, at + 16 * step)
        for earlier in range(step + 1):
            content = bytearray(good)
            struct.pack_into("<4I", content, at + 16 * step, place, earlier, following or 1, planned_object)
            handed.write_bytes(content)
            done = subprocess.run(
                [program, "mesh"],
                env={"LD_PRELOAD": str(LIBRARY), "PAGELENS_RUN": "pages=4k", "PAGELENS_PLAN": str(handed)},
                capture_output=True,
                text=True,
                check=False,
                timeout=60,
            )
            assert done.returncode == 0
            assert f"the plan {handed} is damaged" in done.stderr, (step, first, earlier)


def trees(tmp_path: Path, name: str, **changed: str) -> Tiers | None:
    files = read_tree(name) | {path: text.encode() for path, text in changed.items()}
    return find_tiers(lay_out(files, tmp_path))


def test_the_fast_node_is_what_the_kernel_says(tmp_path: Path) -> None:
    knl = trees(tmp_path / "knl", "knl-flat")
    assert knl == Tiers((1,), (), 16514780 << 10)
    cxl = trees(tmp_path / "cxl", "genoa-cxl")
    assert cxl is not None
    assert (cxl.fast, cxl.slow) == ((0,), (1,))  # memory on CXL is slower than the processors' own
    for name in ("guest-genoa", "knl-cache", "two-socket-8160"):
        assert trees(tmp_path / name, name) is None


@pytest.mark.parametrize(
    ("rates", "tiers"),
    [((100, 400), ((1,), ())), ((400, 100), ((0,), (1,))), ((100, 100), None), ((100, None), None)],
)
def test_of_a_made_tree_the_faster_kind_is_fast(
    tmp_path: Path, rates: tuple[int, int | None], tiers: tuple[tuple[int, ...], tuple[int, ...]] | None
) -> None:
    files = {}
    for node, (rate, cpus) in enumerate(zip(rates, ("0-3", ""), strict=True)):
        folder = f"sys/devices/system/node/node{node}"
        files[f"{folder}/meminfo"] = f"Node {node} MemTotal:       16777216 kB\n".encode()
        files[f"{folder}/cpulist"] = f"{cpus}\n".encode()
        if rate is not None:
            files[f"{folder}/access0/initiators/read_bandwidth"] = f"{rate}\n".encode()
    found = find_tiers(lay_out(files, tmp_path))
    assert found == (None if tiers is None else Tiers(*tiers, 16 << 30))


def test_objects_of_the_plan_are_of_the_model() -> None:
    """These tests construct objects without checks; a file could state the same ones."""
    assert PlannedObject(
        name="x",
        site=["a!b+0x1"],
        bytes="1MiB",
        tier="fast",
        phases=[],  # type: ignore[arg-type]
    ) == planned("x", "a!b+0x1")


# Runs a program in which the kernel refuses mbind, set_mempolicy and move_pages, as containers' filters do.
REFUSING = """
    #include <errno.h>
    #include <linux/filter.h>
    #include <linux/seccomp.h>
    #include <stddef.h>
    #include <sys/prctl.h>
    #include <sys/syscall.h>
    #include <unistd.h>
    #define REFUSE(call) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, call, 0, 1), \\
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM)
    int main(int words, char **word) {
        struct sock_filter code[] = {
            BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
            REFUSE(SYS_mbind), REFUSE(SYS_set_mempolicy), REFUSE(SYS_move_pages),
            BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
        struct sock_fprog filter = {sizeof code / sizeof *code, code};
        prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
        if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter)) return 77;
        execv(word[1], word + 1);
        return 78;
    }
"""


def test_what_the_kernel_refuses_is_a_line_each_and_the_program_runs(
    run_planned: Callable[..., Any], program: Path, compile_c: Callable[[str], Path], tmp_path: Path
) -> None:
    plan = plan_of(
        program,
        planned("mesh", *returns(program, "take_mesh")),
        planned("rows", *returns(program, "take_row")),
        planned_variable("table", f"{program.name}!table"),
        planned("zeroed", *returns(program, "take_zeroed"), share=0.0, shares={"first": 1.0}),
        planned("mapped", *returns(program, "take_mapped"), share=0.5),
    )
    run_planned(plan, program)
    (handed,) = (tmp_path / "cache" / "pagelens" / "plans").iterdir()
    done = subprocess.run(
        [compile_c(REFUSING), program, "mesh", "rows", "steps", "threads", "fork", "regions", "mapped"],
        env={"LD_PRELOAD": str(LIBRARY), "PAGELENS_RUN": "pages=4k,report=", "PAGELENS_PLAN": str(handed)},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode == 77:
        pytest.skip("this kernel has no filters")
    assert done.returncode == 0, done.stderr
    said = dict(line.split(": ", 1) for line in done.stdout.splitlines())
    assert said["rows"] == "0 of 100 fast, 0 wrong"
    assert (said["threads"], said["fork"]) == ("done", "0")
    refused = [line for line in done.stderr.splitlines() if "(Operation not permitted)" in line]
    assert said["regions"] == "0 wrong, grown"
    assert said["mapped-wrong"] == "0"
    assert len(refused) == len(set(refused)) == 5
    assert not re.search(r"\\d% were", done.stderr)  # nobody says where pages lie, so the report does not
