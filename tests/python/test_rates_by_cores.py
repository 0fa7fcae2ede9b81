"""The bandwidth that few cores reach: in machine files, in the time model, and measured."""

import numpy as np
import pytest
from machine_roles import CACHE_MODE, CHIPLETS, TWO_SOCKETS_OF_CHIPLETS

from pagelens.errors import UsageError
from pagelens.machine import Machine, modelled_times, parse_machine
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


@pytest.mark.parametrize(("cores", "share"), [(1, 0.1), (2, 0.2), (9, 0.9), (96, 0.9)])
def test_memory_is_as_fast_as_its_cores_can_use_it(cores: int, share: float) -> None:
    names = ("instructions", "l3_hits", "core_forwards", "stlb_hits", "walks", "walker_loads", "dram_time_s")
    counts = {name: np.zeros(1) for name in names} | {"dram_reads": np.ones(1), "dram_writes": np.ones(1)}
    seconds = modelled_times(machine(), counts, cores).resources["DDR"][0]
    assert seconds == pytest.approx(2 * 64 / (share * 460.8e9))


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
