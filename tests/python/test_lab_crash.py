"""Files after a crash: a real kernel writes through the library of `pagelens io run` to a disk with a log.

QEMU's driver blklogwrites logs each write and flush of the guest's disk. Of each prefix of the log, the test
keeps what was flushed, as a crash does at worst. The file system there must hold all that fsync had answered
for. The program tells when that was by a block beyond the file system.
"""

import struct
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from run_library import PROGRAMS, build

from pagelens.host.native_files import native_file
from pagelens.lab.cached_file import add_modules, load_modules
from pagelens.lab.emulator import Disk
from pagelens.lab.guest import Guest
from pagelens.lab.initramfs import Initramfs
from pagelens.lab.kernels import find_kernel

pytestmark = pytest.mark.long

MIB, BLOCK, SECTOR = 1 << 20, 4096, 512
FILE_SYSTEM = 40 * MIB
MARK = FILE_SYSTEM  # where the program's block lies
# As in tests/programs/io_crash.c: where, and how much.
STEPS = (
    (0, MIB), (MIB, MIB + 5000), (2 * MIB + 5000, 100), (0, MIB + BLOCK), (4 * MIB, 3 * MIB), (MIB, 2 * MIB),
    (7 * MIB, BLOCK), (7 * MIB + BLOCK, MIB), (2 * MIB, 700), (0, 3 * MIB + BLOCK),
)  # fmt: skip
# Linux's Documentation/admin-guide/device-mapper/log-writes.rst; the numbers of dm-log-writes.c.
_MAGIC, _FLUSH, _FUA, _DISCARD = 0x6A736677736872, 1, 2, 4


@dataclass(frozen=True, slots=True)
class LoggedDisk(Disk):
    """A disk whose writes and flushes are logged. The guest must flush what is to survive."""

    def options(self) -> list[str]:
        """Return QEMU's options for this disk."""
        log = self.image.with_suffix(".log")
        log.touch()
        return [
            "-blockdev", f"driver=file,filename={self.image},node-name=image,cache.no-flush=on",
            "-blockdev", f"driver=file,filename={log},node-name=log,cache.no-flush=on",
            "-blockdev", "driver=blklogwrites,node-name=disk,file=image,log=log,log-append=off",
            "-device", "virtio-blk-pci,drive=disk,write-cache=on",
        ]  # fmt: skip


@dataclass(frozen=True)
class Entry:
    """One request to the disk."""

    offset: int
    data: bytes
    flags: int


def entries(log: bytes) -> Iterator[Entry]:
    magic, version, _, sector = struct.unpack_from("<QQQI", log)
    assert (magic, version, sector) == (_MAGIC, 1, SECTOR)
    at = SECTOR
    while at + SECTOR <= len(log):  # the superblock's number of entries lags behind
        first, count, flags, _ = struct.unpack_from("<QQQQ", log, at)
        if flags & ~15 or (not count and not flags):
            return
        at += SECTOR
        data = b"" if flags & _DISCARD else log[at : at + count * SECTOR]
        yield Entry(first * SECTOR, data, flags)
        at += len(data)


def crashes(before: bytes, log: bytes) -> Iterator[tuple[int, bytes]]:
    """Yield for each flush the number of steps that were told before, and the disk as flushed then."""
    disk, waiting = bytearray(before), list[Entry]()
    told = 0
    for entry in entries(log):
        if entry.flags & _FLUSH:
            for each in waiting:
                disk[each.offset : each.offset + len(each.data)] = each.data
            waiting.clear()
            yield told, bytes(disk)
        if entry.offset == MARK and entry.data:
            told = entry.data[0]
            yield told, bytes(disk)  # nothing was flushed since, but fsync had answered
        elif entry.flags & _FUA:
            disk[entry.offset : entry.offset + len(entry.data)] = entry.data
        elif entry.data:
            waiting.append(entry)


def lost(content: bytes, told: int) -> str:
    """Return what is missing of the steps that were told, or nothing. The next step may be there in part."""
    want, after = (np.zeros(9 * MIB, np.uint8) for _ in range(2))
    length = 0
    for step, (at, size) in enumerate(STEPS[: told + 1]):
        after[at : at + size] = step + 1
        if step < told:
            want[at : at + size] = step + 1
            length = max(length, at + size)
    if len(content) < length:
        return f"{len(content)} of {length} bytes"
    got = np.frombuffer(content, np.uint8)[:length]
    wrong = (got != want[:length]) & (got != after[:length])
    return f"byte {int(wrong.argmax())} after step {told}" if wrong.any() else ""


def file_in(image: bytes, folder: Path) -> bytes:
    """Return the file on the file system, after its journal was replayed."""
    disk, out = folder / "crashed", folder / "out"
    disk.write_bytes(image)
    out.unlink(missing_ok=True)
    checked = subprocess.run(["e2fsck", "-fy", disk], capture_output=True, check=False)
    assert checked.returncode in (0, 1), checked.stdout
    subprocess.run(["debugfs", "-R", f"dump /file {out}", disk], capture_output=True, check=True)
    return out.read_bytes() if out.exists() else b""


@pytest.fixture(scope="module")
def logs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[bytes, bytes, Path]]:
    """For each way: the disk before, and the log of what the guest did to it."""
    folder = tmp_path_factory.mktemp("crash")
    program = build(PROGRAMS / "io_crash.c", folder / "io_crash", "-w")
    kernel = find_kernel()
    root = Initramfs()
    add_modules(root, kernel, ("crc32c_generic", "ext4", "virtio_pci", "virtio_blk"))
    root.add_program("/lab/io_crash", program)
    root.add("/lab/apply.so", native_file("libpagelens_io_apply.so"))
    found = {}
    for way in ("synced", "careless"):
        image = folder / f"{way}.img"
        with image.open("wb") as file:
            file.truncate(FILE_SYSTEM + MIB)
        command = ["mkfs.ext4", "-q", "-b", "4096", image, str(FILE_SYSTEM // 4096)]
        subprocess.run(command, check=True)
        before = image.read_bytes()
        with Guest(kernel, 1 << 29, root, disk=LoggedDisk(image, 1e9)) as guest:
            load_modules(guest)
            said = guest.shell(
                "mkdir /lab/disk && mount -t ext4 /dev/vda /lab/disk && LD_PRELOAD=/lab/apply.so "
                f"PAGELENS_IO_DIRECT={MIB} /lab/io_crash /lab/disk/file /dev/vda {MARK} {way}"
            ).checked()
        assert said.strip() == "direct 1"  # the library was there, and made writes direct
        found[way] = before, image.with_suffix(".log").read_bytes(), folder
    return found


def test_a_crash_loses_nothing_that_fsync_answered_for(logs: dict[str, tuple[bytes, bytes, Path]]) -> None:
    before, log, folder = logs["synced"]
    told = []
    for steps, image in crashes(before, log):
        told.append(steps)
        assert lost(file_in(image, folder), steps) == ""
    assert sorted(set(told)) == list(range(len(STEPS) + 1))
    assert len(told) >= 2 * len(STEPS)


def test_the_check_sees_what_a_program_without_fsync_loses(
    logs: dict[str, tuple[bytes, bytes, Path]],
) -> None:
    before, log, folder = logs["careless"]
    assert any(lost(file_in(image, folder), steps) for steps, image in crashes(before, log))
