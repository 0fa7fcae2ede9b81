"""Reads how large the folios are in which the page cache holds a file.

A folio is a run of pages in one piece. /proc/self/pagemap tells the frame of a mapped page, and
/proc/kpageflags whether a frame begins a folio. Only root can read them. Nothing is read from the disk.
"""

import mmap
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from pagelens.address.units import FRAME_BYTES
from pagelens.host.file_pages import resident
from pagelens.host.page_entries import ENTRY_BYTES, FRAME
from pagelens.host.system import System

_TAIL = np.uint64(1 << 16)  # kpageflags: the frame does not begin its folio
_WINDOWS, _WINDOW = 9, 32  # how many parts of a file are looked at, and their pages


def read_folio_share(path: Path, system: System | None = None) -> float | None:
    """Return the number of folios over the number of cached pages of a file: 1 if each page is a folio.

    Only some parts of the file are looked at. Returns None if the system does not tell, or nothing is cached.
    """
    system = system or System()
    pages = heads = 0
    try:
        with path.open("rb") as file:
            length = path.stat().st_size
            for start in _starts(length):
                size = min(_WINDOW * FRAME_BYTES, length - start)
                with mmap.mmap(file.fileno(), size, prot=mmap.PROT_READ, offset=start) as mapping:
                    mapping.madvise(mmap.MADV_RANDOM)
                    view = np.frombuffer(mapping, dtype=np.uint8)
                    try:
                        cached = resident(view)
                        view[cached * FRAME_BYTES].max(initial=0)  # a page has a frame only once it is mapped
                        entries = _entries(
                            system, "/proc/self/pagemap", view.ctypes.data // FRAME_BYTES, _WINDOW
                        )
                    finally:
                        del view  # else the mapping could not be closed
                flags = _flags(system, entries[cached[cached < len(entries)]] & FRAME)
                pages += len(flags)
                heads += int(np.count_nonzero(flags & _TAIL == 0))
    except (OSError, ValueError):
        return None
    return heads / pages if pages else None


def _starts(length: int) -> list[int]:
    """Return where the parts begin, all over the file."""
    whole = -(-length // FRAME_BYTES)
    step = max(_WINDOW, whole // _WINDOWS)
    return [page * FRAME_BYTES for page in range(0, whole, step)][:_WINDOWS]


def _flags(system: System, frames: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Return the flags of frames, in any order. Frame 0 means that the system does not tell."""
    runs = np.split(frames, np.flatnonzero(np.diff(frames) != 1) + 1)
    found = [
        _entries(system, "/proc/kpageflags", int(run[0]), run.size) for run in runs if run.size and run[0]
    ]
    return np.concatenate([np.empty(0, np.uint64), *found])


def _entries(system: System, name: str, first: int, count: int) -> NDArray[np.uint64]:
    raw = system.bytes_at(name, ENTRY_BYTES * first, ENTRY_BYTES * count)
    return np.frombuffer(raw[: len(raw) // ENTRY_BYTES * ENTRY_BYTES], "<u8")
