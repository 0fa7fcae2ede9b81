"""The rule of the ECM model, on published examples."""

import pytest

from pagelens.machine import load_machine
from pagelens.reproduce.programs.one_core import KERNELS, Core, ecm_seconds


def test_transfers_and_loads_add_up_and_arithmetic_overlaps() -> None:
    """A 2D stencil on Sandy Bridge: {26 || 20 | 10 | 6 | 13} cycles (kerncraft, tests/test_kerncraft.py)."""
    transfers = [10, 6, 13]
    assert [ecm_seconds(26, 20, transfers[:levels]) for levels in range(4)] == [26, 30, 36, 49]


def test_a_triad_on_haswell_takes_the_cycles_of_its_lines() -> None:
    """Loads take 3 cycles, its 5 lines 5 cycles from L2 at 64 B a cycle, and 10 more from L3 at 32 B."""
    machine = load_machine("cori-haswell")
    core = Core(machine, vector_bytes=32, from_l2=64, from_l3=32)
    cycles = [core.ecm(KERNELS["triad"], level) * machine.cores.frequency.value for level in ("L2", "L3")]
    assert cycles == pytest.approx([8, 18])


def test_a_victim_l3_takes_clean_lines_while_it_sends_others() -> None:
    machine = load_machine("skx-6148")
    core = Core(machine, vector_bytes=64, from_l2=64, from_l3=16)
    clock = machine.cores.frequency.value
    load = KERNELS["load"]
    assert core.ecm(load, "L3") * clock == pytest.approx(0.5 + 1 + 4)
    of_memory = 64 / machine.ddr.bandwidth.value
    assert (core.ecm(load, "memory") - of_memory) * clock == pytest.approx(0.5 + 1 + 4)
