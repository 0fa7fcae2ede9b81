"""What a node must not forget while jobs come and go: which jobs run, and which settings to put back.

A Prolog or an Epilog can be killed at any point. So everything that must be undone is written down before it
is done, and a file of the state is complete or as it was before. The state of an earlier boot counts for
nothing, because its jobs are gone and the kernel has its defaults again.
"""

from __future__ import annotations

import fcntl
import json
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pagelens.host.system import System

_FILE, _LOCK = "node.json", "node.lock"
_POLL_S = 0.02
_MOST_BYTES = 1 << 20


@dataclass
class RunningJob:
    """A job between its Prolog and its Epilog."""

    uid: int
    since_s: float  # seconds since the boot
    ended: bool = False  # its Epilog has begun


@dataclass
class NodeState:
    """The content of the file."""

    boot: str
    jobs: dict[str, RunningJob] = field(default_factory=dict)
    restore: dict[str, str] = field(default_factory=dict)  # the value to put back, by a setting's path
    last: dict[str, Any] = field(default_factory=dict)  # says what the last Prolog did


def boot_id(system: System) -> str:
    """Return the number that the kernel drew when it started."""
    return system.text("/proc/sys/kernel/random/boot_id")


def uptime_s(system: System) -> float:
    """Return the seconds since the boot."""
    first = system.text("/proc/uptime").split(" ")[0]
    try:
        return float(first)
    except ValueError:
        return 0.0


def load_state(folder: Path, system: System) -> NodeState:
    """Return the state of this boot.

    It is empty if the file is missing, damaged, or of an earlier boot.
    """
    fresh = NodeState(boot_id(system))
    try:
        with open(folder / _FILE, "rb") as file:
            found = json.loads(file.read(_MOST_BYTES))
        jobs = {
            str(job): RunningJob(int(of["uid"]), float(of["since_s"]), bool(of["ended"]))
            for job, of in found["jobs"].items()
        }
        restore = {str(path): str(value) for path, value in found["restore"].items()}
        if found["boot"] != fresh.boot:
            return fresh
        return NodeState(fresh.boot, jobs, restore, dict(found["last"]))
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return fresh


def save_state(folder: Path, state: NodeState) -> None:
    """Write the state, whole and to the disk. Raises OSError."""
    content = {
        "version": 1,
        "boot": state.boot,
        "jobs": {job: vars(of) for job, of in state.jobs.items()},
        "restore": state.restore,
        "last": state.last,
    }
    folder.mkdir(parents=True, exist_ok=True, mode=0o755)
    partial = folder / f"{_FILE}.partial"
    try:
        with partial.open("w") as file:
            json.dump(content, file)
            file.flush()
            os.fsync(file.fileno())
        os.replace(partial, folder / _FILE)
    finally:
        with suppress(OSError):
            partial.unlink()


@contextmanager
def locked(folder: Path, end: float) -> Iterator[bool]:
    """Hold the node's lock, which goes with the process.

    Return False if another process has it until `end` (monotonic).
    """
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o755)
        descriptor = os.open(folder / _LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    except OSError:  # a disk that is full or read-only: there is no other state to protect either
        yield True
        return
    try:
        held = False
        while not held:
            try:
                fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)  # no child inherits the lock
                held = True
            except OSError:
                if time.monotonic() > end:
                    break
                time.sleep(_POLL_S)
        yield held
    finally:
        os.close(descriptor)


def other_jobs(state: NodeState, system: System, own: str, forget_after_s: float) -> list[str]:
    """Return the jobs that run here beside `own`.

    A job whose Epilog never came counts for a while, because it may run without any process of its own. A job
    with a process always counts.
    """
    now = uptime_s(system)
    running = [
        job
        for job, of in state.jobs.items()
        if job != own and not of.ended and now - of.since_s < forget_after_s
    ]
    old = {job for job, of in state.jobs.items() if job != own and not of.ended and job not in running}
    return sorted([*running, *(old & _jobs_with_steps(system))] if old else running, key=int)


def _jobs_with_steps(system: System) -> set[str]:
    """Return the jobs that have a slurmstepd on this node."""
    found = set()
    for process in system.names("/proc"):
        if process.isdigit():
            title = system.text(f"/proc/{process}/cmdline")
            if title.startswith("slurmstepd: ["):
                found.add(title.partition("[")[2].partition(".")[0])
    return found
