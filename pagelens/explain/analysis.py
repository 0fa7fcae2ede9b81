"""From the tables of an ensemble to an Explanation."""

from collections.abc import Mapping
from typing import Literal

import numpy as np
import polars as pl
from numpy.typing import NDArray

import pagelens
from pagelens.ensemble.result import TWINS, Ensemble
from pagelens.explain import statistics
from pagelens.explain.attribution import Attribution, Columns, attribute_memory_side
from pagelens.explain.conclusion import conclude
from pagelens.explain.inputs import machine_inputs
from pagelens.explain.model import (
    AttributionRecord,
    Best,
    CollisionRecord,
    Correlation,
    Distribution,
    Explanation,
    Histogram,
    MachineRecord,
    ObjectRecord,
    PartRecord,
    ProgramRecord,
    Remedy,
    SampleRecord,
    SlotMap,
)
from pagelens.machine import cache_mode_times, flat_memory
from pagelens.machine.quantities import FRAME_BYTES, LINE_BYTES
from pagelens.replay import SAMPLED_LINES, left_out

Floats = NDArray[np.float64]

# Counters shown against the time; the rest are sums or shares of these.
CORRELATED = ("msc_misses", "ddr_reads", "ddr_writes", "l2_misses", "l2_write_backs", "conflict_share")
HISTOGRAM_BINS = 24
TOP_COLLISIONS = 12
# The time model's columns of what a twin counts; each miss is also a read of DDR.
_TWIN_COLUMNS = {
    "msc_misses": "misses",
    "msc_read_misses": "read_misses",
    "ddr_reads": "misses",
    "ddr_writes": "ddr_writes",
}


def explain(ensemble: Ensemble, command: str = "") -> Explanation:
    """The whole explanation; `command` is what reproduces it. Bootstraps draw from the ensemble's seed."""
    totals = _by_node(ensemble)
    baseline = "aged" if "aged" in ensemble.policies else next(iter(ensemble.policies))
    best = _best(totals)
    edges = _edges(totals, best)
    distributions = [
        _distribution(ensemble, policy, totals[policy], best, edges) for policy in ensemble.policies
    ]
    attributions = _attributions(ensemble, totals) if ensemble.machine.mode == "cache" else []
    objects, collisions = _objects(ensemble), _collisions(ensemble)
    remedies = _remedies(ensemble, totals, baseline)
    workload = ensemble.workload
    machine = MachineRecord(
        name=ensemble.machine.name,
        title=ensemble.machine.title,
        served_by=_served_by(ensemble),
        left_out=left_out(ensemble.machine),
        inputs=machine_inputs(ensemble.machine),
    )
    return Explanation(
        conclusion=conclude(machine, baseline, distributions, attributions, collisions, remedies),
        program=ProgramRecord(
            name=workload.name,
            source=workload.source,
            footprint_bytes=workload.footprint_bytes,
            threads=workload.threads,
            ranks=ensemble.ranks,
            phase=ensemble.phase,
            phases=list(workload.phases),
            share_seen=workload.share_seen,
            warnings=list(workload.warnings),
        ),
        machine=machine,
        sample=SampleRecord(
            nodes=ensemble.nodes,
            seed=ensemble.seed,
            sampled_slots=f"1 in {ensemble.sampling}" if ensemble.sampling > 1 else "all",
            sampled_lines=f"{SAMPLED_LINES} of {FRAME_BYTES // LINE_BYTES}",
            scaled=ensemble.scaled,
            version=pagelens.__version__,
            command=command,
        ),
        baseline=baseline,
        best=best,
        distributions=distributions,
        attributions=attributions,
        objects=objects,
        collisions=collisions,
        slot_maps=_slot_maps(ensemble, totals, baseline),
        remedies=remedies,
    )


def _served_by(ensemble: Ensemble) -> Literal["memory-side cache", "fast memory", "DDR"]:
    if ensemble.machine.mode == "cache":
        return "memory-side cache"
    job_bytes = ensemble.workload.footprint_bytes * ensemble.ranks
    return "DDR" if flat_memory(ensemble.machine, job_bytes) == "ddr" else "fast memory"


