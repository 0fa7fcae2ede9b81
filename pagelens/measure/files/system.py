"""Reads what the system says of the file system under a folder: its type, direct operations, caches."""

from __future__ import annotations

import ctypes
import os
import re
from dataclasses import dataclass
from pathlib import Path

from pagelens.host.system import System

_STATX_DIOALIGN = 0x2000
_AT_FDCWD, _AT_EMPTY_PATH = -100, 0x1000
_STATX_BYTES, _STATX_MASK_AT, _DIO_MEMORY_AT, _DIO_OFFSET_AT = 256, 0, 0x98, 0x9C
_STATX = 332  # x86-64
_WITHOUT_STATX = 4096  # the most that file systems ask for
# Types of mounts whose files statfs(2), and so a recording, calls otherwise.
_RECORDED_AS = {"ext2": "ext4", "ext3": "ext4", "nfs4": "nfs", "fuseblk": "fuse"}
_IN_MEMORY = {"tmpfs", "ramfs", "devtmpfs", "hugetlbfs"}


@dataclass(frozen=True)
class FileSystem:
    """The file system of a folder, and the kernel's settings for it."""

    type: str
    source: str  # a device, a server, ...
    device: int
    direct: bool  # O_DIRECT is accepted
    direct_copies: bool  # but copies all the same
    direct_alignment: int
    memory_alignment: int
    alignment_source: str
    dirty_limit: int | None
    read_ahead: int | None

    @property
    def forgets(self) -> bool:
        """Whether its page cache can drop data. The files of tmpfs have no other place."""
        return self.type not in _IN_MEMORY


def read_file_system(folder: Path, system: System | None = None) -> FileSystem:
    """Read /proc and /sys, and tries O_DIRECT on a file without a name."""
    system = system or System()
    device = folder.stat().st_dev
    type_, source = _mounted(system, device, folder)
    direct, memory, offset = _direct_alignment(folder)
    told = direct and memory > 0 and offset > 0
    return FileSystem(
        type=type_,
        source=source,
        device=device,
        direct=direct,
        direct_copies=direct and type_ in _IN_MEMORY,
        direct_alignment=offset if told else _WITHOUT_STATX,
        memory_alignment=memory if told else _WITHOUT_STATX,
        alignment_source="statx(STATX_DIOALIGN)" if told else "",
        dirty_limit=_dirty_limit(system),
        read_ahead=_read_ahead(system, device),
    )


def _mounted(system: System, device: int, folder: Path) -> tuple[str, str]:
    """Return the type and source of the mount with this device. The type is named as in recordings.

    Overlays and NFS have devices of their own.
    """
    wanted = f"{os.major(device)}:{os.minor(device)}"
    best: tuple[int, str, str] = (-1, "unknown", "")
    where = str(folder.resolve())
    for line in system.text("/proc/self/mountinfo").splitlines():
        words, _, rest = line.partition(" - ")
        fields, after = words.split(), rest.split()
        if len(fields) < 5 or len(after) < 2:
            continue
        point = re.sub(r"\\([0-7]{3})", lambda m: chr(int(m[1], 8)), fields[4])
        inside = where == point or where.startswith(point.rstrip("/") + "/")
        if fields[2] == wanted and inside and len(point) > best[0]:
            best = (len(point), after[0], after[1])
    type_ = best[1].partition(".")[0]  # fuse.sshfs
    return _RECORDED_AS.get(type_, type_), best[2]


def _direct_alignment(folder: Path) -> tuple[bool, int, int]:
    """Return whether O_DIRECT is accepted, and the alignments of memory and offsets by statx (0 for none)."""
    try:
        file = os.open(folder, os.O_TMPFILE | os.O_RDWR | os.O_DIRECT | os.O_CLOEXEC, 0o600)
    except OSError:
        path = folder / f".pagelens-direct-{os.getpid()}"
        try:
            file = os.open(path, os.O_CREAT | os.O_RDWR | os.O_DIRECT | os.O_CLOEXEC, 0o600)
        except OSError:
            path.unlink(missing_ok=True)
            return False, 0, 0
        path.unlink(missing_ok=True)
    try:
        return True, *_dio_alignment(file)
    finally:
        os.close(file)


def _dio_alignment(file: int) -> tuple[int, int]:
    libc = ctypes.CDLL(None, use_errno=True)
    answer = (ctypes.c_uint8 * _STATX_BYTES)()
    status = libc.syscall(
        _STATX, ctypes.c_int(file), b"", _AT_EMPTY_PATH, _STATX_DIOALIGN, ctypes.byref(answer)
    )

    def number(at: int) -> int:
        return int.from_bytes(bytes(answer[at : at + 4]), "little")

    if status != 0 or not number(_STATX_MASK_AT) & _STATX_DIOALIGN:
        return 0, 0
    return number(_DIO_MEMORY_AT), number(_DIO_OFFSET_AT)


def _dirty_limit(system: System) -> int | None:
    """Return how many bytes may be dirty. /proc/sys/vm states bytes, or a share of what is available."""
    stated = system.number("/proc/sys/vm/dirty_bytes")
    if stated:
        return stated
    ratio = system.number("/proc/sys/vm/dirty_ratio")
    available = re.match(r"(\d{1,15}) kB", system.fields("/proc/meminfo").get("MemAvailable", ""))
    return None if ratio is None or available is None else int(available[1]) * 1024 * ratio // 100


def _read_ahead(system: System, device: int) -> int | None:
    kib = system.number(f"/sys/class/bdi/{os.major(device)}:{os.minor(device)}/read_ahead_kb")
    return None if kib is None else kib * 1024
