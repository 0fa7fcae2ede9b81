"""Attributes the time of each policy to mechanisms, from the counterfactuals of an ensemble."""

import numpy as np
import polars as pl
from numpy.typing import NDArray

from pagelens.ensemble.result import SEPARATOR, Ensemble
from pagelens.explain.attribution import Attribution, attribute
from pagelens.explain.distributions import of_phase
from pagelens.explain.model import AttributionRecord, PartRecord
from pagelens.replay import MECHANISMS
from pagelens.replay.mechanisms import TWO_WAY

Floats = NDArray[np.float64]


def attribution_records(ensemble: Ensemble) -> list[AttributionRecord]:
    """Return the mean over the nodes that have counterfactuals, and the slowest of them."""
    rows = of_phase(ensemble, ensemble.tables.counterfactuals)
    records = []
    for policy in ensemble.policies:
        # Sorting first gives sums over the phases one order of rounding.
        by_node = rows.filter(pl.col("policy") == policy).sort("without", "node", "phase").group_by(
            "without", "node", maintain_order=True
        ).agg(pl.col("time_s").sum())  # fmt: skip
        times = {
            name: of_nodes["time_s"].to_numpy()
            for (name,), of_nodes in by_node.group_by("without", maintain_order=True)
        }
        if not times:
            continue
        two_way = times.pop(TWO_WAY, None)
        found = attribute({frozenset(filter(None, name.split(SEPARATOR))): t for name, t in times.items()})
        slowest = int(np.argmax(found.time))
        records.append(_attribution(policy, "mean", found, two_way, slice(None)))
        records.append(_attribution(policy, "slowest", found, two_way, slice(slowest, slowest + 1)))
    return records


def _attribution(
    policy: str, nodes: str, found: Attribution, two_way: Floats | None, pick: slice
) -> AttributionRecord:
    def mean(values: Floats) -> float:
        return float(np.mean(values[pick]))

    return AttributionRecord(
        policy=policy,
        nodes=nodes,
        of_nodes=len(found.time),
        time_s=mean(found.time),
        unburdened_s=mean(found.unburdened),
        parts=[
            PartRecord(
                mechanism=name,
                seconds=mean(found.parts[name]),
                without_s=mean(found.time - found.alone[name]) if name in found.alone else None,
            )
            for name in MECHANISMS
            if name in found.parts
        ],
        interaction_s=mean(found.interaction),
        two_way_s=None if two_way is None else mean(two_way),
    )
