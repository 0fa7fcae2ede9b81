"""Rows of DRAM behind a memory-side cache: what they cost beyond the stream that the bandwidth is from."""

import math

import numpy as np
import pytest
from machine_roles import CACHE_BEHIND_L3, CACHE_MODE, CACHED_OPTANE, FLAT_BEHIND_L3, FLAT_MODE
from numpy.typing import NDArray
from small_machine import small

from pagelens import _core
from pagelens.accesses.declared import declared
from pagelens.machine import Machine, load_machine, modelled_times
from pagelens.machine.dram_files import load_dram
from pagelens.replay.dram_rows import FEWEST_LINES, RowsBehind, stream_row_seconds
from pagelens.replay.memory_side import left_out
from pagelens.replay.ordered_lines import COUNTED, STRETCHES, WARM_UP, InOrder, rows_are_timed, stretches
from pagelens.replay.placement import Placement

MIB = 1 << 20
SUMS = tuple(_core.dram_sum_names())


class Timed:
    """Stands for a replay's DRAM: phases of so many lines, with their times with rows and without."""

    def __init__(self, *phases: tuple[int, float, float]) -> None:
        self.drams = np.zeros((len(phases), 2, len(SUMS)), dtype=np.uint64)
        for phase, (lines, *seconds) in enumerate(phases):
            for dram in range(2):
                self.drams[phase, dram, SUMS.index("reads")] = lines
                self.drams[phase, dram, SUMS.index("row_conflicts")] = lines if dram == 0 else 0
                self.drams[phase, dram, SUMS.index("time_ps")] = round(1e12 * seconds[dram])


def counts_of(machine: Machine, *phases: tuple[int, float, float]) -> dict[str, NDArray[np.float64]]:
    """Returns the counts of ten times as many lines."""
    behind = RowsBehind(InOrder(declared("triad", 32 * MIB, 4), machine, 1), machine)
    lines = np.array([10.0 * phase[0] for phase in phases])
    return behind.counts(Timed(*phases), lines)  # type: ignore[arg-type]


def test_rows_cost_what_they_cost_more_than_the_stream() -> None:
    machine = small()
    of_stream = stream_row_seconds(machine)
    assert of_stream > 0
    lines = 100_000
    counts = counts_of(
        machine,
        (lines, lines * (5e-9 + of_stream), lines * 2e-9),
        (lines, lines * of_stream / 2, 0.0),  # fewer than the stream's
        (FEWEST_LINES - 1, 1.0, 0.0),  # too few to say
        (0, 0.0, 0.0),
    )
    assert counts["row_s"] == pytest.approx([3e-9, 0, 0, 0], rel=1e-3)
    assert counts["row_conflicts"].tolist() == [10 * lines, 10 * lines, 10 * (FEWEST_LINES - 1), 0]


def test_the_stream_itself_gets_the_stated_bandwidth() -> None:
    """Its rows are those that the bandwidth has in it: DDR's time is that of its bytes."""
    machine = load_machine(CACHE_MODE)
    lines = 1_000_000
    zeros = dict.fromkeys(
        ("instructions", "msc_reads", "msc_writes", "msc_misses", "msc_read_misses", "stlb_hits", "walks",
         "walker_loads"),
        np.zeros(1),
    )  # fmt: skip
    of_stream = stream_row_seconds(machine)
    rows = counts_of(machine, (lines, lines * (1e-9 + of_stream), lines * 1e-9))["row_s"]
    moved = zeros | {"ddr_reads": np.array([0.75 * lines]), "ddr_writes": np.array([0.25 * lines])}
    times = modelled_times(machine, moved | {"row_s": rows}, 68)
    assert 64 * lines / times.resources["DDR"][0] == pytest.approx(90e9, rel=1e-3)
    slower = modelled_times(machine, moved | {"row_s": rows + 1e-9}, 68)
    assert slower.resources["DDR"][0] == pytest.approx(times.resources["DDR"][0] + 1e-9 * lines)
    assert slower.serial_time_s[0] - times.serial_time_s[0] == pytest.approx(1e-9 * lines)


def test_rows_are_timed_where_the_file_describes_them() -> None:
    knl = load_machine(CACHE_MODE)
    for described in (knl, load_machine(CACHE_BEHIND_L3)):
        assert rows_are_timed(described)
        assert "dram" not in left_out(described)
    for other in (CACHED_OPTANE, FLAT_MODE, FLAT_BEHIND_L3):
        assert not rows_are_timed(load_machine(other))
    ideal = load_machine(f"{CACHE_MODE}-ideal")
    assert not rows_are_timed(ideal)
    assert "dram" in left_out(ideal)
    plain = knl.model_copy(update={"dram": None})
    behind = RowsBehind(InOrder(declared("triad", 32 * MIB, 4), plain, 1), plain)
    assert (
        behind.model(
            Placement(_core.place_contiguously(plain.frames), plain),
            declared("triad", 32 * MIB, 4).compile(plain, 12),
        )
        is None
    )


def test_the_stream_is_timed_on_the_banks_that_are_stated() -> None:
    """One channel with open pages, whose streams meet other rows of their banks."""
    machine = small()
    single = machine.model_copy(update={"dram": load_dram("ddr4-2400").dram})
    assert stream_row_seconds(single) > 2 * stream_row_seconds(machine)


def test_stretches_of_all_ranks_have_the_stated_lines() -> None:
    ranks, lines = 64, [10**7, 10**5, 700, 5 * 10**6]
    found = stretches(lines, ranks)
    assert found[2] == (0, 0, 0, 0)  # all of it
    for period, stretch, warm_up, begin in found:
        if period:
            assert ranks * warm_up == WARM_UP
            assert ranks * (stretch - warm_up) == COUNTED
            assert 0 <= begin <= period - stretch
    assert math.floor(lines[0] / found[0][0]) == STRETCHES
