"""Makes an Explanation of the tables of an ensemble."""

from collections.abc import Mapping, Sequence

import numpy as np
import polars as pl
from numpy.typing import NDArray

import pagelens
from pagelens import statistics
from pagelens.accesses.job import JobWorkload
from pagelens.accesses.workload import Workload
from pagelens.address.units import FRAME_BYTES, LINE_BYTES
from pagelens.ensemble.result import RESOURCES, SEPARATOR, Ensemble
from pagelens.explain.assumptions import Tried, assumptions
from pagelens.explain.attribution import Attribution, attribute
from pagelens.explain.conclusion import conclude
from pagelens.explain.inputs import machine_inputs
from pagelens.explain.intervals import Intervals
from pagelens.explain.model import (
    AttributionRecord,
    Best,
    BoundsRecord,
    CollisionRecord,
    Correlation,
    Distribution,
    Explanation,
    Histogram,
    JobRecord,
    MachineRecord,
    ObjectRecord,
    PartRecord,
    ProgramRecord,
    RankSpread,
    RemedyGain,
    ResourceRecord,
    SampleRecord,
    SlotMap,
    TimedRecord,
)
from pagelens.explain.numa import numa_records
from pagelens.explain.verdict import verdict
from pagelens.replay import MECHANISMS, left_out, why_full_width
from pagelens.replay.mechanisms import TWO_WAY
from pagelens.units import format_share

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
AS_FAST = 1e-4  # runs whose times differ by less are as fast
TOP_COLLISIONS = 12


def explain(
    ensemble: Ensemble, command: str = "", timed: TimedRecord | None = None, tried: Tried | None = None
) -> Explanation:
    """Return the whole explanation. `command` is the command that reproduces it.

    `tried` has the gains that simulations with other assumed values gave. Bootstraps draw from the
    ensemble's seed.
    """
    totals = _by_node(ensemble)
    baseline = ensemble.baseline
    best = _best(totals)
    edges = _edges(totals, best)
    counters = CORRELATED[ensemble.served_by]
    intervals = Intervals(ensemble)
    distributions = [
        _distribution(ensemble, policy, baseline, totals[policy], best, edges, counters, intervals)
        for policy in ensemble.policies
    ]
    attributions = _attributions(ensemble)
    objects, collisions = _objects(ensemble), _collisions(ensemble)
    remedies = _remedies(ensemble, totals, baseline, intervals)
    assumed = assumptions(ensemble, remedies, tried)
    least, most = ensemble.between()
    bounds = BoundsRecord(least_s=least, most_s=most)
    workload = ensemble.workload
    machine = MachineRecord(
        name=ensemble.machine.name,
        title=ensemble.machine.title,
        served_by=ensemble.served_by,
        left_out=left_out(ensemble.machine),
        inputs=machine_inputs(ensemble.machine),
    )
    program = ProgramRecord(
        name=workload.name,
        source=workload.source,
        footprint_bytes=workload.footprint_bytes // workload.processes,
        threads=workload.threads,
        ranks=ensemble.ranks * workload.processes,
        job=_job(workload, ensemble.ranks),
        phase=ensemble.phase,
        phases=list(workload.phases),
        share_seen=workload.share_seen,
        shared_bytes=workload.shared_bytes,
        share_of_zero_page=workload.share_of_zero_page,
        warnings=[*workload.warnings, *why_full_width(workload, ensemble.machine)],
    )
    return Explanation(
        conclusion=conclude(
            program,
            machine,
            baseline,
            bounds,
            distributions,
            attributions,
            collisions,
            remedies,
            assumed,
            timed,
            _simulated_share(ensemble),
        ),
        program=program,
        machine=machine,
        sample=SampleRecord(
            nodes=ensemble.nodes,
            seed=ensemble.seed,
            sampled_slots=f"1 in {slots}" if (slots := ensemble.sampling.slots or 1) > 1 else "all",
            sampled_lines=_sampled_lines(ensemble),
            scaled=ensemble.scaled,
            version=pagelens.__version__,
            command=command,
        ),
        baseline=baseline,
        best=best,
        bounds=bounds,
        distributions=distributions,
        attributions=attributions,
        objects=objects,
        collisions=collisions,
        slot_maps=_slot_maps(ensemble, totals, baseline),
        numa=numa_records(ensemble),
        remedies=remedies,
        assumptions=assumed,
        timed=timed,
    )


def _job(workload: Workload, copies: int) -> JobRecord | None:
    if not isinstance(workload, JobWorkload):
        return None
    return JobRecord(
        traced_ranks=len(workload.traces),
        spreads=[
            RankSpread(name=name, least=of.least, median=of.median, most=of.most)
            for name, of in workload.of_ranks().items()
        ],
        statements=[*workload.copies_in_words(copies), *workload.statements],
    )


def _sampled_lines(ensemble: Ensemble) -> str:
    if ensemble.sampling.lines is not None:
        return f"{ensemble.sampling.lines} of {FRAME_BYTES // LINE_BYTES}"
    share = _simulated_share(ensemble)
    return "all" if share == 1 else f"{format_share(share)} of the run's, in stretches"


