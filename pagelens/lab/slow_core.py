"""Shows on any machine what a slow core does to I/O: an emulated processor before a throttled disk.

The guest writes a file with dd, buffered and direct, with requests of several sizes, and syncs it. It also
writes many files of several sizes with split. The times of two sizes give a model of each way, and predict
the other sizes:

- buffered: a time for each request and one for each byte, both of the processor. The sum is compared with the
  disk, and the larger one counts, because the kernel writes back while the program goes on.
- direct: a time for each request, and one for each byte, one after the other.
- files: the same as buffered, with a time for each file.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from pagelens.errors import Failure, UsageError
from pagelens.host.system import System
from pagelens.lab.cached_file import add_modules, load_modules
from pagelens.lab.emulator import Disk
from pagelens.lab.guest import Guest
from pagelens.lab.initramfs import Initramfs
from pagelens.lab.kernels import DEFAULT_KERNEL, find_kernel

MIB = 1 << 20
REQUESTS = (4 << 10, 64 << 10, 256 << 10, MIB, 4 * MIB, 16 * MIB)
FILE_SIZES = (4 << 10, 16 << 10, 64 << 10, 256 << 10, MIB)
FILES_BYTES = 16 * MIB  # of all files of one size
BUFFERED, DIRECT, FILES = "buffered", "direct", "files"
# The sizes whose times are the model's inputs.
GIVEN = {BUFFERED: (REQUESTS[0], 4 * MIB), DIRECT: (REQUESTS[0], 4 * MIB), FILES: (FILE_SIZES[0], MIB)}
LEAST_BYTES, MOST_BYTES = 32 * MIB, 4096 * MIB  # of a file
_MOUNT, _FILE, _MANY, _SOURCE = "/lab/slow", "/lab/slow/file", "/lab/slow/many", "/lab/source"
_MODULES = ("crc32c_generic", "ext4", "virtio_pci", "virtio_blk")
_MEMORY = 1 << 30
_MOST_TIMES, _QUICK_S = 3, 5.0  # of writing a file
_SPARE = 64 * MIB  # of the disk, for the file system
_BUSY = slice(0, 3)  # of the first line of /proc/stat: user, nice, system; the interrupts follow later
_INTERRUPTS = slice(5, 7)


@dataclass(frozen=True)
class Written:
    """What the guest wrote in one way.

    Times are of the guest's clock, in seconds, without those in which its core waited for one of the host's.
    """

    way: str
    request: int  # bytes of each request, or of each file
    bytes: int  # of all
    seconds: float
    busy: float  # share of the time that the processor was busy
    predicted_s: float | None = None  # None: an input of the model


def write_in_guest(
    file_bytes: int,
    disk_rate: float,
    kernel: str = DEFAULT_KERNEL,
    progress: Callable[[int, int], None] | None = None,
) -> list[Written]:
    """Write the file with each size of requests, buffered and direct, and many files of each size.

    Predict all but two sizes of each way.

    Raises UsageError for sizes out of range, and Failure where the guest fails.
    """
    if not LEAST_BYTES <= file_bytes <= MOST_BYTES or file_bytes % max(REQUESTS):
        raise UsageError(f"--size {file_bytes >> 20}MiB: a multiple of 16 MiB from 32 MiB to 4 GiB")
    if not 1e6 <= disk_rate <= 100e9:
        raise UsageError(f"--disk {disk_rate / 1e6:g}MB/s: 1 MB/s to 100 GB/s")
    found = find_kernel(kernel)
    root = Initramfs()
    add_modules(root, found, _MODULES)
    for name in ("dd", "split"):
        program = shutil.which(name)
        if program is None:
            raise Failure(f"{name} is not in PATH; install coreutils")
        root.add_program(f"/lab/{name}", Path(program))
    with tempfile.TemporaryDirectory(prefix="pagelens-lab-") as folder:
        image = Path(folder) / "disk"
        with image.open("wb") as file:
            file.truncate(file_bytes + _SPARE)
        make_file_system(image)
        with Guest(kernel=found, memory=_MEMORY, files=root, disk=Disk(image, disk_rate)) as guest:
            load_modules(guest)
            guest.shell(
                f"mkdir -p {_MOUNT} && mount -t ext4 -o noatime /dev/vda {_MOUNT} && "
                f"dd if=/dev/zero of={_SOURCE} bs={MIB} count={FILES_BYTES // MIB}"
            ).checked()
            wanted = [(way, size) for way in (BUFFERED, DIRECT) for size in REQUESTS]
            wanted += [(FILES, size) for size in FILE_SIZES]
            written = []
            for number, (way, size) in enumerate(wanted):
                if progress is not None:
                    progress(number, len(wanted))
                written.append(_write_again(guest, way, size, FILES_BYTES if way == FILES else file_bytes))
    return list(predicted(written, disk_rate))


def make_file_system(image: Path) -> None:
    """Make an ext4 with extents on the image. Raises Failure.

    The guest's own mke2fs (busybox) makes no extents. The kernel then looks for each block of a direct write
    alone. A direct write of 64 KiB took four times as much of the processor as with extents.
    """
    program = shutil.which(
        "mkfs.ext4", path=os.pathsep.join([os.environ.get("PATH", ""), "/usr/sbin", "/sbin"])
    )
    if program is None:
        raise Failure("mkfs.ext4 is not in PATH; install e2fsprogs")
    now = "lazy_itable_init=0,lazy_journal_init=0"  # else the guest's kernel does it beside the writes
    done = subprocess.run(
        [program, "-q", "-F", "-b", "4096", "-E", now, image], capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        raise Failure(f"mkfs.ext4 failed: {done.stderr.strip().splitlines()[-1:]}; free space in TMPDIR")


def predicted(written: list[Written], disk_rate: float) -> Iterator[Written]:
    """Yield all with the time that the model predicts from those of two sizes of each way."""
    for way, given in GIVEN.items():
        of = {each.request: each for each in written if each.way == way}
        small, large = (of[size] for size in given)
        counts = [each.bytes / each.request for each in (small, large)]
        spent = [each.seconds * (1.0 if way == DIRECT else each.busy) for each in (small, large)]
        per_request = max(0.0, (spent[0] - spent[1]) / (counts[0] - counts[1]))
        rest = spent[1] - per_request * counts[1]
        for each in of.values():
            time = per_request * each.bytes / each.request + rest
            if way != DIRECT:
                time = max(time, each.bytes / disk_rate)
            yield replace(each, predicted_s=None if each.request in given else time)


def _write_again(guest: Guest, way: str, size: int, total: int) -> Written:
    """Write up to three times if that is quick, and return the shortest time.

    The emulator shares the host's processors and caches, so other programs make single times longer.
    """
    found: list[Written] = []
    while len(found) < _MOST_TIMES and sum(each.seconds for each in found) < _QUICK_S:
        found.append(_write(guest, way, size, total))
    return min(found, key=lambda each: each.seconds)


def _write(guest: Guest, way: str, size: int, total: int) -> Written:
    if way == FILES:
        work = f"/lab/split -a 5 -b {size} {_SOURCE} {_MANY}/f && sync"
    else:
        how = "oflag=direct" if way == DIRECT else ""
        work = f"/lab/dd if=/dev/zero of={_FILE} bs={size} count={total // size} conv=fsync {how} 2>/dev/null"
    # The first file takes blocks that no other had; later ones are removed and the disk is idle before.
    guest.shell(f"rm -rf {_FILE} {_MANY}; mkdir {_MANY}; sync; echo 3 >/proc/sys/vm/drop_caches").checked()
    before, began = core_times(guest.pid), time.monotonic()
    output = guest.shell(
        f"cat /proc/uptime; head -1 /proc/stat; {work} || echo failed; cat /proc/uptime; head -1 /proc/stat"
    ).checked()
    after, took = core_times(guest.pid), time.monotonic() - began
    ran, waited = ((last - first) / took for first, last in zip(before, after, strict=True))
    return _parsed(output, way, size, total, ran, waited)


def core_times(emulator: int, system: System | None = None) -> tuple[float, float]:
    """Return how long the guest's core has run, and how long it has waited for a processor of the host.

    The thread that has run longest emulates the core. The guest's clock goes on while it waits. Both times
    are 0 where the host's kernel does not tell them.
    """
    tasks, system = f"/proc/{emulator}/task", system or System()
    told = [system.text(f"{tasks}/{task}/schedstat").split() for task in system.names(tasks)]
    times = [(int(each[0]) / 1e9, int(each[1]) / 1e9) for each in told if len(each) >= 2]
    return max(times, default=(0.0, 0.0))


def _parsed(output: str, way: str, size: int, total: int, ran: float, waited: float) -> Written:
    """Return what the guest's clocks say. The core ran and waited for these shares of the time."""
    times = re.findall(r"^(\d+\.\d+) \d+\.\d+\s*$", output, re.MULTILINE)
    counts = re.findall(r"^cpu +([\d ]+)\s*$", output, re.MULTILINE)
    if len(times) != 2 or len(counts) != 2 or "failed" in output:
        raise Failure(f"the guest could not write: {output.strip()[-200:]!r}; give it a smaller --size")
    before, after = ([int(word) for word in line.split()] for line in counts)
    spent = [last - first for first, last in zip(before, after, strict=True)]
    free = max(1 - waited, 0.01)  # the share in which the core could have run
    seconds = max((float(times[1]) - float(times[0])) * free, 0.01)
    busy = (sum(spent[_BUSY]) + sum(spent[_INTERRUPTS])) / max(1, sum(spent[:8]))  # as the guest sees it
    return Written(way, size, total, seconds, min(ran / free, 1.0) if ran > 0 else busy)
