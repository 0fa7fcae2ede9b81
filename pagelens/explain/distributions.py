"""Describes the run times of all nodes under each policy, and how they go with the counters."""

from collections.abc import Mapping, Sequence

import numpy as np
import polars as pl
from numpy.typing import NDArray

from pagelens import statistics
from pagelens.ensemble.result import RESOURCES, Ensemble
from pagelens.explain.intervals import Intervals
from pagelens.explain.model import Best, Correlation, Distribution, Histogram, ResourceRecord

Floats = NDArray[np.float64]

# Counters shown against the time, by what serves the lines. The other counters are sums or shares of these.
_OF_NODE = ("l2_misses", "l2_write_backs", "l3_misses", "sf_evictions", "walks", "row_conflicts")
CORRELATED = {
    "memory-side cache": (
        "msc_misses",
        "ddr_reads",
        "ddr_writes",
        "l2_misses",
        "l2_write_backs",
        "conflict_share",
    ),
    "fast memory": _OF_NODE,
    "DDR": _OF_NODE,
}
HISTOGRAM_BINS = 24
_ROUNDING = 1e-9
AS_FAST = 1e-4  # runs whose times differ by less are as fast


def totals_by_node(ensemble: Ensemble) -> Mapping[str, pl.DataFrame]:
    """Return one row per node for each policy, in order, with counters and times summed over the phases."""
    # Sorting first gives sums of times one order of rounding. Counters are whole numbers, and exact anyway.
    rows = of_phase(ensemble, ensemble.tables.placements).sort("policy", "node", "phase")
    of_run = (
        "conflict_share",
        "simulated_share",
        "large_pages",
        "large_pages_missing",
    )  # the same in every phase
    sums = [name for name, kind in rows.schema.items() if kind == pl.Float64 and name not in of_run]
    grouped = rows.group_by("policy", "node").agg(
        pl.col(sums).sum(), pl.col(of_run).max()
    ).sort("node")  # fmt: skip
    return {policy: grouped.filter(pl.col("policy") == policy) for policy in ensemble.policies}


def best_run(totals: Mapping[str, pl.DataFrame]) -> Best:
    """Return the fastest run.

    If several runs are equally fast, it is the one under the first of their policies.
    """
    fastest = min(float(table["time_s"].to_numpy().min()) for table in totals.values())
    for policy, table in totals.items():
        row = table.sort("time_s", "node").row(0, named=True)
        if row["time_s"] <= fastest * (1 + AS_FAST):
            return Best(policy=policy, node=row["node"], time_s=row["time_s"])
    raise ValueError("no runs")


def common_bins(totals: Mapping[str, pl.DataFrame], best: Best) -> Floats:
    """Return one set of bins for all policies, so that their histograms can be compared."""
    worst = max(float(table["time_s"].to_numpy().max()) for table in totals.values()) / best.time_s
    return np.linspace(1, max(worst, 1.02), HISTOGRAM_BINS + 1)


