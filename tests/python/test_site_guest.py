"""Slurm on a real kernel: what docs/site.md installs sorts a node's free memory before a job."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from shared_guest import on_node, shared_guest
from zonesort_guest import ROOT, guest_program

from pagelens.lab.kernels import find_kernel
from pagelens.lab.modules import build_module

MIB = 1 << 20
CACHE, REGION = 256 * MIB, 192 * MIB
PAGELENS = Path(sys.executable).parent / "pagelens"

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


@pytest.mark.long
def test_a_prolog_sorts_a_real_kernels_memory(tmp_path: Path) -> None:
    subprocess.run(["make", "-s", "-C", ROOT / "spank", f"OUT={tmp_path}", "package"], check=True)
    kernel = find_kernel("6.1")
    module = build_module(ROOT / "zonesort", kernel)
    files = {"/lab/guest": guest_program(tmp_path), "/lab/zonesort_module.ko": module}
    with shared_guest(kernel, "2GiB", files, described_cache=CACHE) as guest:
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
