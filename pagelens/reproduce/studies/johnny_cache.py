"""GUPS with hot parts on Optane behind a DRAM cache: a pool's pages against the least populated slots."""

import numpy as np
from matplotlib.figure import Figure

from pagelens import _core
from pagelens.accesses.declared import declared
from pagelens.address.units import HUGE_PAGE_FRAMES
from pagelens.ensemble.scale import shrink
from pagelens.report.drawing import BASELINE, OTHERS, WIDTH, drawing
from pagelens.reproduce.claim import Kind, Row, near, value
from pagelens.reproduce.context import StudyContext
from pagelens.reproduce.fleet import Floats, PhaseRun, run_on
from pagelens.reproduce.study import Findings, Study

FACTOR = 1 / 8  # of the machine, the table and its pages: as many pages as at full size remain
TABLE_OVER_CACHE = 2  # 96 GB on 48 GB
WORKLOAD = "gups-regions"  # HeMem's program: a region and a hot part for each thread
UNDER_WAY = 1  # updates of a thread, which HeMem's program serialises by rdtscp
RANGE, TYPICAL, AVOIDED = (0.20, 0.80), 0.60, 0.85  # of DRAM's speed


def run(context: StudyContext) -> Findings:
    """Run the program on a pool in order, on pools in random order, and on the least populated slots."""
    machine = shrink(context.machine("optane-memory-mode"), FACTOR).with_values(
        {"cores.outstanding_lines": UNDER_WAY}
    )
    assert machine.fast_memory is not None
    cores, cache = machine.cores.count.value, machine.fast_memory.size.value
    table = declared(WORKLOAD, TABLE_OVER_CACHE * cache, cores)
    piece = round(HUGE_PAGE_FRAMES * FACTOR)  # frames of a large page on the smaller machine

    def on_pool(number: int) -> PhaseRun:
        pages = np.random.default_rng([context.seed, number]).permutation(machine.frames // piece)
        frames = (pages[:, None] * piece + np.arange(piece)).ravel().astype(np.uint32)
        return run_on(machine, table, _core.place_as_given(frames, machine.frames, 0), context, number)

    runs = context.map(on_pool, range(context.pick(48, 4)))
    # jc.c keeps a list of pages for each slot and pushes to its front. So the slots are filled once in
    # order of address, and their second pages come in the reverse order.
    slots = np.arange(machine.slots)
    least_populated = np.concatenate([slots, 2 * len(slots) - 1 - slots]).astype(np.uint32)
    least = run_on(machine, table, _core.place_as_given(least_populated, machine.frames, 0), context)
    in_order = run_on(machine, table, _core.place_contiguously(machine.frames), context)
    # For a table all in DRAM: half as large as the cache on contiguous frames, where every line hits.
    held = declared(WORKLOAD, cache // 2, cores)
    dram = run_on(machine, held, _core.place_contiguously(machine.frames), context)
    pool = np.array([run.bandwidth for run in runs]) / dram.bandwidth
    row, static = in_order.bandwidth / dram.bandwidth, least.bandwidth / dram.bandwidth
    low, high = min(row, float(pool.min())), max(row, float(pool.max()))
    rows = (
        Row(
            "Speed with Linux's frames over that of DRAM alone, from run to run",
            "GUPS, 96 GB, 10% hot",
            Kind.PREDICTED,
            value("20 to 80%", low=RANGE[0], high=RANGE[1]),
            value(f"{low:.0%} to {high:.0%} over {len(pool)} pools and one in order", low=low, high=high),
            near(low, RANGE[0]) and near(high, RANGE[1]),
            f"On frames in a row the hot parts of two threads share their slots: {row:.0%}, as "
            f"{1 - in_order.hit_share:.0%} of lines miss. What a loaded Optane adds to its latency is left "
            "out.",
        ),
        Row(
            "The same, typically",
            "GUPS, 96 GB, 10% hot",
            Kind.PREDICTED,
            value("60%", share=TYPICAL),
            value(f"{np.median(pool):.0%} (median)", share=np.median(pool)),
            near(float(np.median(pool)), TYPICAL),
            "On pools in random order. The order is not published. After programs of one thread, a real "
            "kernel's pool is in runs of rising and falling order (docs/lab.md).",
        ),
        Row(
            "Speed with the static policy, which takes the least populated slots",
            "GUPS, 96 GB, 10% hot",
            Kind.PREDICTED,
            value("85%", share=AVOIDED),
            value(f"{static:.0%}", share=static),
            near(static, AVOIDED),
            "Slots get their second pages in reverse order, as jc.c keeps its lists. In order they would be "
            f"frames in a row: {row:.0%}.",
        ),
    )
    return Findings(
        rows,
        (
            drawing(
                "johnny-cache",
                "GUPS with a hot tenth, over a cache of half its size",
                "Speed over DRAM's; a dot a pool. Lines: published. Modelled.",
                lambda: _figure(np.array([row, *pool]), np.array([static])),
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
    axes.set_xticks([0, 1], ["pages of the pool", "static policy"])
    axes.set_ylabel("% of DRAM's speed")
    axes.set_ylim(0, 100)
    return drawn


STUDY = Study(
    "johnny-cache",
    "GUPS on Optane with DRAM as its cache",
    "B. Lepers, W. Zwaenepoel, Johnny Cache: the End of DRAM Cache Conflicts (in Tiered Main Memory "
    "Systems), OSDI 2023",
    run,
    "Machine optane-memory-mode (most of it assumed), at an eighth of its size, and so are the pages; the "
    "table is twice as large as the cache, and nine of ten updates of a thread meet the first tenth of its "
    "region (HeMem's GUPS).",
)
