"""Estimates how many huge pages could be added to the pools."""

from collections.abc import Iterator

from pagelens.audit.fragmentation import LARGE_ORDER, suitable_blocks
from pagelens.audit.model import GIGANTIC, LARGE, SMALL, HugePages, MemoryNode, NodePool, Zone
from pagelens.host.frame_map import FrameMap, Use
from pagelens.host.huge_page_pools import pool_sizes, read_pool
from pagelens.host.kernel_settings import Usage
from pagelens.host.system import System

_LARGEST_ORDER = 10  # of a free block


def read_huge_pages(
    system: System,
    nodes: tuple[MemoryNode, ...],
    zones: tuple[Zone, ...],
    usage: Usage,
    frames: FrameMap | None,
) -> tuple[HugePages, ...]:
    """Return the pool of each page size from 2 MiB to 1 GiB that the kernel has."""
    pools = {size: read_pool(system, size) for size in pool_sizes(system) if LARGE <= size <= GIGANTIC}
    supply = _Supply(zones, usage, frames, sum((pool.total or 0) * size for size, pool in pools.items()))
    found = []
    for size, pool in pools.items():
        now, counted = supply.now(size)
        found.append(
            HugePages(
                page_size=size,
                total=pool.total,
                free=pool.free,
                reserved=pool.reserved,
                surplus=pool.surplus,
                overcommit=pool.overcommit,
                nodes=tuple(_of_nodes(system, size, nodes)),
                more_now=now,
                more_now_exact=counted,
                more_at_most=supply.at_most(size, now if counted and now else 0),
            )
        )
    return tuple(found)


def _of_nodes(system: System, size: int, nodes: tuple[MemoryNode, ...]) -> Iterator[NodePool]:
    for node in nodes:
        pool = read_pool(system, size, node.number)
        if pool.total is not None:
            yield NodePool(node.number, pool.total, pool.free)


class _Supply:
    """The memory that new huge pages could be made of."""

    def __init__(self, zones: tuple[Zone, ...], usage: Usage, frames: FrameMap | None, in_pools: int) -> None:
        self._zones, self._usage, self._frames, self._in_pools = zones, usage, frames, in_pools

    def now(self, size: int) -> tuple[int | None, bool]:
        """Return how many such pages are free now, and whether this is exact rather than an upper bound."""
        if size == LARGE and self._zones:
            return sum(suitable_blocks(zone.free_blocks, LARGE_ORDER) for zone in self._zones), True
        if self._frames is not None:
            return len(self._frames.pages(size, Use.free)), True
        if not self._zones:
            return None, False
        largest = (
            suitable_blocks(zone.free_blocks, _LARGEST_ORDER) << _LARGEST_ORDER for zone in self._zones
        )
        return sum(frames * SMALL // size for frames in largest), False

    def at_most(self, size: int, now: int) -> int | None:
        """Return an upper bound on the pages after dropping caches and compaction.

        Memory must be free or droppable, and its ranges (or page blocks) must hold nothing pinned.
        """
        if self._usage.free is None:
            return None
        bounds = [(self._usage.free + (self._usage.droppable or 0)) // size]
        blocks = [zone.pageblocks for zone in self._zones if zone.pageblocks is not None]
        if self._frames is not None:
            bounds.append(len(self._frames.pages(size, Use.movable)))
        elif blocks:
            movable = sum(block.get("Movable", 0) + block.get("CMA", 0) for block in blocks)
            bounds.append(max(0, movable * LARGE - self._in_pools) // size)
        return max(now, min(bounds))  # free pages count whatever the type of their page block
