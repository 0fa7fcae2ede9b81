"""Writes docs/results/tlb-knees.md and its figure: how far TLBs reach, published beside obtained."""

import argparse
from collections.abc import Callable, Iterable
from pathlib import Path

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter

from pagelens import _core
from pagelens.machine.tlb import PAGE_SIZES, Tlb
from pagelens.machine.tlb_files import TlbFile, load_tlb
from pagelens.units import format_binary_size

SEED = ("istanbul", "interlagos", "westmere", "sandy-bridge-ep", "xeon-phi-se10p")  # of its table
OTHERS = ("haswell", "skylake-sp", "knl", "sapphire-rapids", "zen4")
MOST_PAGES, MOST_PIECES = 1 << 17, 5 << 20  # of a sweep
LOADS = 50_000  # of a point of the figure
FIGURE = (1 << 14, 1 << 46)  # bytes from which they are drawn
COLOURS = {1 << 12: "#0072B2", 1 << 21: "#D55E00", 1 << 30: "#009E73"}  # Okabe and Ito's


class Sweeps:
    """Sweeps over so much memory, one load a page or piece of a page, and again: the second is counted."""

    def __init__(self, tlb: TlbFile, page: int) -> None:
        self._tlb, self._size = tlb, PAGE_SIZES[page]
        self.first, self.second = holder(tlb, 1, page), holder(tlb, 2, page)
        assert self.first is not None
        self.step = max(size for size in self.first.pages.value if size <= page)
        self.most = MOST_PAGES if self.step == page else MOST_PIECES

    def later(self, footprint: int) -> _core.TlbCounters:
        """Counters of the second sweep."""
        core = self._tlb.core()
        addresses = np.arange(0, footprint, self.step, dtype=np.uint64)
        core.translate(addresses, self._size)
        return core.translate(addresses, self._size)

    def reach(self, free: Callable[[_core.TlbCounters], bool]) -> int | None:
        """The largest footprint up to which a sweep is free of something; none: larger than any tried."""
        low, high = 0, self.most + 1
        if free(self.later(self.most * self.step)):
            return None
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if free(self.later(middle * self.step)) else (low, middle)
        return low * self.step


def holder(tlb: TlbFile, level: int, page: int) -> Tlb | None:
    """The array of that level for pages of that size."""
    arrays = (array for array in tlb.tlb if array.level.value == level)
    return next((array for array in arrays if page in (*array.pages.value, *array.larger_pages)), None)


def shown(footprint: int | None) -> str:
    """As "256 KiB"."""
    return "-" if footprint is None else format_binary_size(footprint, 4)


def published(array: Tlb | None, page: int) -> tuple[str, int]:
    """`64 x 4 KiB = 256 KiB`, and how much that is."""
    if array is None:
        return "none", 0
    size = max(size for size in array.pages.value if size <= page)
    entries = array.entries.value
    return f"{entries} x {format_binary_size(size)} = {format_binary_size(entries * size, 4)}", entries * size


def directory_reach(tlb: TlbFile, page: int) -> int | None:
    """How far walks of 4 KiB pages have one step because the second level holds page-directory entries."""
    return next((a.entries.value << 21 for a in tlb.tlb if a.holds_directory and page == 1 << 12), None)


def rows(names: Iterable[str]) -> list[str]:
    """Of a table: for each processor and page size what is published and what was obtained."""
    lines = []
    for name in names:
        tlb = load_tlb(name)
        for page in tlb.page_sizes:
            sweeps = Sweeps(tlb, page)
            first = sweeps.reach(lambda counters: not any(counters.dtlb_misses))
            second = sweeps.reach(lambda counters: not any(counters.walks_completed))
            one_step = sweeps.reach(
                lambda counters: sum(counters.walker_loads) <= sum(counters.walks_completed)
            )
            first_text, first_reach = published(sweeps.first, page)
            second_text, second_reach = published(sweeps.second, page)
            agrees = first == first_reach and second == max(first_reach, second_reach)
            if directory := directory_reach(tlb, page):
                second_text = f"{directory >> 21} PDEs x 2 MiB = {format_binary_size(directory, 4)}"
                agrees &= one_step == directory
            cells = (
                tlb.title,
                format_binary_size(page),
                first_text,
                shown(first),
                second_text,
                shown(second),
            )
            lines.append(f"| {' | '.join(cells)} | {shown(one_step)} | {'yes' if agrees else '**no**'} |")
    return lines


def trips() -> list[str]:
    """Loads a translation and its data take with nothing cached, by page size."""
    lines = []
    for (page, size), expected in zip(PAGE_SIZES.items(), (5, 4, 3), strict=True):
        bare = _core.Tlb(
            [_core.TlbArray(1, (1, 1), False, [True] * 3, [False] * 3, False)], *[(0, 0)] * 3, False
        )
        counters = bare.translate(np.arange(1000, dtype=np.uint64) * page, size)
        obtained = sum(counters.walker_loads) / counters.lookups + 1
        lines.append(f"| {format_binary_size(page)} | {expected} | {obtained:g} |")
    return lines


