"""What large pages gain: memory accesses per load, by page size, processor and memory in use."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter

from pagelens.machine.tlb import PAGE_SIZES
from pagelens.machine.tlb_files import TlbFile, load_tlb
from pagelens.machine.tlb_reach import (
    directory_reach,
    holder,
    random_loads,
    stated_reach,
    swept_reach,
    trips_uncached,
)
from pagelens.report.drawing import BASELINE, OTHERS, WIDTH, drawing
from pagelens.reproduce.claim import Kind, Row, Value, value
from pagelens.reproduce.context import StudyContext
from pagelens.reproduce.study import Findings, Study
from pagelens.units import format_binary_size

PROCESSORS = ("istanbul", "interlagos", "westmere", "sandy-bridge-ep", "xeon-phi-se10p")  # of its table
SMALL, LARGE = 1 << 12, 1 << 21  # x86's page sizes
TRIPS = {1 << 12: 5, 1 << 21: 4, 1 << 30: 3}  # to memory, by the bytes of a page, if no cache helps
MEMORY = (1 << 14, 1 << 44)  # bytes that random loads are drawn from, in the figure
BETWEEN = (2 << 20, 64 << 20)  # every system of the table is said to gain between these, much above the first
BOUNDS = range(21, 27)  # bits of the powers of two between these, which are tried besides
MUCH = 4  # times 2 MiB is "much more" (assumed: nothing is said)
COLOURS = dict(zip(PAGE_SIZES, (OTHERS[0], BASELINE, OTHERS[1]), strict=True))


@dataclass(frozen=True)
class Point:
    """Averages over random loads from so much memory."""

    memory: int  # bytes
    entries: float  # page table entries read per load
    missed: float  # share of loads that miss the first TLB level


@dataclass(frozen=True)
class Processor:
    """One processor's curves, one for each page size, over the same memories as far as they go."""

    tlb: TlbFile
    curves: dict[int, list[Point]]


def run(context: StudyContext) -> Findings:
    """Count memory accesses with nothing cached, and for RandomAccess on each processor of the table."""
    points, loads = context.pick((70, 50_000), (26, 5_000))
    tlbs = [load_tlb(name) for name in PROCESSORS]
    memories = [int(memory) for memory in np.geomspace(*MEMORY, points).astype(np.uint64)]
    memories = sorted({*memories, *(1 << bits for bits in BOUNDS)})
    wanted = [(tlb, page, memory) for tlb in tlbs for page in tlb.page_sizes for memory in memories]
    counted = context.map(lambda part: point(*part, loads, context.seed), wanted)
    found: dict[tuple[str, int], list[Point]] = {}
    for (tlb, page, _), each in zip(wanted, counted, strict=True):
        found.setdefault((tlb.name, page), []).append(each)
    processors = [Processor(tlb, {page: found[tlb.name, page] for page in tlb.page_sizes}) for tlb in tlbs]
    rows = (
        _gain_between(processors),
        _gain_beyond(processors),
        *(_trips(page) for page in TRIPS),
        *context.map(_reach, tlbs),
    )
    return Findings(
        rows,
        (
            drawing(
                "page-walks",
                "Page-table entries read by random loads, over the memory they are drawn from",
                "Solid: page-table entries that walks read for each load, to which the load itself comes; "
                f"dotted: loads that miss level 1 of the TLB. Uniformly random loads ({loads:,} a point), as "
                "RandomAccess of the HPC Challenge makes them. Counted.",
                lambda: _figure(processors),
            ),
        ),
    )


def point(tlb: TlbFile, page: int, memory: int, loads: int, seed: int = 0) -> Point:
    """Return one point of a curve."""
    counted = random_loads(tlb, page, memory, loads, seed)
    lookups = counted.lookups
    return Point(memory, sum(counted.walker_loads) / lookups, sum(counted.dtlb_misses) / lookups)


def _gain_between(processors: Sequence[Processor]) -> Row:
    """Check that a large page saves entries at every memory size tried between the two bounds."""
    gaining = {
        processor.tlb.title: min(
            gain for memory, gain in _gains(processor) if MUCH * BETWEEN[0] <= memory < BETWEEN[1]
        )
        for processor in processors
    }
    least = min(gaining.values())
    losers = [title for title, gain in gaining.items() if gain <= 0]
    return Row(
        "Random accesses over much more than 2 MB and less than 64 MB gain by large pages",
        "text below the table",
        Kind.PREDICTED,
        value("on all five systems", systems=len(processors)),
        value(
            f"on {len(processors) - len(losers)} of {len(processors)}: {least:.2f} page-table entries fewer "
            "for each load at least",
            systems=len(processors) - len(losers),
            fewest_entries_saved=least,
        ),
        not losers,
        "At every memory tried from 8 MiB to below 64 MiB." + (f" Not: {', '.join(losers)}." * bool(losers)),
    )


