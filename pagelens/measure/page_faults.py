"""Measures what a page costs: its first touch, which the kernel answers, and giving it back.

The kernel's counter of faults (getrusage) says how many pages of which size a walk through fresh memory took.
So a kernel that gives large pages where small ones were asked for falsifies nothing.
"""

import mmap
import resource
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np

from pagelens.address.units import FRAME_BYTES, HUGE_PAGE_BYTES

_BYTES = 64 << 20  # of one walk
_FILE_BLOCK_BYTES = 64 << 10  # of a file, which one fault maps (fault_around_bytes of Linux)
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


def _touch(size: int, step: int, advice: int, write: bool = True) -> tuple[float, int]:
    """Write or read a byte in each `step` bytes of fresh memory, and give it back."""
    began, faults = time.thread_time(), _faults()
    with mmap.mmap(-1, size + step, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS) as memory:
        try:
            memory.madvise(advice)
        except OSError:
            return 0.0, 0  # a kernel without large pages
        whole = np.frombuffer(memory, np.uint8)
        first = -whole.ctypes.data % step
        if write:
            whole[first : first + size : step] = 1
        else:
            whole[first : first + size : step].max()
        touched = _faults() - faults
        del whole
    return time.thread_time() - began, touched


def zero_page_cost(repeats: int) -> float | None:
    """Return the core seconds of a page of zeros that is read, or None if the kernel maps several at once."""
    return page_cost(FRAME_BYTES, repeats, partial(_touch, write=False))


def file_pages_cost(repeats: int) -> float:
    """Return the core seconds of the pages of a file in a block of 64 KiB, however many faults that takes.

    The file is the largest one that this process maps, a library. In how large pieces the page cache has a
    file depends on the file system and on who read it first.
    """
    costs = []
    with _largest_mapped().open("rb") as file:
        blocks = len(file.read()) // _FILE_BLOCK_BYTES  # from now on the page cache has it
        size = blocks * _FILE_BLOCK_BYTES
        for _ in range(repeats):
            began = time.thread_time()
            with mmap.mmap(file.fileno(), size, flags=mmap.MAP_PRIVATE, prot=mmap.PROT_READ) as memory:
                whole = np.frombuffer(memory, np.uint8)
                whole[::_FILE_BLOCK_BYTES].max()
                del whole
            costs.append((time.thread_time() - began) / blocks)
    return min(costs)


def _largest_mapped() -> Path:
    """Return the largest file among those that /proc/self/maps names."""
    fields = [line.split(maxsplit=5) for line in Path("/proc/self/maps").read_text().splitlines()]
    paths = {Path(of[5]) for of in fields if len(of) == 6 and of[5].startswith("/")}
    return max((path for path in paths if path.is_file()), key=lambda path: path.stat().st_size)


def _faults() -> int:
    return resource.getrusage(resource.RUSAGE_THREAD).ru_minflt
