"""Predicts how many lines of a set of pages cannot be held at once, in which sets and pages they are."""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pagelens.address.pages import Pages
from pagelens.address.units import LINE_BYTES
from pagelens.conflicts.socket import Socket
from pagelens.conflicts.windows import STEP_LINES, Held, Windows
from pagelens.errors import UsageError
from pagelens.units import format_binary_size

MOST_WINDOWS = 2000  # of a program's memory that are counted


@dataclass(frozen=True)
class Count:
    """The lines of one window in one cache or snoop filter."""

    name: str
    geometry: str
    lines: int
    excess: int  # lines beyond the ways of their sets
    crowded: int  # lines in sets that have fewer ways than lines
    histogram: tuple[int, ...]  # [n]: the number of sets with n lines

    @property
    def share(self) -> float:
        """The share of lines beyond the ways of their sets."""
        return self.excess / self.lines


@dataclass(frozen=True)
class PageCount:
    """One page of a window, and its lines in crowded sets of the first shared structure."""

    page: int  # its place in the list
    address: int  # physical
    virtual: int | None
    l2s: tuple[int, ...]  # L2s that hold it
    lines: int  # held
    crowded: int


@dataclass(frozen=True)
class Prediction:
    """The shares of all windows beyond the ways of the first shared structure, and the worst window."""

    socket: Socket
    cores: int
    held_bytes: int  # the most that each L2 holds
    pages: Pages
    starts: NDArray[np.int64]  # where the counted windows begin, in bytes into the buffer
    shares: NDArray[np.float64]  # the share of each window
    windows: int  # all, counted or not
    worst: int  # index into starts
    held: Held  # what is held in the worst window
    counts: tuple[Count, ...]  # the worst window's counts: shared structures, then the L2s together
    by_page: tuple[PageCount, ...]  # most crowded first

    def crowded_lines(self) -> list[int]:
        """Return the physical addresses of the worst window's lines in crowded sets."""
        counts = self.socket.shared[0].counts()
        counts.add(self.held.addresses, self.held.lines)
        return [int(address) for address in counts.crowded_lines(self.held.addresses, self.held.lines)]


def predict(
    socket: Socket, pages: Pages, cores: int | None = None, held_bytes: int | None = None
) -> Prediction:
    """Predict which lines conflict while `cores` cores hold `held_bytes` in each of their L2s.

    By default all cores hold full L2s. Raises UsageError.
    """
    cores, held_bytes = settle(socket, cores, held_bytes)
    pages.require_below(socket.reach, "pages")
    windows = Windows(pages, socket, cores, held_bytes // LINE_BYTES)
    numbers = counted(windows)
    shares = excess_shares(socket, windows, numbers)
    worst = int(np.argmax(shares))
    held = windows[numbers[worst]]
    return Prediction(
        socket=socket,
        cores=cores,
        held_bytes=held_bytes,
        pages=pages,
        starts=np.array(numbers) * STEP_LINES * LINE_BYTES,
        shares=shares,
        windows=len(windows),
        worst=worst,
        held=held,
        counts=count_all(socket, held),
        by_page=_by_page(socket, pages, held),
    )


def settle(socket: Socket, cores: int | None, held_bytes: int | None) -> tuple[int, int]:
    """Return both values, with the defaults filled in. Raises UsageError if one is out of range."""
    if cores is None:
        cores = socket.cores
    if not 1 <= cores <= socket.cores:
        raise UsageError(
            f"--cores {cores}: {socket.name} has {socket.cores} on a socket; give 1 to {socket.cores}"
        )
    whole = socket.l2_lines * LINE_BYTES
    if held_bytes is None:
        held_bytes = whole
    if not LINE_BYTES <= held_bytes <= whole:
        raise UsageError(
            f"--held {held_bytes} bytes: from a line, 64B, to an L2, {format_binary_size(whole)}"
        )
    return cores, held_bytes


def counted(windows: Windows) -> list[int]:
    """Return the numbers of the windows to count: all of them, or MOST_WINDOWS that are evenly spaced."""
    count = min(len(windows), MOST_WINDOWS)
    return [number * len(windows) // count for number in range(count)]


def excess_shares(socket: Socket, windows: Windows, numbers: Iterable[int]) -> NDArray[np.float64]:
    """Return for each window the share of held lines beyond the ways of the first shared structure's sets."""
    counts = socket.shared[0].counts()
    shares = []
    for number in numbers:
        held = windows[number]
        counts.clear()
        counts.add(held.addresses, held.lines)
        shares.append(counts.excess / int(held.lines.sum()))
    return np.array(shares)


def count_all(socket: Socket, held: Held) -> tuple[Count, ...]:
    """Count the lines in every structure. Each L2 is counted alone, and their counts are added up."""
    found = []
    lines = int(held.lines.sum())
    for structure in socket.shared:
        counts = structure.counts()
        counts.add(held.addresses, held.lines)
        crowded = int(counts.crowded(held.addresses, held.lines).sum())
        histogram = tuple(counts.histogram().tolist())
        found.append(Count(structure.name, structure.geometry, lines, counts.excess, crowded, histogram))
    excess, crowded, histogram_sum = 0, 0, np.zeros(1, dtype=np.uint64)
    holders = np.unique(held.l2s)
    counts = socket.l2_counts()
    for l2 in holders:
        part = held.in_l2(l2)
        counts.clear()
        counts.add(part.addresses, part.lines)
        excess += counts.excess
        crowded += int(counts.crowded(part.addresses, part.lines).sum())
        more = counts.histogram()
        width = max(len(more), len(histogram_sum))
        histogram_sum = np.pad(histogram_sum, (0, width - len(histogram_sum))) + np.pad(
            more, (0, width - len(more))
        )
    geometry = f"{len(holders)} of {socket.l2_sets} x {socket.l2_ways}"
    return (*found, Count("L2s", geometry, lines, excess, crowded, tuple(histogram_sum.tolist())))


def _by_page(socket: Socket, pages: Pages, held: Held) -> tuple[PageCount, ...]:
    counts = socket.shared[0].counts()
    counts.add(held.addresses, held.lines)
    crowded = counts.crowded(held.addresses, held.lines).astype(np.int64)
    found = []
    for page in np.unique(held.pages).tolist():
        which = held.pages == page
        found.append(
            PageCount(
                page=page,
                address=int(pages.addresses[page]),
                virtual=None if pages.virtual is None else int(pages.virtual[page]),
                l2s=tuple(np.unique(held.l2s[which]).tolist()),
                lines=int(held.lines[which].sum()),
                crowded=int(crowded[which].sum()),
            )
        )
    return tuple(sorted(found, key=lambda page: -page.crowded))
