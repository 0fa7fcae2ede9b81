"""A model of the allocator as a node with a history, for comparison with a guest."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from pagelens import _core
from pagelens.errors import Failure
from pagelens.lab.aged_node import BlocksByOrder
from pagelens.lab.allocator_state import ORDERS
from pagelens.lab.measured import Frames
from pagelens.lab.memory_work import ALL_NUMAS, ModelProcess, Steps, followed

_HUGE_ORDER = 9
_PAGEVEC = 15  # pages that invalidate_mapping_pages() frees together (PAGEVEC_SIZE of Linux 6.1)


@dataclass
class ModelNode:
    """A model of the allocator as a node."""

    memory: _core.Memory
    slots: int
    page_cache: list[int] = field(default_factory=list)

    def work(self, name: str, steps: Steps) -> Frames:
        """Let a ModelProcess do the work. `name` is for messages."""
        process = ModelProcess(self.memory, self.page_cache)
        seen = process.do(steps)
        process.end()
        # The lab runs its next command as a process that does nothing, but that finds the CPU's lists empty
        # and fills them.
        ModelProcess(self.memory).end()
        return np.sort(seen)

    def hold(self, name: str, steps: Steps) -> None:
        """Let a process do the work that does not end."""
        ModelProcess(self.memory, self.page_cache).do(steps)
        ModelProcess(self.memory).end()  # as after work

    def drop_caches(self) -> None:
        """Let a shell free everything that work has read, in groups, each from its last page on."""
        pages = np.array(self.page_cache, dtype=np.uint32)
        with self._shell():
            for begin in range(0, pages.size, _PAGEVEC):
                self.memory.free(0, np.ascontiguousarray(pages[begin : begin + _PAGEVEC][::-1]), 0)
        self.page_cache.clear()

    def compact(self) -> None:
        """Let a shell compact, and follow the page cache's pages. The shell's end empties the CPU's lists."""
        with self._shell() as shell:
            self._follow(self.memory.compact(0), shell)

    def zonesort(self, rule: str, evacuate: bool) -> None:
        """Let a shell sort by the rule of docs/zonesort.md, by Intel's, or by address."""
        with self._shell() as shell:
            if rule == "ours":
                self._follow(self.memory.sort_for_cache(self.slots, evacuate, 0), shell)
            elif rule == "intel":
                self.memory.sort_by_buckets(self.slots)
            else:
                self.memory.sort_by_address()

    @contextmanager
    def _shell(self) -> Iterator[ModelProcess]:
        """Yield the shell process that does a step."""
        shell = ModelProcess(self.memory)
        yield shell
        shell.end()

    def run_on_huge_pages(self, parts: Sequence[int]) -> Frames:
        """Return the frames of a program that uses so many 4 KiB parts of each of its 2 MiB pages, and ends.

        The 2 MiB pages come from the allocator, after a compaction if it has too few. Raises Failure if that
        does not suffice.
        """
        huge = self._huge_pages(len(parts))
        if huge.size < len(parts):
            self.memory.drain()  # as a request for a large page does, before it compacts and while it does
            self._follow(self.memory.compact(0))
            self.memory.drain()
            huge = np.concatenate([huge, self._huge_pages(len(parts) - huge.size)])
        self.memory.free(0, huge, _HUGE_ORDER)
        if huge.size < len(parts):
            raise Failure(f"the model has {huge.size} pages of 2 MiB, not {len(parts)}: it is too fragmented")
        used = [first + np.arange(count) for first, count in zip(huge.tolist(), parts, strict=True)]
        return np.sort(np.concatenate(used, dtype=np.int64))

    def _huge_pages(self, most: int) -> NDArray[np.uint32]:
        mtype = _core.MigrateType.movable
        return self.memory.alloc(0, _HUGE_ORDER, mtype, ALL_NUMAS, most, _core.Mark.low)

    def free_blocks(self) -> BlocksByOrder:
        """Return the free blocks without those on per-cpu lists, as in the guest."""
        return np.bincount(self.memory.free_blocks()[:, 1], minlength=ORDERS).astype(np.int64)

    def _follow(self, moves: NDArray[np.uint32], *processes: ModelProcess) -> None:
        self.page_cache[:] = followed(self.page_cache, moves)
        for process in processes:
            process.follow(moves)
