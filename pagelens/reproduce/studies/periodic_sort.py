"""zonesort every few seconds while a job runs: what codes like LULESH and Chombo-Crunch gain by it."""

from collections.abc import Mapping

import numpy as np
from matplotlib.figure import Figure

from pagelens.accesses.declared import declared
from pagelens.frames import Node, parse_history, policies
from pagelens.report.drawing import BASELINE, OTHERS, WIDTH, drawing
from pagelens.reproduce.claim import Kind, Row, value
from pagelens.reproduce.context import StudyContext
from pagelens.reproduce.fleet import Floats, PhaseRun, run_phases
from pagelens.reproduce.study import Findings, Study

BYTES = 12 << 30  # fits the cache, so that the frames alone decide
CODES = {"hydro": "LULESH", "stencil": "Chombo-Crunch"}
HISTORY = "boot(kernel=4.4); age(mix=cori); run"  # docs/decisions/kernel-4.4.md
GAIN = 0.02  # of the time; less is none


def run(context: StudyContext) -> Findings:
    """Compare the first steps after the sort with the steps after them, on sorted nodes."""
    machine = context.machine("cori-knl-cache")
    repeats = context.pick(4, 1)
    programs = {name: declared(name, BYTES, machine.cores.count.value, repeats) for name in CODES}

    def simulate(part: tuple[str, int]) -> Mapping[str, PhaseRun]:
        name, node = part
        state = Node(machine, context.seed, node, history=parse_history(HISTORY), job_bytes=BYTES)
        placement = policies["aged+intel-zonesort"].place(machine, state)
        return run_phases(machine, programs[name], placement, context, node)

    parts = [(name, node) for name in CODES for node in range(context.pick(8, 1))]
    runs = context.map(simulate, parts)
    gains: dict[str, Floats] = {}
    handed_out: dict[str, float] = {}
    issue_bound: dict[str, bool] = {}
    for name in CODES:
        of_code = [found for (code, _), found in zip(parts, runs, strict=True) if code == name]
        gains[name] = np.array(
            [1 - found["warm-up"].time_s / (found["steps"].time_s / repeats) for found in of_code]
        )
        issue_bound[name] = all(found["steps"].time_s == found["steps"].issue_s for found in of_code)
        handed_out[name] = float(
            np.mean([found["steps"].cleared / found["steps"].lines for found in of_code])
        )
    rows = tuple(_row(name, gains[name], handed_out[name], issue_bound[name]) for name in CODES)
    return Findings(
        rows,
        (
            drawing(
                "periodic-sort",
                "What sorting before every step could gain at most",
                "Share of a later step's time that a step right after the sort takes less; a dot a node. "
                "Modelled.",
                lambda: _figure(gains),
            ),
        ),
    )


def _row(name: str, gains: Floats, handed_out: float, issue_bound: bool) -> Row:
    most = float(gains.mean())
    why = (
        "its steps take no page from the kernel"
        if handed_out == 0
        else f"{handed_out:.0%} of the lines of its steps are pages being cleared for it"
    )
    if issue_bound:
        why += "; their time is that of their instructions, whatever the frames"
    return Row(
        f"Gain of a code like {CODES[name]} from sorting periodically",
        "zonesort=<n>",
        Kind.DERIVED,
        value("none", share=0),
        value(f"{max(0.0, most):.1%} of the time at most", share=most),
        most <= GAIN,
        f"A step right after the sort against later ones, means over {len(gains)} nodes; {why}. Less than "
        f"{GAIN:.0%} is none.",
    )


def _figure(gains: Mapping[str, Floats]) -> Figure:
    drawn = Figure((WIDTH, 2.0), layout="constrained")
    axes = drawn.add_subplot()
    for place, (found, colour) in enumerate(zip(gains.values(), (BASELINE, OTHERS[0]), strict=True)):
        axes.plot(100 * found, np.full(len(found), place), "o", color=colour, markersize=4, alpha=0.7)
    axes.axvline(100 * GAIN, color=OTHERS[5], linewidth=0.8, linestyle=(0, (4, 3)))
    axes.set_yticks(range(len(gains)), [f"{name} (as {CODES[name]})" for name in gains])
    axes.set_ylim(-0.5, len(gains) - 0.5)
    axes.set_xlabel("gain, % of a step")
    return drawn


STUDY = Study(
    "periodic-sort",
    "zonesort every n seconds",
    "NERSC, KNL Cache Mode Performance, recommendations on zonesort=<n>",
    run,
    "Machine cori-knl-cache with the allocator of Linux 4.4, job mix cori, Intel's module before the job. A "
    "sort reorders free memory only. None is simulated while the job runs: the step after the one before it "
    "stands for what it could do.",
)
