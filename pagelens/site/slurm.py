"""Runs Slurm's commands for `pagelens site act`. Everything that slurmctld is asked is here."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from pagelens.errors import Failure

MARK = "pagelens:"  # how the reasons begin that are ours
CLEANING = "pagelens-clean-"  # how the names of cleaning jobs begin; the action's number follows
_PATIENCE_S = 30
_OUT = {"DOWN", "DRAIN", "DRAINED", "DRAINING", "FAIL", "FAILING", "ERROR", "MAINT", "NOT_RESPONDING"}
_OUT |= {"REBOOT", "REBOOT_REQUESTED", "REBOOT_ISSUED", "POWERED_DOWN", "POWERING_DOWN", "UNKNOWN", "FUTURE"}
_UNDER_WAY = {"PENDING", "CONFIGURING", "RUNNING", "SUSPENDED", "STOPPED", "COMPLETING"}
_WHO = re.compile(r"^(.*) \[([^\[\]@]*)@([^\[\]]*)\]", re.DOTALL)


class SlurmError(Failure):
    """A command of Slurm failed because slurmctld is down or refused it."""


@dataclass(frozen=True)
class SlurmNode:
    """A node as slurmctld sees it."""

    name: str
    states: frozenset[str]
    reason: str  # empty: none
    partitions: tuple[str, ...]
    started: str  # when its slurmd started, as Slurm writes it

    @property
    def is_out(self) -> bool:
        """Whether it takes no new jobs, for whatever reason."""
        return bool(self.states & _OUT)

    @property
    def is_ours(self) -> bool:
        """Whether nobody gave a reason, or we did."""
        return not self.reason or self.reason.startswith(MARK)


Run = Callable[[Sequence[str]], str]


def run_command(words: Sequence[str]) -> str:
    """Return the output of a command. Raises SlurmError."""
    environment = {**os.environ, "LC_ALL": "C"}
    try:
        done = subprocess.run(
            words,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_PATIENCE_S,
            check=False,
            env=environment,
            stdin=subprocess.DEVNULL,
        )
    except subprocess.TimeoutExpired:
        raise SlurmError(f"{words[0]}: no answer in {_PATIENCE_S} s") from None
    except OSError as error:
        raise SlurmError(f"{words[0]}: {error.strerror}; install Slurm's commands") from None
    if done.returncode != 0:
        raise SlurmError(f"{words[0]}: {_last_line(done.stderr or done.stdout) or done.returncode}")
    return done.stdout


def _last_line(text: str) -> str:
    """Return the line that says why, without the program's name and the severity in front of it."""
    lines = [" ".join(line.split()) for line in text.splitlines() if line.strip()]
    return re.sub(r"^[a-z]+: (error|fatal): ", "", lines[-1])[:300] if lines else ""


class Slurm:
    """The cluster that slurm.conf names."""

    def __init__(self, run: Run = run_command) -> None:
        self._run = run

    def nodes(self) -> dict[str, SlurmNode]:
        """Return all nodes by name. Raises SlurmError."""
        lines = self._run(["scontrol", "--oneliner", "show", "nodes"]).splitlines()
        found = [parse_node(line) for line in lines if line.startswith("NodeName=")]
        if not found:
            raise SlurmError("scontrol: it lists no nodes")
        return {node.name: node for node in found}

    def cleaning(self) -> dict[int, bool]:
        """Return the actions whose cleaning job Slurm knows, and whether the job has yet to end."""
        lines = self._run(["squeue", "--noheader", "--states=all", "--format=%T %j"]).splitlines()
        found = (re.fullmatch(rf"([A-Z_]+) {CLEANING}([0-9]{{1,18}})\s*", line) for line in lines)
        return {int(match[2]): match[1] in _UNDER_WAY for match in found if match}

    def clean(self, node: SlurmNode, number: int, user: str, command: Sequence[str]) -> None:
        """Queue a job that has the node for itself, and cleans it."""
        words = [
            "sbatch", "--parsable", f"--nodelist={node.name}", "--nodes=1", "--exclusive", "--time=70",
            f"--job-name={CLEANING}{number}", "--output=/dev/null", "--chdir=/", "--no-requeue",
            f"--partition={node.partitions[0]}",
        ]  # fmt: skip
        words += [f"--uid={user}"] if user != "root" else []
        self._run([*words, "--wrap", shlex.join(command)])

    def reboot(self, name: str, reason: str) -> None:
        """Reboot a node once its jobs have ended. It takes no new ones until then."""
        self._run(["scontrol", "reboot", "ASAP", "nextstate=resume", f"reason={reason}", name])

    def drain(self, name: str, reason: str) -> None:
        """Lets a node take no more jobs, until people resume it."""
        self._run(["scontrol", "update", f"nodename={name}", "state=drain", f"reason={reason}"])


def parse_node(line: str) -> SlurmNode:
    """Return the node of a line of `scontrol --oneliner show nodes`.

    A reason may hold anything, and comes last.
    """
    head, _, tail = line.partition(" Reason=")
    fields = _fields(head)
    match = _WHO.match(tail)
    return SlurmNode(
        name=fields.get("NodeName", ""),
        states=frozenset(re.findall(r"[A-Z_]+", fields.get("State", "UNKNOWN"))),
        reason=(match[1] if match else tail).strip(),
        partitions=tuple(filter(None, fields.get("Partitions", "").split(","))),
        started=fields.get("SlurmdStartTime", ""),
    )


def _fields(text: str) -> Mapping[str, str]:
    return {name: value for name, equals, value in (word.partition("=") for word in text.split()) if equals}
