"""A large file in the guest that is read through its page cache.

The file lies on ext4, so its pages in the page cache are as movable as those of any file. It is one hole, so
it needs neither a disk nor memory: a read takes a page of the page cache and fills it with zeros. The few
blocks of the file system itself are in a RAM-backed null_blk device.
"""

from __future__ import annotations

import lzma
import re
from collections.abc import Sequence
from pathlib import Path

from pagelens.errors import UsageError
from pagelens.lab.guest import Guest
from pagelens.lab.initramfs import Initramfs
from pagelens.lab.kernels import Kernel

FILE = "/lab/disk/file"  # DATA of tracer/guest/work.c
FILE_GIB = 1024

_WANTED = ("crc32c_generic", "ext4", "null_blk")
_DEPENDS = re.compile(rb"\0depends=([^\0]*)\0")


def add_file_modules(root: Initramfs, kernel: Kernel) -> None:
    """Put the kernel's own modules for it into a guest's root, and their order."""
    add_modules(root, kernel, _WANTED)


def add_modules(root: Initramfs, kernel: Kernel, wanted: Sequence[str]) -> None:
    """Put modules of the kernel, and those that they need, into a guest's root, and their order."""
    if kernel.modules is None:
        raise UsageError(f"--kernel {kernel.image}: io needs the kernel's modules; name 6.1 or 6.12")
    known = {path.name.partition(".")[0].replace("-", "_"): path for path in kernel.modules.rglob("*.ko*")}
    order: dict[str, bytes] = {}

    def add(name: str) -> None:
        if name in order or name not in known:  # not known: built in
            return
        content = _content(known[name])
        depends = _DEPENDS.search(content)
        for other in depends[1].decode().split(",") if depends else []:
            add(other.replace("-", "_"))
        order[name] = content

    for name in wanted:
        add(name)
    for name, content in order.items():
        root.add(f"/lab/modules/{name}.ko", content)
    root.add("/lab/modules/order", "".join(f"{name}\n" for name in order))


def make_file(guest: Guest) -> None:
    """Make the file if it does not exist yet."""
    if guest.run("test", "-e", FILE).status == 0:
        return
    # Requests end at once, without a queue.
    load_modules(guest, "null_blk) options='gb=1 memory_backed=1 queue_mode=0 irqmode=0';;")
    folder = Path(FILE).parent
    guest.shell(
        f"mke2fs -q /dev/nullb0 && mkdir -p {folder} && mount -t ext4 -o noatime /dev/nullb0 {folder} "
        f"&& truncate -s {FILE_GIB}G {FILE}"
    ).checked()


def load_modules(guest: Guest, options: str = "") -> None:
    """Load the modules that `add_modules` put there. `options` are cases of the shell for some of them."""
    guest.shell(
        f"for name in $(cat /lab/modules/order); do case $name in {options} *) options=;; esac; "
        "insmod /lab/modules/$name.ko $options || exit 1; done"
    ).checked()


def _content(path: Path) -> bytes:
    data = path.read_bytes()
    return lzma.decompress(data) if path.suffix == ".xz" else data
