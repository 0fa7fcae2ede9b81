"""Fills a node with a traced process: by copies at true scale, or on a smaller machine as the fallback.

At true scale, orders, slots and their spread are right without correction. The fallback shrinks the memories
so that fewer copies fill the same share of them. A smaller cache has fewer slots, so nodes differ more than
real ones do.
"""

from dataclasses import dataclass
from typing import Any

from pagelens.errors import UsageError
from pagelens.machine import Machine, Sourced
from pagelens.units import format_size

# Below this many slots the spread between nodes says more about the number of slots than about the machine.
FEWEST_SLOTS = 16_384
# How well whole copies must meet the size asked for.
TOLERANCE = 0.02


@dataclass(frozen=True)
class Scaled:
    """A machine, the copies that run on it, and the factor on the machine's capacities (1: true scale)."""

    machine: Machine
    ranks: int
    factor: float = 1.0


def scale_to(machine: Machine, footprint_bytes: int, full_size_bytes: int, most_ranks: int) -> Scaled:
    """Return the smallest machine that copies of the process fill as `full_size_bytes` fill the whole one.

    Memories shrink by powers of two, because slots must be one, but not below `FEWEST_SLOTS`. Whole copies
    make up the rest to within `TOLERANCE`. Private caches and bandwidths stay. Raises UsageError if there is
    no such machine.
    """
    if footprint_bytes > full_size_bytes:
        raise UsageError(
            f"--full-size: {format_size(full_size_bytes)} is less than the {format_size(footprint_bytes)} "
            "that one process was traced with; name the size of the whole problem on a node"
        )
    factor = 1.0
    found: Scaled | None = None
    while machine.slots * factor >= FEWEST_SLOTS:
        wanted = full_size_bytes * factor / footprint_bytes
        ranks = round(wanted)
        if 1 <= ranks <= most_ranks and abs(ranks / wanted - 1) <= TOLERANCE:
            found = Scaled(shrink(machine, factor), ranks, factor)
        factor /= 2
    if found is None:
        raise UsageError(
            f"--full-size: no 1 to {most_ranks} copies of {format_size(footprint_bytes)} stand for "
            f"{format_size(full_size_bytes)} on a machine of at least {FEWEST_SLOTS} slots; trace a larger "
            "problem, or use --ranks at true scale"
        )
    return found


def shrink(machine: Machine, factor: float) -> Machine:
    """Return the machine with its memories shrunk. Its other values and their sources stay.

    In hybrid mode the part of the fast memory that is a cache shrinks, too. NUMA nodes keep whole pages of
    2 MiB, and the DDR is their sum.
    """
    memories: dict[str, Any] = {}
    for name in ("fast_memory", "ddr", "memory_side_cache"):
        memory = getattr(machine, name)
        if memory is None or memory.size is None:
            continue
        size: Sourced[int] = memory.size
        ends = [int(end * factor) for end in size.range] if size.range is not None else None
        shrunk = size.model_copy(update={"value": int(size.value * factor), "range": ends})
        memories[name] = memory.model_copy(update={"size": shrunk})
    if machine.numa is not None:
        numa = machine.numa.shrunk(factor)
        ddr = memories["ddr"]
        whole = ddr.size.model_copy(update={"value": sum(numa.sizes.value)})
        memories |= {"numa": numa, "ddr": ddr.model_copy(update={"size": whole})}
    return machine.model_copy(update=memories)
