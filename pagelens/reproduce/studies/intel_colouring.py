"""STREAM over 16 GB on a KNL in cache mode, fresh, aged and on coloured frames: Intel's series of 2017."""

import numpy as np
from matplotlib.figure import Figure

from pagelens.accesses.declared import declared
from pagelens.frames import Node, parse_history
from pagelens.report.drawing import BASELINE, OTHERS, WIDTH, drawing
from pagelens.reproduce.claim import Kind, Row, near, value
from pagelens.reproduce.context import StudyContext
from pagelens.reproduce.fleet import Floats, PhaseRun, columns, run_policies
from pagelens.reproduce.study import Findings, Study

BYTES = 16_000_000_000  # of the series' arrays: just below the cache's 16 GiB
FRESH, AGED = "boot; run", "boot; age(jobs=30, mix={}); run"  # thirty jobs: days
OTHER_MIXES = ("llnl", "throughput", "capability")


def run(context: StudyContext) -> Findings:
    """Run a fresh node, and aged nodes, each with Linux's frames and with coloured frames."""
    machine = context.machine("cori-knl-cache")
    workload = declared("stream-triad", BYTES, machine.cores.count.value)

    def simulate(part: tuple[str, int]) -> dict[str, PhaseRun]:
        history, node = part
        state = Node(machine, context.seed, node, history=parse_history(history), job_bytes=BYTES)
        return run_policies(("aged", "coloured"), machine, workload, state, context)

    nodes, few = context.pick(12, 2), context.pick(3, 1)
    of_cori = [(AGED.format("cori"), node) for node in range(nodes)]
    of_others = [(AGED.format(mix), node) for mix in OTHER_MIXES for node in range(few)]
    fresh, *rest = context.map(simulate, [(FRESH, 0), *of_cori, *of_others])
    aged = rest[:nodes]
    others = {mix: rest[nodes + few * i :][:few] for i, mix in enumerate(OTHER_MIXES)}
    mean = {mix: np.mean([found["aged"].bandwidth for found in of]) for mix, of in others.items()}
    least = {mix: min(found["coloured"].bandwidth for found in of) for mix, of in others.items()}
    plain, coloured = (columns([found[name] for found in aged])["bandwidth"] for name in ("aged", "coloured"))
    at_first = fresh["aged"].bandwidth
    lost = 1 - float(coloured.min()) / at_first
    rows = (
        Row(
            "STREAM triad over 16 GB on a fresh node",
            "cover letter",
            Kind.DERIVED,
            value("336 GB/s", bandwidth=336e9),
            value(f"{at_first / 1e9:.0f} GB/s", bandwidth=at_first),
            near(at_first, 336e9),
            "The machine file's bandwidth, which is calibrated on another site's 350-360.",
        ),
        Row(
            "The same on a node that has run for days",
            "cover letter",
            Kind.PREDICTED,
            value("117 GB/s", bandwidth=117e9),
            value(
                f"{plain.mean() / 1e9:.0f} GB/s ({plain.min() / 1e9:.0f} to {plain.max() / 1e9:.0f} over "
                f"{len(plain)} nodes)",
                bandwidth=plain.mean(),
            ),
            near(float(plain.mean()), 117e9),
            f"Thirty jobs of mix cori stand for days. Other mixes, {few} nodes each: "
            + ", ".join(f"{mix} {each / 1e9:.0f} GB/s" for mix, each in mean.items())
            + ".",
        ),
        Row(
            "Lost on coloured frames, however long the node has run",
            "cover letter",
            Kind.PREDICTED,
            value("at most 1.5%", share=0.015),
            value(f"{max(0.0, lost):.1%}", share=lost),
            lost <= 0.015,
            f"Mix cori. Other mixes, {few} nodes each: "
            + ", ".join(f"{mix} {max(0.0, 1 - each / at_first):.1%}" for mix, each in least.items())
            + ".",
        ),
    )
    return Findings(
        rows,
        (
            drawing(
                "intel-colouring",
                "STREAM triad over 16 GB, fresh and after thirty jobs",
                "A dot a node; the lines are the published figures. Modelled.",
                lambda: _figure(at_first, plain, coloured),
            ),
        ),
    )


def _figure(fresh: float, plain: Floats, coloured: Floats) -> Figure:
    drawn = Figure((WIDTH, 2.6), layout="constrained")
    axes = drawn.add_subplot()
    for place, (found, colour) in enumerate(
        ((np.array([fresh]), OTHERS[0]), (plain, BASELINE), (coloured, OTHERS[1]))
    ):
        beside = np.linspace(-0.15, 0.15, len(found)) if len(found) > 1 else np.zeros(1)
        axes.plot(place + beside, found / 1e9, "o", color=colour, markersize=4)
    for place, published in enumerate((336, 117)):
        axes.plot([place - 0.3, place + 0.3], [published] * 2, color=OTHERS[5], linewidth=1)
    axes.set_xticks(range(3), ["fresh", "aged", "aged, coloured frames"])
    axes.set_ylabel("GB/s")
    axes.set_ylim(0, None)
    return drawn


STUDY = Study(
    "intel-colouring",
    "Coloured frames for a direct-mapped cache",
    "Intel, patch series on page colouring for memory-side caches, linux-mm, 2017 (not merged)",
    run,
    "Machine cori-knl-cache; STREAM with non-temporal stores.",
)
