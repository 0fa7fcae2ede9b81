"""Trials: each has a page map of its own, and is visited twice.

A mapping made in the place of one that was just given back gets its frames again, in the order in which they
were freed. So the next trial's memory is mapped before that of the last one goes, and while a ballast
(probes/ballast.hpp) has put free frames into another order and holds some; how many of its frames are new is
recorded. (Compared page by page the frames differ even where the same ones come back in another order.)

    trial 0   ballast  map   visit ........................ visit  unmap
    trial 1                          ballast  map   visit ........ visit  unmap
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

import numpy as np
from numpy.typing import NDArray

from pagelens import _probes
from pagelens.measure.load import Load, LoadMeter
from pagelens.measure.pages import PageSize

BUSY = 4  # visits in a row that stay disturbed

Floats = NDArray[np.float64]
Counters = dict[str, float]


@dataclass(frozen=True)
class Point:
    """One thing that is timed on every page map: a kernel with its parameters."""

    labels: dict[str, str | int]  # what tells it from the other points
    run: Callable[[_probes.Memory], Floats]  # seconds of each repetition
    amount: float  # what a repetition does: bytes, updates, loads, operations


@dataclass(frozen=True)
class Visit:
    """All points, once, on a trial's map. `attempts`: 1, and one more for each that was disturbed."""

    seconds: tuple[Floats, ...]  # of each point's repetitions
    load: Load
    attempts: int
    counters: tuple[Counters, ...]  # of each point; empty where the machine has none


@dataclass(frozen=True)
class Trial:
    """One page map. `number` counts from 0 within its page size."""

    number: int
    page: PageSize
    frames: NDArray[np.uint64]  # of each 4 KiB page; empty where the kernel does not show them
    large_share: float | None  # of the memory that lies in large pages
    new_share: float | None  # of its frames, those that neither of the two trials before had
    visits: tuple[Visit, ...] = field(repr=False)

    @property
    def disturbed(self) -> bool:
        """Whether a visit stayed disturbed, however often it was repeated."""
        return any(visit.load.disturbed for visit in self.visits)


@dataclass(frozen=True)
class Setup:
    """What is measured, and how often."""

    points: Sequence[Point]
    pages: Sequence[PageSize]  # trials go round over them
    memory_bytes: int  # of a trial
    arrays: Sequence[int]  # where they begin in it, bytes
    cpus: Sequence[int]
    trials: int
    seed: int
    retries: int  # of a disturbed visit
    ballast_bytes: int  # 0: the kernel hands out what it would
    scatter: float  # share of the ballast that is held while a trial's small pages are mapped
    overlapped: bool  # two trials' memory at a time; without it, visits follow each other at once
    count: Callable[[Callable[[], Floats]], tuple[Floats, Counters]]  # runs it with the counters on


class _Patience:
    """Disturbed visits are repeated, until so many in a row stayed disturbed: the machine is just busy."""

    def __init__(self, retries: int) -> None:
        self.retries = retries
        self._in_a_row = 0

    def saw(self, disturbed: bool) -> None:
        """What became of a visit."""
        self._in_a_row = self._in_a_row + 1 if disturbed else 0
        if self._in_a_row == BUSY:
            self.retries = 0


class _Open:
    """A trial under way, with its memory."""

    def __init__(
        self,
        setup: Setup,
        patience: _Patience,
        number: int,
        page: PageSize,
        before: Sequence[NDArray[np.uint64]],
    ) -> None:
        self._setup, self._patience, self._number, self._page = setup, patience, number, page
        self._memory = _mapped(setup, number, page)
        self._visits: list[Visit] = []
        self.frames = self._memory.frames()
        known = len(before) > 0 and self.frames.size > 0
        self._new = float(1 - np.isin(self.frames, np.concatenate(before)).mean()) if known else None

    def visit(self) -> None:
        """Runs all points; again where that was disturbed, and keeps the least disturbed."""
        found: list[Visit] = []
        while not found or (found[-1].load.disturbed and len(found) <= self._patience.retries):
            meter = LoadMeter()
            timed = [self._setup.count(partial(point.run, self._memory)) for point in self._setup.points]
            seconds, counters = zip(*timed, strict=True)
            found.append(Visit(seconds, meter.stop(), len(found) + 1, counters))
        least = min(found, key=lambda visit: visit.load.others)
        self._patience.saw(least.load.disturbed)
        self._visits.append(replace(least, attempts=len(found)))

    def close(self) -> Trial:
        large = self._memory.large_share()
        self._memory.release()
        return Trial(self._number, self._page, self.frames, large, self._new, tuple(self._visits))


def _mapped(setup: Setup, number: int, page: PageSize) -> _probes.Memory:
    if not setup.ballast_bytes:
        return page.map(setup.memory_bytes, setup.cpus, setup.arrays)
    kept = 0.0 if page.pool else setup.scatter  # a pool's pages are as long as pieces anyhow
    ballast = page.ballast(setup.ballast_bytes, setup.cpus, kept, setup.seed + number)
    try:
        return page.map(setup.memory_bytes, setup.cpus, setup.arrays)
    finally:
        ballast.release()


def run_trials(setup: Setup, stopped: Callable[[], bool]) -> Iterator[Trial]:
    """Each as it is complete; ends early, with whole trials only, once `stopped` says so."""
    waiting: _Open | None = None
    patience = _Patience(setup.retries)
    frames: dict[str, list[NDArray[np.uint64]]] = {page.name: [] for page in setup.pages}
    try:
        for number in range(setup.trials):
            for page in setup.pages:
                if stopped():
                    return
                trial = _Open(setup, patience, number, page, frames[page.name])
                frames[page.name] = [*frames[page.name][-1:], trial.frames]
                trial.visit()
                if not setup.overlapped:
                    waiting = trial
                if waiting is not None:
                    waiting.visit()
                    yield waiting.close()
                waiting = trial if setup.overlapped else None
        if waiting is not None and not stopped():
            waiting.visit()
            yield waiting.close()
            waiting = None
    finally:
        if waiting is not None:
            waiting.close()
