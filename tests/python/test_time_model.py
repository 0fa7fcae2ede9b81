"""The time model against figures worked out by hand."""

import numpy as np
import polars as pl
import pytest
from machine_roles import CACHE_MODE, CACHED_OPTANE, FLAT_MODE, NO_L3, SNOOP_FILTER

from pagelens.machine import TRANSLATION_COUNTS, Sourced, load_machine, modelled_times

KNL = load_machine(CACHE_MODE)
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
        **{name: [0.0] for name in TRANSLATION_COUNTS},
    }


def gigabytes_a_second(seconds: float) -> float:
    return LINES * 64 / seconds / 1e9


def test_an_aged_nodes_triad_lies_between_the_bounds() -> None:
    # Hit rate .40 at 350-360 and 90 GB/s: 112 with write-backs, 150 without, 128 as the serial sum without;
    # published for aged nodes: 117 (Intel's page colouring series, 2017).
    with_write_backs = modelled_times(KNL, triad(0.40, True), 68)
    without = modelled_times(KNL, triad(0.40, False), 68)
    assert gigabytes_a_second(with_write_backs.time_s[0]) == pytest.approx(112, abs=1)
    assert gigabytes_a_second(without.time_s[0]) == pytest.approx(150, abs=1)
    assert gigabytes_a_second(without.serial_time_s[0]) == pytest.approx(128, abs=1)


def test_without_misses_the_fast_memory_decides() -> None:
    times = modelled_times(KNL, triad(1.0, False), 68)
    assert gigabytes_a_second(times.time_s[0]) == pytest.approx(355)
    assert gigabytes_a_second(times.serial_time_s[0]) == pytest.approx(355)


def test_the_serial_time_is_no_less_than_the_time() -> None:
    """One core waits for its lines far longer than they take to be moved."""
    counts = {name: [0.0] for name in triad(0, False)} | {"msc_reads": [36e9]}
    times = modelled_times(KNL, counts, 1)
    assert times.resources["latency"][0] > times.resources["fast memory"][0]
    assert times.at_once_time_s[0] <= times.time_s[0] == times.serial_time_s[0]


def test_each_resource_by_hand() -> None:
    counts = {name: [0.0] for name in triad(0, False)}
    counts["instructions"] = [68 * 1.4e9 * 2]
    assert modelled_times(KNL, counts, 68).resources["issue"][0] == pytest.approx(1)
    assert modelled_times(KNL, counts, 1).resources["issue"][0] == pytest.approx(68)
    counts = {name: [0.0] for name in triad(0, False)} | {"msc_reads": [36e9]}
    one_core = modelled_times(KNL, counts, 1)
    assert one_core.resources["latency"][0] == pytest.approx(180)
    counts |= {"msc_read_misses": [36e9]}
    assert modelled_times(KNL, counts, 1).resources["latency"][0] == pytest.approx(270)
    counts = {name: [0.0] for name in triad(0, False)} | {"ddr_writes": [90e9 / 64]}
    times = modelled_times(KNL, counts, 68).resources
    assert times["DDR"][0] == pytest.approx(1)
    assert times["fast memory"][0] == pytest.approx(90 / 355)  # the victim is read there


def node_counts(**counts: float) -> dict[str, list[float]]:
    names = ("instructions", "l3_hits", "core_forwards", "stlb_hits", "walks", "walker_loads")
    names += ("dram_reads", "dram_writes", "dram_time_s")
    return {name: [counts.get(name, 0.0)] for name in names}


def test_flat_memories() -> None:
    flat = load_machine(FLAT_MODE)
    counts = node_counts(dram_reads=2 * LINES / 3, dram_writes=LINES / 3)
    fast = modelled_times(flat, counts, 68, "fast memory")
    slow = modelled_times(flat, counts, 68, "DDR")
    assert gigabytes_a_second(fast.time_s[0]) == pytest.approx(355)
    assert gigabytes_a_second(slow.time_s[0]) == pytest.approx(90)
    banks_are_slower = modelled_times(flat, counts | {"dram_time_s": [2 * slow.time_s[0]]}, 68, "DDR")
    assert banks_are_slower.time_s[0] == 2 * slow.time_s[0]


