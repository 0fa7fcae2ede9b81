"""Free memory by order and zone, from /proc/buddyinfo and /proc/pagetypeinfo.

The indices are the kernel's own (mm/vmstat.c: unusable_free_index and __fragmentation_index, which debugfs
shows in extfrag/). They are computed from the same numbers by the same formulas, and rounded to thousandths
as there.
"""

import re
from collections.abc import Sequence

from pagelens.audit.model import SMALL, Zone
from pagelens.host.system import System

LARGE_ORDER = 9  # 2 MiB
_FREE = re.compile(r"Node\s+(\d{1,4}), zone\s+(\w{1,16})((?:\s+\d{1,15}){1,32})")
_TYPES = re.compile(r"Number of blocks type((?:\s+\w{1,24})+)\s*")
_BLOCKS = re.compile(r"Node\s+(\d{1,4}), zone\s+(\w{1,16})((?:\s+\d{1,15})+)\s*")


def read_zones(system: System) -> tuple[Zone, ...]:
    """Return all zones of buddyinfo, or none if it is not readable."""
    pageblocks = _pageblocks(system.text("/proc/pagetypeinfo"))
    zones = []
    for line in system.text("/proc/buddyinfo").splitlines():
        if (match := _FREE.fullmatch(line.strip())) is None:
            continue
        node, name, counts = int(match[1]), match[2], tuple(map(int, match[3].split()))
        zones.append(
            Zone(
                node=node,
                name=name,
                free_blocks=counts,
                free=SMALL * free_frames(counts),
                unusable=unusable_index(counts, LARGE_ORDER),
                fragmentation=fragmentation_index(counts, LARGE_ORDER),
                pageblocks=pageblocks.get((node, name)),
            )
        )
    return tuple(zones)


def free_frames(counts: Sequence[int]) -> int:
    """Return the number of free frames, in blocks of all orders."""
    return sum(count << order for order, count in enumerate(counts))


def suitable_blocks(counts: Sequence[int], order: int) -> int:
    """Return how many blocks of that order the free blocks have room for."""
    return sum(count << (at - order) for at, count in enumerate(counts) if at >= order)


def unusable_index(counts: Sequence[int], order: int) -> float:
    """Return the share of free memory in blocks below `order`, as the kernel does; 1 if none is free."""
    free = free_frames(counts)
    if free == 0:
        return 1.0
    return (free - (suitable_blocks(counts, order) << order)) * 1000 // free / 1000


def fragmentation_index(counts: Sequence[int], order: int) -> float | None:
    """Return the kernel's fragmentation index: 0 if memory is lacking, 1 if it is fragmented.

    Returns None if it would succeed.
    """
    blocks = sum(counts)
    if blocks == 0:
        return 0.0
    if suitable_blocks(counts, order):
        return None
    return (1000 - (1000 + free_frames(counts) * 1000 // (1 << order)) // blocks) / 1000


def _pageblocks(text: str) -> dict[tuple[int, str], dict[str, int]]:
    """Return the page blocks by migrate type, for each node and zone."""
    found: dict[tuple[int, str], dict[str, int]] = {}
    types: list[str] = []
    for line in text.splitlines():
        if match := _TYPES.fullmatch(line):
            types = match[1].split()
        elif types and (match := _BLOCKS.fullmatch(line)):
            counts = list(map(int, match[3].split()))
            if len(counts) == len(types):
                found[int(match[1]), match[2]] = dict(zip(types, counts, strict=True))
    return found
