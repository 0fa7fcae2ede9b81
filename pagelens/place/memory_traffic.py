"""Counts the lines that a program's objects move below the caches, interval by interval.

The lines of a long trace are scaled up from a sample (docs/decisions/place-sampling.md). The sample has some
sets of the caches. Of the cores that share an L3, it has the fewest that all have an equal part of it.
"""

import math
import os
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pagelens import _core
from pagelens.accesses.trace import TraceWorkload
from pagelens.accesses.workload import ALL_SETS, KERNEL, SampledLines, Timeline, Workload
from pagelens.machine import Machine
from pagelens.machine.time import TRANSLATION_COUNTS
from pagelens.replay.stretches import Counts
from pagelens.replay.whole_node import NodeCounts, Parts, node_model, replay_node, simulated_parts
from pagelens.values.quantities import Positive, Sourced

Floats = NDArray[np.float64]

# A long interval is simulated in so many stretches, if all sets are simulated, or a sample of them.
STRETCHES_OF_WHOLE, STRETCHES_OF_SAMPLE = 2, 8

# A trace with fewer bytes of events (about one per line) is simulated whole. So is one of which the ranks of
# a group together make less than this, because it takes less than a second.
FEWEST_SAMPLED, MOST_WHOLE = 1 << 20, 8 << 20
# The sample has one of each eight neighbouring lines of a page, at another place in each eight, so that steps
# of up to eight lines meet it equally often. Larger jobs have every second or every fourth of these lines.
SETS = tuple(8 * eighth + (5 * eighth + 2) % 8 for eighth in range(8))
FEWEST_SETS = 2
MOST_COPIES = 16  # of a page's lines that are simulated, times ranks
FEWEST_RANKS = 2  # ranks that share an L3 in a sample
FEWEST_L3_SETS = 256  # of a slice


@dataclass(frozen=True)
class Traffic:
    """The lines of all copies of a program, in interval [i] and of object [o]."""

    counts: Counts  # [i] by name: all but lines of memory and instructions that `tiered_times` reads
    reads: Floats  # [i, o] lines that memory reads
    writes: Floats  # [i, o] and writes; pages that the kernel clears are their objects'
    accesses: Floats  # [o] lines below L1 of one rank
    in_sequence: Floats  # [o] share of these near where the thread used the object last: a prefetcher's
    threads: NDArray[np.uint32]  # [o] of a rank, that use it
    simulated: float  # share of one rank's lines


