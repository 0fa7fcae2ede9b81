"""Compares where a launcher let the ranks of a job run with where the model runs them."""

from collections.abc import Sequence
from typing import NamedTuple

from pagelens.host.process_binding import read_list, write_list

AS_MODELLED = (
    "The ranks were bound well when they were traced: each working thread could have a CPU of its own, and "
    "all NUMA nodes were used."
)
_CROWDED = 1.1  # the load from which ranks share cores
_HELPS = 0.1  # of the instructions of a rank's busiest thread: fewer are a helper's


class Binding(NamedTuple):
    """Says where a rank could run when it was traced, and how many instructions each thread executed."""

    instructions: tuple[int, ...]
    cpus: frozenset[int]
    all_cpus: frozenset[int]
    nodes: frozenset[int]
    all_nodes: frozenset[int]


def parse_binding(text: str, instructions: Sequence[int]) -> Binding | None:
    """Return the binding that a trace states (`TraceHeader::bound`), or None if it states none."""
    lists = [frozenset(read_list(part)) for part in text.split(" ")]
    return Binding(tuple(instructions), *lists) if len(lists) == 4 and all(lists) else None


def binding_notes(ranks: Sequence[Binding | None]) -> list[str]:
    """Say if the ranks shared cores, or all sat on some of the NUMA nodes, or were bound as the model does.

    If a binding is unknown, nothing is said.

    Ranks that may run on the same CPUs share cores if their threads execute more than these can while the
    busiest thread runs. So helpers of the MPI library that do little count for little.
    """
    known = [rank for rank in ranks if rank is not None]
    if len(known) < len(ranks):
        return []
    notes = []
    if shared := _crowded(known):
        threads = sum(
            len(rank.instructions) - helpers(rank.instructions) for rank in known if rank.cpus <= shared
        )
        notes.append(
            f"When the ranks were traced, {threads} working threads could run on CPU {write_list(shared)} "
            f"only, so they shared cores. By their instructions, a run that is bound like this takes some "
            f"{_load(known, shared):.2g} times as long as the model says, which gives each thread a core of "
            "its own."
        )
    nodes = frozenset[int]().union(*(rank.nodes for rank in known))
    every = frozenset[int]().union(*(rank.all_nodes for rank in known))
    if nodes < every:
        notes.append(
            f"When the ranks were traced, all were bound to NUMA node {write_list(nodes)} of "
            f"{write_list(every)}. The model spreads them over all nodes, and fills one node after the other "
            "only under the policy `close`."
        )
    return notes or [AS_MODELLED]


def helpers(instructions: Sequence[int]) -> int:
    """Return how many of a process's threads do so little that they are helpers, as MPI libraries have."""
    most = max(instructions, default=0)
    return sum(_helps(count, most) for count in instructions)


def _helps(executed: int, most: int) -> bool:
    return executed < _HELPS * most


def cores_of_threads(instructions: Sequence[int]) -> list[int]:
    """Return the core of each thread of a process. Helpers share that of the busiest thread.

    The operating system gives a helper a core that is idle or, where none is, a part of a busy one. It
    executes so little that the two differ little.
    """
    most = max(instructions, default=0)
    working = [thread for thread, count in enumerate(instructions) if not _helps(count, most)]
    core_of = {thread: core for core, thread in enumerate(working)}
    busiest = core_of[instructions.index(most)] if working else 0
    return [core_of.get(thread, busiest) for thread in range(len(instructions))]


def crowding(ranks: Sequence[Binding | None]) -> float:
    """Return how many times as long a job takes if its ranks share cores as they did: 1 if they do not.

    It is 1, too, if a binding is unknown.
    """
    known = [rank for rank in ranks if rank is not None]
    shared = _crowded(known) if len(known) == len(ranks) else None
    return _load(known, shared) if shared else 1.0


def _crowded(ranks: Sequence[Binding]) -> frozenset[int]:
    """Return the smallest set of a rank's CPUs that is crowded; empty if there is none."""
    crowded = [cpus for cpus in {rank.cpus for rank in ranks} if _load(ranks, cpus) > _CROWDED]
    return min(crowded, key=lambda cpus: (len(cpus), min(cpus)), default=frozenset())


def _load(ranks: Sequence[Binding], cpus: frozenset[int]) -> float:
    """Return how many times as long as for their busiest thread the CPUs take for all of their threads."""
    executed = [count for rank in ranks if rank.cpus <= cpus for count in rank.instructions]
    return sum(executed) / max(1, *executed) / len(cpus)
