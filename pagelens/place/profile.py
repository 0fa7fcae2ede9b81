"""Counts what a program asks of memory, object by object and interval by interval, below a machine's caches.

One replay makes it: the program's lines go through the private caches and the L3 of one group of cores, on
frames in a row. The lines that are left are those of memory, each with its object and interval. Where an
object lies does not change them, so every placement is evaluated from these counts (docs/place.md).
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pagelens import _core
from pagelens.accesses.workload import Cut, ObjectInfo, Timeline, Workload
from pagelens.machine import CoreTimes, Machine
from pagelens.place.memory_traffic import sampled_sets, traffic
from pagelens.replay.core_model import core_model
from pagelens.replay.stretches import Counts

Floats = NDArray[np.float64]

INTERVALS = 96  # of a run, about; resources overlap within one, and not across


@dataclass(frozen=True)
class Profile:
    """The lines that memory moves for all ranks, and the bytes of one rank.

    [i] are intervals, [m] moments, and [o] objects.
    """

    name: str
    machine: Machine
    ranks: int
    cores_used: int
    objects: Sequence[ObjectInfo]
    can_be_placed: NDArray[np.bool_]  # [o]
    phases: Sequence[str]  # [i] that the interval lies in
    counts: Counts  # [i] by name: instructions, and all but lines of memory that `tiered_times` reads
    reads: Floats  # [i, o] lines that memory reads
    writes: Floats  # [i, o] and writes
    accesses: Floats  # [o] lines below L1 of one rank
    in_sequence: Floats  # [o] share of these near where the thread used the object last: a prefetcher's
    threads: NDArray[np.uint32]  # [o] of a rank, that use it
    course: Floats  # [m, o] bytes live at every moment of the run
    live_bytes: Floats  # [m, o] the same without moments that ask for nothing more than another
    simulated: float  # share of the lines, by `pagelens.replay.whole_node.excerpts`
    core: CoreTimes | None = None  # [i] of the program's instructions; None: issued at full width

    @property
    def bytes(self) -> Floats:
        """The most bytes of each object [o] that live at a time."""
        return np.asarray(self.live_bytes.max(axis=0))

    @property
    def footprint_bytes(self) -> float:
        """The most bytes that all placeable objects have at a time."""
        return float(self.live_bytes[:, self.can_be_placed].sum(axis=1).max())

    @property
    def worth_placing(self) -> NDArray[np.intp]:
        """The indices of placeable objects whose lines memory moves."""
        return np.flatnonzero(self.can_be_placed & (self.traffic > 0) & (self.bytes > 0))

    @property
    def lifetime(self) -> Floats:
        """The share of the run's moments at which each object [o] lives."""
        return np.asarray((self.course > 0).mean(axis=0))

    @property
    def traffic(self) -> Floats:
        """The lines of each object [o] that memory reads and writes."""
        return np.asarray((self.reads + self.writes).sum(axis=0))


def profile(
    workload: Workload,
    machine: Machine,
    ranks: int,
    course: Timeline | None = None,
    cancel: _core.CancelFlag | None = None,
) -> Profile:
    """Return the profile of `ranks` copies.

    Makes the workload's `course` unless given. Raises _core.Cancelled.
    """
    course = course or timeline(workload, machine, ranks)
    found = traffic(course, machine, ranks, workload.threads, cancel)
    of_threads = np.asarray(course.program.instructions, dtype=np.float64)
    return Profile(
        name=workload.name,
        machine=machine,
        ranks=ranks,
        cores_used=min(machine.cores.count.value, ranks * workload.threads),
        objects=workload.objects,
        can_be_placed=np.array([known.placeable for known in workload.objects]),
        phases=course.interval_phases,
        counts={
            **found.counts,
            "instructions": ranks * of_threads.reshape(course.program.phases, -1).sum(axis=1),
        },
        reads=found.reads,
        writes=found.writes,
        accesses=found.accesses,
        in_sequence=found.in_sequence,
        threads=found.threads,
        course=course.live_bytes,
        live_bytes=without_dominated(course.live_bytes),
        simulated=found.simulated,
        core=core_of_intervals(workload, machine, course),
    )


def core_of_intervals(workload: Workload, machine: Machine, course: Timeline) -> CoreTimes | None:
    """Return what a core takes for the instructions of each interval, as `explain` models it."""
    model = core_model(workload.samples, len(workload.phases), machine)
    if model is None:
        return None
    number = {name: index for index, name in enumerate(workload.phases)}
    return model.times.of_rows(np.array([number[name] for name in course.interval_phases], dtype=np.int64))


def timeline(workload: Workload, machine: Machine, ranks: int) -> Timeline:
    """Return the workload's course for `profile`. That of a long trace has a sample of its lines."""
    return workload.timeline(profiled_cut(workload, machine, ranks))


def profiled_cut(workload: Workload, machine: Machine, ranks: int | None) -> Cut:
    """Return the cut of `timeline`, for `open_trace`.

    With `ranks` None, as many ranks run as fill the machine's cores.
    """
    ranks = ranks or max(1, machine.cores.count.value // workload.threads)
    return Cut(machine, INTERVALS, sampled_sets(workload, machine, ranks))


def without_dominated(live_bytes: Floats) -> Floats:
    """Return the live bytes [m, o] without moments that need no more of anything than another moment."""
    rows = np.unique(live_bytes, axis=0)
    rows = rows[np.argsort(-rows.sum(axis=1), kind="stable")]  # nothing dominates what has more in all
    kept: list[Floats] = []
    for row in rows:
        if not any((row <= other).all() for other in kept):
            kept.append(row)
    return np.array(kept)
