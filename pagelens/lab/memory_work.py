"""Memory that is taken and given back step by step, in the same way in a guest and in a model.

`Work` lists the steps that /bin/lab's `work` does in the guest (tracer/guest/work.c). `ModelProcess` does
them to a `_core.Memory`. It also allocates and frees what the kernel needs beside the pages themselves, which
are page tables.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from pagelens import _core

TAKE, DROP, LEAVE, READ, LOOK, PIN = (
    kind.value
    for kind in (
        _core.WorkKind.take,
        _core.WorkKind.drop,
        _core.WorkKind.leave,
        _core.WorkKind.read,
        _core.WorkKind.look,
        _core.WorkKind.pin,
    )
)

ALL_NUMAS = 2**64 - 1
_SLAB_ORDER = 3
_OWN_TABLES = 9  # of a small static program: the root; tables of three levels, low and high
_OWN_PAGES = 18  # its data, heap and stack: counted in a guest, by running `work` as a job
_PAGES_PER_TABLE = 512
# An unmapping collects pages and then frees them, the last one first. It collects 8 pages, then as many as a
# page has room for pointers, and starts again after so many batches (struct mmu_gather of Linux 6.1:
# MMU_GATHER_BUNDLE, MAX_GATHER_BATCH, MAX_GATHER_BATCH_COUNT).
_FIRST_BATCH, _BATCH, _BATCHES = 8, 510, 20

Steps = NDArray[np.uint32]  # rows (kind, region, begin, count): struct work_step of tracer/guest/work_step.h


@dataclass
class Work:
    """A growing list of steps."""

    rows: list[tuple[int, int, int, int]] = field(default_factory=list)

    def take(self, region: int, begin: int, count: int) -> None:
        """Write to pages of a region, in order."""
        self.rows.append((TAKE, region, begin, count))

    def drop(self, region: int, begin: int, count: int) -> None:
        """Give pages of a region back."""
        self.rows.append((DROP, region, begin, count))

    def pin(self, region: int, page: int) -> None:
        """Pin a page of a region where it is, for as long as the process lives."""
        self.rows.append((PIN, region, page, 1))

    def leave(self, region: int) -> None:
        """Give a region back, as the end of its process does."""
        self.rows.append((LEAVE, region, 0, 0))

    def read(self, begin: int, count: int) -> None:
        """Read pages of a file through the page cache.

        The cache must not have them yet, or the model would be wrong.
        """
        self.rows.append((READ, 0, begin, count))

    def look(self) -> None:
        """Says which frames the regions hold now; once in a work."""
        self.rows.append((LOOK, 0, 0, 0))

    @property
    def steps(self) -> Steps:
        """All steps as an array."""
        return np.array(self.rows, dtype=np.uint32).reshape(-1, 4)


def batches(count: int) -> Iterator[slice]:
    """Yield the parts, in address order, in which unmapping `count` pages frees them."""
    at = 0
    while at < count:
        for size in (_FIRST_BATCH, *[_BATCH] * (_BATCHES - 1)):
            if at >= count:
                return
            yield slice(at, min(at + size, count))
            at += size


def followed(frames: Sequence[int], moves: NDArray[np.uint32]) -> list[int]:
    """Return where the pages of these frames are after the moves (from, to), in the same order."""
    places = {frame: place for place, frame in enumerate(frames)}
    for old, new in moves.tolist():
        if old in places:
            places[new] = places.pop(old)
    return sorted(places, key=places.__getitem__)


class ModelProcess:
    """Does work to a model of the allocator, on one of its CPUs. It ends with end().

    A process has pages, page tables and slabs of its own. One block stands for all its slabs. It is freed
    after many other pages, and freeing a block of order 1 to 3 then empties the CPU's lists
    (free_unref_page_commit() of Linux 6.1).
    """

    def __init__(self, memory: _core.Memory, page_cache: list[int] | None = None, cpu: int = 0) -> None:
        self.memory, self._cpu = memory, cpu
        self._page_cache = page_cache if page_cache is not None else []
        self._slab = self._alloc(1, _core.MigrateType.unmovable, _SLAB_ORDER)
        self._own_tables = self._alloc(_OWN_TABLES, _core.MigrateType.unmovable)
        self._own = self._alloc(_OWN_PAGES, _core.MigrateType.movable)
        self._pages: dict[int, NDArray[np.int64]] = {}  # region: frame of each page, -1 without
        self._tables: dict[int, dict[int, int]] = {}  # region: page table by its number

    def end(self) -> None:
        """Give back all that is left, and what the process itself had."""
        for region in list(self._pages):
            self._leave(region)
        self.memory.free(self._cpu, self._own, 0)
        self.memory.free(self._cpu, self._own_tables, 0)
        self.memory.free(self._cpu, self._slab, _SLAB_ORDER)

    def follow(self, moves: NDArray[np.uint32]) -> None:
        """Follow moves of the process's own pages. It must have no pages in regions."""
        assert not self._pages
        self._own = np.array(followed(self._own.tolist(), moves), dtype=np.uint32)

    def frames(self) -> NDArray[np.int64]:
        """Return all frames that the regions hold, without page tables."""
        held = [pages[pages >= 0] for pages in self._pages.values()]
        return np.concatenate(held) if held else np.empty(0, np.int64)

    def do(self, steps: Steps) -> NDArray[np.int64]:
        """Do the steps in their order, and return the frames held at the last `look`.

        Raises MemoryError if the model has no memory left.
        """
        seen = np.empty(0, np.int64)
        for kind, region, begin, count in steps.tolist():
            if kind == TAKE:
                self._take(region, begin, count)
            elif kind == DROP:
                self._free(self._pages[region][begin : begin + count])
                self._pages[region][begin : begin + count] = -1
            elif kind == LEAVE:
                self._leave(region)
            elif kind == READ:
                self._page_cache += self._alloc(count, _core.MigrateType.movable).tolist()
            elif kind == PIN:
                self._pin(self._pages[region][begin : begin + count])
            elif kind == LOOK:
                seen = self.frames()
        return seen

    def _take(self, region: int, begin: int, count: int) -> None:
        pages = self._pages.get(region, np.empty(0, np.int64))
        if pages.size < begin + count:
            room = max(begin + count, 2 * pages.size, _PAGES_PER_TABLE)
            pages = np.concatenate([pages, np.full(room - pages.size, -1, np.int64)])
            self._pages[region] = pages
        tables = self._tables.setdefault(region, {})
        end = begin + count
        while begin < end:
            table = begin // _PAGES_PER_TABLE
            if table not in tables:
                tables[table] = int(self._alloc(1, _core.MigrateType.unmovable)[0])
            upto = min(end, (table + 1) * _PAGES_PER_TABLE)
            missing = np.flatnonzero(pages[begin:upto] < 0) + begin
            pages[missing] = self._alloc(missing.size, _core.MigrateType.movable)
            begin = upto

    def _pin(self, pages: NDArray[np.int64]) -> None:
        self.memory.pin(pages.astype(np.uint32))

    def _leave(self, region: int) -> None:
        self._free(self._pages.pop(region))
        tables = np.array(list(self._tables.pop(region).values()), dtype=np.uint32)
        self.memory.free(self._cpu, tables, 0)

    def _alloc(self, count: int, mtype: _core.MigrateType, order: int = 0) -> NDArray[np.uint32]:
        got = self.memory.alloc(self._cpu, order, mtype, ALL_NUMAS, count, _core.Mark.low)
        if got.size < count:
            raise MemoryError("the model has no memory left")
        return got

    def _free(self, pages: NDArray[np.int64]) -> None:
        held = pages[pages >= 0].astype(np.uint32)
        for part in batches(held.size):
            self.memory.free(self._cpu, np.ascontiguousarray(held[part][::-1]), 0)
