"""GUPS with a hot part on Optane behind a DRAM cache: Linux's frames against the least populated slots."""

import numpy as np
from matplotlib.figure import Figure

from pagelens.accesses.declared import declared
from pagelens.ensemble.scale import shrink
from pagelens.frames import Node, parse_history
from pagelens.machine import load_machine
from pagelens.report.drawing import BASELINE, OTHERS, WIDTH, drawing
from pagelens.reproduce.claim import Kind, Row, near, value
from pagelens.reproduce.context import StudyContext
from pagelens.reproduce.fleet import Floats, PhaseRun, columns, run_policies
from pagelens.reproduce.study import Findings, Study

FACTOR = 1 / 8  # of the machine and the table: a million slots remain
TABLE_OVER_CACHE = 2  # 96 GB on 48 GB
MIX, OTHER_MIXES = "cori", ("throughput", "capability")
LINUX, STATIC, RANDOM = "2m", "johnny-static", "random"
RANGE, TYPICAL, AVOIDED = (0.20, 0.80), 0.60, 0.85  # of DRAM's speed


def run(context: StudyContext) -> Findings:
    """Run nodes with their own histories under both policies, and a table without conflicts."""
    machine = shrink(load_machine("optane-memory-mode"), FACTOR)
    assert machine.fast_memory is not None
    cores, cache = machine.cores.count.value, machine.fast_memory.size.value
    table = declared("gups-hot", TABLE_OVER_CACHE * cache, cores)

    def aged(node: int, mix: str) -> Node:
        history = parse_history(f"boot; age(mix={mix}); run")
        return Node(
            machine, context.seed, node, history=history, scale=FACTOR, job_bytes=table.footprint_bytes
        )

    def simulate(node: int) -> dict[str, PhaseRun]:
        return run_policies((LINUX, STATIC, RANDOM), machine, table, aged(node, MIX), context)

    def simulate_other(part: tuple[str, int]) -> PhaseRun:
        mix, node = part
        return run_policies((LINUX,), machine, table, aged(node, mix), context)[LINUX]

    runs = context.map(simulate, range(context.pick(48, 4)))
    few = context.pick(16, 2)
    of_others = context.map(simulate_other, [(mix, node) for mix in OTHER_MIXES for node in range(few)])
    # For a table all in DRAM: half as large as the cache on contiguous frames, where every line hits.
    held = declared("gups-hot", cache // 2, cores)
    dram = run_policies(("contiguous",), machine, held, aged(0, MIX), context)["contiguous"]
    linux, static, random = (
        columns([found[name] for found in runs])["bandwidth"] / dram.bandwidth
        for name in (LINUX, STATIC, RANDOM)
    )
    others = (columns(of_others)["bandwidth"] / dram.bandwidth).reshape(len(OTHER_MIXES), few)
    in_other_mixes = " ".join(
        f"Mix {mix}: {found.min():.0%} to {found.max():.0%}, median {np.median(found):.0%}."
        for mix, found in zip(OTHER_MIXES, others, strict=True)
    )
    rows = (
        Row(
            "Speed with Linux's frames over that of DRAM alone, from run to run",
            "GUPS, 96 GB, 10% hot",
            Kind.PREDICTED,
            value("20 to 80%", low=RANGE[0], high=RANGE[1]),
            value(
                f"{linux.min():.0%} to {linux.max():.0%} over {len(linux)} nodes",
                low=linux.min(),
                high=linux.max(),
            ),
            near(float(linux.min()), RANGE[0]) and near(float(linux.max()), RANGE[1]),
            "Bandwidth of Optane under random lines is assumed (a quarter of that in sequence). Frames of "
            f"the job mix {MIX}: what their machine had gone through is not published. {in_other_mixes}",
        ),
        Row(
            "Typically",
            "GUPS, 96 GB, 10% hot",
            Kind.PREDICTED,
            value("60%", share=TYPICAL),
            value(f"{np.median(linux):.0%} (median)", share=np.median(linux)),
            near(float(np.median(linux)), TYPICAL),
            f"On independent random frames of 4 KiB it would be {np.median(random):.0%}: what separates "
            "Linux from the static policy are the conflicts within the hot tenth, and large pages of this "
            "mix have few.",
        ),
        Row(
            "Speed with the static policy, which takes the least populated slots",
            "GUPS, 96 GB, 10% hot",
            Kind.PREDICTED,
            value("85%", share=AVOIDED),
            value(f"{np.median(static):.0%} (median)", share=np.median(static)),
            near(float(np.median(static)), AVOIDED),
            "As above.",
        ),
    )
    return Findings(
        rows,
        (
            drawing(
                "johnny-cache",
                "GUPS with a hot tenth, over a cache of half its size",
                "Speed over DRAM's; a dot a node. Lines: published. Modelled.",
                lambda: _figure(linux, static),
            ),
        ),
    )


def _figure(linux: Floats, static: Floats) -> Figure:
    drawn = Figure((WIDTH, 2.4), layout="constrained")
    axes = drawn.add_subplot()
    for place, (found, colour) in enumerate(((linux, BASELINE), (static, OTHERS[0]))):
        axes.plot(place + np.linspace(-0.2, 0.2, len(found)), 100 * found, "o", color=colour, markersize=3)
    for place, published in ((0, RANGE[0]), (0, TYPICAL), (0, RANGE[1]), (1, AVOIDED)):
        axes.plot([place - 0.3, place + 0.3], [100 * published] * 2, color=OTHERS[5], linewidth=0.8)
    axes.set_xticks([0, 1], ["Linux, 2 MiB pages", "static policy"])
    axes.set_ylabel("% of DRAM's speed")
    axes.set_ylim(0, 100)
    return drawn


STUDY = Study(
    "johnny-cache",
    "GUPS on Optane with DRAM as its cache",
    "B. Lepers, W. Zwaenepoel, Johnny Cache: the End of DRAM Cache Conflicts (in Tiered Main Memory "
    "Systems), OSDI 2023",
    run,
    "Machine optane-memory-mode (most of it assumed), at an eighth of its size; the table is twice as large "
    "as the cache, nine of ten updates meet a tenth of it (HeMem's GUPS).",
)
