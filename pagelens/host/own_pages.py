"""Memory of this process that is populated at once, and the frames under it (/proc/self/pagemap)."""

import ctypes
import errno
import mmap
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import numpy as np
from numpy.typing import NDArray

from pagelens.address.units import FRAME_BYTES, GIGANTIC_PAGE_BYTES, HUGE_PAGE_BYTES
from pagelens.errors import Failure
from pagelens.host.page_entries import ENTRY_BYTES, FRAME, PRESENT

# Linux's asm-generic/mman-common.h and mman.h; Python 3.11 does not name them.
_MADV_POPULATE_WRITE = 23  # since 5.14
_MAP_HUGETLB, _MAP_HUGE_SHIFT = 0x40000, 26
_STEP = 64 << 20  # populated at a time: Ctrl-C is heard in between

PAGE_SIZES = {"4k": FRAME_BYTES, "thp": FRAME_BYTES, "2m": HUGE_PAGE_BYTES, "1g": GIGANTIC_PAGE_BYTES}


@contextmanager
def populated(size: int, pages: str, report: Callable[[int, int], None]) -> Iterator[tuple[int, int]]:
    """Yield the address and size of written memory on pages of that kind, and free it at the end.

    Raises Failure if the kernel has no such pages.
    """
    page = PAGE_SIZES[pages]
    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
    if page > FRAME_BYTES:
        flags |= _MAP_HUGETLB | (page.bit_length() - 1) << _MAP_HUGE_SHIFT
    lead = HUGE_PAGE_BYTES if pages == "thp" else 0  # so that it can begin at a large page
    try:
        region = mmap.mmap(-1, size + lead, flags=flags)
    except (OSError, ValueError, OverflowError) as error:
        reason = getattr(error, "strerror", None) or error
        raise Failure(f"--probe: no {size} B on {pages} pages ({reason}); probe less") from None
    try:
        first = -_address(region) % HUGE_PAGE_BYTES if lead else 0
        if pages in ("4k", "thp"):
            _advise(region, mmap.MADV_NOHUGEPAGE if pages == "4k" else mmap.MADV_HUGEPAGE)
        step = max(_STEP, page)
        for start in range(first, first + size, step):
            _populate(region, start, min(step, first + size - start), pages)
            report(min(start - first + step, size), size)
        yield _address(region) + first, size
    finally:
        region.close()


def frames_of(address: int, size: int) -> NDArray[np.int64]:
    """Return the frame of each 4 KiB of this process's memory, or zeros if the user may not see them."""
    with open("/proc/self/pagemap", "rb", buffering=0) as file:
        file.seek(address // FRAME_BYTES * ENTRY_BYTES)
        raw = bytearray()
        while len(raw) < size // FRAME_BYTES * ENTRY_BYTES:
            part = file.read(size // FRAME_BYTES * ENTRY_BYTES - len(raw))
            if not part:
                break
            raw += part
    entries = np.frombuffer(bytes(raw), dtype="<u8")
    frames = np.where(entries & PRESENT, entries & FRAME, np.uint64(0))
    return frames.astype(np.int64)


def frames_visible() -> bool:
    """Return whether this user sees frame numbers, by looking at one."""
    with mmap.mmap(-1, FRAME_BYTES) as region:
        region[0] = 1
        try:
            return bool(frames_of(_address(region), FRAME_BYTES).any())
        except OSError:
            return False


def _populate(region: mmap.mmap, start: int, size: int, pages: str) -> None:
    try:
        region.madvise(_MADV_POPULATE_WRITE, start, size)
    except OSError as error:
        if error.errno != errno.EINVAL:  # of a kernel before 5.14
            reason = f"{start} B on {pages} pages were all that was to be had ({error.strerror})"
            raise Failure(f"--probe: {reason}; probe less") from None
        for at in range(start, start + size, FRAME_BYTES):
            region[at] = 1


def _advise(region: mmap.mmap, advice: int) -> None:
    """Give the kernel an advice.

    A kernel without transparent huge pages refuses it, which the frames show.
    """
    try:
        region.madvise(advice)
    except OSError as error:
        if error.errno != errno.EINVAL:
            raise


def _address(region: mmap.mmap) -> int:
    holder = ctypes.c_char.from_buffer(region)
    try:
        return ctypes.addressof(holder)
    finally:
        del holder  # the region could not be closed while it is there