def _simulated_share(ensemble: Ensemble) -> float:
    """Return the share of the run's lines that was simulated: 1 unless stretches stand for the whole."""
    if ensemble.sampling.lines is not None:
        return 1.0
    return float(np.mean(ensemble.tables.placements["simulated_share"].to_numpy()))


def _by_node(ensemble: Ensemble) -> Mapping[str, pl.DataFrame]:
    """Return one row per node for each policy, in order, with counters and times summed over the phases."""
    # Sorting first gives sums of times one order of rounding. Counters are whole numbers, and exact anyway.
    rows = _of_phase(ensemble, ensemble.tables.placements).sort("policy", "node", "phase")
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


def _best(totals: Mapping[str, pl.DataFrame]) -> Best:
    """Return the fastest run.

    If several runs are equally fast, it is the one under the first of their policies.
    """
    fastest = min(float(table["time_s"].to_numpy().min()) for table in totals.values())
    for policy, table in totals.items():
        row = table.sort("time_s", "node").row(0, named=True)
        if row["time_s"] <= fastest * (1 + AS_FAST):
            return Best(policy=policy, node=row["node"], time_s=row["time_s"])
    raise ValueError("no runs")


def _edges(totals: Mapping[str, pl.DataFrame], best: Best) -> Floats:
    """Return one set of bins for all policies, so that their histograms can be compared."""
    worst = max(float(table["time_s"].to_numpy().max()) for table in totals.values()) / best.time_s
    return np.linspace(1, max(worst, 1.02), HISTOGRAM_BINS + 1)


def _distribution(
    ensemble: Ensemble,
    policy: str,
    baseline: str,
    rows: pl.DataFrame,
    best: Best,
    edges: Floats,
    counters: Sequence[str],
    intervals: Intervals,
) -> Distribution:
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
        page_bytes=1 << ensemble.policies[policy].page_bits,
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


def _resources(ensemble: Ensemble, policy: str) -> list[ResourceRecord]:
    """Return the machine's resources that are used at all."""
    rows = _of_phase(ensemble, ensemble.tables.placements).filter(pl.col("policy") == policy).sort(
        "node", "phase"
    )  # fmt: skip
    busy = {name: rows[column].to_numpy() for name, column in RESOURCES.items()}
    decides = np.argmax(np.stack(list(busy.values())), axis=0)
    times, nodes = rows["time_s"].to_numpy(), ensemble.nodes_under(policy)
    records = [
        ResourceRecord(
            name=name,
            busy_s=float(seconds.sum() / nodes),
            bound_s=float(times[decides == number].sum() / nodes),
        )
        for number, (name, seconds) in enumerate(busy.items())
    ]
    return sorted((r for r in records if r.busy_s > 0), key=lambda r: (-r.busy_s, r.name))


def _of_phase(ensemble: Ensemble, rows: pl.DataFrame) -> pl.DataFrame:
    """Return the rows of the phase that is explained, or all rows."""
    return rows if ensemble.phase is None else rows.filter(pl.col("phase") == ensemble.phase)


def _attributions(ensemble: Ensemble) -> list[AttributionRecord]:
    """Return the mean over the nodes that have counterfactuals, and the slowest of them."""
    rows = _of_phase(ensemble, ensemble.tables.counterfactuals)
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


def _objects(ensemble: Ensemble) -> list[ObjectRecord]:
    """Return the objects of every policy by their accesses, most first."""
    objects = {known.name: known for known in ensemble.workload.objects}
    in_job = isinstance(ensemble.workload, JobWorkload)
    rows = _of_phase(ensemble, ensemble.tables.objects)
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


def _collisions(ensemble: Ensemble) -> list[CollisionRecord]:
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


def _slot_maps(ensemble: Ensemble, totals: Mapping[str, pl.DataFrame], baseline: str) -> list[SlotMap]:
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


def _remedies(
    ensemble: Ensemble, totals: Mapping[str, pl.DataFrame], baseline: str, intervals: Intervals
) -> list[RemedyGain]:
    before = totals[baseline]["time_s"].to_numpy()
    remedies = []
    for policy, data in ensemble.policies.items():
        if policy == baseline or data.remedy is None:
            continue
        after = totals[policy]["time_s"].to_numpy()
        median, tail = (intervals.gain(baseline, policy, quantile) for quantile in (0.5, 0.95))
        serial = [np.median(totals[name]["serial_time_s"].to_numpy()) for name in (baseline, policy)]
        remedies.append(
            RemedyGain(
                policy=policy,
                title=data.title,
                gain_median=median.value,
                gain_median_low=median.low,
                gain_median_high=median.high,
                gain_p95=tail.value,
                gain_p95_low=tail.low,
                gain_p95_high=tail.high,
                gain_worst=float(before.max() / after.max()),
                gain_serial=float(serial[0] / serial[1]),
                verdict=verdict(median, tail, float(serial[0] / serial[1])),
                root=data.costs.root,
                memory=data.costs.memory,
                code=data.costs.code,
            )
        )
    return sorted(remedies, key=lambda remedy: (-remedy.gain_median, -remedy.gain_p95, remedy.policy))


def _ratio(part: float, whole: float) -> float:
    return part / whole if whole else 0.0
