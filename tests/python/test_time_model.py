"""The time model against figures worked out by hand."""

import numpy as np
import polars as pl
import pytest

from pagelens.machine import cache_mode_times, flat_mode_times, load_machine

KNL = load_machine("cori-knl-cache")
LINES = 1e9


def triad(hit_rate: float, write_backs: bool) -> dict[str, list[float]]:
    """Two reads and one streaming store a line, all missing alike; a third of the victims is dirty."""
    misses = LINES * (1 - hit_rate)
    return {
        "instructions": [0.0],
        "msc_reads": [LINES * 2 / 3],
        "msc_writes": [LINES / 3],
        "msc_misses": [misses],
        "msc_read_misses": [misses * 2 / 3],
        "ddr_reads": [misses],
        "ddr_writes": [misses / 3 if write_backs else 0.0],
    }


def gigabytes_a_second(seconds: float) -> float:
    return LINES * 64 / seconds / 1e9


def test_an_aged_nodes_triad_lies_between_the_bounds() -> None:
    # Hit rate .40 at 350-360 and 90 GB/s: 112 with write-backs, 150 without, 128 as the serial sum without;
    # published for aged nodes: 117 (Intel's page colouring series, 2017).
    with_write_backs = cache_mode_times(KNL, triad(0.40, True), 68)
    without = cache_mode_times(KNL, triad(0.40, False), 68)
    assert gigabytes_a_second(with_write_backs.time_s[0]) == pytest.approx(112, abs=1)
    assert gigabytes_a_second(without.time_s[0]) == pytest.approx(150, abs=1)
    assert gigabytes_a_second(without.serial_time_s[0]) == pytest.approx(128, abs=1)


def test_without_misses_the_fast_memory_decides() -> None:
    times = cache_mode_times(KNL, triad(1.0, False), 68)
    assert gigabytes_a_second(times.time_s[0]) == pytest.approx(355)
    assert gigabytes_a_second(times.serial_time_s[0]) == pytest.approx(355)


def test_each_resource_by_hand() -> None:
    counts = {name: [0.0] for name in triad(0, False)}
    counts["instructions"] = [68 * 1.4e9 * 2]
    assert cache_mode_times(KNL, counts, 68).resources["issue"][0] == pytest.approx(1)
    assert cache_mode_times(KNL, counts, 1).resources["issue"][0] == pytest.approx(68)
    counts = {name: [0.0] for name in triad(0, False)} | {"msc_reads": [36e9]}
    one_core = cache_mode_times(KNL, counts, 1)
    assert one_core.resources["latency"][0] == pytest.approx(180)
    counts |= {"msc_read_misses": [36e9]}
    assert cache_mode_times(KNL, counts, 1).resources["latency"][0] == pytest.approx(270)
    counts = {name: [0.0] for name in triad(0, False)} | {"ddr_writes": [90e9 / 64]}
    times = cache_mode_times(KNL, counts, 68).resources
    assert times["DDR"][0] == pytest.approx(1)
    assert times["fast memory"][0] == pytest.approx(90 / 355)  # the victim is read there


def test_flat_memories() -> None:
    flat = load_machine("cori-knl-flat")
    counts = {"instructions": [0.0], "msc_reads": [2 * LINES / 3], "msc_writes": [LINES / 3]}
    fast = flat_mode_times(flat, counts, 68, "fast_memory")
    slow = flat_mode_times(flat, counts, 68, "ddr")
    assert gigabytes_a_second(fast.time_s[0]) == pytest.approx(355)
    assert gigabytes_a_second(slow.time_s[0]) == pytest.approx(90)


def test_rows_are_independent_and_frames_of_polars_do() -> None:
    hit_rates = np.linspace(0, 1, 11)
    frame = pl.concat(pl.DataFrame(triad(float(rate), True)) for rate in hit_rates)
    times = cache_mode_times(KNL, frame, 68)
    assert times.time_s.shape == times.serial_time_s.shape == (11,)
    for row, rate in enumerate(hit_rates):
        assert times.time_s[row] == cache_mode_times(KNL, triad(float(rate), True), 68).time_s[0]
    assert (np.diff(times.time_s) <= 0).all()
