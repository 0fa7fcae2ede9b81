"""LULESH in fast or slow memory: a share of its time is bound by memory, found on one machine and tried on
another.

With a share s of the time in slow memory bound by it, and a fast memory that is k times as fast, the run
takes 1 - s + s / k of that time.
"""

from collections.abc import Mapping

import numpy as np
from matplotlib.figure import Figure

from pagelens.accesses.declared import declared
from pagelens.drawing import BASELINE, OTHERS, WIDTH, drawing
from pagelens.frames import Node, parse_history
from pagelens.machine import load_machine
from pagelens.reproduce.claim import Kind, Row, near, value
from pagelens.reproduce.fleet import Run, run_policies
from pagelens.reproduce.study import Findings, Study
from pagelens.reproduce.work import Work

# Table I, GB/s: copy, scale, add, triad.
SLOW_FAST = {
    "dual socket": ((10.75, 10.74, 12.21, 12.23), (28.02, 28.13, 31.61, 31.76)),
    "KNL": ((50.78, 50.75, 57.04, 57.09), (206.39, 256.63, 279.09, 295.17)),
}
NORMALISED = {"dual socket": 2.60, "KNL": 4.81}  # "normalized over slow memory"
SPEEDUP = {"dual socket": 0.32, "KNL": 0.43}  # of all in fast memory over all in slow memory
BYTES = 4 << 30  # "small working set"; any size well below the cache's 16 GiB gives the same
HISTORY = "boot; age(mix=cori); run"
APPROACHES = 0.05  # of the time of the best case


def run(work: Work) -> Findings:
    """The share from the dual socket, KNL's speedup from the share, and its cache mode by simulation."""
    ratios = {name: float(np.mean(np.divide(fast, slow))) for name, (slow, fast) in SLOW_FAST.items()}
    share = memory_share(SPEEDUP["dual socket"], ratios["dual socket"])
    best = {name: 1 / time_in_fast(share, ratio) - 1 for name, ratio in ratios.items()}
    machine = load_machine("cori-knl-cache")
    program = declared("hydro", BYTES, machine.cores.count.value)

    def simulate(node: int) -> Run:
        state = Node(machine, work.seed, node, history=parse_history(HISTORY), job_bytes=BYTES)
        return run_policies(("aged",), machine, program, state, work)["aged"]

    runs = work.map(simulate, range(work.pick(12, 2)))
    in_cache = np.array([time_in_cache(share, ratios["KNL"], each) for each in runs])
    slower = float(np.median(in_cache)) / time_in_fast(share, ratios["KNL"]) - 1
    rows = (
        *(
            Row(
                f"Fast over slow memory, {name}: mean of STREAM's four kernels",
                "table I",
                Kind.DERIVED,
                value(f"{NORMALISED[name]:.2f}x", ratio=NORMALISED[name]),
                value(f"{ratio:.2f}x", ratio=ratio),
                abs(ratio - NORMALISED[name]) < 0.02,
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
                f"{slower:.1%} slower (median of {len(runs)} nodes; worst "
                f"{in_cache.max() / time_in_fast(share, ratios['KNL']) - 1:.1%})",
                slower=slower,
            ),
            slower <= APPROACHES,
            f"Lines of the declared hydro, {BYTES >> 30} GiB, on nodes of mix cori; approaches: within "
            f"{APPROACHES:.0%}.",
        ),
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
        ),
    )


def memory_share(speedup: float, ratio: float) -> float:
    """Of the time in slow memory, from what a memory `ratio` times as fast gains."""
    return (1 - 1 / (1 + speedup)) / (1 - 1 / ratio)


def time_in_fast(share: float, ratio: float) -> float:
    """Over the time in slow memory."""
    return 1 - share + share / ratio


def time_in_cache(share: float, ratio: float, found: Run) -> float:
    """The same with the fast memory as a cache of the slow one: the busier memory bounds that share.

    Every line passes the fast memory, a miss is filled into it and a dirty victim read from it; the slow
    memory sees misses and victims.
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


STUDY = Study(
    "two-level",
    "LULESH in two-level memory",
    "LLNL, poster 107 at SC16 on data placement in two-level memory, table I and figure 1",
    run,
    "Bandwidths are the poster's own. Placement of single objects, and the five regions of its figure 2, "
    "are not here.",
)
