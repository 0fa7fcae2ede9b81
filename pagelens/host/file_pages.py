"""Reads which pages of a file the page cache holds, and on which NUMA node each of them lies.

mincore(2) says which pages are cached, and move_pages(2) without target nodes says where a mapped page lies.
Neither reads anything from the disk.
"""

import ctypes
import mmap
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from pagelens.address.units import FRAME_BYTES
from pagelens.errors import UsageError
from pagelens.host.memory_policy import nodes_of_pages

_WINDOW = 1 << 30  # bytes of a file that are mapped at a time
_libc = ctypes.CDLL(None, use_errno=True)


@dataclass(frozen=True)
class CachedFile:
    """A file, or all files below a folder. Sizes are in bytes."""

    path: str
    size: int
    cached: int  # bytes in the page cache
    # The cached bytes of each node; a page that moves is in none.
    by_node: dict[int, int] = field(default_factory=dict)
    hidden: int = 0  # files whose pages the kernel shows only to their owner, and which are left out


def read_cached(path: Path, report: Callable[[int, int], None] = lambda done, total: None) -> CachedFile:
    """Return where the cached pages of a file lie, or of all regular files below a folder.

    `report` gets the bytes that were looked at, and their total. Raises UsageError if it cannot be read.
    """
    try:
        path.stat()  # raises where there is nothing of that name
        found = [path] if path.is_file() else sorted(each for each in path.rglob("*") if _regular(each))
        sizes = [each.stat().st_size for each in found]
    except OSError as error:
        raise UsageError(
            f"--files {path}: {error.strerror}; name a file or folder that can be read"
        ) from None
    total, done, hidden = sum(sizes), 0, 0
    counts: dict[int, int] = {}
    cached = 0
    for each, size in zip(found, sizes, strict=True):
        try:
            with each.open("rb") as file:
                if not _shown(each):
                    hidden += 1
                    continue
                for pages, nodes in _windows(file.fileno(), size):
                    cached += pages * FRAME_BYTES
                    for node, count in zip(*np.unique(nodes[nodes >= 0], return_counts=True), strict=True):
                        counts[int(node)] = counts.get(int(node), 0) + int(count) * FRAME_BYTES
                    report(done, total)
        except OSError as error:
            if each == path:
                raise UsageError(f"--files {path}: {error.strerror}; name a file that can be read") from None
            hidden += 1
        done += size
    return CachedFile(str(path), total, cached, dict(sorted(counts.items())), hidden)


def _regular(path: Path) -> bool:
    return path.is_file() and not path.is_symlink()


def _shown(path: Path) -> bool:
    """Return whether mincore tells the truth. Since Linux 5.2 it calls every page of others' files cached."""
    return os.geteuid() in (0, path.stat().st_uid) or os.access(path, os.W_OK, effective_ids=True)


def _windows(descriptor: int, size: int) -> Iterator[tuple[int, NDArray[np.int32]]]:
    """Yield how many pages of each part of a file are cached, and the nodes of those; below 0 if unknown."""
    for start in range(0, size, _WINDOW):
        length = min(_WINDOW, size - start)
        with mmap.mmap(descriptor, length, prot=mmap.PROT_READ, offset=start) as mapping:
            mapping.madvise(mmap.MADV_RANDOM)  # so that a page that leaves meanwhile brings no others
            view = np.frombuffer(mapping, dtype=np.uint8)
            try:
                cached = resident(view)
                view[cached * FRAME_BYTES].max(initial=0)  # a page has a node only once it is mapped
                addresses = (view.ctypes.data + cached * FRAME_BYTES).astype(np.uint64)
                yield len(cached), nodes_of_pages(addresses)
            finally:
                del view  # else the mapping could not be closed


def resident(view: NDArray[np.uint8]) -> NDArray[np.int64]:
    """Return the numbers of the pages of a mapping that the page cache holds. Raises OSError."""
    pages = -(-len(view) // FRAME_BYTES)
    flags = np.zeros(pages, dtype=np.uint8)
    address, length = ctypes.c_void_p(view.ctypes.data), ctypes.c_size_t(len(view))
    if _libc.mincore(address, length, ctypes.c_void_p(flags.ctypes.data)):
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return np.flatnonzero(flags & 1)
