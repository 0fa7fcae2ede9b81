"""Slurm on a real kernel: what docs/site.md installs sorts a node's free memory before a job."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from zonesort_guest import ROOT, guest_program, shell

from pagelens.lab.guest import Guest
from pagelens.lab.kernels import find_kernel
from pagelens.lab.modules import build_module

MIB = 1 << 20
CACHE, REGION = 256 * MIB, 192 * MIB
PAGELENS = Path(sys.executable).parent / "pagelens"

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
# One node, which is the controller, too; the paths are those that Debian's packages and ./install choose.
SLURM_CONF = """
ClusterName=guest
SlurmctldHost=node(127.0.0.1)
SlurmUser=root
AuthInfo=socket=/run/munge/socket
CommunicationParameters=NoInAddrAny,NoCtldInAddrAny
StateSaveLocation=/var/lib/slurm/state
SlurmdSpoolDir=/var/lib/slurm/spool
SlurmctldLogFile=/var/log/slurmctld
SlurmdLogFile=/var/log/slurmd
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
Prolog=/etc/slurm/prolog.d/*
Epilog=/etc/slurm/epilog.d/*
PrologFlags=Alloc
PrologEpilogTimeout=600
NodeName=node NodeAddr=127.0.0.1 CPUs=1 RealMemory=500
PartitionName=main Nodes=ALL Default=YES MaxTime=INFINITE State=UP
"""
START = """
set -e
echo 127.0.0.1 localhost node >/etc/hosts
mkdir -p /run/munge /var/lib/slurm/state /var/lib/slurm/spool
head -c 1024 /dev/urandom >/run/munge/key
chmod 400 /run/munge/key
for daemon in "munged --force --socket=/run/munge/socket --key-file=/run/munge/key \\
    --seed-file=/run/munge/seed --log-file=/run/munge/log --pid-file=/run/munge/pid" slurmctld slurmd; do
    $daemon </dev/null >>/var/log/started 2>&1  # nothing that this script waits for
done
for try in $(seq 100); do
    sinfo -h -o %T | grep -q idle && exit
    sleep 0.2
done
tail -n 3 /var/log/started /var/log/slurmctld /var/log/slurmd
exit 1
"""


def on_node(guest: Guest, script: str) -> str:
    """Runs a script on the node, whose root has all that this machine has. Daemons may outlive it."""
    guest.put("/lab/script", script.encode())
    to_end = "chroot /node sh -e /lab/script </dev/null >/lab/said 2>&1"
    done = guest.shell(
        f"PATH=$PATH:/usr/sbin:/usr/bin timeout 300 {to_end}; status=$?; cat /lab/said; exit $status"
    )
    return done.checked().strip()


@pytest.mark.long
def test_a_prolog_sorts_a_real_kernels_memory(tmp_path: Path) -> None:
    subprocess.run(["make", "-s", "-C", ROOT / "spank", f"OUT={tmp_path}", "package"], check=True)
    kernel = find_kernel("6.1")
    assert kernel.modules is not None
    files = {f"/lab/modules/{at:02}.ko": kernel.modules / f"kernel/{m}.ko" for at, m in enumerate(MODULES)}
    files |= {"/lab/guest": guest_program(tmp_path)}
    files |= {"/lab/zonesort_module.ko": build_module(ROOT / "zonesort", kernel)}
    with Guest(kernel, "2GiB", files, described_cache=CACHE, share=Path("/")) as guest:
        shell(guest, ROOT_OF_ITS_OWN)
        on_node(guest, f"cd {tmp_path}/pagelens-spank && ./install {PAGELENS}")
        guest.put("/node/etc/slurm/slurm.conf", SLURM_CONF.encode())
        guest.put("/node/etc/slurm/cgroup.conf", b"IgnoreSystemd=yes\n")
        guest.put("/node/etc/slurm/plugstack.conf", b"include /etc/slurm/plugstack.conf.d/*.conf\n")
        guest.put(
            "/node/etc/pagelens/site.toml",
            # Compaction alone would mend so small a node.
            b"[prolog]\nbudget_s = 300\ncompact = false\n[measure]\nenabled = false\n",
        )
        on_node(guest, START)

        def share(option: str) -> float:
            done = on_node(guest, f"srun --quiet {option} /lab/guest share {REGION} {CACHE}")
            pages, conflicts = map(int, done.split())
            assert pages == REGION // 4096
            return conflicts / pages

        on_node(
            guest, "/lab/guest age 1200M 600 >/lab/held & until grep -q ready /lab/held; do sleep 0.2; done"
        )
        on_node(guest, "insmod /lab/zonesort_module.ko")
        unsorted, sorted_before = share("--zonesort=off"), share("--zonesort=on")
        last = json.loads(on_node(guest, "cat /var/lib/pagelens/node.json"))["last"]
    assert (last["done"], last["left"]) == (["drop caches", "sort"], [])
    assert unsorted > 0.3
    assert sorted_before < 0.1
