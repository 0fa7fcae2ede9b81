"""Tells the lines that memory moves from those that the kernel has just put into the caches.

A program that fills a new page in order finds its lines in the caches, because the kernel cleared the page a
moment ago. They come from L2, and go to memory once, with what the program wrote. One that fills pages in
random order comes back when they have left the caches. Samples of instructions say how many of its lines a
program takes in an order that hardware foresees. A page of 2 MiB is larger than most L2s, so the lines of
large pages stay as they are. A program that touches a line of each page first, and fills the pages later in
order, is not told apart from one that fills each page at once.
"""

import numpy as np
from numpy.typing import NDArray

from pagelens.address.units import FRAME_BYTES, LINE_BYTES
from pagelens.machine.core_times import CoreTimes
from pagelens.machine.page_fault import FAULT_COUNTS
from pagelens.machine.schema import Machine
from pagelens.machine.transfers import Columns, column

Floats = NDArray[np.float64]
_SMALL, _ = FAULT_COUNTS
FIRST_FETCHES = "first_fetches"  # column: lines that memory moves below infinite caches, too


def without_cleared(machine: Machine, counts: Columns, core: CoreTimes | None) -> tuple[Floats, Floats]:
    """Return the reads and writes of memory without such lines.

    They are left out only if the price of a page fault contains the clearing, and if samples are known. Of a
    page, only the lines that the program fetches are, and only the first time.
    """
    reads, writes = column(counts, "dram_reads"), column(counts, "dram_writes")
    if machine.page_fault is None or core is None or _SMALL not in counts or FIRST_FETCHES not in counts:
        return reads, writes
    foreseen = core.foreseen_lines("memory", column(counts, "instructions"), reads)
    of_pages = column(counts, _SMALL) * FRAME_BYTES / LINE_BYTES
    first = np.minimum(column(counts, FIRST_FETCHES), of_pages)
    cleared = np.minimum(first, reads) * foreseen / np.maximum(reads, 1)
    return reads - cleared, np.maximum(writes - cleared, 0)
