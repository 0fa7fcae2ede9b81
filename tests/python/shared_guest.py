"""A guest that sees this machine's files beneath files of its own, and runs this machine's programs."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from zonesort_guest import shell

from pagelens.lab.guest import Guest
from pagelens.lab.kernels import Kernel

# What a guest needs to see this machine's files under files of its own; each after what it needs.
MODULES = (
    *(f"drivers/virtio/virtio{part}" for part in ("_ring", "", "_pci_modern_dev", "_pci_legacy_dev", "_pci")),
    *("net/9p/9pnet", "net/9p/9pnet_virtio", "fs/netfs/netfs", "fs/fscache/fscache", "fs/9p/9p"),
    "fs/overlayfs/overlay",
)
ROOT_OF_ITS_OWN = """
set -e
for module in /lab/modules/*; do insmod $module; done
mkdir /share /over /node
mount -t 9p -o ro,trans=virtio,version=9p2000.L,msize=512000,cache=loose share /share
mount -t tmpfs none /over
mkdir /over/upper /over/work
mount -t overlay -o lowerdir=/share,upperdir=/over/upper,workdir=/over/work none /node
for folder in proc sys dev lab; do mkdir -p /node/$folder; mount --bind /$folder /node/$folder; done
mount -t cgroup2 none /node/sys/fs/cgroup
mkdir /node/sys/fs/cgroup/system.slice
ifconfig lo 127.0.0.1 up
ifconfig lo:1 10.0.0.1 netmask 255.255.255.255  # names are resolved only where there is more than loopback
hostname node
"""


@contextmanager
def shared_guest(kernel: Kernel, memory: str, files: Mapping[str, Path], **options: Any) -> Iterator[Guest]:
    """Boots; on_node() then runs what this machine has."""
    assert kernel.modules is not None
    modules = {f"/lab/modules/{at:02}.ko": kernel.modules / f"kernel/{m}.ko" for at, m in enumerate(MODULES)}
    with Guest(kernel, memory, {**modules, **files}, share=Path("/"), **options) as guest:
        shell(guest, ROOT_OF_ITS_OWN)
        yield guest


def on_node(guest: Guest, script: str) -> str:
    """Runs a script on the node, whose root has all that this machine has. Daemons may outlive it."""
    guest.put("/lab/script", script.encode())
    to_end = "chroot /node sh -e /lab/script </dev/null >/lab/said 2>&1"
    done = guest.shell(
        f"PATH=$PATH:/usr/sbin:/usr/bin timeout 300 {to_end}; status=$?; cat /lab/said; exit $status"
    )
    return done.checked().strip()
