"""A real Slurm of four nodes on this machine: munged, slurmctld and slurmds in a private folder, on loopback.

All daemons are children that end with the process that started them, however that ends. The Prolog, the
Epilog and plugstack.conf are files in the folder, which a test may write at any time: Slurm reads them anew.
"""

import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
NODES = ("n0", "n1", "n2", "n3")
NEEDED = ("munged", "slurmctld", "slurmd", "setpriv")
PATIENCE_S = 60  # far beyond what any step takes; only a broken Slurm waits so long

_CONF = """\
ClusterName=pagelens
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={port}
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
CredType=cred/munge
AuthInfo=socket={folder}/munge/socket
CommunicationParameters=NoInAddrAny,NoCtldInAddrAny
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool/%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd-%n.pid
SlurmctldLogFile={folder}/log/slurmctld
SlurmdLogFile={folder}/log/%n
SlurmctldDebug=verbose
SlurmdDebug=verbose
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
MpiDefault=none
SwitchType=switch/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SchedulerType=sched/backfill
SchedulerParameters=batch_sched_delay=0,sched_interval=1,bf_interval=1
ReturnToService=2
SlurmctldTimeout=60
SlurmdTimeout=60
InactiveLimit=0
KillWait=1
MessageTimeout=3
PlugStackConfig={folder}/plugstack.conf
Prolog={folder}/prolog.sh
Epilog={folder}/epilog.sh
PrologFlags=Alloc
PrologEpilogTimeout=60
RebootProgram={folder}/reboot.sh
ResumeTimeout=60
SlurmdParameters=config_overrides
NodeName=n[0-3] NodeHostname={host} NodeAddr=127.0.0.1 Port=[{first}-{last}] CPUs=2 RealMemory=200
PartitionName=main Nodes=ALL Default=YES MaxTime=INFINITE State=UP
"""

# A node's slurmd, started again after a reboot: a new boot ID, and -b, as a machine does.
_NODE = """\
#!/bin/sh
cd {folder}
boot=
while :; do
    cat /proc/sys/kernel/random/uuid >boot-$1
    setpriv --pdeathsig KILL slurmd -D -N $1 -f {folder}/slurm.conf $boot
    [ -e rebooting-$1 ] || exit
    rm rebooting-$1
    sleep 2  # Slurm takes no reboot for one that began in the second of its request
    boot=-b
done
"""

# Slurm tells a RebootProgram no node's name; here it is an argument of the slurmd above it.
_REBOOT = """\
#!/bin/sh
cd {folder}
slurmd=$PPID
until tr '\\0' ' ' </proc/$slurmd/cmdline | grep -q -- ' -N '; do
    slurmd=$(sed -n 's/^PPid:[[:space:]]*//p' /proc/$slurmd/status)
done
node=$(tr '\\0' ' ' </proc/$slurmd/cmdline | sed 's/.*-N *\\([^ ]*\\).*/\\1/')
echo "$node" >>reboots
touch rebooting-$node
kill $slurmd
"""


