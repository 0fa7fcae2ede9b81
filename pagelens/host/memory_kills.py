"""Whether the kernel killed processes because memory was full."""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple

from pagelens.host.system import System


class FullMemory(Enum):
    """Whether the kernel killed a process of a program because memory was full."""

    NO = 0
    PROBABLY = 1  # it killed some process of the machine
    YES = 2


class MemoryKills(NamedTuple):
    """How many processes the kernel has killed so far because memory was full."""

    of_machine: int
    of_cgroup: int | None  # this process's, which its children are in, too; None: not known

    def since(self, before: MemoryKills) -> FullMemory:
        """Return what happened since then to a program that this process started."""
        if self.of_cgroup is not None and before.of_cgroup is not None:
            return FullMemory.YES if self.of_cgroup > before.of_cgroup else FullMemory.NO
        return FullMemory.PROBABLY if self.of_machine > before.of_machine else FullMemory.NO


def memory_kills(system: System | None = None) -> MemoryKills:
    """Return the kernel's counts: those of the machine, and those of the cgroup where they can be read."""
    system = system or System()
    return MemoryKills(_count(system.text("/proc/vmstat")) or 0, _of_cgroup(system))


def _of_cgroup(system: System) -> int | None:
    """Return the count of this process's cgroup, which version 1 and 2 keep in different files."""
    for line in system.text("/proc/self/cgroup").splitlines():
        _, controllers, path = (*line.split(":", 2), "-", "")[:3]
        if "memory" in controllers.split(","):
            file = f"/sys/fs/cgroup/memory{path}/memory.oom_control"
        elif controllers == "":
            file = f"/sys/fs/cgroup{path}/memory.events"
        else:
            continue
        if (count := _count(system.text(file))) is not None:
            return count
    return None


def _count(text: str) -> int | None:
    lines = (line.split() for line in text.splitlines())
    return next((int(words[1]) for words in lines if words[:1] == ["oom_kill"] and len(words) == 2), None)