def test_what_a_core_waits_for_on_a_node_without_a_memory_side_cache() -> None:
    skx = load_machine(SNOOP_FILTER)
    assert skx.l3 is not None
    assert skx.l2.latency is not None
    assert skx.page_walk is not None
    assert skx.page_walk.stlb_hit_cycles is not None

    def resources(**counts: float) -> dict[str, float]:
        found = modelled_times(skx, node_counts(**counts), 24).resources
        return {name: times[0] for name, times in found.items()}

    slots = 24 * skx.cores.outstanding_lines.value
    assert resources(l3_hits=1e9)["latency"] == pytest.approx(1e9 * skx.l3.latency.value / slots)
    assert resources(core_forwards=1e9) == resources(l3_hits=1e9)
    assert resources(dram_reads=1e9)["latency"] == pytest.approx(1e9 * skx.ddr.latency.value / slots)
    cycles = 1e9 * skx.page_walk.stlb_hit_cycles.value / skx.cores.frequency.value
    assert resources(stlb_hits=1e9)["latency"] == pytest.approx(cycles / slots)
    walking = 1e9 * skx.l2.latency.value
    walks = resources(walks=5e8, walker_loads=1e9)
    assert walks["page walks"] == pytest.approx(walking / (24 * skx.page_walk.walkers.value))
    assert walks["latency"] == pytest.approx(walking / slots)
    together = modelled_times(skx, node_counts(l3_hits=1e9, walks=5e8, walker_loads=1e9), 24)
    assert together.resources["latency"][0] == pytest.approx(
        resources(l3_hits=1e9)["latency"] + walks["latency"]
    )
    assert together.time_s[0] == max(times[0] for times in together.resources.values())


@pytest.mark.parametrize("asked", ["l2_references", "l2_accesses"])  # of a hierarchy, and of an ensemble
def test_what_hits_an_exclusive_l2_takes_its_way_to_l1(asked: str) -> None:
    opteron = load_machine(NO_L3)
    counts = node_counts(dram_time_s=0.0) | {asked: [4e9], "l2_misses": [1e9]}
    times = modelled_times(opteron, counts, 2)
    caches = times.resources["caches"][0]
    assert caches == pytest.approx(3e9 * 64 / (2 * 19.2e9))  # 8 bytes a clock, each core
    assert times.time_s[0] == caches
    uncounted = modelled_times(opteron, node_counts(dram_time_s=0.0), 2)
    assert "caches" not in uncounted.resources
    unstated = modelled_times(load_machine(FLAT_MODE), counts, 2)
    assert "caches" not in unstated.resources


def test_rows_are_independent_and_frames_of_polars_do() -> None:
    hit_rates = np.linspace(0, 1, 11)
    frame = pl.concat(pl.DataFrame(triad(float(rate), True)) for rate in hit_rates)
    times = modelled_times(KNL, frame, 68)
    assert times.time_s.shape == times.serial_time_s.shape == (11,)
    for row, rate in enumerate(hit_rates):
        assert times.time_s[row] == modelled_times(KNL, triad(float(rate), True), 68).time_s[0]
    assert (np.diff(times.time_s) <= 0).all()


def test_writes_that_are_slower_than_reads_take_turns_with_them() -> None:
    # By hand: 6.4 GB read at 64 GB/s take 0.1 s, and 3.2 GB written at 16 GB/s take 0.2 s.
    memory = KNL.ddr.model_copy(update={"bandwidth": Sourced(value=64e9, assumed="by hand")})
    slower = memory.model_copy(update={"write_bandwidth": Sourced(value=16e9, assumed="by hand")})
    reads, writes = np.array([100e6]), np.array([50e6])
    assert slower.seconds(reads, writes) == pytest.approx(0.3)
    assert memory.seconds(reads, writes) == pytest.approx(0.15)


def test_optanes_write_backs_cost_more_than_its_reads() -> None:
    optane = load_machine(CACHED_OPTANE)
    none = {name: [0.0] for name in triad(0, False)}
    read, written = (
        modelled_times(optane, none | {name: [1e9]}, 16).resources["DDR"][0]
        for name in ("ddr_reads", "ddr_writes")
    )
    assert written == pytest.approx(read * 10 / 3.5)


def test_a_faster_clock_moves_lines_between_caches_faster() -> None:
    counts = node_counts() | {"l1_fetches": [1e9], "l1_write_backs": [5e8], "l2_misses": [2e8]}
    slow, fast = (
        modelled_times(load_machine(SNOOP_FILTER), counts, 24, frequency_factor=factor).resources["caches"][0]
        for factor in (1.0, 1.1)
    )
    cycles = 1e9 * 64 / 64 + 5e8 * 64 / 32 + 2e8 * 64 / 16
    assert slow == pytest.approx(cycles / (24 * 2.1e9))
    assert fast == pytest.approx(slow / 1.1)
