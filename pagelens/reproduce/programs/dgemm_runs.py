"""DGEMM on a fleet: the frames of its runs, and what they come to together."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pagelens.machine import Machine
from pagelens.reproduce.programs.dgemm import Dgemm, DgemmRun
from pagelens.reproduce.programs.pages import PAGE_BYTES, Numbers, frames_of, random_frames

GIB_PAGES = (1 << 30) // PAGE_BYTES
SLOW = 1.10  # times the fastest run
BLOCKS_A_CORE = 69  # of C, 40,000^2 on 24 cores: 166 blocks of A x 10 panels of B

Floats = NDArray[np.float64]


class Frames:
    """Numbers of frames of 2 MiB for a program's pages; a run has the same ones whenever it is asked for."""

    def __init__(self, machine: Machine, program: Dgemm, seed: int) -> None:
        self._machine, self._program, self._seed = machine, program, seed
        self._pool = frames_of(machine)
        self._colours = _colours(machine, self._pool)

    def random(self, number: int) -> Numbers:
        """Drawn without putting back."""
        return random_frames(self._machine, self._program.pages, self._seed, number)

    def contiguous(self, number: int) -> Numbers:
        """The beginning of one of the pages of 1 GiB."""
        first = np.random.default_rng([self._seed, number]).integers(self._pool // GIB_PAGES) * GIB_PAGES
        return (first + np.arange(self._program.pages)).astype(np.uint64)

    def coloured(self, number: int) -> Numbers:
        """The workspace on frames of the colours that the first pages of memory have, the rest anywhere."""
        free = np.random.default_rng([self._seed, number]).permutation(self._pool)
        colours = self._colours[: self._program.workspace_pages]
        frames = []
        for colour in colours:
            place = int(np.argmax(self._colours[free] == colour))  # the first of that colour
            frames.append(free[place])
            free = np.delete(free, place)
        return np.array([*frames, *free[: self._program.pages - len(frames)]], dtype=np.uint64)


@dataclass(frozen=True)
class Runs:
    """Runs with one kind of pages; arrays have an entry a run."""

    runs: Sequence[DgemmRun]

    def total(self, name: str) -> Floats:
        """A counter of all cores."""
        return np.array([run.total(name) for run in self.runs])

    def by_core(self, name: str) -> Floats:
        """[run, core]"""
        return np.array([run.counts[name] for run in self.runs])

    @property
    def overlapped(self) -> Floats:
        """Seconds by the time model: of the slowest core, for which the others wait."""
        return np.array([run.time_s.max() for run in self.runs])

    @property
    def serial(self) -> Floats:
        """Seconds of the slowest core if no waiting overlaps arithmetic: the other bound."""
        return np.array([run.serial_s.max() for run in self.runs])

    @property
    def scheduled(self) -> Floats:
        """The same where a core takes a block when it has done one (`dynamic`), as in HPL's update."""
        return dynamic(np.array([run.serial_s for run in self.runs]) / BLOCKS_A_CORE, BLOCKS_A_CORE)

    @property
    def slow(self) -> NDArray[np.bool_]:
        """By the other bound: by the time model none is."""
        return np.asarray(self.serial > SLOW * self.serial.min())


def dynamic(block_s: Floats, blocks_a_core: int) -> Floats:
    """[run] seconds until all blocks are done, of [run, core] seconds that each core takes for one.

    Each takes the next as soon as it is free. If each had as many as the others (static scheduling), all
    would wait for the slowest.
    """
    runs, cores = block_s.shape
    every, free_at = np.arange(runs), np.zeros_like(block_s)
    for _ in range(blocks_a_core * cores):
        first = free_at.argmin(axis=1)
        free_at[every, first] += block_s[every, first]
    return np.asarray(free_at.max(axis=1))


def _colours(machine: Machine, pool: int) -> NDArray[np.int64]:
    """A number of each frame of 2 MiB: frames of one number have the same slice at every place in them."""
    assert machine.snoop_filter is not None
    form = machine.snoop_filter.slice_hash()
    assert form is not None
    places = np.uint64(1) << np.arange(6, 21, dtype=np.uint64)
    addresses = np.arange(pool, dtype=np.uint64)[:, None] * np.uint64(PAGE_BYTES) + places[None, :]
    slices = form.hash()(addresses.ravel()).reshape(pool, len(places))
    return np.unique(slices, axis=0, return_inverse=True)[1].reshape(-1)
