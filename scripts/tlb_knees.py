"""Writes docs/results/tlb-knees.md and its figure: how far TLBs reach, published beside obtained."""

import argparse
from collections.abc import Iterable
from pathlib import Path

import matplotlib as mpl
import numpy as np
from matplotlib.figure import Figure
from wrapping import write_page

from pagelens.machine.tlb import Tlb
from pagelens.machine.tlb_files import load_tlb
from pagelens.machine.tlb_reach import (
    directory_reach,
    holder,
    piece,
    stated_reach,
    swept_reach,
    trips_uncached,
)
from pagelens.report.drawing import STYLE
from pagelens.reproduce.studies.page_walks import MEMORY, PROCESSORS, TRIPS, Processor, draw_curves, point
from pagelens.units import format_binary_size

OTHERS = ("haswell", "skylake-sp", "ice-lake-sp", "knl", "sapphire-rapids", "zen4")
POINTS, LOADS = 70, 50_000  # of a curve of the figure, and of a point


def shown(footprint: int | None) -> str:
    """As "256 KiB"."""
    return "-" if footprint is None else format_binary_size(footprint, 4)


def published(array: Tlb | None, page: int) -> str:
    """`64 x 4 KiB = 256 KiB`."""
    if array is None:
        return "none"
    each = format_binary_size(piece(array, page))
    return f"{array.entries.value} x {each} = {shown(stated_reach(array, page))}"


def rows(names: Iterable[str]) -> list[str]:
    """Of a table: for each processor and page size what is published and what was obtained."""
    lines = []
    for name in names:
        tlb = load_tlb(name)
        for page in tlb.page_sizes:
            found = swept_reach(tlb, page)
            first, second = (holder(tlb, level, page) for level in (1, 2))
            second_text = published(second, page)
            reaches = stated_reach(first, page), stated_reach(second, page)
            agrees = found.without_misses == reaches[0] and found.without_walks == max(reaches)
            if directory := directory_reach(tlb, page):
                second_text = f"{directory >> 21} PDEs x 2 MiB = {shown(directory)}"
                agrees = (found.without_misses, found.without_walks) == (reaches[0],) * 2
                agrees &= found.one_step == directory
            cells = (
                tlb.title,
                format_binary_size(page),
                published(first, page),
                shown(found.without_misses),
                second_text,
                shown(found.without_walks),
                shown(found.one_step),
                "yes" if agrees else "**no**",
            )
            lines.append(f"| {' | '.join(cells)} |")
    return lines


def trips() -> list[str]:
    """Loads a translation and its data take with nothing cached, by page size."""
    return [
        f"| {format_binary_size(page)} | {expected} | {trips_uncached(page):g} |"
        for page, expected in TRIPS.items()
    ]


def figure() -> Figure:
    """A panel a processor."""
    memories = [int(memory) for memory in np.geomspace(*MEMORY, POINTS)]
    columns = (PROCESSORS, OTHERS)
    panels_high = max(map(len, columns))
    drawn = Figure(figsize=(10, 2.3 * panels_high), layout="constrained")
    panels = drawn.subplots(panels_high, 2, sharex=True, sharey=True)
    for column, names in enumerate(columns):
        for unused in panels[len(names) :, column]:
            unused.remove()
        panels[len(names) - 1, column].tick_params(labelbottom=True)
        for row, name in enumerate(names):
            tlb = load_tlb(name)
            curves = {
                page: [point(tlb, page, m, LOADS) for m in memories if m >= page] for page in tlb.page_sizes
            }
            draw_curves(panels[row][column], Processor(tlb, curves))
    panels[0][0].legend(frameon=False, loc="upper left")
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

## The processors of the table in McCalpin, What good are Large Pages (2012)
{seed}

Xeon Phi SE10P, 4 KiB pages: its second level holds page-directory entries (McCalpin, What good are
Large Pages, 2012, note 2). They save no walk, so walks begin at 256 KiB, but have one step out to
64 x 2 MiB = 128 MiB. On the others that column follows from paging-structure caches of assumed
sizes: 32 PDEs (Zen 4: 64, documented), 8 PDPTEs, 4 PML4Es.

## Others
{others}

The first level of Knights Landing keeps 4 KiB pieces of large pages, that of Westmere 2 MiB pieces of 1 GiB
pages: there the sweep loads once from every piece.

## With nothing cached
Trips to memory of one load when no TLB and no cache has anything: the walk's steps and the load itself.

| pages | published | obtained |
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
    text = PAGE.format(
        seed=COLUMNS + "\n".join(rows(PROCESSORS)),
        others=COLUMNS + "\n".join(rows(OTHERS)),
        trips="\n".join(trips()),
    )
    picture = folder / "tlb-knees.svg"
    with mpl.rc_context(STYLE):
        figure().savefig(picture.with_suffix(".partial"), format="svg", metadata={"Date": None})
    picture.with_suffix(".partial").rename(picture)
    write_page(folder / "tlb-knees.md", text)


if __name__ == "__main__":
    main()
