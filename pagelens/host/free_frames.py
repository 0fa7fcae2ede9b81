"""Finds the free memory of this system, for a pool: /proc/kpageflags says which frames are free.

See Linux's Documentation/admin-guide/mm/pagemap.rst (flag 10, BUDDY, is set on every frame of a free block).
"""

import re
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from pagelens.address.pages import Pages
from pagelens.address.units import FRAME_BYTES
from pagelens.errors import Failure, UsageError
from pagelens.host.page_entries import BUDDY

_CHUNK_FRAMES = 1 << 21
_ZONE = re.compile(r"Node +(\d+), zone")
_SPANNED = re.compile(r" +spanned +(\d+)")
_START = re.compile(r" +start_pfn: +(\d+)")


def read_free(page_bytes: int, beside: Pages, root: Path = Path("/")) -> Pages:
    """Return the pages of that size whose frames are all free, on the NUMA nodes of the pages `beside`.

    `root` is the folder that holds proc/. Raises UsageError or Failure.
    """
    frames = page_bytes // FRAME_BYTES
    used = np.sort(beside.addresses // FRAME_BYTES)
    found = []
    for first, end in _zones(root):
        if np.searchsorted(used, first) == np.searchsorted(used, end):
            continue  # none of the pages is on this node
        start = -(-first // frames) * frames
        for chunk in range(start, end // frames * frames, max(frames, _CHUNK_FRAMES)):
            count = min(max(frames, _CHUNK_FRAMES), end // frames * frames - chunk)
            free = _free(root / "proc/kpageflags", chunk, count).reshape(-1, frames).all(axis=1)
            found.append(chunk + np.flatnonzero(free) * frames)
    addresses = np.concatenate([np.empty(0, dtype=np.int64), *found]).astype(np.uint64) * np.uint64(
        FRAME_BYTES
    )
    if not len(addresses):
        raise Failure("--pool free: no page of that size is free; try --page-size 4KiB")
    return Pages(addresses, np.full(len(addresses), page_bytes, dtype=np.int64))


def _zones(root: Path) -> list[tuple[int, int]]:
    """Return the first frame and the end of every NUMA node, as its zones span it."""
    path = root / "proc/zoneinfo"
    try:
        text = path.read_text(errors="replace")
    except OSError as error:
        raise UsageError(f"--pool free: cannot read {path} ({error.strerror}); run it as root") from None
    nodes: dict[int, tuple[int, int]] = {}
    node = spanned = 0
    for line in text.splitlines():
        if match := _ZONE.match(line):
            node, spanned = int(match[1]), 0
        elif match := _SPANNED.fullmatch(line):
            spanned = int(match[1])
        elif (match := _START.fullmatch(line)) and spanned:
            start = int(match[1])
            first, end = nodes.get(node, (start, start))
            nodes[node] = min(first, start), max(end, start + spanned)
    return list(nodes.values())


def _free(path: Path, first: int, count: int) -> NDArray[np.bool_]:
    """Return for each of `count` frames whether it is free. Frames that the file lacks are not."""
    try:
        with open(path, "rb") as file:
            file.seek(8 * first)
            raw = file.read(8 * count)
    except OSError as error:
        raise UsageError(f"--pool free: cannot read {path} ({error.strerror}); run it as root") from None
    free = np.zeros(count, dtype=bool)
    flags = np.frombuffer(raw[: len(raw) // 8 * 8], dtype="<u8")
    free[: len(flags)] = (flags & np.uint64(1 << BUDDY)) != 0
    return free
