"""`pagelens measure io` and `io explain` on NFS: a guest serves a folder to itself."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from machine_roles import PLAIN

from pagelens.lab import debian
from pagelens.lab.cached_file import add_modules, load_modules
from pagelens.lab.guest import Guest
from pagelens.lab.initramfs import Initramfs
from pagelens.lab.kernels import find_kernel

PACKAGES = ["nfs-kernel-server", "libtirpc3", "libwrap0", "libevent-core-2.1-7", "libnfsidmap1",
            "libkeyutils1", "libsqlite3-0", "libdevmapper1.02.1"]  # fmt: skip
SERVER = ("exportfs", "rpc.nfsd", "rpc.mountd")
MODULES = ("nfsd", "nfs", "nfsv4", "9p", "9pnet_virtio", "virtio_pci")
# Without rpc.mountd, the kernel's server waits for its answer forever, and so does `mount`. A grace period is
# the time in which a server waits for earlier clients.
START = """
export LD_LIBRARY_PATH=/lab/lib
mkdir -p /export /mnt /host /var/lib/nfs/v4recovery && touch /var/lib/nfs/etab /var/lib/nfs/rmtab
ip link set lo up && mount -t tmpfs -o size=900m none /export && mount -t nfsd nfsd /proc/fs/nfsd
echo 10 >/proc/fs/nfsd/nfsv4leasetime; echo 10 >/proc/fs/nfsd/nfsv4gracetime
/lab/exportfs -ra && /lab/rpc.nfsd -N 3 -U 2 || echo failed
/lab/rpc.mountd -N 3 --no-udp </dev/null >/lab/said 2>&1 || { cat /lab/said; echo failed; }
timeout 60 mount -t nfs -o vers=4.2,addr=127.0.0.1,clientaddr=127.0.0.1 127.0.0.1:/ /mnt || echo failed
timeout 60 sh -c "echo >/mnt/ready" || echo failed
mount -t 9p -o trans=virtio,version=9p2000.L,msize=262144,ro share /host || echo failed
mount -t proc p /host/proc && mount -t sysfs s /host/sys && mount --bind /dev /host/dev
mount --bind /mnt /host/mnt || echo failed
"""
MEASURE = f"""
import json, pagelens.measure.files.session as session
from pathlib import Path
from pagelens.io import explain_recording, record_program
from pagelens.machine import parse_machine
from pagelens.measure.files import file_with_io, series, transfers
here = Path("/mnt")
session.SIZES = (4096, 1 << 20)
series.FILE_BYTES = transfers.FILE_BYTES = series.NEW_BYTES = transfers.NEW_BYTES = 64 << 20
measured = session.measure_folder(here, seconds=0.1, rounds=1)
text = 'schema = 1\\nbase = "{PLAIN}"\\nname = "it"\\ntitle = "it"\\nmode = "single"\\n'
machine = parse_machine(file_with_io(text, measured).encode(), "it")
words = ["dd", "if=/dev/zero", "of=/mnt/a", "bs=1M", "count=20", "conv=fsync", "status=none"]
recorded = record_program(words, "/mnt/a.plio")
found = explain_recording(recorded.recording, machine)
of = {{path.path: path.operations for path in found.paths}}
kinds = [kind for kind, by_size in measured.costs.items() if 1 << 20 in by_size]
names = [measured.file_system.type, found.file_system, *found.other_systems]
lost = recorded.recording.header.dropped
print(json.dumps([names, of, kinds, recorded.exit_status, lost, found.error, found.notes]))
"""


def _packages() -> Path:
    root = debian.cache_folder() / "nfs-server"
    with debian.locked():
        if not root.exists():
            debian.fetch(PACKAGES, root)
    return root


def _libraries(program: Path, packages: Path) -> list[Path]:
    """Return the libraries of a program, first of all those that the packages bring."""
    folders = ":".join({str(library.parent) for library in packages.rglob("lib*.so.*")})
    listed = subprocess.run(
        ["ldd", program], env={"LD_LIBRARY_PATH": folders}, capture_output=True, text=True, check=True
    ).stdout
    names = [Path(line.split()[0]).name for line in listed.splitlines()]
    found = ([*packages.rglob(name), Path("/lib/x86_64-linux-gnu") / name][0] for name in names)
    return [library for library in found if library.exists()]


# Operations are counted, because sums that Polars makes come out wrong under QEMU 7.2: 12 of these 20 MiB.
@pytest.mark.long
def test_nfs_is_measured_and_explained() -> None:
    kernel, packages, root = find_kernel("6.1"), _packages(), Initramfs()
    add_modules(root, kernel, MODULES)
    for name in SERVER:
        program = packages / "usr/sbin" / name
        root.add(f"/lab/{name}", program)
        for library in _libraries(program, packages):
            root.add(f"/lab/lib/{library.name}", library.resolve())
    root.add("/lib64/ld-linux-x86-64.so.2", Path("/lib64/ld-linux-x86-64.so.2").resolve(), 0o755)
    root.add("/etc/exports", "/export 127.0.0.1(rw,no_root_squash,insecure,fsid=0,no_subtree_check)\n")
    root.add("/etc/netconfig", "tcp tpi_cots_ord v inet tcp - -\n")
    root.add("/etc/protocols", "tcp 6 TCP\n")
    root.add("/etc/services", "nfs 2049/tcp\n")
    root.add("/etc/hosts", "127.0.0.1 localhost\n")
    root.add("/etc/nsswitch.conf", "hosts: files\nservices: files\nprotocols: files\n")
    root.add("/etc/nfs.conf", "[nfsd]\nvers3=n\n")
    root.add("/etc/passwd", "root:x:0:0:root:/root:/bin/sh\n")
    with Guest(kernel=kernel, memory=2 << 30, files=root, share=Path("/")) as guest:
        load_modules(guest)
        guest.put("/lab/start", START.encode())
        started = guest.shell("timeout 120 sh /lab/start 2>&1").checked()
        assert "failed" not in started, started
        guest.put("/export/measure.py", MEASURE.encode())
        said = guest.shell(
            f"cd /mnt; HOME=/mnt timeout 600 chroot /host {sys.executable} /mnt/measure.py 2>&1"
        ).checked()
    names, paths, kinds, status, lost, error, notes = json.loads(said.splitlines()[-1])
    assert names[:2] == ["nfs", "nfs"]
    assert "nfs" not in names[2:]
    assert (status, lost) == (0, 0)
    assert paths["write"] == 20
    assert error is not None
    assert {"write", "read", "cold_read", "direct_read", "direct_write"} <= set(kinds)
    assert not any("in memory" in note for note in notes)
