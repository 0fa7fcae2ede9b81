"""Compares where a launcher let the ranks of a job run with where the model runs them."""

from collections import defaultdict
from collections.abc import Sequence
from typing import NamedTuple

from pagelens.host.process_binding import read_list, write_list


class Binding(NamedTuple):
    """Where a rank could run when it was traced, and how many threads it has."""

    threads: int
    cpus: frozenset[int]
    all_cpus: frozenset[int]
    nodes: frozenset[int]
    all_nodes: frozenset[int]


def parse_binding(text: str, threads: int) -> Binding | None:
    """Return the binding that a trace states (`TraceHeader::bound`), or None if it states none."""
    lists = [frozenset(read_list(part)) for part in text.split(" ")]
    return Binding(threads, *lists) if len(lists) == 4 and all(lists) else None


def binding_notes(ranks: Sequence[Binding | None]) -> list[str]:
    """Say if the ranks shared cores, or all sat on some of the NUMA nodes; nothing if a binding is unknown.

    Ranks that may run on the same CPUs share cores if they have more threads than these are.
    """
    known = [rank for rank in ranks if rank is not None]
    if len(known) < len(ranks):
        return []
    notes = []
    if shared := _crowded(known):
        threads = sum(rank.threads for rank in known if rank.cpus <= shared)
        notes.append(
            f"When the ranks were traced, {threads} threads could run on CPU {write_list(shared)} only, so "
            "they shared cores. If all of them work, a run that is bound like this takes at least "
            f"{threads / len(shared):.3g} times as long as the model says, which gives each thread a core of "
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
    return notes


def _crowded(ranks: Sequence[Binding]) -> frozenset[int]:
    """Return the smallest set of a rank's CPUs that has more threads than CPUs; empty if there is none."""
    threads: defaultdict[frozenset[int], int] = defaultdict(int)
    sets = {rank.cpus for rank in ranks}
    for cpus in sets:
        threads[cpus] = sum(rank.threads for rank in ranks if rank.cpus <= cpus)
    crowded = [cpus for cpus in sets if threads[cpus] > len(cpus)]
    return min(crowded, key=lambda cpus: (len(cpus), min(cpus)), default=frozenset())
