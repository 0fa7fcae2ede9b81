"""HPCCG on Red Storm: how the distance of its arrays slows a solver on contiguous frames."""

from dataclasses import dataclass

from matplotlib.figure import Figure

from pagelens import _core
from pagelens.accesses.declared import declared
from pagelens.replay import Placement, Simulation
from pagelens.replay.mechanisms import ROW_CONFLICTS
from pagelens.report.drawing import BASELINE, OTHERS, WIDTH, drawing
from pagelens.reproduce.claim import Kind, Row, value
from pagelens.reproduce.context import StudyContext
from pagelens.reproduce.study import Findings, Study

ROW_BYTES = 27 * (8 + 4) + 8 + 5 * 8  # of the matrix in compressed rows, its start, and five vectors
STRIDE_KIB = 128  # after which banks come again
PHASE = "solve"


@dataclass(frozen=True)
class Point:
    """One offset between the arrays."""

    offset_kib: int
    seconds: float  # the time of the iterations
    ideal_seconds: float  # without row conflicts
    conflict_share: float  # the share of DRAM's lines that meet a row conflict


def run(context: StudyContext) -> Findings:
    """Run sub-blocks of several sizes.

    The slides do not state their size, which decides where the arrays lie.
    """
    step = context.pick(8, 64)
    sides = context.pick((64, 80, 100), (64,))
    machine = context.machine("red-storm-xt4")

    def point(simulation: Simulation, offset_kib: int) -> Point:
        frames = _core.place_contiguously(machine.frames)
        found = simulation.attribute(
            Placement(frames, machine, offset_bytes=offset_kib << 10), context.cancel
        )
        phase = simulation.workload.phases.index(PHASE)
        counts = found.run.counts
        conflicts = counts["row_conflicts"][phase] / (counts["msc_reads"] + counts["msc_writes"])[phase]
        seconds = [float(found.seconds_without[removed][phase]) for removed in ((), (ROW_CONFLICTS,))]
        return Point(offset_kib, seconds[0], seconds[1], float(conflicts))

    rows = [side**3 for side in sides]  # of a cube
    workloads = [declared("hpccg", ROW_BYTES * count, threads=1) for count in rows]
    simulations = [Simulation(workload, machine, 1) for workload in workloads]
    offsets = range(0, STRIDE_KIB, step)
    wanted = [(number, offset) for number in range(len(sides)) for offset in offsets]
    found = context.map(lambda part: point(simulations[part[0]], part[1]), wanted)
    curves = {
        side: found[number * len(offsets) : (number + 1) * len(offsets)] for number, side in enumerate(sides)
    }
    return Findings(
        (_slowdown(curves),),
        (
            drawing(
                "hpccg-offsets",
                "HPCCG: time by the distance of its arrays",
                "Modelled time of the iterations on one core over the best, by how much further apart all "
                "large arrays lie; a curve a sub-block. Dotted: without row conflicts.",
                lambda: _figure(curves),
            ),
        ),
    )


def _slowdown(curves: dict[int, list[Point]]) -> Row:
    worst = {
        side: max(p.seconds for p in curve) / min(p.seconds for p in curve) - 1
        for side, curve in curves.items()
    }
    most = max(worst.values())
    conflicts = max(point.conflict_share for curve in curves.values() for point in curve)
    return Row(
        "32 nodes: HPCCG at its worst offset against its best, the same on each node",
        "slide 21",
        Kind.SHOWN,
        value("about 50% slower", slowdown=0.5),
        value(f"{most:.0%} slower", slowdown=most, **{f"side_{side}": each for side, each in worst.items()}),
        remark="Contiguous frames are alike on all nodes. Most lines are of the matrix, whose values and "
        "columns advance at different speeds, so that they meet in a bank only now and then: "
        f"{conflicts:.0%} of lines conflict at most.",
        decided_by="Which arrays the offset moved, and the sizes of the sub-blocks, are not published. With "
        f"all large arrays moved, sub-blocks of {', '.join(map(str, worst))} points a side give "
        f"{min(worst.values()):.0%} to {most:.0%}. No offset brings the model near 50%.",
    )


def _figure(curves: dict[int, list[Point]]) -> Figure:
    drawn = Figure((WIDTH, 2.7), layout="constrained")
    axes = drawn.add_subplot()
    for (side, curve), colour in zip(curves.items(), (BASELINE, *OTHERS), strict=False):
        best = min(point.seconds for point in curve)
        offsets = [point.offset_kib for point in curve]
        axes.plot(offsets, [point.seconds / best for point in curve], "o-", color=colour, markersize=3,
                  linewidth=1, label=f"{side} x {side} x {side}")  # fmt: skip
        axes.plot(offsets, [point.ideal_seconds / best for point in curve], ":", color=colour, linewidth=1)
    axes.set_ylim(bottom=0)
    axes.set_xlabel("OFFSET between arrays (KiB)")
    axes.set_ylabel("time over the best")
    axes.legend(frameon=False, loc="lower left", ncols=3)
    return drawn


STUDY = Study(
    "hpccg",
    "HPCCG on Red Storm",
    "K. Ferreira, K. Pedretti, R. Brightwell, Exploring Memory Management Strategies in Catamount, Cray User "
    "Group, Helsinki, 8 May 2008",
    run,
    "Machine file red-storm-xt4. Declared loops of HPCCG's conjugate gradients on a 27-point stencil, with "
    "all its arrays in their order; the sizes of the slides' sub-blocks are not published.",
)
