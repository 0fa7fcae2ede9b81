"""What the NUMA nodes of a machine cost a program: remote lines by object, and seconds by memory and link."""

from collections import Counter, defaultdict
from collections.abc import Sequence

import numpy as np
import polars as pl

from pagelens.accesses.workload import Workload
from pagelens.ensemble.result import Ensemble
from pagelens.explain.model import NumaObject, NumaPart, NumaRecord, SharedObject
from pagelens.replay.node_engine import BALANCING

TOP_OBJECTS = 12


def numa_records(ensemble: Ensemble) -> list[NumaRecord] | None:
    """Return a record for each policy: means over the nodes, of the phase that is explained.

    Returns None on a machine of one NUMA node.
    """
    topology = ensemble.machine.topology
    if topology.nodes == 1:
        return None
    rows = ensemble.tables.numa
    if ensemble.phase is not None:
        rows = rows.filter(pl.col("phase") == ensemble.phase)
    return [
        _record(ensemble, policy, rows.filter(pl.col("policy") == policy)) for policy in ensemble.policies
    ]


def _record(ensemble: Ensemble, policy: str, rows: pl.DataFrame) -> NumaRecord:
    machine = ensemble.policies[policy].machine(ensemble.machine)  # `nps4` gives it more NUMA nodes
    topology, nodes = machine.topology, ensemble.nodes_under(policy)
    shape = (topology.rows, topology.nodes)
    pairs = {name: np.zeros(shape) for name in ("reads", "writes", "taken")}
    sums = rows.group_by("from", "to").agg(pl.col(*pairs).sum()).sort("from", "to")
    for source, target, *lines in sums.iter_rows():
        for name, count in zip(pairs, lines, strict=True):
            pairs[name][source, target] = count / nodes
    both, slow = pairs["reads"] + pairs["writes"], list(topology.slow_nodes)
    served = topology.seconds_of_memories(pairs["reads"], pairs["writes"])
    parts = [
        NumaPart(name=f"memory of node {node}", busy_s=float(seconds)) for node, seconds in enumerate(served)
    ]
    read = pairs["reads"] + pairs["taken"]
    parts += [
        NumaPart(name=link.name, busy_s=float(link.seconds(read, pairs["writes"]))) for link in topology.links
    ]
    remote = both.sum() - np.trace(both)
    balancing: dict[str, float] = {}
    if ensemble.policies[policy].numa.moves_pages:
        placed = ensemble.tables.placements.filter(pl.col("policy") == policy)
        tiered = ensemble.policies[policy].numa.tiered
        if ensemble.phase is not None and not tiered:  # hot pages are promoted once, mostly before a phase
            placed = placed.filter(pl.col("phase") == ensemble.phase)
        columns = BALANCING if tiered else BALANCING[:2]
        balancing = {name: float(placed[name].sum()) / nodes for name in columns}
    return NumaRecord(
        policy=policy,
        remote_share=float(remote / max(1.0, both.sum())),
        slow_share=float(both[:, slow].sum() / max(1.0, both.sum())) if slow else None,
        objects=_objects(ensemble.workload, rows, float(remote) * nodes, slow),
        shared=_shared(rows, nodes),
        taken_at_no_cost=None
        if np.diagonal(topology.line_latency).all()
        else float(rows.filter(pl.col("from") == pl.col("to"))["taken"].sum()) / nodes,
        parts=sorted((part for part in parts if part.busy_s > 0), key=lambda part: (-part.busy_s, part.name)),
        **balancing,
    )


def _objects(
    workload: Workload, rows: pl.DataFrame, remote: float, slow: Sequence[int]
) -> Sequence[NumaObject]:
    lines = pl.col("reads") + pl.col("writes")
    sums = rows.group_by("object").agg(
        lines.sum().alias("all"),
        lines.filter(pl.col("from") != pl.col("to")).sum().alias("remote"),
        lines.filter(pl.col("to").is_in(slow)).sum().alias("slow"),
    ).filter(pl.col("remote") > 0).sort(["remote", "object"], descending=[True, False])  # fmt: skip
    written_by = _first_writers(workload)
    return [
        NumaObject(
            name=name,
            first_written_by=written_by.get(name),
            remote_share=far / every,
            slow_share=in_slow / every if slow else None,
            share=far / max(1.0, remote),
        )
        for name, every, far, in_slow in sums.head(TOP_OBJECTS).iter_rows()
    ]


def _first_writers(workload: Workload) -> dict[str, str]:
    """Return by object the place in the code that writes most of its pages first."""
    places: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for index, found in workload.first_writers.items():
        places[workload.objects[index].name].update(found)
    return {name: min(found, key=lambda of: (-found[of], of)) for name, found in places.items()}


def _shared(rows: pl.DataFrame, nodes: int) -> list[SharedObject]:
    sums = rows.group_by("object").agg(pl.col("taken").sum()).filter(pl.col("taken") > 0)
    sums = sums.sort(["taken", "object"], descending=[True, False])
    every = max(1.0, float(sums["taken"].sum()))
    return [
        SharedObject(name=name, taken=taken / nodes, share=taken / every)
        for name, taken in sums.head(TOP_OBJECTS).iter_rows()
    ]
