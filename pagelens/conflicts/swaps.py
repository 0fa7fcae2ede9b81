"""Finds pages to swap for pages of a pool, so that fewer lines conflict.

Two pages put their lines into the same sets if their frames agree in the bits that the slices' masks read.
Such pages have the same colour. Of 2 MiB pages on 24 slices there are 512 colours, and the search tries one
page of each.
"""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from pagelens import _core
from pagelens.address.pages import Pages
from pagelens.address.units import LINE_BYTES
from pagelens.conflicts.predict import counted, excess_shares, settle
from pagelens.conflicts.socket import Shared, Socket
from pagelens.conflicts.windows import Held, Windows
from pagelens.errors import UsageError

MOST_COLOURS = 512  # colours to try, evenly spaced among those of the pool
MOST_TRIED = 16  # pages of the worst window, the most crowded ones
MOST_JOINT = 64  # colours a page, the best in the worst window, that are counted in its other windows
MOST_POOL = 1 << 16  # pages, evenly drawn
_MOST_PATTERNS = 1024  # patterns to keep, with some 200 kB each
_PROBES = 64  # lines whose slices tell a page's colour


_Key = tuple[float, float]  # share of the worst window, mean of all: what a swap lowers


@dataclass(frozen=True)
class Swap:
    """The swap of one page, after the swaps before it. Its shares are those of Prediction.shares."""

    page: int  # its place in the list
    old: int  # physical address
    new: int
    worst_share: float  # after it
    mean_share: float


