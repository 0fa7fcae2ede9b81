"""Finds the frames that a job would get with each remedy, out of those that are free.

They are this machine's free frames if the user may see which ones are free. If not, the model assumes that
all of a machine's memory is free, in no order.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray

from pagelens import _core
from pagelens.address.units import FRAME_BYTES, HUGE_PAGE_FRAMES
from pagelens.audit.effect import Frames
from pagelens.audit.model import GIGANTIC, LARGE, SMALL
from pagelens.errors import Failure
from pagelens.host.frame_map import FrameMap, Span, Use
from pagelens.host.zone_layout import read_layout
from pagelens.machine import Machine

_SEED = 0
_MAX_ORDER = 10
_LARGEST_BLOCK = 1 << _MAX_ORDER  # frames
_ALL_NUMA_NODES = (1 << 64) - 1
_KERNEL_FRAMES = 1 << 18  # at the bottom of a machine that is not here; the kernel keeps them

# What the allocator of the model takes each use for.
_HOLDS = np.empty(len(Use), dtype=np.uint8)
_HOLDS[[Use.free, Use.droppable, Use.movable]] = _core.FRAME_MOVABLE
_HOLDS[Use.pinned], _HOLDS[Use.hole] = _core.FRAME_PINNED, _core.FRAME_HOLE


@dataclass(frozen=True)
class Supply:
    """The frames of a machine by use. A remedy's frames are None if too few are free for it."""

    map: FrameMap
    zoneinfo: str  # this machine's /proc/zoneinfo; empty if the map is by rule
    slots: int | None  # the slots of its memory-side cache

    @staticmethod
    def by_rule(machine: Machine) -> "Supply":
        """Assume that all of a machine's memory above its first GiB is free."""
        use = np.zeros(machine.frames, dtype=np.uint8)
        use[: min(_KERNEL_FRAMES, machine.frames // 8)] = Use.pinned
        return Supply(FrameMap((Span(0, "Normal", 0, machine.frames),), use), "", _slots(machine))

    @staticmethod
    def here(frames: FrameMap, zoneinfo: str, machine: Machine) -> "Supply":
        """Take what is free on this machine."""
        return Supply(frames, zoneinfo, _slots(machine))

    @property
    def real(self) -> bool:
        """Whether these are this machine's frames."""
        return bool(self.zoneinfo)

    def by_remedy(self, size: int) -> dict[str, Callable[[int], Frames | None]]:
        """Return the policies that a job of `size` bytes can try, each with what chooses frames for it.

        The functions take a count of 4 KiB pages.
        """
        found: dict[str, Callable[[int], Frames | None]] = {"2m": partial(self.large, page_size=LARGE)}
        if size >= GIGANTIC:
            found["1g"] = self.at_boot
        if self.slots is not None:
            found |= {"aged+zonesort": self.sorted, "coloured": self.evenly}
        return found

    def random(self, pages: int) -> Frames | None:
        """Return random frames of all memory, free or not, which is what many jobs lead to in the end."""
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
        """Return free pages of that size in random order, and free frames for the rest of the job."""
        each = page_size // SMALL
        firsts = np.random.default_rng(_SEED).permutation(self.map.pages(page_size, Use.free))
        taken = firsts[: -(-pages // each)]
        frames = (taken[:, None] + np.arange(each)).ravel()[:pages]
        left = self.map.use == Use.free
        left[frames] = False
        return _whole(np.concatenate([frames, np.flatnonzero(left)[: pages - len(frames)]]), pages)

    def at_boot(self, pages: int) -> Frames | None:
        """Return pages of 1 GiB with the rule of the policy `1g`, whatever is in their places now."""
        firsts = _core.gigabytes_at_boot(_memory_of(self.map.use != Use.hole)).astype(np.int64)
        return _whole((firsts[:, None] + np.arange(GIGANTIC // SMALL)).ravel()[:pages], pages)

    def evenly(self, pages: int) -> Frames | None:
        """Return free frames by page colouring, with the rule of the policy `coloured`."""
        assert self.slots is not None
        placement = _core.place_by_colour(_memory_of(self.map.use == Use.free), self.slots, 0)
        return _whole(placement.first_frames(1, pages).astype(np.int64), pages)

    def sorted(self, pages: int) -> Frames | None:
        """Return what the allocator gives after dropping caches and zonesort (docs/zonesort.md)."""
        assert self.slots is not None
        if not self.real:
            return _whole(np.flatnonzero(self.map.use == Use.free)[:pages], pages)
        memory = self._memory()
        if memory is None:
            return None
        memory.sort_for_cache(self.slots, evacuating=True, cpu=0)
        frames = memory.alloc(0, 0, _core.MigrateType.movable, _ALL_NUMA_NODES, pages, _core.Mark.none)
        return _whole(frames.astype(np.int64), pages)

    def _memory(self) -> _core.Memory | None:
        """Return the allocator with these free frames, in blocks as large as buddies merge to.

        Nothing says the types of page blocks: those with a pinned frame count as unmovable. None if
        /proc/zoneinfo is not as it should be.
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


def _memory_of(free: NDArray[np.bool_]) -> _core.Memory:
    """Return an allocator with these free frames, in zones as Linux makes them without NUMA.

    All other frames are holes.
    """
    layout = _core.linux_layout(-(-len(free) // _LARGEST_BLOCK) * _LARGEST_BLOCK, 1, 1)
    blocks = free_blocks(free)
    types = np.full(len(blocks), _core.MigrateType.movable.value)
    return _core.Memory.taken_over(
        layout,
        np.column_stack([blocks, types]).astype(np.uint32),
        np.empty((0, 4), dtype=np.uint32),
        np.full(layout.frames, _core.FRAME_HOLE, dtype=np.uint8),
        np.full(layout.frames // HUGE_PAGE_FRAMES, _core.MigrateType.movable.value, dtype=np.uint8),
    )


def free_blocks(free: NDArray[np.bool_]) -> NDArray[np.int64]:
    """Return the largest aligned blocks of free frames: int64[block, (first frame, order)]."""
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
    return machine.memory_side_bytes // FRAME_BYTES or None


def _whole(frames: Frames, pages: int) -> Frames | None:
    return frames if len(frames) == pages else None
