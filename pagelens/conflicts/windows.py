"""Windows of a program's pages: what the L2s hold at one time."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pagelens.address.pages import Pages
from pagelens.address.units import LINE_BYTES
from pagelens.conflicts.socket import Socket
from pagelens.errors import UsageError

STEP_LINES = (2 << 20) // LINE_BYTES  # from one window to the next


@dataclass(frozen=True)
class Held:
    """Lines that are held at the same time. The arrays have one entry for each run of neighbouring lines."""

    pages: NDArray[np.int64]  # index of the page
    addresses: NDArray[np.uint64]  # physical address of the first line
    lines: NDArray[np.uint32]
    l2s: NDArray[np.int64]  # the L2 that holds it

    def without(self, page: int) -> "Held":
        """Return all lines but those of a page."""
        return self._only(self.pages != page)

    def of(self, page: int) -> "Held":
        """Return the lines of a page."""
        return self._only(self.pages == page)

    def in_l2(self, l2: int) -> "Held":
        """Return the lines that one L2 holds."""
        return self._only(self.l2s == l2)

    def _only(self, which: NDArray[np.bool_]) -> "Held":
        return Held(self.pages[which], self.addresses[which], self.lines[which], self.l2s[which])


class Windows:
    """What the L2s hold while a program walks through its pages, 2 MiB further from window to window.

    Pages without cores form one buffer, and neighbouring L2s hold neighbouring parts of it. With cores, each
    L2 has a buffer of its own. If everything can be held at once there is one window. `held_lines` is what
    one L2 holds.
    """

    def __init__(self, pages: Pages, socket: Socket, cores: int, held_lines: int) -> None:
        self.pages = pages
        self._lines = pages.sizes // LINE_BYTES
        l2s = -(-cores // socket.cores_per_l2)
        if pages.cores is None:
            every = np.arange(len(pages.sizes))
            self._buffers = [_Buffer(every, self._lines, _share(int(self._lines.sum()), l2s, held_lines))]
        else:
            highest = int(pages.cores.max())
            if highest >= cores:
                raise UsageError(f"core {highest} holds a page, but --cores is {cores}; cores count from 0")
            own = [np.flatnonzero(pages.cores // socket.cores_per_l2 == l2) for l2 in range(l2s)]
            self._buffers = [
                _Buffer(
                    pages_of, self._lines, [min(held_lines, int(self._lines[pages_of].sum()))], first_l2=l2
                )
                for l2, pages_of in enumerate(own)
                if len(pages_of)
            ]
        self.count = max(buffer.windows for buffer in self._buffers)

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, number: int) -> Held:
        """Return the window that begins `number` x 2 MiB into the buffer."""
        if not 0 <= number < self.count:
            raise IndexError(number)
        parts = [buffer.window(number, self.pages.addresses) for buffer in self._buffers]
        return Held(*(np.concatenate(of_all) for of_all in zip(*parts, strict=True)))


def _share(lines: int, l2s: int, held_lines: int) -> list[int]:
    """Return the lines of a buffer that each L2 holds: `held_lines`, or equal parts if all of it fits."""
    if lines >= l2s * held_lines:
        return [held_lines] * l2s
    return [lines * (l2 + 1) // l2s - lines * l2 // l2s for l2 in range(l2s)]


class _Buffer:
    """Pages in a row. The L2s from `first_l2` on hold `shares` lines each at a time."""

    def __init__(
        self, pages: NDArray[np.int64], lines: NDArray[np.int64], shares: Sequence[int], first_l2: int = 0
    ) -> None:
        self._pages = pages
        self._ends = np.cumsum(lines[pages])
        self._starts = self._ends - lines[pages]
        self._bounds = np.concatenate([[0], np.cumsum(shares)])
        self._first_l2 = first_l2
        self.windows = int(self._ends[-1] - self._bounds[-1]) // STEP_LINES + 1

    def window(self, number: int, addresses: NDArray[np.uint64]) -> tuple[NDArray[np.generic], ...]:
        """Return the page, address, lines and L2 of each piece of a window, or of the last window."""
        bounds = self._bounds + STEP_LINES * min(number, self.windows - 1)
        first, last = np.searchsorted(self._ends, [bounds[0], bounds[-1] - 1], side="right")
        cuts = np.unique(np.concatenate([bounds, self._ends[first:last]]))
        starts = cuts[:-1]
        at = np.searchsorted(self._ends, starts, side="right")
        inside = ((starts - self._starts[at]) * LINE_BYTES).astype(np.uint64)
        l2s = np.searchsorted(bounds, starts, side="right") - 1 + self._first_l2
        return self._pages[at], addresses[self._pages[at]] + inside, np.diff(cuts).astype(np.uint32), l2s
