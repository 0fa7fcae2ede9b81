"""DGEMM's inner loops on all cores of a socket, by the blocks of BLIS: what its caches and snoop filter do.

Each core keeps a block of A in its L2 and sweeps it once for every sliver of B, which all cores share, while
it updates its part of C. Intel's own DGEMM, which the talk measured, has blocks that are not published; those
of BLIS are (github.com/flame/blis, config/skx/bli_cntx_init_skx.c), and they fill the same cache.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pagelens import _core
from pagelens.machine import TRANSLATION_COUNTS, Machine, node_times
from pagelens.machine.quantities import LINE_BYTES
from pagelens.node_replay import caches_below_l1
from pagelens.reproduce.programs.pages import PAGE_LINES, Numbers

MC, KC, NC, MR, NR = 240, 384, 3752, 16, 14  # rows, depth and columns of the blocks; rows, columns of a tile
ORDER = 40_000  # of the matrices: C's columns are so long (assumed; about 100 s on the talk's socket)
ELEMENT_BYTES = 8
VECTOR_ELEMENTS = 8  # of AVX-512
SLOTS_AN_FMA = 2  # of issue: two of four ports have multiply-add
WARM_UP, COUNTED = 8, 4  # slivers of B: until the L2s are full, and after that
SAMPLED = 32  # one line in so many of each page: their sets are apart, in L2, snoop filter and L3
A_LINES = MC * KC * ELEMENT_BYTES // LINE_BYTES  # of a core
B_LINES = KC * NC * ELEMENT_BYTES // LINE_BYTES

_NAMES = tuple(_core.cache_counter_names())


@dataclass(frozen=True)
class _Accesses:
    lines: Numbers  # virtual
    cores: NDArray[np.uint32]
    kinds: NDArray[np.uint8]


@dataclass(frozen=True)
class Run:
    """What was counted, scaled up from the sampled lines: by counter, an entry a core."""

    counts: dict[str, NDArray[np.float64]]
    time_s: NDArray[np.float64]  # of each core, all waiting overlapped with arithmetic: the time model
    serial_s: NDArray[np.float64]  # of each core, none overlapped

    def total(self, name: str) -> float:
        """Of all cores."""
        return float(self.counts[name].sum())


class Dgemm:
    """The program on a machine; its accesses are made once, and replayed on any frames."""

    def __init__(self, machine: Machine) -> None:
        self._machine = machine
        self._cores = machine.cores.count.value
        workspace = self._cores * A_LINES + B_LINES
        self.workspace_pages = -(-workspace // PAGE_LINES)  # A and B packed, one after the other; then C
        self._parts = [self._accesses(part) for part in (range(WARM_UP), range(WARM_UP, WARM_UP + COUNTED))]
        self.pages = 1 + max(int(part.lines.max()) // PAGE_LINES for part in self._parts)

    def run(self, frames: Numbers) -> Run:
        """`frames`: of each page of 2 MiB, its number in physical memory."""
        caches = caches_below_l1(self._machine)
        for part in self._parts:
            caches.reset_counts()
            pages, within = np.divmod(part.lines, np.uint64(PAGE_LINES))
            caches.access(frames[pages] * np.uint64(PAGE_LINES) + within, part.cores, part.kinds)
        counted = SAMPLED * caches.counts.astype(np.float64)
        counts = dict(zip(_NAMES, counted.T, strict=True))
        return self._timed(counts)

    def _timed(self, counts: dict[str, NDArray[np.float64]]) -> Run:
        fmas = COUNTED * MC * NR * KC / VECTOR_ELEMENTS
        none = np.zeros(self._cores)
        columns = dict.fromkeys(("dram_time_s", *TRANSLATION_COUNTS), none)
        columns |= {"instructions": none + SLOTS_AN_FMA * fmas}
        times = node_times(self._machine, columns | counts, cores_used=1)
        return Run(counts, times.time_s, times.resources["issue"] + times.resources["latency"])

    def _accesses(self, slivers: range) -> _Accesses:
        """Of the sampled lines, in steps of a tile's rows, the cores one after the other in each."""
        parts: list[tuple[Numbers, int, int]] = []
        a_tile, b_sliver = MR * KC * ELEMENT_BYTES // LINE_BYTES, NR * KC * ELEMENT_BYTES // LINE_BYTES
        for sliver in slivers:
            b = self._sampled(self._cores * A_LINES + sliver * b_sliver + np.arange(b_sliver))
            for step in range(MC // MR):
                for core in range(self._cores):
                    a = self._sampled(core * A_LINES + step * a_tile + np.arange(a_tile))
                    tile = self._tile(sliver, core * MC + step * MR)
                    parts += [
                        (a, core, _core.AccessKind.read),
                        (b, core, _core.AccessKind.read),
                        (tile, core, _core.AccessKind.write),
                    ]
        sizes = [len(lines) for lines, _, _ in parts]
        return _Accesses(
            np.concatenate([lines for lines, _, _ in parts]),
            np.repeat(np.array([core for _, core, _ in parts], dtype=np.uint32), sizes),
            np.repeat(np.array([kind for _, _, kind in parts], dtype=np.uint8), sizes),
        )

    def _tile(self, sliver: int, row: int) -> Numbers:
        """Lines of C's tile: parts of NR columns."""
        columns = (sliver * NR + np.arange(NR)) * ORDER
        rows = row + np.arange(0, MR, LINE_BYTES // ELEMENT_BYTES)
        elements = columns[:, None] + rows[None, :]
        lines = elements.ravel() * ELEMENT_BYTES // LINE_BYTES
        return self._sampled(self.workspace_pages * PAGE_LINES + lines)

    def _sampled(self, lines: NDArray[np.int64]) -> Numbers:
        sampled: Numbers = lines[lines % SAMPLED == SAMPLED // 2].astype(np.uint64)
        return sampled