def random_loads(tlb: TlbFile, page: int, footprint: int) -> _core.TlbCounters:
    """Counters of uniformly random loads from so much memory, after as many before them."""
    draw_from = np.random.Generator(np.random.Philox(footprint))
    core = tlb.core()
    core.translate(draw_from.integers(footprint, size=LOADS, dtype=np.uint64), PAGE_SIZES[page])
    return core.translate(draw_from.integers(footprint, size=LOADS, dtype=np.uint64), PAGE_SIZES[page])


def draw(axes: Axes, name: str) -> None:
    """What random loads cost, over the memory that they are drawn from."""
    tlb = load_tlb(name)
    for page in tlb.page_sizes:
        footprints = np.geomspace(max(page, FIGURE[0]), FIGURE[1], 70).astype(np.uint64)
        counters = [random_loads(tlb, page, int(footprint)) for footprint in footprints]
        loads = [sum(c.walker_loads) / c.lookups for c in counters]
        missed = [sum(c.dtlb_misses) / c.lookups for c in counters]
        axes.plot(footprints, loads, color=COLOURS[page], linewidth=1.6, label=f"{shown(page)} pages")
        axes.plot(footprints, missed, color=COLOURS[page], linewidth=1.0, linestyle=":")
    axes.set_title(tlb.title, fontsize=8.5, loc="left")
    axes.set_xscale("log", base=2)
    axes.set_xlim(*FIGURE)
    axes.set_ylim(-0.1, 4.1)
    axes.set_yticks([0, 1, 2, 3, 4])
    axes.set_xticks([2**exponent for exponent in (16, 23, 30, 37, 44)])
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: format_binary_size(value)))
    axes.minorticks_off()
    axes.grid(alpha=0.25)
    axes.spines[["top", "right"]].set_visible(False)


def figure() -> Figure:
    """A panel a processor."""
    drawn = Figure(figsize=(10, 11.5), layout="constrained")
    panels = drawn.subplots(5, 2, sharex=True, sharey=True)
    for column, names in enumerate((SEED, OTHERS)):
        for row, name in enumerate(names):
            draw(panels[row][column], name)
    panels[0][0].legend(fontsize=8, frameon=False, loc="upper left")
    drawn.supxlabel("memory that random loads are drawn from", fontsize=9)
    drawn.supylabel(
        "page-table entries read for each load (solid); loads that miss level 1 (dotted)", fontsize=9
    )
    return drawn


PAGE = """# How far TLBs reach

Written by `python scripts/tlb_knees.py` from `machines/tlb/`; docs/tlb.md has the model. A program loads
once from every page of so much memory, again and again, and a later sweep is counted. Published is
entries x page size. Obtained is the largest memory up to which such a sweep misses level 1 nowhere, walks
nowhere, and walks one step at most; with one page more it does not ("-": farther than was tried). Agrees:
what is obtained for both levels is what is published.

The figure has uniformly random loads instead, which need the upper levels of the tables as well:
page-table entries read for each load (solid) and loads that miss level 1 (dotted).

![page-table entries read for each random load, over the memory that they are drawn from](tlb-knees.svg)

## The processors of seed 002's table
{seed}

Xeon Phi SE10P, 4 KiB pages: its second level holds page-directory entries (seed 002, note 2). They save no
walk, so walks begin at 256 KiB, but have one step out to 64 x 2 MiB = 128 MiB. On the others that column
follows from paging-structure caches of assumed sizes: 32 PDEs (Zen 4: 64, documented), 8 PDPTEs, 4 PML4Es.

## Others
{others}

The first level of Knights Landing keeps 4 KiB pieces of large pages, that of Westmere 2 MiB pieces of 1 GiB
pages: there the sweep loads once from every piece.

## With nothing cached
Trips to memory of one load when no TLB and no cache has anything: the walk's steps and the load itself.

| pages | seed 002 | obtained |
|---|---:|---:|
{trips}
"""
COLUMNS = (
    "| processor | pages | level 1, published | misses beyond | level 2, published | walks beyond "
    "| one-step walks to | agrees |\n|---|---|---|---:|---|---:|---:|---|\n"
)


def main() -> None:
    """Entry point."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--output", type=Path, default=Path("docs/results"), help="folder to write into")
    folder = parser.parse_args().output
    mpl.rcParams["svg.hashsalt"] = "tlb-knees"  # the same file from the same figures
    text = PAGE.format(
        seed=COLUMNS + "\n".join(rows(SEED)),
        others=COLUMNS + "\n".join(rows(OTHERS)),
        trips="\n".join(trips()),
    )
    picture = folder / "tlb-knees.svg"
    figure().savefig(picture.with_suffix(".partial"), format="svg", metadata={"Date": None})
    picture.with_suffix(".partial").rename(picture)
    page = folder / "tlb-knees.md"
    page.with_suffix(".partial").write_text(text)
    page.with_suffix(".partial").rename(page)


if __name__ == "__main__":
    main()