def _by_node(ensemble: Ensemble) -> Mapping[str, pl.DataFrame]:
    """Per policy one row a node, ascending: counters and times summed over the phases."""
    # Sorted first: sums of times then have one order of rounding (counters are whole numbers, exact anyway).
    rows = ensemble.tables.placements.sort("policy", "node", "phase")
    if ensemble.phase is not None:
        rows = rows.filter(pl.col("phase") == ensemble.phase)
    of_run = ("conflict_share", "large_pages", "large_pages_missing")  # the same in every phase
    sums = [name for name, kind in rows.schema.items() if kind == pl.Float64 and name not in of_run]
    grouped = rows.group_by("policy", "node").agg(
        pl.col(sums).sum(), pl.col(of_run).max()
    ).sort("node")  # fmt: skip
    return {policy: grouped.filter(pl.col("policy") == policy) for policy in ensemble.policies}


def _best(totals: Mapping[str, pl.DataFrame]) -> Best:
    rows = pl.concat(list(totals.values())).sort("time_s", "node", "policy")
    first = rows.row(0, named=True)
    return Best(policy=first["policy"], node=first["node"], time_s=first["time_s"])


def _edges(totals: Mapping[str, pl.DataFrame], best: Best) -> Floats:
    """One set of bins for all policies, so that their histograms compare."""
    worst = max(float(table["time_s"].to_numpy().max()) for table in totals.values()) / best.time_s
    return np.linspace(1, max(worst, 1.02), HISTOGRAM_BINS + 1)


def _distribution(
    ensemble: Ensemble, policy: str, rows: pl.DataFrame, best: Best, edges: Floats
) -> Distribution:
    times = rows["time_s"].to_numpy()
    s = statistics.spread(times, ensemble.seed)
    accesses = (rows["msc_reads"] + rows["msc_writes"]).to_numpy()
    misses = rows["msc_misses"].to_numpy()
    rates = np.divide(misses, accesses, out=np.zeros_like(misses), where=accesses > 0)
    counts, _ = np.histogram(np.clip(times / best.time_s, edges[0], edges[-1]), edges)
    return Distribution(
        policy=policy,
        title=ensemble.policies[policy].title,
        median_s=s.median,
        median_low_s=s.median_low,
        median_high_s=s.median_high,
        p5_s=s.p5,
        p95_s=s.p95,
        best_s=s.best,
        worst_s=s.worst,
        serial_median_s=float(np.median(rows["serial_time_s"].to_numpy())),
        median_slowdown=s.median / best.time_s,
        slower_10_percent=statistics.share_slower(times, best.time_s, 0.10),
        slower_20_percent=statistics.share_slower(times, best.time_s, 0.20),
        modes=statistics.modes(times, ensemble.seed),
        histogram=Histogram(edges=edges.tolist(), nodes=counts.tolist()),
        miss_rate_median=float(np.median(rates)),
        page_bytes=1 << ensemble.policies[policy].page_bits,
        large_pages_mean=float(np.mean(rows["large_pages"].to_numpy())),
        large_pages_missing_mean=float(np.mean(rows["large_pages_missing"].to_numpy())),
        conflict_share_median=float(np.median(rows["conflict_share"].to_numpy())),
        correlations=[
            Correlation(
                counter=counter,
                pearson=statistics.pearson(rows[counter].to_numpy(), times),
                spearman=statistics.spearman(rows[counter].to_numpy(), times),
            )
            for counter in CORRELATED
        ],
        times_s=times.tolist(),
        misses=misses.tolist(),
    )


def _attributions(ensemble: Ensemble, totals: Mapping[str, pl.DataFrame]) -> list[AttributionRecord]:
    records = []
    for policy in ensemble.policies:
        rows = ensemble.tables.placements.filter(pl.col("policy") == policy).sort("node", "phase")
        if ensemble.phase is not None:
            rows = rows.filter(pl.col("phase") == ensemble.phase)
        nodes = rows["node"].to_numpy()
        of_row = np.searchsorted(np.unique(nodes), nodes)
        cores = ensemble.machine.cores
        factors = np.array([cores.frequency_factor(ensemble.seed, int(node)) for node in np.unique(nodes)])[
            of_row
        ]

        def seconds(
            columns: Columns, of_row: NDArray[np.int64] = of_row, factors: Floats = factors
        ) -> Floats:
            """Time of each node: phases are timed one by one and summed."""
            times = cache_mode_times(ensemble.machine, columns, ensemble.cores_used, factors).time_s
            return np.asarray(np.bincount(of_row, times), dtype=np.float64)

        machine = {
            name: rows[name].to_numpy()
            for name in ("instructions", "msc_reads", "msc_writes", *_TWIN_COLUMNS)
        }
        two_way, ideal, infinite = (
            machine | {column: rows[f"{twin}_{count}"].to_numpy() for column, count in _TWIN_COLUMNS.items()}
            for twin in TWINS
        )
        found = attribute_memory_side(machine, ideal, infinite, seconds)
        two_way_time = seconds(two_way)
        slowest = int(np.argmax(totals[policy]["time_s"].to_numpy()))
        records.append(_attribution(policy, "mean", found, two_way_time, slice(None)))
        records.append(_attribution(policy, "slowest", found, two_way_time, slice(slowest, slowest + 1)))
    return records


