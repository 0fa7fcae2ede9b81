"""Trials: each has a page map of its own, and is visited twice.

A mapping that replaces one that was just given back gets its frames again, in the order in which they were
freed. So the next trial's memory is mapped before that of the last one goes. Meanwhile a ballast
(probes/ballast.hpp) has put free frames into another order and holds some of them. The number of a trial's
new frames is recorded, because a comparison page by page shows other frames even if the same ones come back
in another order.

    trial 0   ballast  map   visit ........................ visit  unmap
    trial 1                          ballast  map   visit ........ visit  unmap
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import count

import numpy as np
from numpy.typing import NDArray

from pagelens import _probes
from pagelens.errors import Failure
from pagelens.host.load import Load, LoadMeter
from pagelens.measure.pages import PageSize

BUSY = 4  # visits in a row that stay disturbed: then they are not repeated, until one is quiet

Floats = NDArray[np.float64]
Counters = dict[str, float]


@dataclass(frozen=True)
class Point:
    """One thing that is timed on every page map: a kernel with its parameters."""

    labels: dict[str, str | int]  # tell the point from the others
    run: Callable[[_probes.Memory], Floats]  # seconds of each repetition
    amount: float  # what a repetition does, in bytes, updates, loads or operations


@dataclass(frozen=True)
class Visit:
    """One visit of a trial's map, which times all points.

    `attempts` is 1, plus 1 for each disturbed attempt.
    """

    seconds: tuple[Floats, ...]  # the times of each point's repetitions
    load: Load
    attempts: int
    place: int  # its place in the order of all visits
    counters: tuple[Counters, ...]  # the counters of each point; empty if the machine has none


@dataclass(frozen=True)
class Trial:
    """One page map. `number` counts from 0 within its page size."""

    number: int
    page: PageSize
    frames: NDArray[np.uint64]  # the frame of each 4 KiB page; empty if the kernel does not show them
    large_share: float | None  # the share of the memory that lies in large pages
    new_share: float | None  # the share of its frames that neither of the two trials before had
    visits: tuple[Visit, ...] = field(repr=False)

    @property
    def disturbed(self) -> bool:
        """Whether a visit stayed disturbed, however often it was repeated."""
        return any(visit.load.disturbed for visit in self.visits)


@dataclass(frozen=True)
class TrialSettings:
    """What is measured, and how often."""

    points: Sequence[Point]
    pages: Sequence[PageSize]  # trials go round over them
    memory_bytes: int  # the memory of a trial
    arrays: Sequence[int]  # their first bytes in it
    cpus: Sequence[int]
    trials: int
    seed: int
    retries: int  # how often a disturbed visit is repeated
    ballast_bytes: int  # 0: the kernel hands out what it would
    scatter: float  # share of the ballast that is held while a trial's small pages are mapped
    overlapped: bool  # two trials' memory at a time; without it, visits follow each other at once
    counted: Callable[[Callable[[], Floats]], tuple[Floats, Counters]]  # runs it with the counters on


class _Run:
    """What the trials of a run share."""

    def __init__(self, setup: TrialSettings, stopped: Callable[[], bool]) -> None:
        self.setup, self.stopped = setup, stopped
        self._places = count()
        self._busy = 0  # visits in a row that stayed disturbed

    def visit(self, memory: _probes.Memory) -> Visit:
        """Time all points once, undisturbed if possible.

        The least disturbed of a few attempts counts. There is only one attempt if the machine was just busy.
        """
        retries = self.setup.retries if self._busy < BUSY else 0
        found: list[Visit] = []
        while not found or (found[-1].load.disturbed and len(found) <= retries):
            meter = LoadMeter()
            timed = [self._timed(point, memory) for point in self.setup.points]
            seconds, counters = zip(*timed, strict=True)
            found.append(Visit(seconds, meter.stop(), 0, 0, counters))
        least = min(found, key=lambda visit: visit.load.others)
        self._busy = self._busy + 1 if least.load.disturbed else 0
        return replace(least, attempts=len(found), place=next(self._places))

    def _timed(self, point: Point, memory: _probes.Memory) -> tuple[Floats, Counters]:
        if self.stopped():
            raise _probes.Stopped
        try:
            return self.setup.counted(partial(point.run, memory))
        except (ValueError, OSError) as error:
            what = ", ".join(f"{name} {value}" for name, value in point.labels.items())
            raise Failure(f"measure: {what}: {error}") from None


class _Open:
    """A trial that is under way, with its memory."""

    def __init__(self, run: _Run, number: int, page: PageSize, before: Sequence[NDArray[np.uint64]]) -> None:
        self._run, self._number, self._page = run, number, page
        self._memory = _mapped(run.setup, number, page)
        self._visits: list[Visit] = []
        self.frames = self._memory.frames()
        known = len(before) > 0 and self.frames.size > 0
        self._new = float(1 - np.isin(self.frames, np.concatenate(before)).mean()) if known else None

    def visit(self) -> None:
        self._visits.append(self._run.visit(self._memory))

    def close(self) -> Trial:
        large = self._memory.large_share()
        self.release()
        return Trial(self._number, self._page, self.frames, large, self._new, tuple(self._visits))

    def release(self) -> None:
        self._memory.release()


def _mapped(setup: TrialSettings, number: int, page: PageSize) -> _probes.Memory:
    if not setup.ballast_bytes or page.exhausted:
        return page.map(setup.memory_bytes, setup.cpus, setup.arrays)
    kept = 0.0 if page.pool else setup.scatter  # a pool's pages are as long as pieces anyhow
    ballast = page.ballast(setup.ballast_bytes, setup.cpus, kept, setup.seed + number)
    try:
        return page.map(setup.memory_bytes, setup.cpus, setup.arrays)
    finally:
        ballast.release()


def run_trials(setup: TrialSettings, stopped: Callable[[], bool]) -> Iterator[Trial]:
    """Yield each trial when it is complete.

    Ends early, after a complete trial, once `stopped` says so or a kernel was stopped.
    """
    run = _Run(setup, stopped)
    open_trials: list[_Open] = []
    frames: dict[str, list[NDArray[np.uint64]]] = {page.name: [] for page in setup.pages}
    try:
        for number in range(setup.trials):
            for page in setup.pages:
                trial = _Open(run, number, page, frames[page.name])
                open_trials.append(trial)
                frames[page.name] = [*frames[page.name][-1:], trial.frames]
                trial.visit()
                if len(open_trials) == (2 if setup.overlapped else 1):
                    open_trials[0].visit()
                    yield open_trials.pop(0).close()
        while open_trials:
            open_trials[0].visit()
            yield open_trials.pop(0).close()
    except _probes.Stopped:
        return
    finally:
        for trial in open_trials:
            trial.release()
