"""Emulates two memories on a machine with one kind: the near socket's is fast, the far socket's slow.

This is the method of LLNL's SC16 poster 107: all threads run on one socket, and memory is bound to it, to the
other, or as a plan says. The result is measured, and holds for the ratio of these two sockets.
"""

import os
import statistics
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from pagelens.accesses.preloading import obstacles
from pagelens.accesses.program import locate
from pagelens.errors import Failure
from pagelens.host.memory_policy import binder
from pagelens.host.numa_nodes import read_nodes
from pagelens.host.system import System
from pagelens.interrupts import ctrl_c_waits
from pagelens.place.plan import read_plan
from pagelens.place.policies import ALL_FAST, ALL_SLOW, OURS
from pagelens.run.plan_handover import hand_over
from pagelens.run.preload import Preload

ROUNDS = 3  # of each placement, in turn


@dataclass(frozen=True)
class Sockets:
    """The numbers of two NUMA nodes, and the processors of the near one."""

    near: int
    far: int
    cpus: frozenset[int]


@dataclass(frozen=True)
class Emulated:
    """Measured wall-clock seconds of one placement, one for each round."""

    policy: str
    seconds: Sequence[float]

    @property
    def median_s(self) -> float:
        """The median of the rounds."""
        return statistics.median(self.seconds)


def find_sockets(system: System) -> Sockets | None:
    """Return the first two nodes with memory and processors of their own, or None if there are not two."""
    nodes = [node for node in read_nodes(system) if node.cpus]
    if len(nodes) < 2:
        return None
    near, far = (int(PurePosixPath(node.path).name.removeprefix("node")) for node in nodes[:2])
    return Sockets(near, far, nodes[0].cpus)


def emulate_plan(words: Sequence[str], plan: Path) -> list[str]:
    """Run the program on two sockets, and return a table for the terminal.

    Where nothing can be measured, it returns a line that says why.
    """
    sockets = find_sockets(System())
    if sockets is None:
        return [
            "--emulate: this machine has no two NUMA nodes with processors, so nothing was measured; all "
            "times are the model's"
        ]
    if not read_plan(plan).objects:
        return ["--emulate: the plan puts nothing into fast memory; there is nothing to measure"]
    return list(_lines(emulate(words, plan, sockets), sockets))


def emulate(words: Sequence[str], plan: Path, sockets: Sockets, rounds: int = ROUNDS) -> list[Emulated]:
    """Run the program with all in the far memory, all in the near one, and as planned, in turn.

    Its output goes nowhere. Raises Failure if a run fails.
    """
    ways: dict[str, tuple[int | None, Mapping[str, str] | None]] = {
        ALL_SLOW: (sockets.far, None),
        ALL_FAST: (sockets.near, None),
        OURS: (None, planned_environment(words[0], plan, sockets)),
    }
    seconds: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(rounds):
        for name, (node, environment) in ways.items():
            seconds[name].append(timed(words, sockets.cpus, node, environment))
    return [Emulated(name, tuple(values)) for name, values in seconds.items()]


def planned_environment(
    program: str, plan: Path, sockets: Sockets, system: System | None = None
) -> dict[str, str]:
    """Return the environment that `pagelens run --plan` gives the program.

    With it, the time of `pagelens run` itself is not measured. Raises Failure if the program would run
    without the plan, since that would be no measurement of it.
    """
    path = locate(program)
    handed = hand_over(plan, path, sockets.near, sockets.far, system)
    if handed is None:
        raise Failure("--emulate: the program would run without the plan; the line above says why")
    for line in obstacles(path):
        raise Failure(f"--emulate: {line}; the plan has no effect on it")
    return Preload(plan=handed).environment(os.environ)


def timed(
    words: Sequence[str],
    cpus: frozenset[int],
    node: int | None,
    environment: Mapping[str, str] | None = None,
) -> float:
    """Return the wall-clock seconds of a command on some processors, with memory from one node if named."""
    begin = time.perf_counter()
    with ctrl_c_waits():
        process = subprocess.Popen(
            words,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            env=environment,
            preexec_fn=_bound(cpus, node),
        )
    with process:
        try:
            said = process.communicate()[1].strip().splitlines()
        except KeyboardInterrupt:
            process.kill()
            raise
    if process.returncode:
        raise Failure(
            f"--emulate: {words[-1] if len(words) < 2 else ' '.join(words[:3])} ended with status "
            f"{process.returncode}{': ' + said[-1] if said else ''}; run it once without --emulate"
        )
    return time.perf_counter() - begin


def _bound(cpus: frozenset[int], node: int | None) -> Callable[[], None]:
    """Return what the child does before it becomes the program."""
    bind_memory = binder(node) if node is not None else None

    def bind() -> None:
        os.sched_setaffinity(0, cpus)
        if bind_memory is not None and not bind_memory():
            os.write(2, b"memory cannot be bound to the node\n")
            os._exit(125)

    return bind


def _lines(found: Sequence[Emulated], sockets: Sockets) -> Iterator[str]:
    slow = next(each for each in found if each.policy == ALL_SLOW)
    yield (
        f"Emulated: node {sockets.near} fast, node {sockets.far} slow. Measured, {len(slow.seconds)} rounds."
    )
    for each in found:
        yield (
            f"{each.policy:<18} {each.median_s:>8.3g} s {slow.median_s / each.median_s:>5.2f}x  "
            f"{min(each.seconds):.3g} to {max(each.seconds):.3g} s"
        )
