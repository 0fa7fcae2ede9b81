"""One other way of doing a program's operations, and what several ways compute alike."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import polars as pl

from pagelens.io import classify as paths
from pagelens.io.predict import Cost, Floats
from pagelens.io.recording import Recording
from pagelens.machine import Io

BUFFERED = (paths.WRITE, paths.OVERWRITE, paths.READ, paths.COLD_READ, paths.SCATTERED_READ)


@dataclass(frozen=True)
class Option:
    """One way. Its cost is known for each operation, and NaN where nobody knows it."""

    key: str
    title: str
    effort: str  # what somebody must do or give up
    cost: Cost
    wall: Floats | None = None  # of each operation, where threads share it; None: processor time and waiting
    other_s: float = 0.0  # what the rest of the program then takes longer
    applied_by: str = ""  # the options of `pagelens io run` that do it, or nothing

    @property
    def wall_s(self) -> Floats:
        """The wall time of each operation."""
        return wall_of(self.cost) if self.wall is None else self.wall


@dataclass(frozen=True)
class Run:
    """The run of a program beyond its operations on files."""

    elapsed_s: float = 0.0
    busy_cores: float = 0.0  # processor time over elapsed time; 0: not known
    cores: int = 1  # that the machine has


def run_of(recording: Recording, cores: int) -> Run:
    """Return what a recording says of the whole run on a machine with so many cores."""
    elapsed = (recording.header.elapsed_ns or 0) / 1e9
    cpu = sum(process.cpu_ns or 0 for process in recording.header.processes) / 1e9
    return Run(elapsed, cpu / elapsed if elapsed > 0 else 0.0, cores)


def wall_of(cost: Cost) -> Floats:
    """Return the wall time of operations that nobody shares. What is not known counts as nothing."""
    return np.where(np.isnan(cost.cpu_s), 0.0, cost.cpu_s) + cost.wait_s


def speed_up(io: Io, writers: int) -> float:
    """Return how many times as fast several writers are as one, as far as it was measured.

    With n writers of the rate r and a node that takes W, the rate is 1 / (1/(n r) + 1/W). r/W follows from
    the measured rate of `io.writers` writers. That of two writers may have been measured, too. More of them
    than cores gain nothing more.
    """
    if io.writers is None or io.writers_apart is None:
        return 1.0
    if writers == 2 and io.two_writers_apart is not None:
        return io.two_writers_apart.value
    most, measured = io.writers.value, io.writers_apart.value
    if measured <= 1 or most == 1:
        return 1.0
    shared = max(1 - measured / most, 0.0) / (measured - 1)
    return (1 + shared) / (1 / min(writers, most) + shared)


def buffered(frame: pl.DataFrame) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    """Return which operations are buffered transfers."""
    return frame["path"].is_in(BUFFERED).to_numpy()


def sizes_of(frame: pl.DataFrame) -> Floats:
    """Return the bytes of operations."""
    return frame["bytes"].to_numpy().astype(np.float64)


def copy_s(io: Io, sizes: Floats) -> Floats:
    """Return the seconds in which the program copies so many bytes."""
    return sizes / io.copying.value if io.copying is not None else np.zeros_like(sizes)
