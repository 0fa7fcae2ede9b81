"""What the cores do and wait for, in seconds added up over all of them, from the columns of counts."""

import numpy as np
from numpy.typing import NDArray

from pagelens.machine.core_times import CoreTimes
from pagelens.machine.page_fault import FAULT_COUNTS, READ_FAULT_COUNTS
from pagelens.machine.schema import Machine
from pagelens.machine.transfers import Columns, column

Floats = NDArray[np.float64]


def fault_time(
    machine: Machine, counts: Columns, cores_used: int, frequency_factor: Floats | float
) -> Floats | None:
    """Return the seconds that the cores work for the kernel's pages, or None if no price is stated."""
    if machine.page_fault is None or any(name not in counts for name in FAULT_COUNTS):
        return None
    small, large = (column(counts, name) for name in FAULT_COUNTS)
    zero, file = (column(counts, name) if name in counts else 0.0 for name in READ_FAULT_COUNTS)
    return machine.page_fault.seconds(small, large, zero, file) / cores_used / frequency_factor


def walk_time(machine: Machine, counts: Columns) -> Floats:
    """Return the seconds of all walks together, if each load hits L2."""
    walk = machine.page_walk
    if walk is None:
        return np.zeros_like(column(counts, "instructions"))
    if walk.walk_cycles is not None:
        return column(counts, "walks") * walk.walk_cycles.value / machine.cores.frequency.value
    latency = machine.l2.latency.value if machine.l2.latency is not None else 0.0
    return column(counts, "walker_loads") * latency


def second_level_time(machine: Machine, counts: Columns) -> Floats:
    """Return the seconds that loads wait for the second-level TLB, added up."""
    walk = machine.page_walk
    if walk is None or walk.stlb_hit_cycles is None:
        return np.zeros_like(column(counts, "instructions"))
    cycles = column(counts, "stlb_hits") * walk.stlb_hit_cycles.value
    return np.asarray(cycles / machine.cores.frequency.value, dtype=np.float64)


def l3_time(machine: Machine, counts: Columns) -> Floats:
    """Return the seconds that cores wait for lines of L3 or of another core, added up."""
    if machine.l3 is None:
        return np.zeros_like(column(counts, "instructions"))
    lines = column(counts, "l3_hits") + column(counts, "core_forwards")
    return np.asarray(lines * machine.l3.latency.value)


def walkers(machine: Machine, walking: Floats, cores_used: int) -> dict[str, Floats]:
    """Return the page walkers as a resource, if the machine file has them."""
    walk = machine.page_walk
    return {} if walk is None else {"page walks": walking / (walk.walkers.value * cores_used)}


def _l2_hits(counts: Columns) -> Floats | None:
    """Return the lines that hit L2, or None if they are not counted.

    The caches of a node call them `l2_references`, and an ensemble's rows `l2_accesses`.
    """
    asked = next((name for name in ("l2_references", "l2_accesses") if name in counts), None)
    return None if asked is None else np.maximum(column(counts, asked) - column(counts, "l2_misses"), 0)


def issue_time(machine: Machine, counts: Columns, cores_used: int, core: CoreTimes | None) -> Floats:
    """Return the seconds that the cores take to issue the program's instructions."""
    cores = machine.cores
    cycles = 1 / cores.instructions_per_cycle.value if core is None else core.cycles
    return np.asarray(column(counts, "instructions") * cycles / (cores.frequency.value * cores_used))


def stalls_of_lines(
    machine: Machine,
    counts: Columns,
    cores_used: int,
    core: CoreTimes | None,
    reads: Floats | None,
    of_memory: Floats,
) -> tuple[Floats, Floats]:
    """Return the seconds that cores stand still for lines that nothing foresees. `reads` come from memory.

    The first are those of loads. In the second, lines of loads and stores pass the miss buffers of the L1s,
    which a stream's lines, fetched by the L2's prefetcher, do not.
    """
    instructions = column(counts, "instructions")
    if core is None or reads is None or machine.pipeline is None:
        return np.zeros_like(instructions), np.zeros_like(instructions)
    lines, waiting = {"memory": reads}, {"memory": of_memory}
    if machine.l3 is not None and "l3_hits" in counts:
        lines["l3"] = column(counts, "l3_hits") + column(counts, "core_forwards")
        waiting["l3"] = l3_time(machine, counts)
    hits = _l2_hits(counts)
    if hits is not None and machine.l2.latency is not None:
        lines["l2"] = hits
        waiting["l2"] = lines["l2"] * machine.l2.latency.value
    buffers = machine.pipeline.load_misses.value * cores_used
    in_buffers = core.in_buffers(instructions, lines, waiting) / buffers
    return core.stalls(instructions, lines, waiting) / cores_used, in_buffers
