"""LULESH in fast or slow memory. One machine tells which share of the time memory bounds, another tests it.

If memory bounds a share s of the time in slow memory, and fast memory is k times as fast, the run takes 1 - s
+ s / k of that time.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from matplotlib.figure import Figure

from pagelens.accesses.declared import DeclaredWorkload, declared
from pagelens.accesses.declared.hydro import LOOPS, by_loop, elements_side, hydro
from pagelens.address.units import LINE_BYTES
from pagelens.frames import Node, parse_history, policies
from pagelens.machine import Machine
from pagelens.report.drawing import BASELINE, OTHERS, WIDTH, drawing
from pagelens.reproduce.claim import Kind, Row, near, value
from pagelens.reproduce.context import StudyContext
from pagelens.reproduce.fleet import Floats, PhaseRun, run_phases, run_policies
from pagelens.reproduce.study import Findings, Study
from pagelens.values.quantities import Positive, Sourced

# Table I, GB/s: copy, scale, add, triad.
SLOW_FAST = {
    "dual socket": ((10.75, 10.74, 12.21, 12.23), (28.02, 28.13, 31.61, 31.76)),
    "KNL": ((50.78, 50.75, 57.04, 57.09), (206.39, 256.63, 279.09, 295.17)),
}
NORMALISED = {"dual socket": 2.60, "KNL": 4.81}  # "normalized over slow memory"
SPEEDUP = {"dual socket": 0.32, "KNL": 0.43}  # of all in fast memory over all in slow memory
CORES = 64  # of the KNL system
BYTES = 4 << 30  # "small working set": a quarter of the cache (assumed)
MIXES = ("cori", "llnl", "throughput", "capability")
HISTORY = "boot; age(mix={}); run"
APPROACHES = 0.05  # of the time of the best case
STEP = "step"  # all of its loops


@dataclass(frozen=True)
class _Region:
    """The loops of one region in a step: seconds of instructions, and of lines in fast memory, per loop."""

    issue: Floats
    lines: Floats
    ratio: float  # bandwidth of fast over slow memory

    @property
    def speedup(self) -> float:
        """The speedup if instructions and lines overlap in each loop, as in the time model."""
        slow, fast = (np.maximum(self.issue, self.lines * ratio).sum() for ratio in (self.ratio, 1))
        return float(slow / fast) - 1

    @property
    def serial_speedup(self) -> float:
        """The speedup if nothing overlaps."""
        slow, fast = ((self.issue + self.lines * ratio).sum() for ratio in (self.ratio, 1))
        return float(slow / fast) - 1


def run(context: StudyContext) -> Findings:
    """Take the share from the dual socket and KNL's speedup from the share, and simulate KNL's cache mode."""
    ratios = {name: sum(fast) / sum(slow) for name, (slow, fast) in SLOW_FAST.items()}
    share = memory_share(SPEEDUP["dual socket"], ratios["dual socket"])
    best = {name: 1 / time_in_fast(share, ratio) - 1 for name, ratio in ratios.items()}
    machine = _poster_knl(context)
    program = declared("hydro", BYTES, machine.cores.count.value)

    def simulate(part: tuple[str, int]) -> PhaseRun:
        mix, node = part
        history = parse_history(HISTORY.format(mix))
        state = Node(machine, context.seed, node, history=history, job_bytes=BYTES)
        return run_policies(("aged",), machine, program, state, context)["aged"]

    nodes = {mix: context.pick(12, 2) if mix == MIXES[0] else context.pick(3, 1) for mix in MIXES}
    parts = [(mix, node) for mix in MIXES for node in range(nodes[mix])]
    times: dict[str, list[float]] = {mix: [] for mix in MIXES}
    for (mix, _), each in zip(parts, context.map(simulate, parts), strict=True):
        times[mix].append(time_in_cache(share, ratios["KNL"], each))
    in_cache = np.array(times[MIXES[0]])
    slower = float(np.median(in_cache)) / time_in_fast(share, ratios["KNL"]) - 1
    others = {mix: float(np.median(times[mix])) / time_in_fast(share, ratios["KNL"]) - 1 for mix in MIXES[1:]}
    regions = _regions(context, machine, ratios["KNL"])
    rows = (
        *(
            Row(
                f"Fast over slow memory, {name}: mean of STREAM's four kernels",
                "table I",
                Kind.DERIVED,
                value(f"{NORMALISED[name]:.2f}x", ratio=NORMALISED[name]),
                value(f"{ratio:.2f}x", ratio=ratio),
                abs(ratio - NORMALISED[name]) < 0.005,
            )
            for name, ratio in ratios.items()
        ),
        Row(
            "LULESH's share of time bound by memory, dual socket",
            "figure 1 and its text",
            Kind.INPUT,
            value("32% speedup", speedup=SPEEDUP["dual socket"]),
            value(f"{share:.0%} of the time in slow memory", share=share),
            remark="From the speedup and the ratio of bandwidths; the same for both machines.",
        ),
        Row(
            "Speedup of all data in fast memory over all in slow memory, KNL",
            "figure 1 and its text",
            Kind.PREDICTED,
            value("43%", speedup=SPEEDUP["KNL"]),
            value(f"{best['KNL']:.0%}", speedup=best["KNL"]),
            near(best["KNL"], SPEEDUP["KNL"]),
        ),
        Row(
            "KNL in cache mode against all data in fast memory",
            "figure 1 and its text",
            Kind.PREDICTED,
            value("approaches it"),
            value(
                f"{slower:.1%} slower (median of {len(in_cache)} nodes; worst "
                f"{in_cache.max() / time_in_fast(share, ratios['KNL']) - 1:.1%})",
                slower=slower,
            ),
            slower <= APPROACHES,
            f"Lines of the declared hydro, {BYTES >> 30} GiB, on nodes of mix {MIXES[0]}; approaches: within "
            f"{APPROACHES:.0%}. Other mixes, {nodes[MIXES[1]]} nodes each: "
            + ", ".join(f"{mix} {each:.1%}" for mix, each in others.items())
            + " slower.",
        ),
        *_region_rows(regions),
    )
    return Findings(
        rows,
        (
            drawing(
                "two-level",
                "LULESH: time in fast memory and in cache mode over that in slow memory",
                "Bars: modelled; marks: published.",
                lambda: _figure(best, float(np.median(in_cache))),
            ),
            drawing(
                "two-level-regions",
                "Regions of a step: speedup of all data in fast memory, KNL",
                "Of the declared hydro, by what its loops compute. Modelled.",
                lambda: _region_figure(regions),
            ),
        ),
    )


def _poster_knl(context: StudyContext) -> Machine:
    """Return Cori's KNL with as many cores as the poster's."""
    machine = context.machine("cori-knl-cache")
    count = Sourced[Positive](value=CORES, source="poster 107, hardware: 64 cores")
    return machine.model_copy(update={"cores": machine.cores.model_copy(update={"count": count})})


def _regions(context: StudyContext, machine: Machine, ratio: float) -> dict[str, _Region]:
    """Return the regions of the measured step.

    On contiguous frames all lines hit, so they are those of the fast memory.
    """
    cores = machine.cores.count.value
    program = DeclaredWorkload("hydro", by_loop(hydro(elements_side(BYTES), cores, 1)), cores)
    placement = policies["contiguous"].place(machine, Node(machine, context.seed, 0))
    runs = run_phases(machine, program, placement, context)
    assert machine.fast_memory is not None
    bandwidth = machine.fast_memory.bandwidth.value

    def region(*loops: str) -> _Region:
        issue = np.array([runs[loop].issue_s for loop in loops])
        lines = np.array([runs[loop].lines for loop in loops])
        return _Region(issue, LINE_BYTES * lines / bandwidth, ratio)

    names = dict.fromkeys(LOOPS.values())
    return {name: region(*(loop for loop, of in LOOPS.items() if of == name)) for name in names} | {
        STEP: region(*LOOPS)
    }


def _region_rows(regions: Mapping[str, _Region]) -> tuple[Row, ...]:
    parts = {name: region for name, region in regions.items() if name != STEP}
    each = ", ".join(
        f"{name} {region.speedup:.0%} ({region.serial_speedup:.0%})" for name, region in parts.items()
    )
    forces, step = regions["forces"], regions[STEP]
    return (
        Row(
            "Regions of a step, speedup of all in fast memory, KNL; region 3 needs much bandwidth",
            "figure 2 and its text",
            Kind.SHOWN,
            value("high memory bandwidth requirements"),
            value(each, **{f"{name}_speedup": region.speedup for name, region in parts.items()}),
            remark="Of the declared hydro, whose loops are LULESH's in manner; in brackets if instructions "
            "and lines did not overlap. The text does not say what the regions are; assumed: 1 and 2 are in "
            "the forces, 3 is the motion of nodes.",
        ),
        Row(
            "Regions 1 and 2 gain significantly by fast memory on KNL",
            "figure 2 and its text",
            Kind.SHOWN,
            value("significant speedup"),
            value(
                f"{forces.speedup:.0%} ({forces.serial_speedup:.0%})",
                speedup=forces.speedup,
                serial_speedup=forces.serial_speedup,
            ),
            decided_by="The text does not say what regions 1 and 2 are, nor how their program was compiled. "
            f"Taken to be the forces, they gain {forces.speedup:.0%} where instructions and lines of a loop "
            f"overlap and {forces.serial_speedup:.0%} where they do not.",
        ),
        Row(
            "Speedup of all data in fast memory on KNL, from instructions and lines of the regions alone",
            "figure 1 and its text",
            Kind.PREDICTED,
            value("43%", speedup=SPEEDUP["KNL"]),
            value(
                f"{step.speedup:.0%} ({step.serial_speedup:.0%})",
                speedup=step.speedup,
                serial_speedup=step.serial_speedup,
            ),
            near(step.speedup, SPEEDUP["KNL"]),
            "Nothing is calibrated on the other machine here; the instructions are those of this project's "
            "program. What was measured lies between the two: KNL's cores hide part of the waiting.",
        ),
    )


def memory_share(speedup: float, ratio: float) -> float:
    """Return the share of the time in slow memory that memory bounds, from the speedup by fast memory."""
    return (1 - 1 / (1 + speedup)) / (1 - 1 / ratio)


def time_in_fast(share: float, ratio: float) -> float:
    """Return the time in fast memory over the time in slow memory."""
    return 1 - share + share / ratio


def time_in_cache(share: float, ratio: float, found: PhaseRun) -> float:
    """Return the time with fast memory as a cache, over the time in slow memory.

    The busier memory bounds the share. Every line passes the fast memory. A miss is filled into it, and a
    dirty victim is read from it. The slow memory sees misses and victims.
    """
    moved_slow = (found.misses + found.written_back) / found.lines
    return 1 - share + share * max((1 + moved_slow) / ratio, moved_slow)


def _figure(best: Mapping[str, float], in_cache: float) -> Figure:
    drawn = Figure((WIDTH, 2.4), layout="constrained")
    axes = drawn.add_subplot()
    bars = {name: 1 / (1 + gain) for name, gain in best.items()} | {"KNL, cache mode": in_cache}
    axes.bar(range(len(bars)), list(bars.values()), 0.5, color=[OTHERS[0], OTHERS[0], BASELINE])
    for place, name in enumerate(best):
        axes.plot([place - 0.3, place + 0.3], [1 / (1 + SPEEDUP[name])] * 2, color=OTHERS[5], linewidth=1.2)
    axes.axhline(1, color=OTHERS[5], linewidth=0.6, linestyle=(0, (4, 3)))
    axes.set_xticks(range(len(bars)), list(bars))
    axes.set_ylabel("time over all in slow memory")
    axes.set_ylim(0, 1.1)
    return drawn


def _region_figure(regions: Mapping[str, _Region]) -> Figure:
    drawn = Figure((WIDTH, 2.4), layout="constrained")
    axes = drawn.add_subplot()
    places = np.arange(len(regions))
    for side, colour, label in (
        (-1, OTHERS[0], "instructions and lines overlap"),
        (1, BASELINE, "they do not"),
    ):
        gains = [100 * (each.speedup if side < 0 else each.serial_speedup) for each in regions.values()]
        axes.bar(places + 0.19 * side, gains, 0.36, color=colour, label=label)
    axes.set_xticks(places, [f"{name}\n(all regions)" if name == STEP else name for name in regions])
    axes.set_ylabel("speedup, %")
    axes.legend(frameon=False)
    return drawn


STUDY = Study(
    "two-level",
    "LULESH in two-level memory",
    "LLNL, poster 107 at SC16 on data placement in two-level memory, table I and figure 1",
    run,
    "Ratios of bandwidths are the poster's own. Lines and regions are of Cori's KNL with 64 cores, as the "
    "poster's has. Placement of single objects is not here.",
)
