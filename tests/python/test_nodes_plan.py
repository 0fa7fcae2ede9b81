"""What `explain` advises for one object on several NUMA nodes, as a plan that lands as advised."""

import contextlib
import io
import json
import sys
from pathlib import Path

import pytest
from run_library import PROGRAMS, build
from small_machine import TWO_NODES

import pagelens as pl
from pagelens.api.planned_remedy import NAME, nodes_under
from pagelens.cli.main import main
from pagelens.lab.guest import Guest
from pagelens.lab.initramfs import Initramfs
from pagelens.lab.planned_program import add_planned
from pagelens.machine import load_machine
from pagelens.place import build_nodes_plan, read_plan
from pagelens.run.memory_tiers import NO_TIERS

MIB = 1 << 20
PAGES = 16 * MIB >> 12


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(PROGRAMS / "serial_touch.c", tmp_path_factory.mktemp("serial") / "serial_touch", "-pthread")


@pytest.fixture(scope="module")
def traced(program: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """A trace of as many threads as the machine has cores, and the name of the array."""
    trace = tmp_path_factory.mktemp("traced") / "app.trace"
    pl.record([program, "36", "16"], trace, progress=False)
    return trace, max(pl.trace(trace).objects, key=lambda known: known.bytes).name


@pytest.fixture(scope="module")
def explained(traced: tuple[Path, str], tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str, str]:
    """The folder of an explanation, what it printed, and the name of the array."""
    folder = tmp_path_factory.mktemp("explained")
    (folder / "small.toml").write_text(TWO_NODES)
    trace, array = traced
    words = ["explain", str(trace), "--machine", str(folder / "small.toml"), "--nodes", "1"]
    words += ["--history", "boot; run", "--policies", f"aged,touch:{array},interleave:{array}"]
    printed = io.StringIO()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", ["pagelens", *words, "-o", str(folder / "out")])
        with contextlib.redirect_stdout(printed), pytest.raises(SystemExit) as ended:
            main()
    assert not ended.value.code
    return folder / "out", printed.getvalue(), array


@pytest.mark.long
def test_the_remedy_for_an_object_is_written_as_a_plan(explained: tuple[Path, str, str]) -> None:
    folder, printed, array = explained
    plan = read_plan(folder / NAME)
    (matrix,) = plan.objects
    assert (matrix.name, matrix.policy, matrix.nodes) == (array, "interleave", [0, 1])
    assert plan.program == "serial_touch"
    said = " ".join(printed.split())
    assert f"Apply interleave:{array} with `pagelens run --plan {folder / NAME}" in said.replace("` ", "`")


def test_an_object_without_a_site_has_no_plan(traced: tuple[Path, str]) -> None:
    workload = pl.trace(traced[0])
    machine = load_machine("skx-6140-2s")
    assert build_nodes_plan(workload, machine, {"no such object": ("interleave", [0, 1])}) is None
    assert build_nodes_plan(workload, machine, {workload.objects[0].name: ("interleave", [0, 1])}) is None


def test_weighted_takes_the_memories_without_cores_too(traced: tuple[Path, str]) -> None:
    workload, machine = pl.trace(traced[0]), load_machine("genoa-9224-2s-cxl")
    for kind, nodes in (("interleave", [0, 1, 2, 3]), ("weighted", [0, 1, 2, 3, 4])):
        placed = {traced[1]: (kind, nodes_under(kind, machine))}
        plan = build_nodes_plan(workload, machine, placed)
        assert plan is not None
        assert (plan.objects[0].policy, plan.objects[0].nodes) == (kind, nodes)


@pytest.mark.long
def test_the_plan_lands_as_advised_on_two_nodes(explained: tuple[Path, str, str], program: Path) -> None:
    """In a guest with a real kernel: without the plan on one node, with it in turn on both."""
    root = Initramfs()
    plan = read_plan(explained[0] / NAME)
    words = add_planned(root, "/app/serial_touch", program, plan, NO_TIERS, "/report")
    with Guest("6.1", 512 * MIB, root, nodes=2, cpus=2, append="numa_balancing=disable") as guest:
        plain = guest.run(words[-1], "2", "1", "say").checked().split()
        planned = guest.run(*words, "2", "1", "say").checked().split()
        report = json.loads(guest.get("/report"))
    assert sorted(map(int, plain[:2])) == [0, PAGES]
    assert list(map(int, planned)) == [PAGES // 2, PAGES // 2, PAGES]
    (matrix,) = report["plan"]["objects"]
    on_node = matrix["bytes_on_node"]
    assert sum(on_node.values()) == pytest.approx(16 * MIB, abs=8192)
    assert on_node["0"] == pytest.approx(on_node["1"], abs=8192)
