"""Runs that are simulated in stretches: rare events are counted, chance is in the intervals."""

from pathlib import Path

import numpy as np
import pytest
from machine_roles import CHIPLETS, INCLUSIVE_L3, NO_L3, SNOOP_FILTER

import pagelens as pl
from pagelens.accesses.declared import declared
from pagelens.accesses.trace import open_trace
from pagelens.frames import Node, policies
from pagelens.machine import Machine, load_machine
from pagelens.replay import Run, Simulation, whole_node
from pagelens.statistics import t_quantile

MEBIBYTE = 1 << 20
CLEARED = 32 * MEBIBYTE
ROUNDS = 4


@pytest.fixture(scope="module")
def clearing(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A program that has 32 MiB cleared four times, and between these reads 32 MiB eight times."""
    path = tmp_path_factory.mktemp("clearing") / "clearing.trace"
    block, read = 0x4000_0000, 0x7000_0000
    with pl.TraceRecorder(path, "clearing") as recorder:
        recorder.allocate(0, read, CLEARED, "read")
        lines = 64 * np.arange(CLEARED // 64, dtype=np.uint64)
        recorder.access(0, read + lines, stores=True, instructions=20)
        for _ in range(ROUNDS):
            recorder.allocate(0, block, CLEARED, "block")
            recorder.access(0, block + lines[::64], stores=True, instructions=20)  # a line of each page
            recorder.unmap(0, block, CLEARED)
            for _ in range(8):
                recorder.access(0, read + lines, instructions=20)
    return path


@pytest.fixture(scope="module")
def machine() -> Machine:
    """Returns a machine with timed banks, and with small caches, so that stretches of a run are small too."""
    xt4 = load_machine(NO_L3)
    return load_machine(INCLUSIVE_L3).model_copy(update={"dram": xt4.dram, "ddr": xt4.ddr})


def test_cleared_lines_are_counted_in_full_whatever_the_stretches_meet(
    clearing: Path, machine: Machine
) -> None:
    workload = open_trace(clearing)
    simulation = Simulation(workload, machine, ranks=1)
    cleared = CLEARED * (ROUNDS + 1) / 64
    for name in ("contiguous", "2m"):
        run = simulation.run(simulation.place(policies[name], Node(machine, seed=1, node=0)))
        assert run.counts["simulated_share"][0] < 0.6  # some of it is left to chance
        written_back = CLEARED / 64 + ROUNDS * CLEARED / 4096
        assert run.counts["msc_writes"].sum() == pytest.approx(cleared + written_back, rel=0.06)
        assert run.object_accesses[:, 0].sum() == pytest.approx(cleared, rel=0.02)  # and page tables


def test_stretches_find_in_the_caches_what_was_used_long_before(
    tmp_path: Path, machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """L3 has room for a block that is used now and then, and for another that is used all the time."""
    path = tmp_path / "now-and-then.trace"
    now_and_then, often = 0x4000_0000, 0x7000_0000
    lines = 64 * np.arange(4 * MEBIBYTE // 64, dtype=np.uint64)
    with pl.TraceRecorder(path, "now-and-then") as recorder:
        for address in (now_and_then, often):
            recorder.allocate(0, address, 4 * MEBIBYTE, "block")
            recorder.access(0, address + lines, stores=True, instructions=20)
        for _ in range(12):
            for _ in range(30):
                recorder.access(0, often + lines[: len(lines) // 4], stores=True, instructions=20)
            recorder.access(0, now_and_then + lines, instructions=20)
    workload = open_trace(path)

    def lines_of_memory() -> float:
        simulation = Simulation(workload, machine, ranks=1)
        run = simulation.run(simulation.place(policies["2m"], Node(machine, seed=1, node=0)))
        return float(run.counts["msc_hits"].sum())

    some = lines_of_memory()
    monkeypatch.setattr(whole_node, "excerpts", lambda _machine, lines, *_: [(0, 0, 0, 0, 0)] * len(lines))
    assert some == pytest.approx(lines_of_memory(), rel=0.2)


def test_stretches_clear_no_more_than_they_move_and_hold_the_whole_in_their_interval(
    tmp_path: Path, machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A program that writes to each of many fresh pages once has 64 lines cleared for two of its own."""
    path, block, pages = tmp_path / "fresh.trace", 0x4000_0000, 1 << 16
    order = np.random.default_rng(1).permutation(pages).astype(np.uint64)
    with pl.TraceRecorder(path, "fresh") as recorder:
        recorder.allocate(0, block, pages * 4096, "block")
        recorder.access(0, block + 4096 * order + 64 * (order % 64), stores=True, instructions=20)
    workload = open_trace(path)

    def simulated() -> Run:
        simulation = Simulation(workload, machine, ranks=1)
        return simulation.run(simulation.place(policies["random"], Node(machine, seed=1, node=0)))

    some = simulated()
    assert some.left_out is not None
    without = some.left_out.times.time_s
    n = len(without)
    error = t_quantile(n - 1, 0.975) * np.sqrt((n - 1) * without.var())
    assert some.counts["simulated_share"][0] < 0.6
    monkeypatch.setattr(whole_node, "excerpts", lambda _machine, lines, *_: [(0, 0, 0, 0, 0)] * len(lines))
    whole = simulated()
    assert float(some.times.time_s.sum()) == pytest.approx(whole.times.time_s.sum(), abs=error)
    assert some.counts["msc_writes"] == pytest.approx(whole.counts["msc_writes"], rel=0.01)
    assert 0 < error < 0.05 * whole.times.time_s.sum()


def test_all_placements_of_a_simulation_have_the_same_stretches(clearing: Path, machine: Machine) -> None:
    simulation = Simulation(open_trace(clearing), machine, ranks=1)
    runs = [
        simulation.run(simulation.place(policies[name], Node(machine, seed=1, node=0)))
        for name in ("contiguous", "2m")
    ]
    assert runs[0].left_out is not None
    assert runs[1].left_out is not None
    assert len(runs[0].left_out.phase) > 4
    assert runs[0].left_out.phase.tolist() == runs[1].left_out.phase.tolist()
    assert runs[0].counts["simulated_share"] == runs[1].counts["simulated_share"]


@pytest.mark.long
@pytest.mark.parametrize("name", ["2m", "contiguous"])
def test_stretches_take_as_long_as_the_whole_run(
    clearing: Path, machine: Machine, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The loop exceeds the caches, though an earlier stretch may have used the same lines."""
    workload = open_trace(clearing)

    def time_s() -> float:
        simulation = Simulation(workload, machine, ranks=1)
        run = simulation.run(simulation.place(policies[name], Node(machine, seed=1, node=0)))
        return float(run.times.time_s.sum())

    some = time_s()
    monkeypatch.setattr(whole_node, "excerpts", lambda _machine, lines, *_: [(0, 0, 0, 0, 0)] * len(lines))
    assert some == pytest.approx(time_s(), rel=0.05)


@pytest.mark.parametrize("name", ["2m", "contiguous"])
def test_memory_that_is_given_back_and_cleared_is_in_no_cache(
    tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It gets the same frames again. Their old lines would be hits if only large pages were not cleared."""
    machine, block = load_machine(INCLUSIVE_L3).model_copy(update={"dram": None}), 0x4000_0000
    path, size = tmp_path / "again.trace", 4 * MEBIBYTE
    with pl.TraceRecorder(path, "again") as recorder:
        for _ in range(24):
            recorder.allocate(0, block, size, "block")
            recorder.access(0, block + 64 * np.arange(size // 64, dtype=np.uint64), stores=True)
            recorder.unmap(0, block, size)
    workload = open_trace(path)

    def read_of_memory() -> tuple[float, float]:
        simulation = Simulation(workload, machine, ranks=1)
        run = simulation.run(simulation.place(policies[name], Node(machine, seed=1, node=0)))
        return run.counts["simulated_share"][0], float(run.counts["l3_misses"].sum())

    share, some = read_of_memory()
    assert share < 0.9
    monkeypatch.setattr(whole_node, "excerpts", lambda _machine, lines, *_: [(0, 0, 0, 0, 0)] * len(lines))
    assert some == pytest.approx(read_of_memory()[1], rel=0.02)


@pytest.mark.parametrize("name", ["cg", "triad"])
@pytest.mark.parametrize(
    ("role", "l3"), [(INCLUSIVE_L3, "768 KiB"), (SNOOP_FILTER, "1056 KiB"), (CHIPLETS, "1 MiB")]
)
def test_caches_that_are_refilled_hold_what_all_recalled_lines_would_leave(
    role: str, l3: str, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The slow and obvious way is that the recalled lines go through the caches one by one."""
    machine = load_machine(role).with_values({"cores.count": 4, "l2.size": "64 KiB", "l3.size": l3})
    monkeypatch.setattr(whole_node, "FEWEST_RECALLED", 1 << 14)
    monkeypatch.setattr(whole_node, "WARM_UP", 1 << 10)

    def counted() -> dict[str, float]:
        simulation = Simulation(declared(name, 24 * MEBIBYTE, 4), machine, ranks=1)
        run = simulation.run(simulation.place(policies["random"], Node(machine, seed=1, node=0)))
        found = {name: float(run.counts[name].sum()) for name in ("l3_hits", "msc_reads", "msc_writes")}
        return {**found, "time_s": float(run.times.time_s.sum())}

    one_by_one = counted()
    monkeypatch.setattr(whole_node, "REFILLED_ABOVE", 0)
    refilled = counted()
    monkeypatch.setattr(whole_node, "excerpts", lambda _machine, lines, *_: [(0, 0, 0, 0, 0)] * len(lines))
    whole = counted()
    for count, expected in whole.items():
        few = 0.01 * whole["msc_reads"] if count != "time_s" else 0.01 * expected
        assert abs(refilled[count] - expected) < abs(one_by_one[count] - expected) + few, count
