"""The cost of one placement for a workload: counts and seconds, by phase and by object."""

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from pagelens.machine import READ_FAULT_COUNTS, Times
from pagelens.replay.numa import NumaLines

Floats = NDArray[np.float64]
# Seconds [p] by the name of an assumed value and the factor on it (pagelens/replay/assumed.py).
IfAssumed = Mapping[tuple[str, float], Floats]
Removed = tuple[str, ...]  # names of mechanisms (pagelens/replay/mechanisms.py), in the order of attribution


@dataclass(frozen=True)
class Sampling:
    """The part of a job that is simulated and stands for the rest."""

    slots: int | None  # one slot of the memory-side cache in so many is simulated; None if there is no cache
    lines: int | None  # lines of each page; None: all lines, in stretches of the run (`simulated_share`)


@dataclass(frozen=True)
class LeftOut:
    """Seconds of a phase, estimated without one of the stretches of the run that were simulated.

    All placements of a simulation have the same stretches in the same order.
    """

    phase: NDArray[np.int64]  # [r]
    times: Times  # [r]


@dataclass(frozen=True)
class Run:
    """A workload on one placement. All counts are of the whole node, scaled up from what was simulated.

    [p] runs over the workload's phases, [o] over its objects (object 0: pages that the kernel clears).
    """

    counts: Mapping[str, Floats]  # [p] by the names of `Ensemble.placements`
    times: Times  # [p] seconds
    object_accesses: Floats  # [p, o] lines that pass the private caches
    object_misses: Floats  # [p, o] of these, in a memory-side cache
    object_conflict_evictions: Floats  # [p, o] lines that the object pushed out of it
    # [pair, 3]: two objects, and the lines of the second that the first pushed out
    collisions: NDArray[np.uint64] | None = None
    # The mean of each cell of neighbouring slots; all cells are equally large.
    pages_per_slot: Floats | None = None
    left_out: LeftOut | None = None  # None if nothing is sampled in time
    numa: NumaLines | None = None  # None for one NUMA node
    if_assumed: IfAssumed = field(default_factory=dict)  # empty unless the simulation varies assumed values


@dataclass(frozen=True)
class Attributed:
    """A run, and its time without its mechanisms."""

    run: Run
    seconds_without: Mapping[Removed, Floats]  # [p] seconds by what is removed; nothing removed: ()
    what_ifs: Mapping[str, Floats]  # [p] seconds of machines that no set of mechanisms describes


def instructions(ranks: int, of_threads: NDArray[np.uint64], phases: int) -> Floats:
    """Return the instructions [p] of all ranks, from those of one copy's threads [p x thread]."""
    table = np.asarray(of_threads, dtype=np.float64).reshape(phases, -1)
    return np.asarray(ranks * table.sum(axis=1))


def lines_past_l1(moved: Floats) -> dict[str, Floats]:
    """Return the time model's columns for what L1s move, which no placement changes.

    `moved` are the counts [p, 6] of `_core.moved_by_phase`.
    """
    return {"l1_fetches": moved[:, 0], "l1_write_backs": moved[:, 1]}


def read_faults(moved: Floats) -> dict[str, Floats]:
    """Return the columns of page faults of memory that is only read, from the same counts."""
    return dict(zip(READ_FAULT_COUNTS, moved[:, 4:].T, strict=True))