def distribution(
    ensemble: Ensemble,
    policy: str,
    baseline: str,
    rows: pl.DataFrame,
    best: Best,
    edges: Floats,
    counters: Sequence[str],
    intervals: Intervals,
) -> Distribution:
    """Return the distribution of one policy, of which `rows` has a row a node."""
    times = rows["time_s"].to_numpy()
    s = statistics.spread(times, ensemble.seed)
    median, gain = intervals.median(policy), intervals.gain(baseline, policy, 0.5)
    slow = intervals.quantile(policy, 0.95)
    accesses = (rows["msc_reads"] + rows["msc_writes"]).to_numpy()
    misses = rows["msc_misses"].to_numpy()
    rates = np.divide(misses, accesses, out=np.zeros_like(misses), where=accesses > 0)
    counts, _ = np.histogram(np.clip(times / best.time_s, edges[0], edges[-1]), edges)
    return Distribution(
        policy=policy,
        title=ensemble.policies[policy].title,
        nodes=len(times),
        median_s=s.median,
        median_low_s=median.low,
        median_high_s=median.high,
        p5_s=s.p5,
        p95_s=s.p95,
        p95_low_s=slow.low,
        p95_high_s=slow.high,
        placement_spread=_placement_spread(ensemble, rows),
        best_s=s.best,
        worst_s=s.worst,
        at_once_median_s=float(np.median(rows["at_once_time_s"].to_numpy())),
        serial_median_s=float(np.median(rows["serial_time_s"].to_numpy())),
        median_slowdown=s.median / best.time_s,
        gain_median=gain.value,
        gain_median_low=gain.low,
        gain_median_high=gain.high,
        slower_10_percent=statistics.share_slower(times, best.time_s, 0.10),
        slower_20_percent=statistics.share_slower(times, best.time_s, 0.20),
        modes=statistics.modes(times, ensemble.seed),
        histogram=Histogram(edges=edges.tolist(), nodes=counts.tolist()),
        miss_rate_median=float(np.median(rates)),
        page_bytes=max(1 << ensemble.policies[policy].page_bits, ensemble.machine.page_bytes),
        large_pages_mean=float(np.mean(rows["large_pages"].to_numpy())),
        large_pages_missing_mean=float(np.mean(rows["large_pages_missing"].to_numpy())),
        conflict_share_median=float(np.median(rows["conflict_share"].to_numpy())),
        resources=_resources(ensemble, policy),
        correlations=[
            Correlation(
                counter=counter,
                pearson=statistics.pearson(rows[counter].to_numpy(), times),
                spearman=statistics.spearman(rows[counter].to_numpy(), times),
            )
            for counter in counters
        ],
        times_s=times.tolist(),
        misses=misses.tolist(),
    )


def _placement_spread(ensemble: Ensemble, rows: pl.DataFrame) -> float | None:
    if ensemble.machine.cores.frequency_spread is None:
        return None
    fast, slow = np.quantile(rows["equal_cores_time_s"].to_numpy(), (0.05, 0.95))
    return float(slow / fast)


def _resources(ensemble: Ensemble, policy: str) -> list[ResourceRecord]:
    """Return the machine's resources that are used at all."""
    rows = of_phase(ensemble, ensemble.tables.placements).filter(pl.col("policy") == policy).sort(
        "node", "phase"
    )  # fmt: skip
    busy = {name: rows[column].to_numpy() for name, column in RESOURCES.items()}
    decided = bound(busy, rows["time_s"].to_numpy())
    nodes = ensemble.nodes_under(policy)
    records = [
        ResourceRecord(
            name=name, busy_s=float(seconds.sum() / nodes), bound_s=float(decided[name].sum() / nodes)
        )
        for name, seconds in busy.items()
    ]
    return sorted((r for r in records if r.busy_s > 0), key=lambda r: (-r.busy_s, r.name))


def bound(busy: Mapping[str, Floats], times: Floats) -> Mapping[str, Floats]:
    """Return how much of the time of each phase each resource decides.

    That is the whole phase for its busiest resource. Where the cores take longer than any resource is busy,
    they decide it, and the phase is divided among what they do in turn: issue, kernel work, and waiting,
    which is the rest.
    """
    stacked = np.stack(list(busy.values()))
    decides = np.argmax(stacked, axis=0)
    in_turn = times > (1 + _ROUNDING) * stacked.max(axis=0)
    issue, faults = busy["issue"], busy["page faults"]
    waits = np.maximum(times - issue - faults, 0.0)
    # The rank with most instructions need not have most page faults: then both add up to more than the time.
    share = times / np.maximum(issue + faults + waits, np.finfo(float).tiny)
    of_cores = {"issue": share * issue, "page faults": share * faults, "latency": share * waits}
    return {
        name: np.where(in_turn, of_cores.get(name, 0.0), np.where(decides == number, times, 0.0))
        for number, name in enumerate(busy)
    }


def of_phase(ensemble: Ensemble, rows: pl.DataFrame) -> pl.DataFrame:
    """Return the rows of the phase that is explained, or all rows."""
    return rows if ensemble.phase is None else rows.filter(pl.col("phase") == ensemble.phase)
