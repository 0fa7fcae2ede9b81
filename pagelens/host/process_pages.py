"""The live pages of a process, from /proc. smaps says where it has memory, pagemap which frames are under it.

See Linux's Documentation/admin-guide/mm/pagemap.rst and Documentation/filesystems/proc.rst (smaps).
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from pagelens.address.pages import HIGHEST_ADDRESS, Pages
from pagelens.address.units import FRAME_BYTES, HUGE_PAGE_FRAMES
from pagelens.errors import Failure, UsageError
from pagelens.host.page_entries import ENTRY_BYTES, FRAME, PRESENT
from pagelens.host.virtual_machine import in_virtual_machine

_CHUNK_ENTRIES = 1 << 20
_HEADER = re.compile(r"([0-9a-f]{1,16})-([0-9a-f]{1,16}) (\S{4}) [0-9a-f]+ \S+ \d+(?:\s+(.*))?")
_LARGER_PAGES = re.compile(r"^KernelPageSize:\s+(16|64) kB$", re.MULTILINE)  # of Arm's and POWER's kernels
_RESIDENT = re.compile(r"(?:Rss|Shared_Hugetlb|Private_Hugetlb):\s+(\d+) kB")

VIRTUAL_MACHINE = (
    "This is a virtual machine: the frames are the guest's, and which slices they select is decided by the "
    "host's frames under them; run it on the host."
)


@dataclass(frozen=True)
class _Mapping:
    first: int  # page
    end: int
    writable: bool
    resident: bool


def read_process(pid: int, root: Path = Path("/")) -> Pages:
    """Return the pages of a process's writable memory, by virtual address, with 2 MiB pages in one piece.

    `root` is the folder that holds proc/, such as a captured tree. Raises UsageError or Failure.
    """
    folder = root / "proc" / str(pid)
    smaps = _text(folder / "smaps", pid)
    if larger := _LARGER_PAGES.search(smaps):
        raise UsageError(
            f"--pid {pid}: the kernel's pages have {larger[1]} KiB, but only pages of 4 KiB can be read; "
            "give a list of the pages with --frames"
        )
    mappings = list(_mappings(smaps))
    virtual, frames = _resident(folder / "pagemap", pid, [m for m in mappings if m.writable and m.resident])
    if not len(virtual):
        raise Failure(f"--pid {pid}: it has no writable memory in use; name the process that holds the data")
    if int(frames.max()) * FRAME_BYTES >= HIGHEST_ADDRESS:
        raise Failure(f"--pid {pid}: {folder / 'pagemap'} has frames beyond any memory; is the tree damaged?")
    if not frames.any():
        raise UsageError(f"--pid {pid}: the kernel shows frame numbers to root only; run it as root")
    virtual, frames = virtual[frames > 0], frames[frames > 0]
    frames, first = np.unique(frames, return_index=True)  # memory that is mapped twice counts once
    order = np.argsort(first, kind="stable")
    found, sizes = _grouped(virtual[first][order], frames[order])
    notes = (VIRTUAL_MACHINE,) if in_virtual_machine(root) else ()
    return Pages(found[:, 1] * FRAME_BYTES, sizes * FRAME_BYTES, None, found[:, 0] * FRAME_BYTES, notes)


def _text(path: Path, pid: int) -> str:
    try:
        return path.read_text(errors="replace")
    except OSError as error:
        raise UsageError(f"--pid {pid}: cannot read {path} ({error.strerror}); {_remedy(error)}") from None


def _remedy(error: OSError) -> str:
    if isinstance(error, PermissionError):
        return "run it as root"
    return "name a process that is running"


def _mappings(smaps: str) -> Iterator[_Mapping]:
    header: re.Match[str] | None = None
    resident = 0
    for line in smaps.splitlines():
        if match := _HEADER.fullmatch(line):
            if header is not None:
                yield _mapping(header, resident)
            header, resident = match, 0
        elif match := _RESIDENT.match(line):
            resident += int(match[1])
    if header is not None:
        yield _mapping(header, resident)


def _mapping(header: re.Match[str], resident: int) -> _Mapping:
    first, end = (int(header[part], 16) // FRAME_BYTES for part in (1, 2))
    return _Mapping(first, end, "w" in header[3], resident > 0)


def _resident(
    path: Path, pid: int, mappings: list[_Mapping]
) -> tuple[NDArray[np.uint64], NDArray[np.uint64]]:
    """Return the virtual page and the frame of what is present, by virtual page."""
    virtual, frames = [np.empty(0, dtype=np.uint64)], [np.empty(0, dtype=np.uint64)]
    try:
        with open(path, "rb") as file:
            for mapping in mappings:
                for start in range(mapping.first, mapping.end, _CHUNK_ENTRIES):
                    wanted = min(_CHUNK_ENTRIES, mapping.end - start)
                    file.seek(start * ENTRY_BYTES)
                    raw = file.read(wanted * ENTRY_BYTES)
                    if len(raw) != wanted * ENTRY_BYTES:
                        raise Failure(
                            f"--pid {pid}: {path} ends within a mapping; did the process end? run it again"
                        )
                    entries = np.frombuffer(raw, dtype="<u8")
                    present = np.flatnonzero(entries & PRESENT)
                    virtual.append((present + start).astype(np.uint64))
                    frames.append(entries[present] & FRAME)
    except OSError as error:
        raise UsageError(f"--pid {pid}: cannot read {path} ({error.strerror}); {_remedy(error)}") from None
    return np.concatenate(virtual), np.concatenate(frames)


def _grouped(
    virtual: NDArray[np.uint64], frames: NDArray[np.uint64]
) -> tuple[NDArray[np.uint64], NDArray[np.int64]]:
    """Return rows of virtual page and frame, and their size in frames.

    The size is 512 where as many neighbouring frames lie as in a large page.
    """
    large = np.uint64(HUGE_PAGE_FRAMES)
    apart = (np.diff(virtual, prepend=virtual[:1]) != 1) | (np.diff(frames, prepend=frames[:1]) != 1)
    breaks = np.cumsum(apart)  # equal where neighbours follow each other in both
    starts = np.flatnonzero((virtual % large == 0) & (frames % large == 0))
    starts = starts[starts + HUGE_PAGE_FRAMES <= len(virtual)]
    starts = starts[breaks[starts] == breaks[starts + HUGE_PAGE_FRAMES - 1]]
    sizes = np.ones(len(virtual), dtype=np.int64)
    sizes[(starts[:, None] + np.arange(HUGE_PAGE_FRAMES)).ravel()] = 0
    sizes[starts] = HUGE_PAGE_FRAMES
    kept = sizes > 0
    return np.column_stack([virtual[kept], frames[kept]]), sizes[kept]
