"""Which frames a job would get by each remedy, out of those that are free.

Out of this machine's, where the user may see which frames are free; else by the model's rule: all of the
memory of a machine is free, in no order.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pagelens import _core
from pagelens.address.units import HUGE_PAGE_FRAMES
from pagelens.audit.effect import Frames
from pagelens.audit.model import GIGANTIC, SMALL
from pagelens.errors import Failure
from pagelens.host.frame_map import FrameMap, Span, Use
from pagelens.host.zone_layout import read_layout
from pagelens.machine import Machine

_SEED = 0
_MAX_ORDER = 10
_EVERY = (1 << 64) - 1  # NUMA nodes
_KERNELS = 1 << 18  # frames at the bottom of a machine that is not here: nobody else gets them

# What the allocator of the model takes each use for.
_HOLDS = np.empty(len(Use), dtype=np.uint8)
_HOLDS[[Use.free, Use.droppable, Use.movable]] = _core.FRAME_MOVABLE
_HOLDS[Use.pinned], _HOLDS[Use.hole] = _core.FRAME_PINNED, _core.FRAME_HOLE


@dataclass(frozen=True)
class Supply:
    """Frames that are free, droppable, movable or none of these; None of a remedy where they are too few."""

    map: FrameMap
    zoneinfo: str  # of this machine; empty for one by rule
    slots: int | None  # of its memory-side cache

    @staticmethod
    def by_rule(machine: Machine) -> "Supply":
        """All of a machine's memory above its first GiB is free."""
        use = np.zeros(machine.frames, dtype=np.uint8)
        use[: min(_KERNELS, machine.frames // 8)] = Use.pinned
        return Supply(FrameMap((Span(0, "Normal", 0, machine.frames),), use), "", _slots(machine))

    @staticmethod
    def here(frames: FrameMap, zoneinfo: str, machine: Machine) -> "Supply":
        """What is free on this machine."""
        return Supply(frames, zoneinfo, _slots(machine))

    @property
    def real(self) -> bool:
        """Whether it is this machine's."""
        return bool(self.zoneinfo)

    def random(self, pages: int) -> Frames | None:
        """Independent draws from all memory, free or not: what a node's history comes to in the end."""
        rng = np.random.default_rng(_SEED)
        if pages > (self.map.use != Use.hole).sum():
            return None
        drawn = np.empty(0, dtype=np.int64)
        while len(drawn) < pages:
            more = rng.integers(0, len(self.map.use), 2 * pages)
            drawn = np.concatenate([drawn, more[self.map.use[more] != Use.hole]])
            drawn = drawn[np.sort(np.unique(drawn, return_index=True)[1])]  # each once, in the order drawn
        return drawn[:pages]

    def large(self, pages: int, page_size: int) -> Frames | None:
        """Free pages of that size in no order, small ones for the rest."""
        each = page_size // SMALL
        firsts = np.random.default_rng(_SEED).permutation(self.map.pages(page_size, Use.free))
        taken = firsts[: -(-pages // each)]
        frames = (taken[:, None] + np.arange(each)).ravel()[:pages]
        left = self.map.use == Use.free
        left[frames] = False
        return _whole(np.concatenate([frames, np.flatnonzero(left)[: pages - len(frames)]]), pages)

    def at_boot(self, pages: int) -> Frames | None:
        """1 GiB pages from the bottom of memory, whatever is there now."""
        each = GIGANTIC // SMALL
        firsts = self.map.pages(GIGANTIC, Use.pinned)
        return _whole((firsts[:, None] + np.arange(each)).ravel()[:pages], pages)

    def evenly(self, pages: int) -> Frames | None:
        """Free frames by turns: one of every slot, then a second one of those that have two, and so on."""
        assert self.slots is not None
        rounds = -(-len(self.map.use) // self.slots)
        left = np.zeros((rounds, self.slots), dtype=bool)  # a column a slot
        left.ravel()[: len(self.map.use)] = self.map.use == Use.free
        chosen, count = [np.empty(0, dtype=np.int64)], 0
        while count < pages and left.any():
            first = left.argmax(axis=0)
            slots = np.flatnonzero(left[first, np.arange(self.slots)])
            left[first[slots], slots] = False
            chosen.append(first[slots] * self.slots + slots)
            count += len(slots)
        return _whole(np.concatenate(chosen)[:pages], pages)

    def sorted(self, pages: int) -> Frames | None:
        """After dropping caches and zonesort (docs/zonesort.md), as the model of the allocator does it."""
        assert self.slots is not None
        if not self.real:
            return _whole(np.flatnonzero(self.map.use == Use.free)[:pages], pages)
        memory = self._memory()
        if memory is None:
            return None
        memory.sort_for_cache(self.slots, evacuating=True, cpu=0)
        frames = memory.alloc(0, 0, _core.MigrateType.movable, _EVERY, pages, _core.Mark.none)
        return _whole(frames.astype(np.int64), pages)

    def _memory(self) -> _core.Memory | None:
        """The allocator with these free frames: blocks as large as they can be, as buddies always merge.

        Page blocks with something pinned count as unmovable; their types are not to be read.
        """
        try:
            layout = read_layout(self.zoneinfo)
        except (Failure, KeyError, OverflowError, TypeError, ValueError):
            return None
        use = np.full(layout.frames, Use.hole, dtype=np.uint8)
        shared = min(layout.frames, len(self.map.use))
        use[:shared] = self.map.use[:shared]
        inside = np.zeros(layout.frames, dtype=bool)
        for zone in layout.zones:
            inside[zone.begin : zone.end] = True
        free = inside & (use <= Use.droppable)
        pinned = np.add.reduceat(use == Use.pinned, np.arange(0, layout.frames, HUGE_PAGE_FRAMES)) > 0
        types = np.where(pinned, _core.MigrateType.unmovable.value, _core.MigrateType.movable.value)
        blocks = free_blocks(free)
        rows = np.column_stack([blocks, types[blocks[:, 0] // HUGE_PAGE_FRAMES]]).astype(np.uint32)
        holds = _HOLDS[use]
        try:
            return _core.Memory.taken_over(
                layout, rows, np.empty((0, 4), dtype=np.uint32), holds, types.astype(np.uint8)
            )
        except ValueError:
            return None


def free_blocks(free: NDArray[np.bool_]) -> NDArray[np.int64]:
    """Rows (first frame, order): the largest aligned blocks of free frames, order 10 at most."""
    found = []
    whole: NDArray[np.bool_] = free
    for order in range(_MAX_ORDER + 1):
        pairs = whole[: len(whole) // 2 * 2].reshape(-1, 2)
        merged: NDArray[np.bool_] = pairs[:, 0] & pairs[:, 1] & (order < _MAX_ORDER)
        alone = whole.copy()
        alone[: 2 * len(merged)] &= ~np.repeat(merged, 2)
        firsts = np.flatnonzero(alone) << order
        found.append(np.column_stack([firsts, np.full(len(firsts), order)]))
        whole = merged
    return np.concatenate(found)


def _slots(machine: Machine) -> int | None:
    return machine.slots if machine.memory_side_cache is not None else None


def _whole(frames: Frames, pages: int) -> Frames | None:
    return frames if len(frames) == pages else None
