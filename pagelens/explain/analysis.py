"""Makes an Explanation of the tables of an ensemble."""

from collections.abc import Mapping

import numpy as np
import polars as pl
from numpy.typing import NDArray

import pagelens
from pagelens.accesses.job import JobWorkload
from pagelens.address.units import FRAME_BYTES, LINE_BYTES
from pagelens.ensemble.result import Ensemble
from pagelens.explain.assumptions import Tried, assumptions
from pagelens.explain.attribution_records import attribution_records
from pagelens.explain.conclusion import conclude
from pagelens.explain.distributions import CORRELATED, best_run, common_bins, distribution, totals_by_node
from pagelens.explain.inputs import machine_inputs
from pagelens.explain.intervals import Intervals
from pagelens.explain.model import (
    BoundsRecord,
    Explanation,
    JobRecord,
    MachineRecord,
    ProgramRecord,
    RankSpread,
    RankWaitRecord,
    RemedyGain,
    SampleRecord,
    TimedRecord,
)
from pagelens.explain.numa import numa_records
from pagelens.explain.object_records import collision_records, object_records, slot_maps
from pagelens.explain.verdict import verdict
from pagelens.replay import left_out, why_full_width
from pagelens.units import format_share

Floats = NDArray[np.float64]


def explain(
    ensemble: Ensemble, command: str = "", timed: TimedRecord | None = None, tried: Tried | None = None
) -> Explanation:
    """Return the whole explanation. `command` is the command that reproduces it.

    `tried` has the gains that simulations with other assumed values gave. Bootstraps draw from the
    ensemble's seed.
    """
    totals = totals_by_node(ensemble)
    baseline = ensemble.baseline
    best = best_run(totals)
    edges = common_bins(totals, best)
    counters = CORRELATED[ensemble.served_by]
    intervals = Intervals(ensemble)
    distributions = [
        distribution(ensemble, policy, baseline, totals[policy], best, edges, counters, intervals)
        for policy in ensemble.policies
    ]
    attributions = attribution_records(ensemble)
    objects, collisions = object_records(ensemble), collision_records(ensemble)
    remedies = _remedies(ensemble, totals, baseline, intervals)
    assumed = assumptions(ensemble, remedies, tried)
    least, most = ensemble.between()
    bounds = BoundsRecord(least_s=least, most_s=most)
    numa = numa_records(ensemble)
    workload = ensemble.workload
    machine = MachineRecord(
        name=ensemble.machine.name,
        title=ensemble.machine.title,
        served_by=ensemble.served_by,
        instruction_set=ensemble.machine.instruction_set,
        left_out=left_out(ensemble.machine),
        inputs=machine_inputs(ensemble.machine),
    )
    program = ProgramRecord(
        name=workload.name,
        source=workload.source,
        footprint_bytes=workload.footprint_bytes // workload.processes,
        threads=workload.threads,
        working_threads=_working_threads(ensemble),
        ranks=ensemble.ranks * workload.processes,
        job=_job(ensemble),
        phase=ensemble.phase,
        phases=list(workload.phases),
        share_seen=workload.share_seen,
        cut_by=workload.cut_by,
        instruction_set=workload.instruction_set,
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
            intervals.by_stretches(baseline),
            next((of for of in numa or () if of.policy == baseline), None),
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
        slot_maps=slot_maps(ensemble, totals, baseline),
        numa=numa,
        remedies=remedies,
        assumptions=assumed,
        timed=timed,
    )


def _busy(ensemble: Ensemble) -> NDArray[np.float64]:
    """Return the seconds [kind, phase] that the slowest core issues instructions, and waits for lines.

    They are those of the baseline's median node in each phase: ranks and threads differ more than nodes do.
    """
    rows = ensemble.tables.placements.filter(pl.col("policy") == ensemble.baseline)
    busy = {
        phase: (issue, stalls)
        for phase, issue, stalls in rows.group_by("phase")
        .agg(pl.col("issue_s", "latency_s").median())
        .iter_rows()
    }
    return np.array([busy.get(phase, (0.0, 0.0)) for phase in ensemble.workload.phases]).T


def _working_threads(ensemble: Ensemble) -> float | None:
    load = ensemble.workload.rank_load
    if isinstance(ensemble.workload, JobWorkload) or load is None:
        return None
    return ensemble.workload.threads * load.mean_share(*_busy(ensemble))


def _job(ensemble: Ensemble) -> JobRecord | None:
    workload = ensemble.workload
    if not isinstance(workload, JobWorkload):
        return None
    issue, stalls = _busy(ensemble)
    return JobRecord(
        traced_ranks=len(workload.traces),
        spreads=[
            RankSpread(name=name, least=of.least, median=of.median, most=of.most)
            for name, of in workload.of_ranks().items()
        ],
        waits=[
            RankWaitRecord(rank=of.rank, share=of.share, longest_for=of.longest_for, share_for=of.share_for)
            for of in workload.waits(issue, stalls)
        ],
        statements=[*workload.copies_in_words(ensemble.ranks), *workload.statements],
        binding=workload.binding,
        crowding=workload.crowding,
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
        in_turn = [totals[name]["serial_time_s"].to_numpy() for name in (baseline, policy)]
        serial, serial_slow = (
            float(np.quantile(in_turn[0], quantile) / np.quantile(in_turn[1], quantile))
            for quantile in (0.5, 0.95)
        )
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
                gain_serial=serial,
                gain_p95_serial=serial_slow,
                verdict=verdict(median, tail, serial, serial_slow),
                root=data.costs.root,
                memory=data.costs.memory,
                code=data.costs.code,
            )
        )
    return sorted(remedies, key=lambda remedy: (-remedy.gain_median, -remedy.gain_p95, remedy.policy))
