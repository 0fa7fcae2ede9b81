"""Loads and lines between caches take turns: the rule of the ECM model, on published examples."""

import pytest
from machine_roles import AVX2, AVX512, CHIPLETS, VICTIM_L3

from pagelens.machine import Machine, Sourced, load_machine, modelled_times
from pagelens.reproduce.programs.one_core import KERNELS, Core


def cycles(machine: Machine, vector_bytes: int, kernel: str) -> list[float]:
    """Cycles for one line of each array, with data in L2 and in L3."""
    core, clock = Core(machine, vector_bytes), machine.cores.frequency.value
    return [core.times(KERNELS[kernel], level).resources["caches"][0] * clock for level in ("L2", "L3")]


def test_a_triad_on_haswell_takes_the_cycles_of_its_lines() -> None:
    """Loads take 3 cycles, 4 lines from L2 4 cycles, one to L2 2 cycles, and 5 lines of L3 10 cycles."""
    assert cycles(load_machine(AVX2), 32, "triad") == pytest.approx([9, 19])


def test_lines_go_both_ways_at_a_time_between_l2_and_l3_of_skylake() -> None:
    assert cycles(load_machine(AVX512), 64, "load") == pytest.approx([1.5, 5.5])
    assert cycles(load_machine(AVX512), 64, "update") == pytest.approx([3.5, 7.5])  # a load, 1 + 2, 4


def test_a_victim_l3_takes_clean_lines_too() -> None:
    """A Rome's path between L2 and L3 has 24 B a cycle in one direction at a time."""
    rome = load_machine(VICTIM_L3)
    assert cycles(rome, 32, "load") == pytest.approx([2, 2 * 64 / 24])
    assert rome.l3 is not None
    exclusive = rome.l3.model_copy(update={"inclusion": Sourced(value="exclusive", assumed="by hand")})
    assert cycles(rome.model_copy(update={"l3": exclusive}), 32, "load") == cycles(rome, 32, "load")


def test_nothing_takes_turns_on_zen() -> None:
    """As measured on a Genoa: 2 cycles from L2 for a line in either direction, 2.4 from L3."""
    genoa = load_machine(CHIPLETS)
    assert cycles(genoa, 32, "load") == cycles(genoa, 32, "update") == pytest.approx([2, 64 / 27])
    assert cycles(genoa, 32, "copy") == pytest.approx([4, 128 / 27])


def test_a_stream_from_a_cache_is_bounded_by_its_lines_and_by_their_turns() -> None:
    core = Core(load_machine(AVX512), 64)
    for level in ("L2", "L3"):
        times = core.times(KERNELS["triad"], level)
        assert times.at_once_time_s[0] < times.time_s[0] <= times.serial_time_s[0]


def test_one_core_has_the_whole_way_of_an_l2_that_two_share() -> None:
    machine = load_machine(AVX2)
    stated = {
        "width": Sourced(value=32.0, assumed="by hand"),
        "shared_by": Sourced(value=2, assumed="by hand"),
    }
    shared = machine.model_copy(update={"l2": machine.l2.model_copy(update=stated)})
    names = ("instructions", "l3_hits", "core_forwards", "stlb_hits", "walks", "walker_loads")
    counts = {name: [0.0] for name in (*names, "dram_reads", "dram_writes", "dram_time_s")} | {
        "l2_references": [1e9]
    }

    def cycles_of_line(cores: int) -> float:
        seconds = modelled_times(shared, counts, cores).resources["caches"][0]
        return float(seconds * machine.cores.frequency.value / 1e9)

    assert cycles_of_line(1) == pytest.approx(2)
    assert cycles_of_line(2) == pytest.approx(2)  # half of the lines each, at half of the width
    assert cycles_of_line(4) == pytest.approx(1)
