"""STREAM over its OFFSETs, N = 2,000,000: on contiguous frames, and on those that Linux gives."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pagelens import _core
from pagelens.address.units import LINE_BYTES
from pagelens.frames import Node, parse_history, policies
from pagelens.machine import Machine
from pagelens.reproduce.context import StudyContext
from pagelens.reproduce.programs.stream import Cost, Stream, StreamLoop, Translation, contiguous, run

ELEMENTS, LARGEST_OFFSET = 2_000_000, 32_768
CONFLICT_BYTES, WINDOW_BYTES = 128 << 10, 16 << 10  # between arrays; the published rule of the dips
L1_WAY_BYTES = 32 << 10  # arrays that lie a multiple of this apart have their lines in the same sets of L1
WARM_UP, COUNTED = 1 << 13, 1 << 12  # lines of each array: L2 is full of them, then two periods of banks
LONG = 1 << 16  # of placements that do not repeat with the banks
LEVEL = 0.10  # of lines: above it an adaptive mapping shuffles (assumed; CUG 2008 gives none)
MIXES = {  # that fragment nodes, and what their sizes are scaled by: the others are of nodes of 96 GiB
    "red-storm": 1.0,
    "throughput": 4 / 96,
    "capability": 4 / 96,
}

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Sweep:
    """A kernel over the offsets of the study."""

    offsets: NDArray[np.int64]
    kernel: StreamLoop
    costs: Sequence[Cost]

    @property
    def seconds(self) -> Floats:
        """Of an element."""
        return np.array([cost.seconds for cost in self.costs])

    @property
    def bandwidth(self) -> Floats:
        """Bytes a second, as STREAM counts them."""
        return np.array([cost.bandwidth for cost in self.costs])

    @property
    def aliased(self) -> NDArray[np.bool_]:
        """Where lines of the three arrays push each other out of L1 (counted: hits of L2 an element)."""
        return np.array([cost.l2_hits > 0.5 for cost in self.costs])

    @property
    def near(self) -> NDArray[np.bool_]:
        """Where two arrays of the kernel are within the window of a multiple of the conflict stride."""
        distance = np.full(len(self.offsets), CONFLICT_BYTES)
        for first in self.kernel.places:
            for second in self.kernel.places:
                if first < second:
                    spacing = (second - first) * 8 * (ELEMENTS + self.offsets) % CONFLICT_BYTES
                    distance = np.minimum(distance, np.minimum(spacing, CONFLICT_BYTES - spacing))
        return distance <= WINDOW_BYTES

    @property
    def slower(self) -> Floats:
        """Than the median without conflicts of either kind: 0.5 takes 1.5 times as long."""
        free = ~self.near & ~self.aliased
        return np.asarray(self.seconds / np.median(self.seconds[free]) - 1)

    def windows(self, cut_off: bool = False) -> list[NDArray[np.int64]]:
        """Indexes of the offsets of each dip; `cut_off`: those at the sweep's ends, too, which may be."""
        near = self.near
        runs = np.split(np.arange(len(near)), np.flatnonzero(np.diff(near.astype(int))) + 1)
        return [each for each in (runs if cut_off else runs[1:-1]) if near[each[0]]]

    @property
    def over_median(self) -> Floats:
        """How much slower than the median without cache aliasing."""
        return np.asarray(self.seconds / np.median(self.seconds[~self.aliased]) - 1)

    @property
    def over_best(self) -> Floats:
        """How much slower than the best."""
        return np.asarray(self.seconds / self.seconds.min() - 1)


def aliasing_offsets() -> NDArray[np.int64]:
    """At which neighbouring arrays lie a multiple of a way of L1 apart."""
    first = -(ELEMENTS * 8) % L1_WAY_BYTES // 8
    return np.arange(first, LARGEST_OFFSET + 1, L1_WAY_BYTES // 8)


def point(
    machine: Machine,
    places: tuple[int, ...],
    offset: int,
    lines: int,
    store: _core.AccessKind = _core.AccessKind.write,
    translate: Translation = contiguous,
) -> Cost:
    """One point of a sweep."""
    return run(machine, _stream(offset), kernel_of(places), lines, WARM_UP, translate, store)


def _stream(offset: int) -> Stream:
    return Stream(ELEMENTS, offset)


def kernel_of(places: tuple[int, ...]) -> StreamLoop:
    """That loads all places but the last, and stores to that."""
    return StreamLoop("", places[:-1], places[-1])


@dataclass(frozen=True)
class Linux:
    """Triad where Linux, or a map that the slides propose, gives the frames."""

    machine: Machine
    context: StudyContext
    kernel: StreamLoop

    def frames(self, history: str, node: int, policy: str = "aged", scale: float = 1.0) -> NDArray[np.uint32]:
        """In the order of first touch, as many as the arrays can need; `scale` is of the history's sizes."""
        at = Node(self.machine, self.context.seed, node, grain=1, history=parse_history(history), scale=scale)
        pages = 3 * (ELEMENTS + LARGEST_OFFSET) * 8 // 4096
        return policies[policy].place(self.machine, at).first_frames(1, pages)

    def point(self, offset: int, translate: Translation) -> Cost:
        """Of a sweep."""
        lines = self.context.pick(LONG // 2, LONG // 16)
        return point(self.machine, self.kernel.places, offset, lines, translate=translate)

    def sweep(self, offsets: NDArray[np.int64], frames: Callable[[int], NDArray[np.uint32]]) -> Sweep:
        """`frames` of the number of a run, which is that of its offset."""

        def one(number: int) -> Cost:
            translate = _stream(int(offsets[number])).on_frames(frames(number))
            return self.point(int(offsets[number]), translate)

        return Sweep(offsets, self.kernel, self.context.map(one, range(len(offsets))))

    def runs(self, count: int, mix: str) -> Sweep:
        """Runs over whole arrays on nodes that a mix fragmented, at so many offsets and where L1 aliases."""
        evenly = np.arange(count) * LARGEST_OFFSET // count // 8 * 8
        offsets = np.union1d(evenly, aliasing_offsets())
        lines = ELEMENTS * 8 // LINE_BYTES

        def one(number: int) -> Cost:
            stream = _stream(int(offsets[number]))
            frames = self.frames(f"boot; age(mix={mix}); run", number, scale=MIXES[mix])
            return run(self.machine, stream, self.kernel, lines, translate=stream.on_frames(frames))

        return Sweep(offsets, self.kernel, self.context.map(one, range(len(offsets))))

    def adapted(self, offsets: NDArray[np.int64]) -> tuple[Sweep, Sweep]:
        """Contiguous frames; and after shuffles to random frames while conflicts are above the level."""

        def one(offset: int) -> tuple[Cost, Cost]:
            first = last = self.point(offset, contiguous)
            shuffles = 0
            while last.conflict_share > LEVEL and shuffles < 3:
                translate = _stream(offset).on_frames(self.frames("boot; run", offset + shuffles, "random"))
                last = self.point(offset, translate)
                shuffles += 1
            return first, last

        found = self.context.map(one, offsets.tolist())
        return (
            Sweep(offsets, self.kernel, [first for first, _ in found]),
            Sweep(offsets, self.kernel, [last for _, last in found]),
        )
