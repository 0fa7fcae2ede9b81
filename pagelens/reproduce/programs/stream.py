"""STREAM on one core of a node. It asks two separate questions of the caches.

Which lines do three arrays push out of L1? Virtual addresses decide this, because they index an Opteron's L1
(Hennessy, Patterson, Computer Architecture, 4th ed., 5.6). Single elements matter: a line that its set cannot
keep is fetched again for each element. Which lines do memories read and write, and in which order? Physical
addresses decide this, and only whole lines matter.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pagelens import _core
from pagelens.address.units import FRAME_BYTES, LINE_BYTES
from pagelens.machine import TRANSLATION_COUNTS, Machine, modelled_times
from pagelens.machine.caches import Levels, build_caches, count
from pagelens.machine.dram import WRITE

ARRAYS, ELEMENT_BYTES = 3, 8  # of STREAM, in double precision
ALIASING_ELEMENTS = 1 << 13  # a way of L1 twice over: what its sets can keep repeats
ELEMENTS_A_LINE = LINE_BYTES // ELEMENT_BYTES
PAGE_LINES = FRAME_BYTES // LINE_BYTES

Lines = NDArray[np.uint64]
Translation = Callable[[Lines], Lines]  # virtual lines to physical ones


@dataclass(frozen=True)
class StreamLoop:
    """One loop of STREAM. Its arrays are named by their places in memory, of which 0 is the first."""

    name: str
    loads: tuple[int, ...]
    store: int

    @property
    def places(self) -> tuple[int, ...]:
        """The places of all arrays, in the order of an element's accesses."""
        return (*self.loads, self.store)


@dataclass(frozen=True)
class Layout:
    """The order of the arrays in memory, and what each kernel reads and writes."""

    name: str
    kernels: Mapping[str, StreamLoop]


def _layout(name: str, order: str, kernels: Mapping[str, str]) -> Layout:
    """Return the layout for kernels such as "bc a": the arrays loaded, and the array stored."""
    found = {}
    for kernel, arrays in kernels.items():
        loads, store = arrays.split()
        found[kernel] = StreamLoop(kernel, tuple(order.index(each) for each in loads), order.index(store))
    return Layout(name, found)


SLIDE = _layout("b, c, a", "bca", {"copy": "b a", "scale": "b a", "add": "bc a", "triad": "bc a"})
STREAM_C = _layout("a, b, c", "abc", {"copy": "a c", "scale": "c b", "add": "ab c", "triad": "bc a"})