def find_swaps(
    socket: Socket,
    pages: Pages,
    pool: Pages,
    most: int,
    cores: int | None = None,
    held_bytes: int | None = None,
) -> tuple[Swap, ...]:
    """Return at most `most` swaps, each of which improves on the one before.

    A swap lowers the worst window's share, or keeps it and lowers the mean. Only pages of the pool's size are
    swapped. Raises UsageError.
    """
    cores, held_bytes = settle(socket, cores, held_bytes)
    pages.require_below(socket.reach, "pages")
    pool.require_below(socket.reach, "pool")
    search = _Search(socket, pages, pool, cores, held_bytes // LINE_BYTES)
    swaps: list[Swap] = []
    while len(swaps) < most and search.shares.max() > 0:
        swap = search.step()
        if swap is None:
            break
        swaps.append(swap)
    return tuple(swaps)


@dataclass(frozen=True)
class _Rest:
    """A window without one page, and the part of that page that belongs to the window."""

    counts: _core.SetCounts
    offset: int  # bytes into the page
    lines: int
    window_lines: int  # lines of the window, including the page


class _Search:
    """The pages after the swaps made so far, with the shares of all windows."""

    def __init__(self, socket: Socket, pages: Pages, pool: Pages, cores: int, held_lines: int) -> None:
        self._structure = socket.shared[0]
        self._socket, self._cores, self._held_lines = socket, cores, held_lines
        self._pages = pages
        self._page_bytes = int(pool.sizes[0])
        windows = Windows(pages, socket, cores, held_lines)
        self._numbers = counted(windows)
        self._members = [np.unique(windows[number].pages) for number in self._numbers]
        self.shares = excess_shares(socket, windows, self._numbers)
        free = np.setdiff1d(pool.addresses[_evenly(len(pool.addresses), MOST_POOL)], pages.addresses)
        if not len(free):
            raise UsageError("--pool: every page of it is in the list already; name others")
        self._colours = _by_colour(self._structure, free, self._page_bytes)
        self._patterns: dict[tuple[int, int], _core.SetCounts] = {}

    def step(self) -> Swap | None:
        """Make the best swap that was found, or return None if none gains."""
        before = float(self.shares.max()), float(self.shares.mean())
        worst = int(np.argmax(self.shares))
        options = [self._best_of(page, worst) for page in self._most_crowded(worst)]
        gaining = [option for option in options if option[0] < before]
        if not gaining:
            return None
        after, page, colour, shares = min(gaining, key=lambda option: option[0])
        old, new = int(self._pages.addresses[page]), self._colours[colour].pop(0)
        self._colours = [addresses for addresses in self._colours if addresses]
        addresses = self._pages.addresses.copy()
        addresses[page] = new
        self._pages, self.shares = replace(self._pages, addresses=addresses), shares
        return Swap(page, old, new, *after)

    def _window(self, index: int) -> Held:
        windows = Windows(self._pages, self._socket, self._cores, self._held_lines)
        return windows[self._numbers[index]]

    def _most_crowded(self, index: int) -> list[int]:
        """Return the swappable pages of a window with the most lines in crowded sets."""
        held = self._window(index)
        counts = self._structure.counts()
        counts.add(held.addresses, held.lines)
        crowded = np.zeros(len(self._pages.sizes))
        np.add.at(crowded, held.pages, counts.crowded(held.addresses, held.lines))
        crowded[self._pages.sizes != self._page_bytes] = 0
        order = np.argsort(-crowded, kind="stable")[:MOST_TRIED]
        return [int(page) for page in order if crowded[page]]

    def _best_of(self, page: int, worst: int) -> tuple[_Key, int, int, NDArray[np.float64]]:
        """Return the best shares that a swap of `page` leaves, the page, its colour, all windows' shares."""
        inside = [index for index, members in enumerate(self._members) if page in members]
        rests = {index: self._rest(index, page) for index in inside}

        def share(index: int, colour: int) -> float:
            rest = rests[index]
            excess = rest.counts.excess_with(self._pattern(colour, rest.offset, rest.lines))
            return excess / rest.window_lines

        options = []
        colours = sorted(range(len(self._colours)), key=lambda colour: share(worst, colour))
        for colour in colours[:MOST_JOINT]:
            shares = self.shares.copy()
            shares[inside] = [share(index, colour) for index in inside]
            options.append(((float(shares.max()), float(shares.mean())), page, colour, shares))
        return min(options, key=lambda option: option[0])

    def _rest(self, index: int, page: int) -> _Rest:
        """Return a window without the given page."""
        held = self._window(index)
        own, others = held.of(page), held.without(page)
        counts = self._structure.counts()
        counts.add(others.addresses, others.lines)
        offset = int(own.addresses.min() - self._pages.addresses[page])
        return _Rest(counts, offset, int(own.lines.sum()), int(held.lines.sum()))

    def _pattern(self, colour: int, offset: int, lines: int) -> _core.SetCounts:
        """Return the lines of a part of a page, as if the page had this colour."""
        key = self._colours[colour][0] + offset, lines
        if key not in self._patterns:
            if len(self._patterns) >= _MOST_PATTERNS:
                self._patterns.clear()
            pattern = self._structure.counts()
            pattern.add(np.array(key[:1], dtype=np.uint64), np.array(key[1:], dtype=np.uint32))
            self._patterns[key] = pattern
        return self._patterns[key]


def _by_colour(structure: Shared, addresses: NDArray[np.uint64], page_bytes: int) -> list[list[int]]:
    """Return the pages of at most MOST_COLOURS colours. Pages that agree on all probes have one colour."""
    lines = page_bytes // LINE_BYTES
    probes = np.unique(np.random.default_rng(0).integers(0, lines, _PROBES)).astype(np.uint64) * np.uint64(
        LINE_BYTES
    )
    slices = structure.slices((addresses[:, None] + probes).ravel()).reshape(len(addresses), -1)
    sets = addresses // np.uint64(LINE_BYTES) % np.uint64(structure.sets)
    signatures = np.column_stack([sets.astype(np.uint32), slices])
    _, colours = np.unique(signatures, axis=0, return_inverse=True)
    colours = colours.ravel()
    order = np.argsort(colours, kind="stable")
    groups = np.split(addresses[order], np.flatnonzero(np.diff(colours[order])) + 1)
    return [groups[index].tolist() for index in _evenly(len(groups), MOST_COLOURS)]


def _evenly(count: int, most: int) -> NDArray[np.int64]:
    """Return at most `most` of `count` indices, evenly spaced."""
    kept = min(count, most)
    return np.arange(kept) * count // kept
