"""The bandwidth that few cores reach: in machine files, in the time model, and measured."""

import numpy as np
import pytest
from machine_roles import CACHE_MODE, CHIPLETS, TWO_SOCKETS_OF_CHIPLETS

from pagelens.accesses.rank_rounds import CommonRounds, JobRounds
from pagelens.errors import UsageError
from pagelens.machine import Machine, modelled_times, parse_machine
from pagelens.machine.rank_load import RankLoad
from pagelens.measure.of_machine import between

FILE = """schema = 1
base = "{base}"
name = "by-cores"
title = "Memory of which one core reaches a tenth"
[ddr]
by_cores = {{ value = {rows}, input = "by hand" }}
"""
ROWS = '[[1, "46.08 GB/s"], [9, "414.72 GB/s"]]'  # of 460.8 GB/s


def machine(rows: str = ROWS, base: str = CHIPLETS) -> Machine:
    return parse_machine(FILE.format(base=base, rows=rows).encode(), "here")


def seconds_of_memory(machine: Machine, cores: int, lines: list[list[float]] | None) -> float:
    """Return the seconds of two lines, moved by threads that have these multiples in [round, thread]."""
    zeros = ("instructions", "l3_hits", "core_forwards", "stlb_hits", "walks", "walker_loads", "dram_time_s")
    counts = {name: np.zeros(1) for name in zeros} | {"dram_reads": np.ones(1), "dram_writes": np.ones(1)}
    each = np.array(lines or [[1.0]])
    load = None if lines is None else RankLoad([each], [each], [each.sum(axis=1) / each.sum()])
    return float(modelled_times(machine, counts, cores, ranks=load).resources["DDR"][0])


@pytest.mark.parametrize(("cores", "share"), [(1, 0.1), (2, 0.2), (9, 0.9), (96, 0.9)])
def test_memory_is_as_fast_as_its_cores_can_use_it(cores: int, share: float) -> None:
    seconds = seconds_of_memory(machine(), cores, None)
    assert seconds == pytest.approx(2 * 64 / (share * 460.8e9))


@pytest.mark.parametrize(
    ("lines", "times"),
    [
        ([[1.0, 1.0]], 1.0),
        ([[2.0, 0.0]], 2.0),  # one core has half of the bandwidth of two
        ([[1.0, 0.0], [0.5, 0.5]], 1.5),  # half of the lines by one thread, as a serial first touch
        ([[0.0, 0.0], [1.0, 1.0]], 1.0),  # a part without lines
        ([[4 / 3, 2 / 3]], 4 / 3),  # the slower thread is alone for half of its lines
    ],
)
def test_a_phase_has_the_bandwidth_of_the_cores_that_work(lines: list[list[float]], times: float) -> None:
    """By hand, on a machine where each core adds as much."""
    together = seconds_of_memory(machine(), 2, None)
    assert seconds_of_memory(machine(), 2, lines) == pytest.approx(times * together)


def test_threads_of_copies_work_side_by_side() -> None:
    """Two copies of a process of two threads, of which one works: two of the four cores use memory."""
    of_two = seconds_of_memory(machine(), 2, None)
    assert seconds_of_memory(machine(), 4, [[2.0, 0.0]]) == pytest.approx(of_two)


class OnePath:
    """Stands for the paths through rounds in which ranks wait for neighbours: one is longest at any cost."""

    def longest(self, phase: int, tolerance: float) -> list[tuple[float, float]]:
        return [(1.0, 1.0)]


@pytest.mark.parametrize(
    ("lines", "threads", "working", "copies", "waits", "times"),
    [
        ([[8.0, 8.0]], 4, 4.0, [1, 1], False, 1.0),
        ([[8.0, 8.0]], 4, 1.0, [1, 1], False, 4.0),  # a serial loop in each rank
        ([[8.0, 4.0]], 4, 4.0, [1, 3], False, 1.6),  # three ranks have the lesser half
        ([[5.0, 5.0]], 4, 4.0, [1, 1], True, 1.0),  # they wait for neighbours that have as much to do
    ],
)
def test_ranks_have_the_bandwidth_of_their_working_cores(
    lines: list[list[float]], threads: int, working: float, copies: list[int], waits: bool, times: float
) -> None:
    of_ranks = np.array(lines)
    numbers, of_each = np.zeros(len(lines), dtype=np.int64), np.full((1, 2), working)
    rounds = CommonRounds(0, 0, numbers, of_ranks, of_ranks, [], np.full(len(lines), waits))
    job = JobRounds(
        rounds, 1, np.full(2, float(threads)), (of_each, of_each), np.array(copies),
        lambda instructions, lines: OnePath() if waits else None,  # type: ignore[arg-type, return-value]
    )  # fmt: skip
    every_core_more = machine('[[1, "4.608 GB/s"], [16, "73.728 GB/s"]]').ddr
    cores = threads * sum(copies)
    longer = every_core_more.longer_for_cores(cores, job.load())
    assert longer == pytest.approx([times * every_core_more.longer_for_cores(cores, None)])


@pytest.mark.parametrize(
    "rows", ["[]", '[[2, "1 GB/s"], [1, "2 GB/s"]]', "[[1, 2]]", '[[1.5, "1 GB/s"]]', '"1"']
)
def test_rows_that_say_nothing_are_refused(rows: str) -> None:
    with pytest.raises(UsageError, match="rows of cores and their rate"):
        machine(rows)


@pytest.mark.parametrize("base", [TWO_SOCKETS_OF_CHIPLETS, CACHE_MODE])
def test_a_machine_of_several_memories_has_none(base: str) -> None:
    with pytest.raises(UsageError, match="only memory"):
        machine(base=base)


@pytest.mark.parametrize(("cores", "some"), [(1, []), (2, []), (3, [2]), (8, [2, 4]), (12, [2, 4, 8])])
def test_powers_of_two_between_one_core_and_all_are_measured(cores: int, some: list[int]) -> None:
    assert between(cores) == some
