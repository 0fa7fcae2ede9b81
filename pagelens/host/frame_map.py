"""What every frame is in use for, from /proc/kpageflags.

The map tells which frames are free, which could be freed, and which cannot move. The flags are those of
Linux's Documentation/admin-guide/mm/pagemap.rst. Only root can read them.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import IntEnum

import numpy as np
from numpy.typing import NDArray

from pagelens.address.units import FRAME_BYTES
from pagelens.host.page_entries import BUDDY
from pagelens.host.system import System

_FLAGS = "/proc/kpageflags"
_CHUNK = 1 << 21  # frames: eight 1 GiB pages, so that no page lies across two chunks
_MOST_FRAMES = 1 << 32
_DIRTY, _LRU, _WRITEBACK, _MMAP, _ANON, _SWAPBACKED = 4, 5, 8, 11, 12, 14
_TAIL, _HUGE, _UNEVICTABLE, _NOPAGE, _THP, _OFFLINE = 16, 17, 18, 20, 22, 23

Report = Callable[[int, int], None]  # done, of all


class Use(IntEnum):
    """The use of a frame."""

    free = 0
    droppable = 1  # the page cache's, clean and not mapped
    movable = 2
    pinned = 3  # the kernel's, a pool's, or free in a list of one processor
    hole = 4


@dataclass(frozen=True)
class Span:
    """The frames of a zone, holes included."""

    node: int
    zone: str
    begin: int
    end: int


@dataclass(frozen=True)
class FrameMap:
    """The use of each frame, from frame 0 on."""

    spans: tuple[Span, ...]
    use: NDArray[np.uint8] = field(repr=False)  # the use of each frame

    def pages(self, page_size: int, worst: Use) -> NDArray[np.int64]:
        """Return the first frames of the aligned ranges of that size in which no frame has a worse use."""
        frames = page_size // FRAME_BYTES
        found = [np.empty(0, dtype=np.int64)]
        for span in self.spans:
            begin, end = -(-span.begin // frames) * frames, span.end // frames * frames
            if begin < end:
                fit = (self.use[begin:end].reshape(-1, frames) <= worst).all(axis=1)
                found.append(begin + np.flatnonzero(fit) * frames)
        return np.concatenate(found)

    def node_of(self, frames: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the NUMA node of each frame, or -1 for a frame that no zone has."""
        nodes = np.full(len(frames), -1, dtype=np.int64)
        for span in self.spans:
            nodes[(frames >= span.begin) & (frames < span.end)] = span.node
        return nodes


def read_spans(system: System) -> tuple[Span, ...]:
    """Return the zones that have frames, from /proc/zoneinfo."""
    spans = []
    for node, zone, text in re.findall(
        r"^Node (\d{1,4}), zone +(\w{1,16})\n((?: .*\n?)+)", system.text("/proc/zoneinfo"), re.MULTILINE
    ):
        begin, spanned, present = (
            re.search(rf"^ +{name} +(\d{{1,12}})$", text, re.MULTILINE)
            for name in ("start_pfn:", "spanned", "present")
        )
        if (
            begin
            and spanned
            and present
            and int(present[1])
            and int(begin[1]) + int(spanned[1]) <= _MOST_FRAMES
        ):
            spans.append(Span(int(node), zone, int(begin[1]), int(begin[1]) + int(spanned[1])))
    return tuple(spans)


def may_read_flags(system: System) -> bool:
    """Return whether this user may read the flags."""
    return len(system.bytes_at(_FLAGS, 0, 8)) == 8


def read_frame_map(system: System, report: Report = lambda done, total: None) -> FrameMap | None:
    """Return the frame map, or None if flags or zones cannot be read."""
    spans = read_spans(system)
    frames = max((span.end for span in spans), default=0)
    if not frames or not may_read_flags(system):
        return None
    use = np.full(frames, Use.hole, dtype=np.uint8)
    for begin in range(0, frames, _CHUNK):
        end = min(frames, begin + _CHUNK)
        if any(span.begin < end and begin < span.end for span in spans):
            raw = system.bytes_at(_FLAGS, 8 * begin, 8 * (end - begin))
            flags = np.frombuffer(raw[: len(raw) // 8 * 8], dtype="<u8")
            use[begin : begin + len(flags)] = uses(flags)
        report(end, frames)
    return FrameMap(spans, use)


def uses(flags: NDArray[np.uint64]) -> NDArray[np.uint8]:
    """Return the use of each frame by its flags.

    The parts of a compound page have the use of its head.
    """
    tails = _has(flags, _TAIL)
    if tails.any():
        heads = np.maximum.accumulate(np.where(tails, 0, np.arange(len(flags))))
        flags = flags[heads]
    movable = _has(flags, _LRU) | _has(flags, _ANON) | _has(flags, _THP)
    kept = (_DIRTY, _WRITEBACK, _MMAP, _ANON, _SWAPBACKED, _UNEVICTABLE)
    use = np.full(len(flags), Use.pinned, dtype=np.uint8)
    use[movable] = Use.movable
    use[_has(flags, _LRU) & ~_has(flags, *kept)] = Use.droppable
    use[_has(flags, _HUGE)] = Use.pinned
    use[_has(flags, BUDDY)] = Use.free
    use[_has(flags, _NOPAGE, _OFFLINE)] = Use.hole
    return use


def _has(flags: NDArray[np.uint64], *bits: int) -> NDArray[np.bool_]:
    """Return for each frame whether any of these flags is set."""
    mask = np.uint64(sum(1 << bit for bit in bits))
    found: NDArray[np.bool_] = (flags & mask) != 0
    return found