@dataclass(frozen=True)
class Stream:
    """The arrays: N elements each, with OFFSET elements between them, from address 0 on."""

    elements: int
    offset: int

    def base(self, place: int) -> int:
        """Return the first byte of the array in that place."""
        return place * (self.elements + self.offset) * ELEMENT_BYTES

    def spacing(self, first: int, second: int) -> int:
        """Return the bytes between the arrays of two places."""
        return abs(self.base(first) - self.base(second))

    def first_touched(self) -> NDArray[np.int64]:
        """Return the virtual pages in the order in which STREAM's first loop touches them.

        It walks all arrays in step.
        """
        pages, elements = [], []
        for place in range(ARRAYS):
            begin, end = self.base(place), self.base(place) + self.elements * ELEMENT_BYTES
            pages.append(np.arange(begin // FRAME_BYTES, -(-end // FRAME_BYTES)))
            elements.append(np.maximum(pages[-1] * FRAME_BYTES - begin, 0) // ELEMENT_BYTES)
        touched = np.concatenate(pages)[np.argsort(np.concatenate(elements), kind="stable")]
        _, first = np.unique(touched, return_index=True)  # neighbouring arrays can share a page
        return np.asarray(touched[np.sort(first)])

    def on_frames(self, frames: NDArray[np.uint32]) -> Translation:
        """Return the translation if pages got these frames in the order of their first touch."""
        pages = self.first_touched()
        table = np.zeros(pages.max() + 1, dtype=np.uint64)
        table[pages] = frames[: len(pages)]

        def translate(lines: Lines) -> Lines:
            found: Lines = table[lines // PAGE_LINES] * np.uint64(PAGE_LINES) + lines % np.uint64(PAGE_LINES)
            return found

        return translate


def contiguous(lines: Lines) -> Lines:
    """Translate to frames in the order of the addresses, as Catamount does."""
    return lines


@dataclass(frozen=True)
class Cost:
    """What a kernel costs."""

    seconds: float  # per element
    l2_hits: float  # per element
    conflict_share: float  # share of DRAM's lines with a row conflict
    bandwidth: float  # bytes a second as STREAM counts them: without fetches for stores


def run(
    machine: Machine,
    stream: Stream,
    kernel: StreamLoop,
    lines: int,
    warm_up: int = 0,
    translate: Translation = contiguous,
    store: _core.AccessKind = _core.AccessKind.write,
) -> Cost:
    """Return the cost of a kernel for `lines` lines of each array, after `warm_up` lines.

    `store` is `write`, or `stream_store` for non-temporal stores. The time model is the one of all machines.
    """
    assert machine.dram is not None
    caches = _caches(machine)
    moved = np.empty(0, dtype=np.uint64)
    for part in (range(warm_up), range(warm_up, warm_up + lines)):
        moved = _access(caches, translate(walk(stream, kernel, part)), store)
    written = np.where(moved & np.uint64(1), WRITE, np.uint64(0))
    requests = (moved >> np.uint64(17)) * np.uint64(LINE_BYTES) | written
    dram = machine.dram.simulator(outstanding=machine.cores.outstanding_lines.value).run(requests)
    elements = lines * ELEMENTS_A_LINE
    hits = l2_hits(machine, stream, kernel, store)
    counts = dict.fromkeys(("instructions", "l3_hits", "core_forwards", *TRANSLATION_COUNTS), 0.0)
    counts |= {"l2_references": hits * elements, "l2_misses": 0.0, "dram_time_s": dram.time_s}
    counts |= {"dram_reads": dram.total("reads"), "dram_writes": dram.total("writes")}
    seconds = float(modelled_times(machine, counts, cores_used=1).time_s) / elements
    return Cost(
        seconds=seconds,
        l2_hits=hits,
        conflict_share=dram.total("conflicts") / len(requests),
        bandwidth=len(kernel.places) * ELEMENT_BYTES / seconds,
    )


def l2_hits(machine: Machine, stream: Stream, kernel: StreamLoop, store: _core.AccessKind) -> float:
    """Return the lines per element that the kernel pushes out of L1 while it still needs them."""
    caches = _caches(machine)
    for part in (range(ALIASING_ELEMENTS), range(ALIASING_ELEMENTS, 2 * ALIASING_ELEMENTS)):
        caches.reset_counts()
        _access(caches, walk(stream, kernel, part, ELEMENT_BYTES), store)
    hits = count(caches, "l2_references") - count(caches, "l2_misses")
    return float(hits.sum()) / ALIASING_ELEMENTS


def _caches(machine: Machine) -> _core.CacheHierarchy:
    inclusion = machine.l2.inclusion.value if machine.l2.inclusion is not None else None
    return build_caches(1, machine.l1, machine.l2, inclusion, None, None, Levels(simulate_l1=True), seed=0)


def walk(stream: Stream, kernel: StreamLoop, part: range, step: int = LINE_BYTES) -> Lines:
    """Return the lines of the n-th accesses, `step` bytes apart, as [n, array] (see test_twins.py)."""
    index = np.arange(part.start, part.stop, dtype=np.uint64)
    lines = np.empty((len(index), len(kernel.places)), dtype=np.uint64)
    for number, place in enumerate(kernel.places):
        lines[:, number] = (index * step + stream.base(place)) // LINE_BYTES
    return lines


def _access(caches: _core.CacheHierarchy, lines: Lines, store: _core.AccessKind) -> Lines:
    """Access the lines, with stores to the last array.

    Return what memory does, as `CacheHierarchy.access` does.
    """
    kinds = np.full(lines.shape, _core.AccessKind.read, dtype=np.uint8)
    kinds[:, -1] = store
    return caches.access(lines.ravel(), np.zeros(lines.size, dtype=np.uint32), kinds.ravel())
