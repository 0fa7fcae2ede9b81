"""Shows on any machine what a slow core does to I/O: an emulated processor before a throttled disk.

The guest writes a file with dd, buffered and direct, with requests of several sizes, and syncs it. The times
of two sizes give a model of each way, and predict the other sizes:

- buffered: a time for each request and one for each byte, both of the processor. The sum is compared with the
  disk, and the larger one counts, because the kernel writes back while the program goes on.
- direct: a time for each request, and one for each byte, one after the other.
"""

from __future__ import annotations

import re
import shutil
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from pagelens.errors import Failure, UsageError
from pagelens.lab.cached_file import add_modules, load_modules
from pagelens.lab.emulator import Disk
from pagelens.lab.guest import Guest
from pagelens.lab.initramfs import Initramfs
from pagelens.lab.kernels import DEFAULT_KERNEL, find_kernel

MIB = 1 << 20
REQUESTS = (4 << 10, 64 << 10, 256 << 10, MIB, 4 * MIB, 16 * MIB)
GIVEN = (REQUESTS[0], 4 * MIB)  # the requests whose times are the model's inputs
LEAST_BYTES, MOST_BYTES = 32 * MIB, 4096 * MIB  # of a file
_MOUNT, _FILE = "/lab/slow", "/lab/slow/file"
_MODULES = ("crc32c_generic", "ext4", "virtio_pci", "virtio_blk")
_MEMORY = 1 << 30
_MOST_TIMES, _QUICK_S = 3, 5.0  # of writing a file
_SPARE = 64 * MIB  # of the disk, for the file system
_BUSY = slice(0, 3)  # of the first line of /proc/stat: user, nice, system; the interrupts follow later
_INTERRUPTS = slice(5, 7)


@dataclass(frozen=True)
class Written:
    """A file that the guest wrote. Times are of the guest's clock, in seconds."""

    request: int  # bytes
    direct: bool
    seconds: float
    busy: float  # share of the time that the processor was busy
    predicted_s: float | None = None  # None: an input of the model


def write_in_guest(
    file_bytes: int,
    disk_rate: float,
    kernel: str = DEFAULT_KERNEL,
    progress: Callable[[int, int], None] | None = None,
) -> list[Written]:
    """Write the file with each size of requests, buffered and direct, and predict all but two of each way.

    Raises UsageError for sizes out of range, and Failure where the guest fails.
    """
    if not LEAST_BYTES <= file_bytes <= MOST_BYTES or file_bytes % max(REQUESTS):
        raise UsageError(f"--size {file_bytes >> 20}MiB: a multiple of 16 MiB from 32 MiB to 4 GiB")
    if not 1e6 <= disk_rate <= 100e9:
        raise UsageError(f"--disk {disk_rate / 1e6:g}MB/s: 1 MB/s to 100 GB/s")
    dd = shutil.which("dd")
    if dd is None:
        raise Failure("dd is not in PATH; install coreutils")
    found = find_kernel(kernel)
    root = Initramfs()
    add_modules(root, found, _MODULES)
    root.add_program("/lab/dd", Path(dd))
    with tempfile.TemporaryDirectory(prefix="pagelens-lab-") as folder:
        image = Path(folder) / "disk"
        with image.open("wb") as file:
            file.truncate(file_bytes + _SPARE)
        with Guest(kernel=found, memory=_MEMORY, files=root, disk=Disk(image, disk_rate)) as guest:
            load_modules(guest)
            guest.shell(
                f"mke2fs -q /dev/vda && mkdir -p {_MOUNT} && mount -t ext4 -o noatime /dev/vda {_MOUNT}"
            ).checked()
            written = []
            for number, (request, direct) in enumerate((r, d) for d in (False, True) for r in REQUESTS):
                if progress is not None:
                    progress(number, 2 * len(REQUESTS))
                written.append(_write_again(guest, file_bytes, request, direct))
    return list(predicted(written, file_bytes, disk_rate))


def predicted(written: list[Written], file_bytes: int, disk_rate: float) -> Iterator[Written]:
    """Yield the files with the time that the model predicts from those of two sizes of requests."""
    for direct in (False, True):
        of = {each.request: each for each in written if each.direct == direct}
        small, large = (of[request] for request in GIVEN)
        counts = [file_bytes / request for request in GIVEN]
        spent = [each.seconds * (1.0 if direct else each.busy) for each in (small, large)]
        per_request = max(0.0, (spent[0] - spent[1]) / (counts[0] - counts[1]))
        per_file = spent[1] - per_request * counts[1]
        for each in of.values():
            time = per_request * file_bytes / each.request + per_file
            if not direct:
                time = max(time, file_bytes / disk_rate)
            given = each.request in GIVEN
            yield Written(each.request, direct, each.seconds, each.busy, None if given else time)


def _write_again(guest: Guest, file_bytes: int, request: int, direct: bool) -> Written:
    """Write the file up to three times if that is quick, and return the shortest time.

    The emulator shares the host's processors, so other programs make single times longer.
    """
    found: list[Written] = []
    while len(found) < _MOST_TIMES and sum(each.seconds for each in found) < _QUICK_S:
        found.append(_write(guest, file_bytes, request, direct))
    return min(found, key=lambda each: each.seconds)


def _write(guest: Guest, file_bytes: int, request: int, direct: bool) -> Written:
    how = "oflag=direct" if direct else ""
    # The first file takes blocks that no other had; later ones are removed and the disk is idle before.
    output = guest.shell(
        f"rm -f {_FILE}; sync; echo 3 >/proc/sys/vm/drop_caches; cat /proc/uptime; head -1 /proc/stat; "
        f"/lab/dd if=/dev/zero of={_FILE} bs={request} count={file_bytes // request} conv=fsync {how} "
        "2>/dev/null || echo failed; cat /proc/uptime; head -1 /proc/stat"
    ).checked()
    return _parsed(output, request, direct)


def _parsed(output: str, request: int, direct: bool) -> Written:
    times = re.findall(r"^(\d+\.\d+) \d+\.\d+\s*$", output, re.MULTILINE)
    counts = re.findall(r"^cpu +([\d ]+)\s*$", output, re.MULTILINE)
    if len(times) != 2 or len(counts) != 2 or "failed" in output:
        raise Failure(f"the guest's dd failed: {output.strip()[-200:]!r}; give it a smaller --size")
    before, after = ([int(word) for word in line.split()] for line in counts)
    spent = [last - first for first, last in zip(before, after, strict=True)]
    seconds = max(float(times[1]) - float(times[0]), 0.01)
    busy = sum(spent[_BUSY]) + sum(spent[_INTERRUPTS])
    return Written(request, direct, seconds, busy / max(1, sum(spent[:8])))
