"""Describes what objects take part in misses, which evict which, and how policies fill the cache's slots."""

from collections.abc import Mapping

import numpy as np
import polars as pl

from pagelens.accesses.job import JobWorkload
from pagelens.ensemble.result import Ensemble
from pagelens.explain.distributions import of_phase
from pagelens.explain.model import CollisionRecord, ObjectRecord, SlotMap

TOP_COLLISIONS = 12


def object_records(ensemble: Ensemble) -> list[ObjectRecord]:
    """Return the objects of every policy by their accesses, most first."""
    objects = {known.name: known for known in ensemble.workload.objects}
    in_job = isinstance(ensemble.workload, JobWorkload)
    rows = of_phase(ensemble, ensemble.tables.objects)
    counts = ("accesses", "misses", "conflict_evictions")
    sums = rows.group_by("policy", "object").agg(pl.col(counts).sum())
    records = []
    for policy in ensemble.policies:
        of_policy = sums.filter(pl.col("policy") == policy).with_columns(
            pl.col(counts) / ensemble.nodes_under(policy)
        ).sort(["accesses", "object"], descending=[True, False])  # fmt: skip
        accesses, misses = float(of_policy["accesses"].sum()), float(of_policy["misses"].sum())
        records += [
            ObjectRecord(
                policy=policy,
                name=row["object"],
                bytes=objects[row["object"]].bytes if row["object"] in objects else None,
                ranks=objects[row["object"]].ranks if in_job and row["object"] in objects else None,
                accesses=row["accesses"],
                misses=row["misses"],
                access_share=_ratio(row["accesses"], accesses),
                miss_share=_ratio(row["misses"], misses),
                miss_rate=_ratio(row["misses"], row["accesses"]),
                conflict_evictions=row["conflict_evictions"],
            )
            for row in of_policy.iter_rows(named=True)
        ]
    return records


def collision_records(ensemble: Ensemble) -> list[CollisionRecord]:
    """Return the pairs of objects that evict each other most, per policy."""
    sums = ensemble.tables.collisions.group_by("policy", "object", "victim").agg(pl.col("lines").sum())
    records = []
    for policy in ensemble.policies:
        pairs = sums.filter(pl.col("policy") == policy).with_columns(
            pl.col("lines") / ensemble.nodes_under(policy)
        ).sort(["lines", "object", "victim"], descending=[True, False, False])  # fmt: skip
        total = float(pairs["lines"].sum())
        records += [
            CollisionRecord(
                policy=policy,
                name=row["object"],
                victim=row["victim"],
                lines=row["lines"],
                share=_ratio(row["lines"], total),
            )
            for row in pairs.head(TOP_COLLISIONS).iter_rows(named=True)
            if row["lines"] > 0
        ]
    return records


def slot_maps(ensemble: Ensemble, totals: Mapping[str, pl.DataFrame], baseline: str) -> list[SlotMap]:
    """Return how each policy fills the cache on the node of median time under the baseline."""
    nodes = min(map(ensemble.nodes_under, ensemble.policies))  # the nodes that all policies have
    times = totals[baseline]["time_s"].to_numpy()[:nodes]
    node = int(totals[baseline]["node"][int(np.argsort(times, kind="stable")[(len(times) - 1) // 2])])
    maps = []
    for policy in ensemble.policies:
        cells = ensemble.tables.slots.filter((pl.col("policy") == policy) & (pl.col("node") == node)).sort(
            "cell"
        )
        if cells.height:
            maps.append(
                SlotMap(
                    policy=policy,
                    node=node,
                    pages_per_slot=[round(value, 3) for value in cells["pages_per_slot"].to_list()],
                    conflict_share=float(totals[policy].filter(pl.col("node") == node)["conflict_share"][0]),
                )
            )
    return maps


def _ratio(part: float, whole: float) -> float:
    return part / whole if whole else 0.0
