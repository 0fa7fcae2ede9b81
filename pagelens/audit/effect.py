"""What the frames of a job cost it on a machine: in memory-side cache, DRAM banks and snoop filter."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pagelens.address.pages import Pages
from pagelens.address.units import HUGE_PAGE_FRAMES, LINE_BYTES
from pagelens.audit.model import SMALL, Effect
from pagelens.conflicts.predict import excess_shares, settle
from pagelens.conflicts.socket import Socket, knows_sets, socket_of
from pagelens.conflicts.windows import Windows
from pagelens.machine import Machine

Frames = NDArray[np.int64]

_MOST_WINDOWS = 200  # of what the L2s hold, evenly spaced over the job
_BANK_PAGES = 4096  # of each of the two streams, evenly spaced over its half


@dataclass(frozen=True)
class Yardstick:
    """The parts of a machine for which the choice of frames matters.

    `node_of` gives the NUMA node of each frame if every node has a memory-side cache of its own.
    """

    machine: Machine
    socket: Socket | None
    node_of: Callable[[Frames], NDArray[np.int64]] | None = None

    @staticmethod
    def of(machine: Machine, node_of: Callable[[Frames], NDArray[np.int64]] | None = None) -> "Yardstick":
        """Return the yardstick of a machine file."""
        shares = machine.snoop_filter is not None and knows_sets(machine)
        return Yardstick(machine, socket_of(machine) if shares else None, node_of)

    @property
    def decides_nothing(self) -> bool:
        """Whether the machine file describes none of these parts."""
        return not self.machine.memory_side_bytes and self.machine.dram is None and self.socket is None

    def effect(self, frames: Frames) -> Effect:
        """Return the effect on a job whose pages have these frames, in the order of its addresses."""
        banks, rows = self._banks(frames)
        mean, worst = self._snoop_filter(frames)
        return Effect(self._cache(frames), banks, rows, mean, worst)

    def _cache(self, frames: Frames) -> float | None:
        """Return the conflict share: the share of pages whose slot holds another page of the job."""
        if not self.machine.memory_side_bytes or not len(frames):
            return None
        slots = self.machine.slots
        at = frames % slots
        if self.node_of is not None:
            at = at + (self.node_of(frames) + 1) * slots
        pages = np.bincount(at)
        return float((pages[at] > 1).mean())

    def _banks(self, frames: Frames) -> tuple[float | None, float | None]:
        """Return the load of the most loaded bank, and the share of row conflicts.

        The load is the lines of that bank over the mean of all banks. For the row conflicts, two streams run
        in step, one through each half of the job. A step counts if both streams meet different rows of one
        bank.
        """
        dram = self.machine.dram
        if dram is None or len(frames) < 2:
            return None, None
        half = len(frames) // 2
        at = np.unique(np.linspace(0, half - 1, min(half, _BANK_PAGES)).astype(np.int64))
        streams = [_lines(frames[at]), _lines(frames[half + at])]
        known = (streams[0] < dram.size) & (streams[1] < dram.size)
        if not known.any():
            return None, None
        to_place = dram.map()
        (bank, row), (other_bank, other_row) = (to_place(lines[known]) for lines in streams)
        load = np.bincount(np.concatenate([bank, other_bank]), minlength=to_place.banks)
        conflicts = (bank == other_bank) & (row != other_row)
        return float(load.max() / load.mean()), float(conflicts.mean())

    def _snoop_filter(self, frames: Frames) -> tuple[float | None, float | None]:
        """Return the mean and the worst share of lines in full L2s beyond the snoop filter's ways."""
        if self.socket is None:
            return None, None
        known = frames[(frames + 1) * SMALL <= self.socket.reach]
        if not len(known):
            return None, None
        cores, held = settle(self.socket, None, None)
        windows = Windows(_pages(known), self.socket, cores, held // LINE_BYTES)
        count = min(len(windows), _MOST_WINDOWS)
        shares = excess_shares(self.socket, windows, [i * len(windows) // count for i in range(count)])
        return float(shares.mean()), float(shares.max())


def large_share(frames: Frames) -> float:
    """Return the share of pages on frames that form aligned 2 MiB blocks, counted from the job's begin."""
    whole = len(frames) // HUGE_PAGE_FRAMES * HUGE_PAGE_FRAMES
    if not whole:
        return 0.0
    parts = frames[:whole].reshape(-1, HUGE_PAGE_FRAMES)
    large = (parts[:, 0] % HUGE_PAGE_FRAMES == 0) & (np.diff(parts, axis=1) == 1).all(axis=1)
    return float(large.sum()) * HUGE_PAGE_FRAMES / len(frames)


def _lines(frames: Frames) -> NDArray[np.uint64]:
    """Return the addresses of all lines of some frames."""
    inside = np.arange(0, SMALL, LINE_BYTES, dtype=np.uint64)
    lines: NDArray[np.uint64] = (frames.astype(np.uint64)[:, None] * np.uint64(SMALL) + inside).ravel()
    return lines


def _pages(frames: Frames) -> Pages:
    """Return each run of neighbouring frames as one page."""
    first = np.flatnonzero(np.diff(frames, prepend=frames[0] - 2) != 1)
    sizes = np.diff(np.append(first, len(frames)))
    return Pages(frames[first].astype(np.uint64) * np.uint64(SMALL), sizes * SMALL)


def random_conflict_share(job: float, cache: float, memory: float) -> float:
    """Return the expected share of a job's pages that share a slot with another of its pages.

    The job has independent random frames, and the cache is direct-mapped. All sizes have the same unit.
    memory / cache frames map to each slot, and each of the others belongs to the job with probability
    job / memory. The share is therefore 1 - (1 - job/memory)^(memory/cache - 1).
    """
    others = memory / cache - 1
    return 0.0 if others <= 0 else float(1 - max(0.0, 1 - job / memory) ** others)
