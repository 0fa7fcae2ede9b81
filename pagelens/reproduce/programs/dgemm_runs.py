"""Runs DGEMM on a fleet: draws the frames of each run, and sums up the runs."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pagelens.machine import Machine
from pagelens.reproduce.programs.dgemm import Dgemm, DgemmRun
from pagelens.reproduce.programs.pages import PAGE_BYTES, Numbers, frames_of, random_frames

GIB_PAGES = (1 << 30) // PAGE_BYTES  # pages of 2 MiB in one of 1 GiB
SLOW = 1.10  # times the fastest run
BLOCKS_A_CORE = 69  # of C, 40,000^2 on 24 cores: 166 blocks of A x 10 panels of B

Floats = NDArray[np.float64]


class Frames:
    """Draws 2 MiB frames for a program's pages. The same number of a run always gives the same frames."""

    def __init__(self, machine: Machine, program: Dgemm, seed: int) -> None:
        self._machine, self._program, self._seed = machine, program, seed
        self._pool = frames_of(machine)
        self._colours = _colours(machine, self._pool)

    def random(self, number: int) -> Numbers:
        """Draw frames without replacement."""
        return random_frames(self._machine, self._program.pages, self._seed, number)

    def contiguous(self, number: int) -> Numbers:
        """Return the beginning of one of the 1 GiB pages."""
        first = np.random.default_rng([self._seed, number]).integers(self._pool // GIB_PAGES) * GIB_PAGES
        return (first + np.arange(self._program.pages)).astype(np.uint64)

    def coloured(self, number: int) -> Numbers:
        """Draw workspace frames of the colours that the first pages of memory have, and the rest anywhere."""
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
    """Runs with one kind of pages. The arrays have one entry for each run."""

    runs: Sequence[DgemmRun]

    def total(self, name: str) -> Floats:
        """Return a counter, summed over all cores, for each run."""
        return np.array([run.total(name) for run in self.runs])

    def by_core(self, name: str) -> Floats:
        """Return a counter for each [run, core]."""
        return np.array([run.counts[name] for run in self.runs])

    @property
    def overlapped(self) -> Floats:
        """Seconds by the time model, of the slowest core, for which the others wait."""
        return np.array([run.time_s.max() for run in self.runs])

    @property
    def serial(self) -> Floats:
        """Seconds of the slowest core if no waiting overlaps arithmetic."""
        return np.array([run.serial_s.max() for run in self.runs])

    def exposed(self, at_a_time: int = 1) -> Floats:
        """Return the seconds of the slowest core if hits of the L3 are hidden and reads of DRAM are not.

        A core waits for `at_a_time` reads together.
        """
        return np.array([(run.issue_s + run.reads_s / at_a_time).max() for run in self.runs])

    @property
    def scheduled(self) -> Floats:
        """The exposed seconds with dynamic scheduling of blocks (`dynamic`), as in HPL's update."""
        of_cores = np.array([run.issue_s + run.reads_s for run in self.runs])
        return dynamic(of_cores / BLOCKS_A_CORE, BLOCKS_A_CORE)

    @property
    def slow(self) -> NDArray[np.bool_]:
        """Which runs are slow by the exposed time."""
        return np.asarray(self.exposed() > SLOW * self.exposed().min())


def dynamic(block_s: Floats, blocks_a_core: int) -> Floats:
    """Return the seconds until all blocks are done, for each [run].

    `block_s` holds the seconds for one block on each [run, core]. A core takes the next block as soon as it
    is free. With static scheduling, each core has as many blocks as the others, and all would wait for the
    slowest.
    """
    runs, cores = block_s.shape
    every, free_at = np.arange(runs), np.zeros_like(block_s)
    for _ in range(blocks_a_core * cores):
        first = free_at.argmin(axis=1)
        free_at[every, first] += block_s[every, first]
    return np.asarray(free_at.max(axis=1))


def _colours(machine: Machine, pool: int) -> NDArray[np.int64]:
    """Return a colour for each 2 MiB frame. Frames of one colour agree in the slices of all their lines."""
    assert machine.snoop_filter is not None
    form = machine.snoop_filter.slice_hash()
    assert form is not None
    places = np.uint64(1) << np.arange(6, 21, dtype=np.uint64)
    addresses = np.arange(pool, dtype=np.uint64)[:, None] * np.uint64(PAGE_BYTES) + places[None, :]
    slices = form.hash()(addresses.ravel()).reshape(pool, len(places))
    return np.unique(slices, axis=0, return_inverse=True)[1].reshape(-1)