@dataclass
class SlurmCluster:
    """The running cluster."""

    folder: Path
    _daemons: list[subprocess.Popen[bytes]] = field(default_factory=list)

    def run(
        self,
        *words: str,
        user: int = 0,
        environment: Mapping[str, str] | None = None,
        timeout_s: float = PATIENCE_S,
    ) -> subprocess.CompletedProcess[str]:
        """Runs a command, such as srun, to its end as that user (root: 0), in a folder that is its own."""
        return subprocess.run(
            words,
            **self._as(user, environment),
            capture_output=True,
            text=True,
            timeout=timeout_s,
            check=False,
        )

    def start(self, *words: str, user: int = 0) -> subprocess.Popen[bytes]:
        """Starts a command, as run() does, and returns at once."""
        return subprocess.Popen(words, **self._as(user, None), stdin=subprocess.DEVNULL)

    def _as(self, user: int, environment: Mapping[str, str] | None) -> dict[str, Any]:
        home = self.folder / f"home-{user}"
        if not home.exists():
            home.mkdir()
            os.chown(home, user, user)
        variables = self.environment | dict(environment or {})
        return {"cwd": home, "env": variables, "user": user, "group": user, "extra_groups": []}

    @property
    def environment(self) -> dict[str, str]:
        """The variables that Slurm's commands need."""
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("SLURM", "SPANK"))}
        return kept | {"SLURM_CONF": str(self.folder / "slurm.conf")}

    def script(self, name: str, text: str) -> None:
        """Replaces a script or a configuration file, in one step, because a node may be reading it."""
        write_script(self.folder / name, text)

    def node(self, name: str) -> dict[str, str]:
        """Returns what slurmctld says of a node, by key; a reason includes who gave it."""
        line = self.run("scontrol", "--oneliner", "show", "node", name).stdout
        found = dict(word.partition("=")[::2] for word in line.split() if "=" in word)
        return found | {"Reason": line.partition(" Reason=")[2].strip()}

    def wait_for(self, what: Callable[[], bool], of: str) -> None:
        """Polls until it is so; a test that waits in vain fails with `of` and the controller's log."""
        end = time.monotonic() + PATIENCE_S
        while not what():
            if time.monotonic() > end:
                log = (self.folder / "log/slurmctld").read_text(errors="replace")[-3000:]
                raise AssertionError(f"waited in vain for {of}\n{log}")
            time.sleep(0.05)

    def wait_idle(self) -> None:
        """Waits until no job runs and every node can take one; nothing is left of earlier tests."""
        self.wait_for(
            lambda: self.run("sinfo", "-h", "-o", "%T").stdout.split() == ["idle"], "four idle nodes"
        )

    def clear(self) -> None:
        """Ends all jobs, resumes all nodes, and makes Prolog, Epilog and plugins do nothing."""
        self._do_nothing_beside_jobs()
        for state in ("RUNNING", "PENDING"):
            self.run("scancel", f"--state={state}")
        for name in NODES:
            if {"DRAIN", "DOWN"} & set(self.node(name).get("State", "").split("+")):
                self.run("scontrol", "update", f"nodename={name}", "state=resume")
        self.wait_idle()

    def _do_nothing_beside_jobs(self) -> None:
        for name in ("prolog.sh", "epilog.sh"):
            self.script(name, "#!/bin/sh\nexit 0\n")
        self.script("plugstack.conf", "")

    def begin(self) -> None:
        """Starts all daemons, and waits until the nodes are idle."""
        for name in ("munge", "state", "log", *(f"spool/{node}" for node in NODES)):
            (self.folder / name).mkdir(parents=True)
        first = _free_ports(1 + len(NODES))
        values = {"folder": self.folder, "host": socket.gethostname()}
        values |= {"port": first, "first": first + 1, "last": first + len(NODES)}
        (self.folder / "slurm.conf").write_text(_CONF.format(**values))
        for name, text in (("node.sh", _NODE), ("reboot.sh", _REBOOT)):
            self.script(name, text.format(**values))
        self._do_nothing_beside_jobs()
        self._start_munged()
        self.start_controller("-c")
        for node in NODES:
            self._start("sh", str(self.folder / "node.sh"), node)
        self.wait_idle()

    def _start_munged(self) -> None:
        folder = self.folder / "munge"
        folder.chmod(0o711)
        (folder / "key").write_bytes(os.urandom(1024))
        (folder / "key").chmod(0o400)
        options = {f"--{name}-file": folder / name for name in ("key", "pid", "log", "seed")}
        self._start(
            "munged",
            "--foreground",
            "--force",
            f"--socket={folder}/socket",
            "--num-threads=2",
            "--origin=127.0.0.1",
            *(f"{name}={path}" for name, path in options.items()),
        )
        self.wait_for((folder / "socket").exists, "munged")

    def start_controller(self, *options: str) -> None:
        """Starts slurmctld; stop_controller() stops it."""
        self._start("slurmctld", "-D", "-f", str(self.folder / "slurm.conf"), *options)

    def stop_controller(self) -> None:
        """Ends slurmctld, as on a controller that is down."""
        found = next(d for d in reversed(self._daemons) if "slurmctld" in d.args)  # type: ignore[operator]
        found.terminate()
        found.wait()
        self._daemons.remove(found)

    def _start(self, *words: str) -> None:
        with (self.folder / "log/daemons").open("ab") as log:
            self._daemons.append(
                subprocess.Popen(
                    ["setpriv", "--pdeathsig", "KILL", *words],
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    env=self.environment,
                    start_new_session=True,
                )
            )

    def stop(self) -> None:
        """Ends all jobs and daemons."""
        self.run("scancel", "--state=RUNNING", "--signal=KILL", "--full")
        for daemon in reversed(self._daemons):
            daemon.kill()
            daemon.wait()
        _end_all_in(self.folder)


def _end_all_in(folder: Path) -> None:
    """Ends what is left of the nodes: slurmds whose shell has gone, job steps."""
    for process in Path("/proc").glob("[0-9]*"):
        try:
            environment = (process / "environ").read_bytes()
        except OSError:
            continue
        if f"SLURM_CONF={folder}/slurm.conf".encode() in environment and int(process.name) != os.getpid():
            os.kill(int(process.name), signal.SIGKILL)


def _free_ports(count: int) -> int:
    """The first of so many free ports in a row, below those that the kernel gives to others."""
    for first in range(20000 + os.getpid() % 1000 * 10, 32000, 10):
        try:
            for port in range(first, first + count):
                with socket.socket() as probe:
                    probe.bind(("127.0.0.1", port))
        except OSError:
            continue
        return first
    raise AssertionError("no free ports")


def write_script(path: Path, text: str) -> None:
    """Writes a file that may be executed while it is replaced."""
    fresh = path.with_name(f".{path.name}.new")
    fresh.write_text(text)
    fresh.chmod(0o755)
    fresh.rename(path)


def obstacle() -> str:
    """Why there can be no cluster here; empty if there can."""
    if os.geteuid() != 0:
        return "only root starts jobs of several users"
    missing = [name for name in NEEDED if shutil.which(name) is None]
    return f"missing: {', '.join(missing)} (scripts/setup debian slurm)" if missing else ""


@contextmanager
def slurm_cluster() -> Iterator[SlurmCluster]:
    """A cluster that is gone after the block."""
    folder = Path(tempfile.mkdtemp(prefix="pagelens-slurm-"))
    folder.chmod(0o755)
    cluster = SlurmCluster(folder)
    try:
        cluster.begin()
        yield cluster
    finally:
        cluster.stop()
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="session")
def running_cluster() -> Iterator[SlurmCluster]:
    """The cluster of this test process; import it, and use `cluster`."""
    if why := obstacle():
        pytest.skip(why)
    with slurm_cluster() as found:
        yield found


@pytest.fixture
def cluster(running_cluster: SlurmCluster) -> Iterator[SlurmCluster]:
    """The cluster with idle nodes, where nothing of other tests is left."""
    running_cluster.clear()
    yield running_cluster
    running_cluster.clear()
