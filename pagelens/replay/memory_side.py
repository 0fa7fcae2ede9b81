"""Replays a compiled program on one placement, on a machine with a memory-side cache, and returns counters.

Machines without such a cache have a replay of their own (pagelens/replay/whole_node.py).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

import numpy as np
from numpy.typing import NDArray

from pagelens import _core
from pagelens.accesses.workload import ALL_SETS
from pagelens.address.units import FRAME_BYTES, LINE_BYTES
from pagelens.errors import UsageError
from pagelens.machine import Machine
from pagelens.replay.mechanisms import PAGE_WALKS
from pagelens.replay.ordered_lines import rows_are_timed
from pagelens.replay.whole_node import caches_below_l1, mechanisms_by_replay

COUNTERS: tuple[str, ...] = tuple(_core.counter_names())
# Counters of shared caches, by phase. Counts of L2 that are elsewhere by object are by phase, too.
OF_SHARED_CACHES = ("l3_hits", "l3_misses", "core_forwards", "sf_evictions", "l2_back_invalidations")
_L2_COUNTS = {
    "l2_accesses": "l2_references", "l2_misses": "l2_misses", "l2_write_backs": "l2_writebacks"
}  # fmt: skip
SAMPLED_SLOTS = 64  # one slot in this many is simulated ...
_LINES = 2  # ... and this many of its 64 lines: the lines of a page share its fate
_HALVINGS = 1  # L2s and L3 are simulated for all pages of 2^-n of the colours
# Less is simulated where caches before the memory-side one take most of the time: an L3, or L2s that all ops
# go through. (What L2s do to declared loops mostly follows from the loops.)
_LINES_OF_LESS, _HALVINGS_OF_LESS = 1, 2
FEWEST_SAMPLED = 1024  # slots, and pages of the job, as far as there are as many
MOST_COLOUR_BITS = 4
MAP_BINS = 8192  # of the map of slots (64 x 128)
# The sections that are replayed here or in translation.py.
_IN_CACHE_MODE = (
    "cores",
    "pipeline",
    "l1",
    "l2",
    "tlb",
    "page_walk",
    "memory_side_cache",
    "fast_memory",
    "ddr",
    "counters",
    "firmware",  # of where frames lie, which placements know
    "io",  # of files, which no replay has
)

Counts = NDArray[np.uint64]
Floats = NDArray[np.float64]


def left_out(machine: Machine) -> list[str]:
    """Return the sections that the machine states and that a replay leaves out."""
    if machine.memory_side_cache is None:
        return []
    known = [*_IN_CACHE_MODE, *(("l3", "snoop_filter") if machine.l3 is not None else ())]
    if rows_are_timed(machine):
        known.append("dram")
    return [name for name in machine.sections if name not in known]


def mechanisms_of_caches(machine: Machine) -> tuple[str, ...]:
    """Return the mechanisms of shared caches in front of the memory-side one.

    `replay` can remove them.
    """
    if machine.l3 is None:
        return ()
    return tuple(name for name in mechanisms_by_replay(machine) if name != PAGE_WALKS)  # translation.py's


def hierarchy(
    machine: Machine,
    page_bits: int,
    without: Collection[str] = (),
    seed: int = 0,
    sampled_share: float = 1.0,
) -> _core.Hierarchy:
    """Return the part of a machine to simulate for a program compiled for pages of 2^page_bits bytes.

    `sampled_share` is the share of a cache's lines that the sample has.
    """
    caches = None
    if machine.l3 is not None:
        caches = caches_below_l1(machine, without, seed, ideal_share=sampled_share)
    l2_left = caches is None and machine.l2 not in machine.caches_below(page_bits)
    return _core.Hierarchy(
        l2_sets=machine.l2.sets if l2_left else 0,
        l2_ways=machine.l2.ways.value,
        l2_shared_by=machine.l2.shared_by.value,
        slots=machine.slots if machine.memory_side_cache is not None else 0,
        ways=machine.ways,
        caches=caches,
    )


def _memory_side_alone(machine: Machine) -> _core.Hierarchy:
    return _core.Hierarchy(l2_sets=0, l2_ways=1, l2_shared_by=1, slots=machine.slots, ways=machine.ways)


def _colours(machine: Machine) -> int:
    """Return the number of pages in different sets of every cache in front of the memory-side one."""
    sets = [machine.l2.sets]
    if machine.l3 is not None:
        sets.append(machine.l3.sets)
        if machine.snoop_filter is not None:
            sets.append(machine.snoop_filter.sets.value)
    return max(1, min(sets) * LINE_BYTES // FRAME_BYTES)


def sampled_pages(machine: Machine, more: bool) -> tuple[int, int]:
    """Return how many lines of a page are simulated, and how often the simulated colours are halved.

    They are the same for all policies, also for those under which no L2 is left to simulate.
    """
    if more and machine.l3 is None:
        return _LINES, _HALVINGS
    return _LINES_OF_LESS, _HALVINGS_OF_LESS


def sampled_slots(machine: Machine, job_pages: int) -> int:
    """Return n if one slot in n is simulated.

    More are simulated of a small cache or job, so that enough remain.
    """
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
    without: Collection[str] = (),
    past_caches: bool = False,
    more: bool = True,
    among: int = ALL_SETS,
    rows: _core.RowModel | None = None,
    cancel: _core.CancelFlag | None = None,
) -> _core.Counters:
    """Return the counts of `ranks` copies of a program, scaled to the whole node.

    Declared loops and small jobs can have `more` lines simulated. Raises _core.Cancelled if it was cancelled.
    """
    modulus = sampled or sampled_slots(machine, machine.frames)
    colour_bits = min(MOST_COLOUR_BITS, _colours(machine).bit_length() - 1, modulus.bit_length() - 1)
    lines, halvings = sampled_pages(machine, more)
    halvings = min(halvings, max(1, colour_bits - 1), colour_bits)  # one colour alone would mislead
    sampled_share = lines * LINE_BYTES / FRAME_BYTES / 2**halvings
    below = (
        _memory_side_alone(machine)
        if past_caches
        else hierarchy(machine, page_bits, without, seed, sampled_share)
    )
    try:
        counters = _core.replay(
            program,
            placement,
            below,
            ranks=ranks,
            sampling=_core.Sampling.draw(seed, node, colour_bits, modulus, lines, halvings, among),
            scaled=True,
            two_way=machine.memory_side_cache is not None,
            ideal=(ideal or machine.ideal) and machine.memory_side_cache is not None,
            map_bins=min(MAP_BINS, machine.slots),
            seed=seed,
            node=node,
            rows=rows,
            cancel=cancel if cancel is not None else _core.CancelFlag(),
        )
    except _core.OutOfMemory as error:
        raise UsageError(f"--ranks: {ranks} on {machine.name}: {error}") from None
    if machine.ideal:
        _take_the_twins(counters)
    return counters


def _take_the_twins(counters: _core.Counters) -> None:
    """Make the fully associative twin's counts those of the machine, on which nothing conflicts."""
    table = counters.table
    for own, twin in (
        ("msc_misses", "ideal_misses"),
        ("msc_read_misses", "ideal_read_misses"),
        ("ddr_writes", "ideal_ddr_writes"),
    ):
        table[:, :, COUNTERS.index(own)] = table[:, :, COUNTERS.index(twin)]
    table[:, :, COUNTERS.index("conflict_evictions")] = 0


def by_phase(
    counters: _core.Counters, of_objects: Floats | None = None, of_caches: Floats | None = None
) -> Mapping[str, Counts | Floats]:
    """Return the counts of a phase by name, summed over objects: COUNTERS and what follows from them.

    Those are ddr_reads and msc_hits. Where cores share caches their counters are there, too. Of a program
    that has a sample of its lines all counts are by how much the whole has more: of_objects [phase, object],
    of_caches [phase].
    """
    if of_objects is None:
        sums = counters.table.sum(axis=1)
    else:
        sums = np.einsum("poc,po->pc", counters.table, of_objects)
    counts = {name: sums[:, index] for index, name in enumerate(COUNTERS)}
    if len(counters.caches):
        shared = dict(zip(_core.cache_counter_names(), counters.caches.T, strict=True))
        more = 1 if of_caches is None else of_caches
        counts |= {name: more * shared[name] for name in OF_SHARED_CACHES}
        counts |= {name: more * shared[counter] for name, counter in _L2_COUNTS.items()}
    counts["ddr_reads"] = counts["msc_misses"]
    counts["msc_hits"] = counts["msc_reads"] + counts["msc_writes"] - counts["msc_misses"]
    return counts
