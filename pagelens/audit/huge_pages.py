"""The pools of huge pages, and how many pages more could be had."""

import re
from collections.abc import Iterator

from pagelens.audit.fragmentation import LARGE_ORDER, suitable_blocks
from pagelens.audit.model import GIGANTIC, LARGE, SMALL, HugePages, Node, NodePool, Zone
from pagelens.host.frame_map import FrameMap, Use
from pagelens.host.kernel_settings import Usage
from pagelens.host.system import System

_POOLS = "/sys/kernel/mm/hugepages"
_LARGEST_ORDER = 10  # of a free block
_SIZE = re.compile(r"hugepages-(\d{1,10})kB")


def read_huge_pages(
    system: System, nodes: tuple[Node, ...], zones: tuple[Zone, ...], usage: Usage, frames: FrameMap | None
) -> tuple[HugePages, ...]:
    """A pool for each size that the kernel has."""
    names = sorted(system.names(_POOLS), key=lambda name: (len(name), name))
    sizes = {name: int(match[1]) << 10 for name in names if (match := _SIZE.fullmatch(name))}
    sizes = {name: size for name, size in sizes.items() if LARGE <= size <= GIGANTIC}
    totals = {name: system.number(f"{_POOLS}/{name}/nr_hugepages") for name in sizes}
    supply = _Supply(zones, usage, frames, sum((totals[name] or 0) * size for name, size in sizes.items()))
    found = []
    for name, size in sizes.items():
        folder = f"{_POOLS}/{name}"
        now, counted = supply.now(size)
        found.append(
            HugePages(
                page_size=size,
                total=totals[name],
                free=system.number(f"{folder}/free_hugepages"),
                reserved=system.number(f"{folder}/resv_hugepages"),
                surplus=system.number(f"{folder}/surplus_hugepages"),
                overcommit=system.number(f"{folder}/nr_overcommit_hugepages"),
                nodes=tuple(_of_nodes(system, name, nodes)),
                more_now=now,
                more_now_exact=counted,
                more_at_most=supply.at_most(size, now if counted and now else 0),
            )
        )
    return tuple(found)


def _of_nodes(system: System, name: str, nodes: tuple[Node, ...]) -> Iterator[NodePool]:
    for node in nodes:
        folder = f"/sys/devices/system/node/node{node.number}/hugepages/{name}"
        total = system.number(f"{folder}/nr_hugepages")
        if total is not None:
            yield NodePool(node.number, total, system.number(f"{folder}/free_hugepages"))


class _Supply:
    """What pages could be made of."""

    def __init__(self, zones: tuple[Zone, ...], usage: Usage, frames: FrameMap | None, in_pools: int) -> None:
        self._zones, self._usage, self._frames, self._in_pools = zones, usage, frames, in_pools

    def now(self, size: int) -> tuple[int | None, bool]:
        """Pages that are free in one piece, and whether that is counted or a bound."""
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
        """Bounds: what is free or can be dropped, and the ranges, or page blocks, that nothing pins."""
        if self._usage.free is None:
            return None
        bounds = [(self._usage.free + (self._usage.droppable or 0)) // size]
        blocks = [zone.pageblocks for zone in self._zones if zone.pageblocks is not None]
        if self._frames is not None:
            bounds.append(len(self._frames.pages(size, Use.movable)))
        elif blocks:
            movable = sum(block.get("Movable", 0) + block.get("CMA", 0) for block in blocks)
            bounds.append(max(0, movable * LARGE - self._in_pools) // size)
        return max(now, min(bounds))  # what is free now can be, whatever type its page block has
