"""Measures how far a TLB reaches: by sweeps of growing size, random loads, and walks with nothing cached."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from pagelens import _core
from pagelens.machine.tlb import PAGE_SIZES, Tlb
from pagelens.machine.tlb_files import TlbFile

MOST_PAGES, MOST_PIECES = 1 << 17, 5 << 20  # of a sweep


@dataclass(frozen=True)
class Reach:
    """The largest memory, in bytes, up to which a sweep is free of something.

    None means that it is larger than any tried.
    """

    without_misses: int | None  # no load misses level 1
    without_walks: int | None
    one_step: int | None  # no walk reads more than one entry


def holder(tlb: TlbFile, level: int, page: int) -> Tlb | None:
    """Return the array of that level for pages of that size, or None."""
    arrays = (array for array in tlb.tlb if array.level.value == level)
    return next((array for array in arrays if page in (*array.pages.value, *array.larger_pages)), None)


def stated_reach(array: Tlb | None, page: int) -> int:
    """Return the bytes that all entries of an array map; 0 if there is no array."""
    return 0 if array is None else array.entries.value * piece(array, page)


def piece(array: Tlb, page: int) -> int:
    """Return the bytes of a page of that size that one entry maps."""
    return max(size for size in array.pages.value if size <= page)


def directory_reach(tlb: TlbFile, page: int) -> int | None:
    """Return up to which memory a walk of 4 KiB pages has one step.

    It has one if the second level holds the page-directory entry.
    """
    return next((a.entries.value << 21 for a in tlb.tlb if a.holds_directory and page == 1 << 12), None)


def swept_reach(tlb: TlbFile, page: int) -> Reach:
    """Return the reach of sweeps with one load for each piece of a page that an entry maps."""
    sweeps = _Sweeps(tlb, page)
    return Reach(
        sweeps.reach(lambda counters: not any(counters.dtlb_misses)),
        sweeps.reach(lambda counters: not any(counters.walks_completed)),
        sweeps.reach(lambda counters: sum(counters.walker_loads) <= sum(counters.walks_completed)),
    )


class _Sweeps:
    """A sweep over so much memory that runs twice. The second run is counted."""

    def __init__(self, tlb: TlbFile, page: int) -> None:
        self._tlb, self._size = tlb, PAGE_SIZES[page]
        first = holder(tlb, 1, page)
        assert first is not None
        self._step = piece(first, page)
        self._most = MOST_PAGES if self._step == page else MOST_PIECES

    def reach(self, free: Callable[[_core.TlbCounters], bool]) -> int | None:
        """Return the largest memory for which `free` holds, by bisection."""
        low, high = 0, self._most + 1
        if free(self._later(self._most)):
            return None
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if free(self._later(middle)) else (low, middle)
        return low * self._step

    def _later(self, loads: int) -> _core.TlbCounters:
        core = self._tlb.core()
        addresses = np.arange(loads, dtype=np.uint64) * np.uint64(self._step)
        core.translate(addresses, self._size)
        return core.translate(addresses, self._size)


def random_loads(tlb: TlbFile, page: int, footprint: int, loads: int, seed: int = 0) -> _core.TlbCounters:
    """Count uniformly random loads from so much memory, after as many uncounted ones.

    As far as translations go, this is the HPC Challenge's RandomAccess.
    """
    draw_from = np.random.Generator(np.random.Philox(np.random.SeedSequence([seed, footprint])))
    core = tlb.core()
    core.translate(draw_from.integers(footprint, size=loads, dtype=np.uint64), PAGE_SIZES[page])
    return core.translate(draw_from.integers(footprint, size=loads, dtype=np.uint64), PAGE_SIZES[page])


def trips_uncached(page: int) -> float:
    """Return the memory accesses of a load with nothing cached.

    They are those to entries of the page tables, and the load itself.
    """
    one_entry = _core.TlbArray(1, (1, 1), False, [True] * 3, [False] * 3, False)
    bare = _core.Tlb([one_entry], (0, 0), (0, 0), (0, 0), False)
    counters = bare.translate(np.arange(1000, dtype=np.uint64) * np.uint64(page), PAGE_SIZES[page])
    return sum(counters.walker_loads) / counters.lookups + 1
