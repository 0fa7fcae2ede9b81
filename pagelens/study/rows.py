"""What is found at a point: a row for each policy."""

import polars as pl

from pagelens.api import Explanation, explain
from pagelens.ensemble import Ensemble

# Seconds are modelled, of the phase that the study looks at; gains are over the baseline.
# The intervals are of 95%, by the choice of nodes and of what is simulated of the run.
_COLUMNS: dict[str, type[pl.DataType] | pl.DataType] = {
    "policy": pl.String,
    "nodes": pl.UInt32,
    "median_s": pl.Float64,
    "median_low_s": pl.Float64,
    "median_high_s": pl.Float64,
    "p95_s": pl.Float64,
    "best_s": pl.Float64,
    "worst_s": pl.Float64,
    "gain": pl.Float64,  # median of the baseline over that of the policy, on the same nodes
    "gain_low": pl.Float64,
    "gain_high": pl.Float64,
    "conflict_share": pl.Float64,  # of resident pages whose slot holds another of the job; counted
    "miss_rate": pl.Float64,  # of the memory-side cache; counted
    "bound_by": pl.String,  # the resource that decides most of the time
    "times_s": pl.List(pl.Float64),  # by node, from node 0 on
}
ROWS = pl.Schema(_COLUMNS)


def rows_of(ensemble: Ensemble) -> pl.DataFrame:
    """Return a row for each policy, in the order asked for."""
    return _rows(explain(ensemble))


def _rows(found: Explanation) -> pl.DataFrame:
    rows = [
        {
            "policy": of.policy,
            "nodes": of.nodes,
            "median_s": of.median_s,
            "median_low_s": of.median_low_s,
            "median_high_s": of.median_high_s,
            "p95_s": of.p95_s,
            "best_s": of.best_s,
            "worst_s": of.worst_s,
            "gain": of.gain_median,
            "gain_low": of.gain_median_low,
            "gain_high": of.gain_median_high,
            "conflict_share": of.conflict_share_median,
            "miss_rate": of.miss_rate_median,
            "bound_by": max(of.resources, key=lambda each: each.bound_s).name,
            "times_s": of.times_s,
        }
        for of in found.distributions
    ]
    return pl.DataFrame(rows, schema=ROWS)
