"""One replay on a machine with a memory-side cache: a compiled program on one placement; counters out.

Machines without one have a replay of their own (pagelens/node_replay.py).
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from pagelens import _core
from pagelens.errors import UsageError
from pagelens.machine import Machine

COUNTERS: tuple[str, ...] = tuple(_core.counter_names())
SAMPLED_SLOTS = 64  # one slot in this many is simulated ...
SAMPLED_LINES = 2  # ... and this many of its 64 lines: the lines of a page share its fate
FEWEST_SAMPLED = 1024  # slots, and pages of the job, as far as there are as many
MOST_COLOUR_BITS = 4
MAP_BINS = 8192  # of the map of slots (64 x 128)
# Sections that are replayed, here or in translation.py.
_IN_CACHE_MODE = (
    "cores",
    "l1",
    "l2",
    "tlb",
    "page_walk",
    "memory_side_cache",
    "fast_memory",
    "ddr",
    "counters",
)

Counts = NDArray[np.uint64]


def left_out(machine: Machine) -> list[str]:
    """The sections that the machine states and a replay of its program leaves out."""
    known = _IN_CACHE_MODE if machine.memory_side_cache is not None else machine.sections
    return [name for name in machine.sections if name not in known]


def hierarchy(machine: Machine, page_bits: int) -> _core.Hierarchy:
    """What is left to simulate of a machine for a program compiled for pages of 2^page_bits bytes."""
    l2_left = machine.l2 not in machine.caches_below(page_bits)
    return _core.Hierarchy(
        l2_sets=machine.l2.sets if l2_left else 0,
        l2_ways=machine.l2.ways.value,
        l2_shared_by=machine.l2.shared_by.value,
        slots=machine.slots if machine.memory_side_cache is not None else 0,
        ways=machine.ways,
    )


def sampled_slots(machine: Machine, job_pages: int) -> int:
    """One slot in how many is simulated: of a small cache or job more, so that enough remain."""
    fewest = min(machine.slots, job_pages) if machine.memory_side_cache is not None else job_pages
    enough = max(1, fewest // FEWEST_SAMPLED)
    return min(SAMPLED_SLOTS, 1 << (enough.bit_length() - 1))


def replay(
    program: _core.Program,
    machine: Machine,
    placement: _core.Placement,
    page_bits: int,
    *,
    ranks: int,
    seed: int,
    node: int,
    ideal: bool = False,
    sampled: int | None = None,
    cancel: _core.CancelFlag | None = None,
) -> _core.Counters:
    """Counts of `ranks` copies of a program, scaled to the whole node; raises _core.Cancelled when cancelled.

    `page_bits` is what the program was compiled for (the policy's). The GIL is released meanwhile. `ideal`
    also feeds the fully associative twin, whose counts are the machine's own where the machine is ideal.
    One slot in `sampled` is simulated; without it, as for a job that fills the machine.
    """
    below = hierarchy(machine, page_bits)
    modulus = sampled or sampled_slots(machine, machine.frames)
    l2_colours = machine.l2.sets // 64  # pages that lie in different sets of it
    colour_bits = min(MOST_COLOUR_BITS, l2_colours.bit_length() - 1, modulus.bit_length() - 1)
    try:
        counters = _core.replay(
            program,
            placement,
            below,
            ranks=ranks,
            sampling=_core.Sampling.draw(seed, node, colour_bits, modulus, SAMPLED_LINES),
            scaled=True,
            two_way=machine.memory_side_cache is not None,
            ideal=(ideal or machine.ideal) and machine.memory_side_cache is not None,
            map_bins=min(MAP_BINS, machine.slots),
            seed=seed,
            node=node,
            cancel=cancel if cancel is not None else _core.CancelFlag(),
        )
    except _core.OutOfMemory as error:
        raise UsageError(f"--ranks: {ranks} on {machine.name}: {error}") from None
    if machine.ideal:
        _take_the_twins(counters)
    return counters


def _take_the_twins(counters: _core.Counters) -> None:
    """Makes the fully associative twin's counts those of the machine: nothing there is a conflict."""
    table = counters.table
    for own, twin in (
        ("msc_misses", "ideal_misses"),
        ("msc_read_misses", "ideal_read_misses"),
        ("ddr_writes", "ideal_ddr_writes"),
    ):
        table[:, :, COUNTERS.index(own)] = table[:, :, COUNTERS.index(twin)]
    table[:, :, COUNTERS.index("conflict_evictions")] = 0
    counters.collisions[:] = 0


def by_phase(counters: _core.Counters) -> Mapping[str, Counts]:
    """Counts a phase, summed over objects, by name: COUNTERS and what follows from them.

    Those are ddr_reads and msc_hits.
    """
    sums = counters.table.sum(axis=1)
    counts = {name: sums[:, index] for index, name in enumerate(COUNTERS)}
    counts["ddr_reads"] = counts["msc_misses"]
    counts["msc_hits"] = counts["msc_reads"] + counts["msc_writes"] - counts["msc_misses"]
    return counts
