"""Measures what a page costs: its first touch, which the kernel answers, and giving it back.

The kernel's counter of faults (getrusage) says how many pages of which size a walk through fresh memory took.
So a kernel that gives large pages where small ones were asked for falsifies nothing.
"""

import mmap
import resource
import time
from collections.abc import Callable

import numpy as np

from pagelens.address.units import FRAME_BYTES, HUGE_PAGE_BYTES

_BYTES = 64 << 20  # of one walk
_ALIKE = 0.05  # by which the number of faults may differ from that of pages

Touch = Callable[[int, int, int], tuple[float, int]]  # bytes, step, advice: core seconds and faults


def page_cost(page_bytes: int, repeats: int, touch: Touch | None = None) -> float | None:
    """Return the core seconds of one page of that size, or None if the kernel hands out others here.

    The best of `repeats` walks counts.
    """
    step, advice = (
        (HUGE_PAGE_BYTES, mmap.MADV_HUGEPAGE)
        if page_bytes == HUGE_PAGE_BYTES
        else (FRAME_BYTES, mmap.MADV_NOHUGEPAGE)
    )
    pages = _BYTES // step
    best: float | None = None
    for _ in range(repeats):
        seconds, faults = (touch or _touch)(_BYTES, step, advice)
        if abs(faults - pages) <= max(2, _ALIKE * pages):
            best = seconds / pages if best is None else min(best, seconds / pages)
    return best


def _touch(size: int, step: int, advice: int) -> tuple[float, int]:
    """Write a byte in each `step` bytes of fresh memory, and give it back."""
    began, faults = time.thread_time(), _faults()
    with mmap.mmap(-1, size + step, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS) as memory:
        try:
            memory.madvise(advice)
        except OSError:
            return 0.0, 0  # a kernel without large pages
        whole = np.frombuffer(memory, np.uint8)
        first = -whole.ctypes.data % step
        whole[first : first + size : step] = 1
        touched = _faults() - faults
        del whole
    return time.thread_time() - began, touched


def _faults() -> int:
    return resource.getrusage(resource.RUSAGE_THREAD).ru_minflt