def sampled_sets(workload: Workload, machine: Machine, ranks: int) -> int:
    """Return the lines to simulate for `ranks` copies of a program, as `Workload.timeline` takes them."""
    if not isinstance(workload, TraceWorkload):
        return ALL_SETS
    group, bytes_ = _ranks_of_a_group(machine, ranks, workload.threads), workload.trace.event_bytes
    if bytes_ < FEWEST_SAMPLED or bytes_ * group < MOST_WHOLE:
        return ALL_SETS
    _, simulated = _part_of_group(machine, group, workload.threads)
    step = 1
    while len(SETS) // step * simulated > MOST_COPIES and len(SETS) // step > FEWEST_SETS:
        step *= 2
    return sum(1 << place for place in SETS[step // 2 :: step])


def traffic(
    course: Timeline, machine: Machine, ranks: int, threads: int, cancel: _core.CancelFlag | None = None
) -> Traffic:
    """Return the traffic of `ranks` copies of a program with `threads` threads. Raises _core.Cancelled."""
    group = _ranks_of_a_group(machine, ranks, threads)
    if course.sample is None:
        return _whole(course.program, machine, ranks, group, cancel)
    return _sampled(course.program, course.sample, machine, ranks, group, cancel)


def _ranks_of_a_group(machine: Machine, ranks: int, threads: int) -> int:
    """Return how many ranks fill the cores of one L3, or of one L2 if there is no L3.

    All other ranks have caches and lines like theirs.
    """
    group = machine.l2.shared_by.value
    if machine.l3 is not None:
        shared_by = machine.l3.shared_by
        group = shared_by.value if shared_by is not None else machine.cores.count.value
    return max(1, min(ranks, math.ceil(group / threads)))


def _whole(
    program: _core.Program, machine: Machine, ranks: int, group: int, cancel: _core.CancelFlag | None
) -> Traffic:
    parts = simulated_parts(program, machine, group, STRETCHES_OF_WHOLE)
    found = _replayed(parts, machine, group, ALL_SETS, cancel)
    scale = ranks / group
    cleared, used, in_sequence, threads = _core.lines_by_object(program)
    writes = scale * found.object_writes
    writes[:, KERNEL] = 0  # they are the cleared lines, of whichever object the page is
    return Traffic(
        counts={name: scale * values for name, values in found.counts.items()},
        reads=scale * found.object_reads,
        writes=writes + ranks * cleared.reshape(writes.shape).astype(np.float64),
        accesses=used.astype(np.float64),
        in_sequence=in_sequence / np.maximum(used, 1),
        threads=threads,
        simulated=found.simulated,
    )


def _sampled(
    program: _core.Program,
    sample: SampledLines,
    machine: Machine,
    ranks: int,
    group: int,
    cancel: _core.CancelFlag | None,
) -> Traffic:
    """Replay the sets in as many parts as there are processors, and add up their counts."""
    machine, simulated = _part_of_group(machine, group, program.threads)
    parts = simulated_parts(program, machine, simulated, STRETCHES_OF_SAMPLE)
    divided = _divided(sample.sets, len(os.sched_getaffinity(0)))
    with ThreadPoolExecutor(len(divided), thread_name_prefix="pagelens-profile") as pool:
        running = [
            pool.submit(_replayed, parts, machine, simulated, sets, cancel, number == 0)
            for number, sets in enumerate(divided)
        ]
        cleared, used, *_ = _core.lines_by_object(program)
        _, touched, in_sequence, _ = _core.lines_by_object(program, True)
        found = [each.result() for each in running]
    scale = ranks / simulated
    sums = {name: np.sum([part.counts[name] for part in found], axis=0) for name in found[0].counts}
    counts = {
        name: scale
        * (_of_touched(each, sample) if name in TRANSLATION_COUNTS else sample.of_intervals * each)
        for name, each in sums.items()
    }
    # A line is often written in another interval than the one that used it.
    writes = scale * sample.of_objects * sum(part.object_writes for part in found)
    writes[:, KERNEL] = 0
    return Traffic(
        counts=counts,
        reads=scale * sample.of_both * sum(part.object_reads for part in found),
        writes=writes + ranks * cleared.reshape(writes.shape).astype(np.float64),
        accesses=used * sample.of_objects,
        in_sequence=in_sequence / np.maximum(touched, 1),
        threads=sample.threads,
        simulated=found[0].simulated * float(sample.kept.sum() / max(1.0, sample.seen.sum())),
    )


def _of_touched(counts: Floats, sample: SampledLines) -> Floats:
    """Scale counts of the lines that were touched up to all lines, for each interval [i].

    An interval without touched lines gets the rate of the whole run.
    """
    seen, touched = sample.seen.sum(axis=1), sample.touched
    average = counts.sum() / max(1.0, touched.sum())
    rates = np.divide(counts, touched, out=np.full(counts.shape, average), where=touched > 0)
    return np.asarray(seen * rates)


def _divided(sets: int, parts: int) -> list[int]:
    """Divide the sets into `parts` parts, or fewer if there are not as many sets."""
    places = [place for place in range(64) if sets >> place & 1]
    return [sum(1 << place for place in places[part::parts]) for part in range(min(parts, len(places)))]


def _replayed(
    parts: Parts,
    machine: Machine,
    ranks: int,
    sets: int,
    cancel: _core.CancelFlag | None,
    translating: bool = True,
) -> NodeCounts:
    """Replay one group of ranks, on frames in a row."""
    return replay_node(
        parts,
        _core.place_contiguously(machine.frames),
        node_model(machine, rows=(), writes_at_once=parts.writes_at_once),
        ranks=ranks,
        sets=sets,
        translating=translating,
        cancel=cancel,
    )


def _part_of_group(machine: Machine, ranks: int, threads: int) -> tuple[Machine, int]:
    """Return a machine with half of the ranks and of what they share, halved as often as possible.

    Ranks share no lines and run alike, so each rank keeps the same part of a shared cache.
    """
    l3, filter_ = machine.l3, machine.snoop_filter
    if l3 is None:
        return machine, ranks
    halvings = 0
    l2_shared_by = machine.l2.shared_by.value
    while (
        ranks % 2 == 0
        and ranks // 2 >= FEWEST_RANKS
        and (ranks // 2 * threads) % l2_shared_by == 0
        and l3.sets >> (halvings + 1) >= FEWEST_L3_SETS
        and (filter_ is None or filter_.sets.value >> (halvings + 1) >= FEWEST_L3_SETS)
    ):
        ranks //= 2
        halvings += 1
    if halvings == 0:
        return machine, ranks
    size = l3.size.model_copy(update={"value": l3.size.value >> halvings})
    cores = Sourced[Positive](value=ranks * threads, assumed="a part of the cores, with their part of L3")
    update: dict[str, object] = {"l3": l3.model_copy(update={"size": size, "shared_by": cores})}
    if filter_ is not None:
        sets = filter_.sets.model_copy(update={"value": filter_.sets.value >> halvings})
        update["snoop_filter"] = filter_.model_copy(update={"sets": sets})
    return machine.model_copy(update=update), ranks
