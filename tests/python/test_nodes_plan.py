"""What `explain` advises for one object on several NUMA nodes, as a plan that lands as advised."""

import contextlib
import io
import json
import re
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from machine_roles import CXL_NODE, TWO_SOCKETS
from run_library import PROGRAMS, build
from small_machine import TWO_NODES

import pagelens as pl
from pagelens.api.planned_remedy import NAME, nodes_under, write_nodes_plan
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


def command(*words: str) -> str:
    """Return what the command line prints."""
    printed = io.StringIO()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", ["pagelens", *words])
        with contextlib.redirect_stdout(printed), pytest.raises(SystemExit) as ended:
            main()
    assert not ended.value.code
    return printed.getvalue()


@pytest.fixture(scope="module")
def explained(traced: tuple[Path, str], tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str, str]:
    """The folder of an explanation, what it printed, and the name of the array."""
    folder = tmp_path_factory.mktemp("explained")
    (folder / "small.toml").write_text(TWO_NODES)
    trace, array = traced
    words = ["explain", str(trace), "--machine", str(folder / "small.toml"), "--nodes", "1"]
    words += ["--history", "boot; run", "--policies", f"aged,touch:{array},interleave:{array}"]
    return folder / "out", command(*words, "-o", str(folder / "out")), array


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
    machine = load_machine(TWO_SOCKETS)
    assert build_nodes_plan(workload, machine, {"no such object": ("interleave", [0, 1])}) is None
    assert build_nodes_plan(workload, machine, {workload.objects[0].name: ("interleave", [0, 1])}) is None


def test_weighted_takes_the_memories_without_cores_too(traced: tuple[Path, str]) -> None:
    workload, machine = pl.trace(traced[0]), load_machine(CXL_NODE)
    for kind, nodes in (("interleave", [0, 1, 2, 3]), ("weighted", [0, 1, 2, 3, 4])):
        placed = {traced[1]: (kind, nodes_under(kind, machine))}
        plan = build_nodes_plan(workload, machine, placed)
        assert plan is not None
        assert (plan.objects[0].policy, plan.objects[0].nodes) == (kind, nodes)


def test_threads_that_gain_close_together_have_a_plan_in_openmp_alone(
    compile_c: Callable[..., Path], traced: tuple[Path, str], tmp_path: Path
) -> None:
    program = compile_c("""
        #include <omp.h>
        int main(void) { return omp_get_max_threads() < 1; }
    """, "-fopenmp")  # fmt: skip
    pl.record([program], tmp_path / "omp.trace", progress=False)
    gains: Any = SimpleNamespace(remedies=[SimpleNamespace(policy="close", verdict="gains")])
    machine = load_machine(TWO_SOCKETS)
    planned = write_nodes_plan(gains, pl.trace(tmp_path / "omp.trace"), machine, tmp_path)
    assert planned is not None
    assert "Apply close with" in planned.sentence
    assert read_plan(planned.path).threads == "close"
    assert write_nodes_plan(gains, pl.trace(traced[0]), machine, tmp_path) is None


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


@pytest.mark.long
def test_what_place_plans_for_an_openmp_triad_lands_page_by_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Traced here with more threads than the guest has processors, then run by its plan in the guest."""
    source = PROGRAMS / "serial_triad.c"
    program = build(source, tmp_path / "serial_triad", "-g", "-fopenmp")
    monkeypatch.setenv("OMP_NUM_THREADS", "8")
    pl.record([program, "6"], tmp_path / "app.trace", progress=False)
    (tmp_path / "small.toml").write_text(TWO_NODES)
    words = ["place", str(tmp_path / "app.trace"), "--machine", str(tmp_path / "small.toml"), "--ranks", "1"]
    said = command(*words, "-o", str(tmp_path / "out"))
    plan = read_plan(tmp_path / "out" / NAME)
    lines = source.read_text().splitlines()
    called_from = [int(re.findall(r"serial_triad.c:(\d+)", of.name)[-1]) for of in plan.objects]
    planned = {lines[line - 1].split()[1]: of for line, of in zip(called_from, plan.objects, strict=True)}
    assert 0 < len(planned) < 3  # two memories serve the program best if some arrays stay together
    ways = [f"{of.policy} {','.join(map(str, of.nodes))}" for of in plan.objects]
    assert all(way in said for way in ways)
    root = Initramfs()
    words = add_planned(root, "/app/serial_triad", program, plan, NO_TIERS, "/report")
    with Guest("6.1", 512 * MIB, root, nodes=2, cpus=2, append="numa_balancing=disable") as guest:
        plain = guest.run(words[-1], "2", "say").checked()
        placed = guest.run(*words, "2", "say").checked()
    by_array = [dict(line.split() for line in of.splitlines()) for of in (plain, placed)]
    pages = 4 * MIB >> 12
    together, in_turn = ("0" * pages, "1" * pages), ("01" * (pages // 2), "10" * (pages // 2))
    for name in "abc":
        assert by_array[0][name] in together
        if name not in planned:
            assert by_array[1][name] in together
        elif planned[name].policy == "interleave":
            assert by_array[1][name] in in_turn
        else:
            assert by_array[1][name] == str(*planned[name].nodes) * pages
