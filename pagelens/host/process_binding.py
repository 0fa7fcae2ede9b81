"""Where this process may run: its CPUs and NUMA nodes, among those of the machine."""

import os
import re
from collections.abc import Collection
from pathlib import Path

from pagelens.errors import UsageError
from pagelens.host.numa_nodes import FOLDER
from pagelens.host.system import System


def binding_in_words(root: Path = Path("/"), allowed: Collection[int] | None = None) -> str:
    """Return four lists: this process's CPUs, all CPUs, the NUMA nodes of its CPUs, those of all CPUs.

    The lists are written as the kernel writes them (`0-3,8`), with spaces between, as a trace keeps them
    (docs/trace-format.md). `allowed` are the process's CPUs, by default as the kernel says. The text is empty
    if the kernel does not list all CPUs.
    """
    system = System(root)
    every = system.cpus("/sys/devices/system/cpu/online")
    own = every & set(os.sched_getaffinity(0) if allowed is None else allowed)
    if not own:
        return ""
    folders = system.folders(FOLDER, "node")
    nodes = {int(path.rpartition("node")[2]): system.cpus(f"{path}/cpulist") for path in folders}
    of_own = {node for node, cpus in nodes.items() if cpus & own} or {0}
    of_all = {node for node, cpus in nodes.items() if cpus & every} or {0}
    return " ".join(map(write_list, (own, every, of_own, of_all)))


def named_processors(text: str, option: str) -> list[int]:
    """Return the processors of a list such as 0-3,8, ascending. Errors call it `option`.

    Raises UsageError if it is no such list, or if this process may not use them.
    """
    may = os.sched_getaffinity(0)
    found = read_list(text.replace(" ", ""))
    if not found:
        raise UsageError(f"{option} {text!r}: give numbers and rising ranges of processors, such as 0-3,8")
    if not found <= may:
        raise UsageError(f"{option} {text!r}: this process may run on {write_list(may)}")
    return sorted(found)


def all_but(left: int) -> list[int]:
    """Return all processors of this process but so many, the last ones. Raises UsageError if none stays."""
    may = sorted(os.sched_getaffinity(0))
    if not 0 <= left < len(may):
        raise UsageError(
            f"--leave-cores {left}: this process may use {len(may)}, and one must stay: 0 to {len(may) - 1}"
        )
    return may[: len(may) - left]


def read_list(text: str) -> set[int]:
    """Return the numbers of a list like `0-3,8`; none if it is no list, or has numbers beyond 99,999."""
    found: set[int] = set()
    for part in text.strip().split(","):
        match = re.fullmatch(r"([0-9]{1,5})(?:-([0-9]{1,5}))?", part)
        if match is None or int(match[2] or match[1]) < int(match[1]):
            return set()
        found |= set(range(int(match[1]), int(match[2] or match[1]) + 1))
    return found


def write_list(numbers: Collection[int]) -> str:
    """Return numbers as a list like `0-3,8`."""
    runs: list[list[int]] = []
    for number in sorted(numbers):
        if runs and number == runs[-1][1] + 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    return ",".join(str(first) if first == last else f"{first}-{last}" for first, last in runs)
