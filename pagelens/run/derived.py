"""What a machine decides of a run: the period of its conflicts, and the cache in front of its memory."""

import os

from pagelens.address.units import FRAME_BYTES, LINE_BYTES
from pagelens.host.virtual_machine import in_virtual_machine
from pagelens.machine import Machine
from pagelens.machine.chosen import choose_machine
from pagelens.machine.dram import MAP_FIELDS, Dram
from pagelens.run.program import tell

__all__ = ["conflict_period", "in_virtual_machine", "machine_cache", "machine_period", "memory_side_cache"]


def machine_period(name: str | None, page_bytes: int) -> int:
    """Of the machine named, or of this one; 0, and a line on stderr, where its file cannot be read."""
    machine = _machine(name)
    return conflict_period(machine, page_bytes) if machine is not None else 0


def machine_cache(name: str | None) -> int:
    """The same of its memory-side cache; 0, and a line on stderr, without one."""
    machine = _machine(name)
    if machine is None:
        return 0
    size = memory_side_cache(machine)
    if size == 0:
        tell(
            f"--frames best: {machine.title} has no memory-side cache that frames conflict in; "
            "--cache SIZE names one"
        )
    return size


def _machine(name: str | None) -> Machine | None:
    if name is not None and name.endswith(".toml") and not os.access(name, os.R_OK):
        tell(f"--machine {name}: cannot be read; the program runs without what it would decide")
        return None
    machine = choose_machine(name).machine
    machine.require_linux_pages("lay out")
    return machine


def conflict_period(machine: Machine, page_bytes: int) -> int:
    """Bytes: addresses so far apart meet in one set of L1 and L2, and in another row of one bank of DRAM.

    A power of two of at most a page: what lies above a page's bits is not the program's to choose.
    """
    periods = [cache.sets * LINE_BYTES for cache in (machine.l1, machine.l2)]
    if machine.dram is not None:
        periods.append(dram_period(machine.dram))
    return min(max(periods), page_bytes)


def dram_period(dram: Dram) -> int:
    """The smallest power of two of bytes at which lines meet in another row of the same bank; 1 for none.

    That is the lowest address bit that only rows are made of. Where channels go round in groups of no power
    of two there is none.
    """
    if dram.interleave is not None and dram.interleave.value & (dram.interleave.value - 1):
        return 1
    rows, others = 0, 0
    for name in MAP_FIELDS:
        for mask in getattr(dram, name).value:
            if name == "row":
                rows |= mask
            else:
                others |= mask
    own = rows & ~others
    return own & -own or 1


def memory_side_cache(machine: Machine) -> int:
    """Bytes of the cache that one memory is for the other, if frames conflict in it; 0 for none."""
    return machine.slots * FRAME_BYTES if machine.memory_side_cache is not None and not machine.ideal else 0
