"""The distance at which two addresses conflict on a machine, in its caches or in its DRAM banks."""

from pagelens.address.units import LINE_BYTES
from pagelens.machine import Machine
from pagelens.machine.dram import MAP_FIELDS, Dram


def conflict_period(machine: Machine, page_bytes: int) -> int:
    """Return the bytes after which addresses share a set of L1 and L2, or a bank of DRAM but not its row.

    The result is a power of two and at most `page_bytes`: a program cannot choose the bits above a page's.
    """
    periods = [cache.sets * LINE_BYTES for cache in (machine.l1, machine.l2)]
    if machine.dram is not None:
        periods.append(dram_period(machine.dram))
    return min(max(periods), page_bytes)


def dram_period(dram: Dram) -> int:
    """Return the least power of two of bytes between lines in different rows of the same bank.

    This is the lowest address bit that selects nothing but a row. The result is 1 if there is none, or if
    memory is interleaved over a number of channels that is no power of two.
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
