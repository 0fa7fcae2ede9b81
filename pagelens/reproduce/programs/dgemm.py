"""DGEMM on all cores of a socket: what the caches and the snoop filter do with its lines (dgemm_lines.py).

The talk measured Intel's own DGEMM, whose blocks are not published. Those of BLIS are published
(github.com/flame/blis, config/skx/bli_cntx_init_skx.c), and they fill the same cache.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pagelens import _core
from pagelens.machine import TRANSLATION_COUNTS, Machine, modelled_times
from pagelens.replay.whole_node import caches_below_l1
from pagelens.reproduce.programs.dgemm_lines import TILE_COLUMNS, Blocks
from pagelens.reproduce.programs.pages import PAGE_LINES, Numbers

TILES, DEPTH, SLIVERS = 15, 384, 268  # of BLIS
ORDER = 40_000  # of the matrices (assumed; about 100 s on the talk's socket)
VECTOR_ELEMENTS = 8  # of AVX-512
SLOTS_AN_FMA = 2  # of issue: two of four ports have multiply-add
WARM_UP, COUNTED = 8, 4  # slivers of B: until the L2s are full, and after that
SAMPLED = 32  # one line in so many of each page: their sets are apart, in L2, snoop filter and L3

_NAMES = tuple(_core.cache_counter_names())


@dataclass(frozen=True)
class DgemmRun:
    """The counts of a run, scaled up from the sampled lines. Each counter has an entry for each core."""

    counts: dict[str, NDArray[np.float64]]
    time_s: NDArray[np.float64]  # the time of each core; all waiting overlaps with arithmetic
    serial_s: NDArray[np.float64]  # the time of each core if no waiting overlaps
    issue_s: NDArray[np.float64]  # the time of each core for its instructions alone
    reads_s: NDArray[np.float64]  # the time of each core for its reads of DRAM, one after the other

    def total(self, name: str) -> float:
        """Return a count, summed over all cores."""
        return float(self.counts[name].sum())


class Dgemm:
    """The program on a machine. Its accesses are made once, and replayed on any frames."""

    def __init__(self, machine: Machine, tiles: int = TILES) -> None:
        """Build the accesses; a core's block of A has so many `tiles`."""
        self._machine = machine
        self._blocks = Blocks(machine.cores.count.value, tiles, DEPTH, SLIVERS, ORDER)
        self.workspace_pages = self._blocks.workspace_pages
        parts = (range(WARM_UP), range(WARM_UP, WARM_UP + COUNTED))
        self._parts = [self._blocks.accesses(part, SAMPLED) for part in parts]
        self.pages = 1 + max(int(part.lines.max()) // PAGE_LINES for part in self._parts)

    def run(self, frames: Numbers) -> DgemmRun:
        """Run the program on `frames`, the frame number of each 2 MiB page."""
        caches = caches_below_l1(self._machine)
        for part in self._parts:
            caches.reset_counts()
            pages, within = np.divmod(part.lines, np.uint64(PAGE_LINES))
            caches.access(frames[pages] * np.uint64(PAGE_LINES) + within, part.cores, part.kinds)
        counted = SAMPLED * caches.counts.astype(np.float64)
        counts = dict(zip(_NAMES, counted.T, strict=True))
        return self._timed(counts)

    def _timed(self, counts: dict[str, NDArray[np.float64]]) -> DgemmRun:
        fmas = COUNTED * self._blocks.rows * TILE_COLUMNS * DEPTH / VECTOR_ELEMENTS
        none = np.zeros(self._blocks.cores)
        columns = dict.fromkeys(("dram_time_s", *TRANSLATION_COUNTS), none)
        columns |= {"instructions": none + SLOTS_AN_FMA * fmas}
        times = modelled_times(self._machine, columns | counts, cores_used=1)
        issue = times.resources["issue"]
        reads = counts["dram_reads"] * self._machine.ddr.latency.value
        return DgemmRun(counts, times.time_s, issue + times.resources["latency"], issue, reads)