def _gain_beyond(processors: Sequence[Processor]) -> Row:
    """Check that nothing is gained within what small pages' entries map, and most of it only far beyond."""
    within, most_of_it = [], []
    for processor in processors:
        own = max(stated_reach(holder(processor.tlb, level, SMALL), SMALL) for level in (1, 2))
        gains = _gains(processor)
        most = max(gain for _, gain in gains)
        within.append(max(gain / most for memory, gain in gains if memory <= own))
        most_of_it.append(min(memory / own for memory, gain in gains if gain > 0.9 * most))
    return Row(
        "Large pages gain most where random accesses range over much more than small pages' entries map",
        "second paragraph",
        Kind.PREDICTED,
        value("much bigger than that"),
        value(
            f"90% of the gain at {min(most_of_it):.0f} to {max(most_of_it):.0f} times that memory, "
            f"{max(within):.0%} of it within",
            least_ratio=min(most_of_it),
            largest_ratio=max(most_of_it),
            share_within=max(within),
        ),
        max(within) < 0.01 and min(most_of_it) >= 2,
        "Gain: page-table entries read for a load with 4 KiB pages less those with 2 MiB pages.",
    )


def _gains(processor: Processor) -> list[tuple[int, float]]:
    """Return by memory size the entries read per load with small pages, minus those with large pages."""
    large = {point.memory: point.entries for point in processor.curves[LARGE]}
    return [
        (point.memory, point.entries - large[point.memory])
        for point in processor.curves[SMALL]
        if point.memory in large
    ]


def _trips(page: int) -> Row:
    trips = trips_uncached(page)
    return Row(
        f"Trips to memory of a load on a {format_binary_size(page)} page with nothing cached",
        "list of worst cases",
        Kind.DERIVED,
        value(str(TRIPS[page]), trips=TRIPS[page]),
        value(f"{trips:g}", trips=trips),
        trips == TRIPS[page],
    )


def _reach(tlb: TlbFile) -> Row:
    """Compare sweeps with the table: up to which memory size is there no walk, by page size?"""
    stated, swept, same = {}, {}, True
    for page in tlb.page_sizes:
        found = swept_reach(tlb, page)
        first, second = (stated_reach(holder(tlb, level, page), page) for level in (1, 2))
        directory = directory_reach(tlb, page)
        stated[page] = first if directory else max(first, second)
        swept[page] = found.without_walks or 0
        same &= found.without_misses == first and found.without_walks == stated[page]
        same &= directory is None or found.one_step == directory
    return Row(
        f"{tlb.title}: memory that sweeps use without a walk, with pages of "
        + ", ".join(map(format_binary_size, tlb.page_sizes)),
        "table of TLBs",
        Kind.DERIVED,
        _sizes(stated),
        _sizes(swept),
        same,
        "Level 2 keeps page-directory entries above 4 KiB pages (note 2): walks of one step to 128 MiB."
        if any(directory_reach(tlb, page) for page in tlb.page_sizes)
        else "",
    )


def _sizes(by_page: dict[int, int]) -> Value:
    return value(
        ", ".join(format_binary_size(size, 4) for size in by_page.values()),
        **{f"pages_{page}_bytes": size for page, size in by_page.items()},
    )


def _figure(processors: Sequence[Processor]) -> Figure:
    drawn = Figure((WIDTH, 6.4), layout="constrained")
    panels = list(drawn.subplots(3, 2, sharex=True, sharey=True).ravel())
    for axes, processor in zip(panels, processors, strict=False):
        _draw_curves(axes, processor)
    legend = panels[len(processors)]
    legend.axis("off")
    legend.legend(*panels[0].get_legend_handles_labels(), loc="center left", frameon=False)
    for axes in panels[3:5]:
        axes.xaxis.set_tick_params(labelbottom=True)
    drawn.supxlabel("memory that random loads are drawn from", fontsize=8.5)
    drawn.supylabel("page-table entries read for each load", fontsize=8.5)
    return drawn


def _draw_curves(axes: Axes, processor: Processor) -> None:
    """Draw one curve for each page size."""
    for page, curve in processor.curves.items():
        memories = [point.memory for point in curve]
        label = f"{format_binary_size(page)} pages"
        axes.plot(
            memories, [point.entries for point in curve], color=COLOURS[page], linewidth=1.6, label=label
        )
        axes.plot(
            memories, [point.missed for point in curve], color=COLOURS[page], linewidth=1.0, linestyle=":"
        )
    axes.set_title(processor.tlb.title, fontsize=8.5, loc="left")
    axes.set_xscale("log", base=2)
    axes.set_xlim(*MEMORY)
    axes.set_ylim(-0.1, 4.1)
    axes.set_yticks([0, 1, 2, 3, 4])
    axes.set_xticks([2**exponent for exponent in (16, 23, 30, 37, 44)])
    axes.xaxis.set_major_formatter(FuncFormatter(lambda bytes_, _: format_binary_size(bytes_)))
    axes.minorticks_off()
    axes.grid(alpha=0.25)


STUDY = Study(
    "page-walks",
    "What large pages are good for",
    "J. D. McCalpin, What good are 'Large Pages'?, blog, 12 March 2012",
    run,
    "TLBs of the table are inputs (machines/tlb/); sizes of the caches of upper levels of the page tables "
    "are assumed: they are very poorly documented, as the document says.",
)
