"""Linux's page allocator written to be obviously right: one zone, Python lists, a page at a time.

What core/frames must equal, list for list. `SlowZone` is from mm/page_alloc.c of Linux 6.1: rmqueue, expand,
__rmqueue_fallback, steal_suitable_fallback, __free_one_page, buddy_merge_likely, rmqueue_bulk,
free_unref_page_commit, nr_pcp_free, free_pcppages_bulk; and from mm/compaction.c compact_zone,
isolate_migratepages_block, isolate_freepages, isolate_freepages_block, release_freepages. `SlowZone44` is
from the functions of these names in Linux 4.4.155, and from free_hot_cold_page and buffered_rmqueue.
"""

from collections import defaultdict

ORDERS, BLOCK = 11, 512
UNMOVABLE, MOVABLE, RECLAIMABLE = range(3)
FALLBACKS = {
    UNMOVABLE: (RECLAIMABLE, MOVABLE),
    MOVABLE: (RECLAIMABLE, UNMOVABLE),
    RECLAIMABLE: (UNMOVABLE, MOVABLE),
}
Key = tuple[int, int]  # order, type


class SlowZone:
    """`frames` frames from frame 0, `high` and `batch` of each CPU's lists (batch 0: none)."""

    MOST_STRIDE, FINISHES_BLOCKS = 32, True  # of compaction

    def __init__(self, frames: int, high: int, batch: int) -> None:
        self.frames, self.high, self.batch = frames, high, batch
        self.lists: dict[Key, list[int]] = defaultdict(list)
        self.lists[10, MOVABLE] = self.at_boot(list(range(0, frames, 1024)))
        self.free_order = dict.fromkeys(range(0, frames, 1024), (10, MOVABLE))
        self.types = [MOVABLE] * (frames // BLOCK)
        self.movable: set[int] = set()  # allocated movable single pages
        self.pcp: dict[int, dict[Key, list[int]]] = defaultdict(lambda: defaultdict(list))
        self.count: dict[int, int] = defaultdict(int)
        self.factor: dict[int, int] = defaultdict(int)

    def at_boot(self, blocks: list[int]) -> list[int]:
        return blocks

    def push(self, frame: int, order: int, type_: int, tail: bool = False) -> None:
        self.lists[order, type_].insert(len(self.lists[order, type_]) if tail else 0, frame)
        self.free_order[frame] = (order, type_)

    def unlink(self, frame: int) -> tuple[int, int]:
        key = self.free_order.pop(frame)
        self.lists[key].remove(frame)
        return key

    def take(self, order: int, type_: int, no_fragment: bool) -> int | None:
        while True:
            for larger in range(order, ORDERS):
                if self.lists[larger, type_]:
                    return self.split(self.lists[larger, type_][0], order, type_)
            if not self.steal(order, type_, no_fragment):
                return None

    def split(self, frame: int, order: int, type_: int) -> int:
        larger, _ = self.unlink(frame)
        for half in range(larger - 1, order - 1, -1):
            self.push(frame + (1 << half), half, type_)
        if order == 0 and type_ == MOVABLE:
            self.movable.add(frame)
        return frame

    def fallback(self, order: int, type_: int) -> tuple[int, bool] | None:
        for other in FALLBACKS[type_]:
            if self.lists[order, other]:
                return other, order >= 4 or type_ != MOVABLE
        return None

    def steal(self, order: int, type_: int, no_fragment: bool) -> bool:
        least = max(order, 9) if no_fragment else order
        for current in range(10, least - 1, -1):
            found = self.fallback(current, type_)
            if found is None:
                continue
            if not found[1] and current > order:
                current = next(o for o in range(order, ORDERS) if self.fallback(o, type_))
                found = self.fallback(current, type_)
                assert found is not None
            self.steal_block(self.lists[current, found[0]][0], type_, found[1])
            return True
        return False

    def move(self, frame: int, type_: int) -> int:
        order, _ = self.unlink(frame)
        self.push(frame, order, type_, tail=True)
        return 1 << order

    def steal_block(self, frame: int, type_: int, whole: bool) -> None:
        order, _ = self.free_order[frame]
        old = self.types[frame // BLOCK]
        if order >= 9:
            for block in range(frame // BLOCK, (frame + (1 << order)) // BLOCK):
                self.types[block] = type_
            self.move(frame, type_)
        elif not whole:
            self.move(frame, type_)
        else:
            begin = frame // BLOCK * BLOCK
            inside = [f for f in range(begin, begin + BLOCK) if f in self.free_order]
            free = sum(self.move(f, type_) for f in inside)
            movable = sum(f in self.movable for f in range(begin, begin + BLOCK))
            alike = movable if type_ == MOVABLE else BLOCK - free - movable if old == MOVABLE else 0
            if free + alike >= BLOCK // 2:
                self.types[begin // BLOCK] = type_

    def give(self, frame: int, order: int, type_: int) -> None:
        self.movable.discard(frame)
        while order < 10 and self.free_order.get(frame ^ (1 << order), (None, 0))[0] == order:
            self.unlink(frame ^ (1 << order))
            frame &= ~(1 << order)
            order += 1
        above = (frame & ~(1 << order)) ^ (2 << order)
        tail = order < 9 and self.free_order.get(above, (None, 0))[0] == order + 1
        self.push(frame, order, type_, tail)

    def alloc(self, cpu: int, order: int, type_: int) -> int | None:
        for no_fragment in (True, False):
            frame = self.alloc_once(cpu, order, type_, no_fragment)
            if frame is not None:
                return frame
        return None

    def alloc_once(self, cpu: int, order: int, type_: int, no_fragment: bool) -> int | None:
        if not self.batch or not (order <= 3 or order == 9):
            return self.take(order, type_, no_fragment)
        self.factor[cpu] >>= 1
        pages = self.pcp[cpu][order, type_]
        if not pages:
            for _ in range(max(self.batch >> order, 2) if self.batch > 1 else self.batch):
                frame = self.take(order, type_, no_fragment)
                if frame is None:
                    break
                pages.append(frame)
                self.count[cpu] += 1 << order
            if not pages:
                return None
        self.count[cpu] -= 1 << order
        return pages.pop(0)

    def free(self, cpu: int, frame: int, order: int) -> None:
        type_ = self.types[frame // BLOCK]
        if not self.batch or not (order <= 3 or order == 9):
            return self.give(frame, order, type_)
        self.pcp[cpu][order, type_].insert(0, frame)
        self.count[cpu] += 1 << order
        all_of_it = self.factor[cpu] > 0 and 0 < order <= 3
        if self.count[cpu] >= (0 if all_of_it else self.high):
            self.free_bulk(cpu, self.count[cpu] if all_of_it else self.how_many(cpu), order, type_)
        return None

    def how_many(self, cpu: int) -> int:
        if self.high < self.batch:
            return 1
        most, doubled = self.high - self.batch, self.batch << self.factor[cpu]
        if doubled < most:
            self.factor[cpu] += 1
        return max(self.batch, min(doubled, most))

    def free_bulk(self, cpu: int, count: int, order: int, type_: int) -> None:
        keys = [(o, t) for o in (0, 1, 2, 3, 9) for t in range(3)]
        at = keys.index((order, type_))
        count = min(count, self.count[cpu])
        while count > 0:
            pages = self.pcp[cpu][keys[at]]
            while count > 0 and pages:
                self.give(pages.pop(), *keys[at])
                self.count[cpu] -= 1 << keys[at][0]
                count -= 1 << keys[at][0]
            at = (at + 1) % len(keys)

    def drain(self, cpu: int) -> None:
        self.free_bulk(cpu, self.count[cpu], 0, 0)

    def compact(self, cpu: int) -> list[tuple[int, int]]:
        """Does what compact_memory does, and returns the pages that moved."""
        cached = {f for lists in self.pcp.values() for pages in lists.values() for f in pages}
        migrate_pfn, free_pfn, last = 0, self.frames - BLOCK, 0
        moves: list[tuple[int, int]] = []
        free: list[int] = []  # the kernel's cc->freepages, head first
        while migrate_pfn // BLOCK < free_pfn // BLOCK:
            start, rescan = migrate_pfn, self.FINISHES_BLOCKS and last // BLOCK == migrate_pfn // BLOCK
            pages: list[int] = []
            while migrate_pfn < (start // BLOCK + 1) * BLOCK and (rescan or len(pages) < 32):
                if migrate_pfn in self.movable and migrate_pfn not in cached:
                    pages.insert(0, migrate_pfn)
                migrate_pfn += 1
            last = start if pages else last
            for page in pages:
                if not free:
                    free, free_pfn = self.isolate_free(free_pfn, migrate_pfn, len(pages))
                if not free:
                    return moves
                moves.append((page, free.pop(0)))
                self.free(cpu, page, 0)
        for page in free:
            self.free(cpu, page, 0)
        return moves

    def isolate_free(self, pfn: int, migrate_pfn: int, wanted: int) -> tuple[list[int], int]:
        found: list[int] = []
        block, stride = pfn // BLOCK * BLOCK, 1
        while block >= (migrate_pfn // BLOCK + 1) * BLOCK:
            large = self.free_order.get(block, (0, 0))[0] >= 9
            if self.types[block // BLOCK] == MOVABLE and not large:
                before = len(found)
                while pfn < block + BLOCK and len(found) < wanted:
                    if pfn in self.free_order:
                        order, _ = self.unlink(pfn)
                        found = [*range(pfn + (1 << order) - 1, pfn - 1, -1), *found]
                        self.movable.update(found)
                        pfn += (1 << order) - 1
                        pfn += 1 if len(found) >= wanted else stride
                    else:
                        pfn += stride
                if len(found) >= wanted:
                    return found, pfn if pfn < block + BLOCK else block - BLOCK
                stride = 1 if len(found) > before else min(self.MOST_STRIDE, 2 * stride)
            block -= BLOCK
            pfn = block
        return found, pfn

    def blocks(self) -> list[tuple[int, int, int]]:
        """Returns the free blocks in the form of Memory.free_blocks."""
        return [(f, order, t) for order in range(ORDERS) for t in range(3) for f in self.lists[order, t]]


class SlowZone44(SlowZone):
    """The same of Linux 4.4."""

    MOST_STRIDE, FINISHES_BLOCKS = 1, False

    def at_boot(self, blocks: list[int]) -> list[int]:
        return blocks[::-1]

    def take(self, order: int, type_: int, no_fragment: bool) -> int | None:
        for larger in range(order, ORDERS):
            if self.lists[larger, type_]:
                return self.split(self.lists[larger, type_][0], order, type_)
        for larger in range(ORDERS - 1, order - 1, -1):
            found = self.fallback(larger, type_)
            if found is None:
                continue
            frame, begin = self.lists[larger, found[0]][0], 0
            if larger >= 9:
                for block in range(frame // BLOCK, (frame + (1 << larger)) // BLOCK):
                    self.types[block] = type_
            elif found[1]:
                begin = frame // BLOCK * BLOCK
                inside = [f for f in range(begin, begin + BLOCK) if f in self.free_order]
                if sum(self.move(f, type_) for f in inside) >= BLOCK // 2:
                    self.types[begin // BLOCK] = type_
            return self.split(frame, order, type_)
        return None

    def move(self, frame: int, type_: int) -> int:
        order, _ = self.unlink(frame)
        self.push(frame, order, type_)
        return 1 << order

    def alloc(self, cpu: int, order: int, type_: int) -> int | None:
        if not self.batch or order > 0:
            return self.take(order, type_, False)
        pages = self.pcp[cpu][0, type_]
        if not pages:
            taken = (self.take(0, type_, False) for _ in range(self.batch))
            pages.extend(frame for frame in taken if frame is not None)
            self.count[cpu] += len(pages)
        if not pages:
            return None
        self.count[cpu] -= 1
        return pages.pop(0)

    def free(self, cpu: int, frame: int, order: int) -> None:
        type_ = self.types[frame // BLOCK]
        if not self.batch or order > 0:
            return self.give(frame, order, type_)
        self.pcp[cpu][0, type_].insert(0, frame)
        self.count[cpu] += 1
        if self.count[cpu] >= self.high:
            self.free_bulk(cpu, self.batch, 0, type_)
        return None

    def free_bulk(self, cpu: int, count: int, order: int, type_: int) -> None:
        at = turn = 0
        self.count[cpu] -= count
        while count:
            while True:
                turn += 1
                at = (at + 1) % 3
                if self.pcp[cpu][0, at]:
                    break
            if turn == 3:
                turn = count
            while True:
                self.give(self.pcp[cpu][0, at].pop(), 0, at)
                count -= 1
                if count == 0:
                    break
                turn -= 1
                if turn == 0 or not self.pcp[cpu][0, at]:
                    break