def _attribution(
    policy: str, nodes: str, found: Attribution, two_way: Floats, pick: slice
) -> AttributionRecord:
    def mean(values: Floats) -> float:
        return float(np.mean(values[pick]))

    return AttributionRecord(
        policy=policy,
        nodes=nodes,
        time_s=mean(found.time),
        unburdened_s=mean(found.unburdened),
        parts=[
            PartRecord(
                mechanism=name,
                seconds=mean(part),
                without_s=mean(found.time - found.alone[name]),
            )
            for name, part in found.parts.items()
        ],
        interaction_s=mean(found.interaction),
        two_way_s=mean(two_way),
    )


def _objects(ensemble: Ensemble) -> list[ObjectRecord]:
    """Objects of every policy by their accesses, most first."""
    sizes = {known.name: known.bytes for known in ensemble.workload.objects}
    rows = ensemble.tables.objects
    if ensemble.phase is not None:
        rows = rows.filter(pl.col("phase") == ensemble.phase)
    counts = ("accesses", "misses", "conflict_evictions")
    means = rows.group_by("policy", "object").agg(pl.col(counts).sum() / ensemble.nodes)
    records = []
    for policy in ensemble.policies:
        of_policy = means.filter(pl.col("policy") == policy).sort(
            ["accesses", "object"], descending=[True, False]
        )
        accesses, misses = float(of_policy["accesses"].sum()), float(of_policy["misses"].sum())
        records += [
            ObjectRecord(
                policy=policy,
                name=row["object"],
                bytes=sizes.get(row["object"]),
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


def _collisions(ensemble: Ensemble) -> list[CollisionRecord]:
    """The pairs that evict each other most, per policy."""
    means = ensemble.tables.collisions.group_by("policy", "object", "victim").agg(
        pl.col("lines").sum() / ensemble.nodes
    )
    records = []
    for policy in ensemble.policies:
        pairs = means.filter(pl.col("policy") == policy).sort(
            ["lines", "object", "victim"], descending=[True, False, False]
        )
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


def _slot_maps(ensemble: Ensemble, totals: Mapping[str, pl.DataFrame], baseline: str) -> list[SlotMap]:
    """The node of median time under the baseline, as each policy fills its cache."""
    times = totals[baseline]["time_s"].to_numpy()
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


def _remedies(ensemble: Ensemble, totals: Mapping[str, pl.DataFrame], baseline: str) -> list[Remedy]:
    before = totals[baseline]["time_s"].to_numpy()
    remedies = []
    for policy, data in ensemble.policies.items():
        if policy == baseline or not data.remedy:
            continue
        after = totals[policy]["time_s"].to_numpy()
        gain, low, high = statistics.paired_gain(before, after, 0.5, ensemble.seed)
        tail, _, _ = statistics.paired_gain(before, after, 0.95, ensemble.seed)
        remedies.append(
            Remedy(
                policy=policy,
                title=data.title,
                gain_median=gain,
                gain_median_low=low,
                gain_median_high=high,
                gain_p95=tail,
                gain_worst=float(before.max() / after.max()),
                root=data.costs.root,
                memory=data.costs.memory,
                code=data.costs.code,
            )
        )
    return sorted(remedies, key=lambda remedy: (-remedy.gain_median, -remedy.gain_p95, remedy.policy))


def _ratio(part: float, whole: float) -> float:
    return part / whole if whole else 0.0
