"""STREAM over its OFFSETs with N = 2,000,000, on contiguous frames and on those that Linux gives."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pagelens import _core
from pagelens.address.units import FRAME_BYTES, LINE_BYTES
from pagelens.frames import Node, parse_history, policies
from pagelens.machine import Machine
from pagelens.reproduce.context import StudyContext
from pagelens.reproduce.programs.stream import ARRAYS, Cost, Stream, StreamLoop, Translation, contiguous, run

ELEMENTS, LARGEST_OFFSET = 2_000_000, 32_768  # of CUG 2008's sweep
CONFLICT_BYTES, WINDOW_BYTES = 128 << 10, 16 << 10  # between arrays; the published rule of the dips
L1_WAY_BYTES = 32 << 10  # arrays that lie a multiple of this apart have their lines in the same sets of L1
WARM_UP, COUNTED = 1 << 13, 1 << 12  # lines of each array: L2 is full of them, then two periods of banks
LONG = 1 << 16  # of placements that do not repeat with the banks
LEVEL = 0.10  # of lines: above it an adaptive mapping shuffles (assumed; CUG 2008 gives none)
MIXES = {  # mixes that fragment nodes, and the factors on their sizes, as most are of 96 GiB nodes
    "red-storm": 1.0,
    "throughput": 4 / 96,
    "capability": 4 / 96,
}

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Sweep:
    """The costs of a kernel over the offsets of the study."""

    offsets: NDArray[np.int64]
    kernel: StreamLoop
    costs: Sequence[Cost]

    @property
    def seconds(self) -> Floats:
        """Seconds per element."""
        return np.array([cost.seconds for cost in self.costs])

    @property
    def bandwidth(self) -> Floats:
        """Bytes a second, as STREAM counts them."""
        return np.array([cost.bandwidth for cost in self.costs])

    @property
    def aliased(self) -> NDArray[np.bool_]:
        """Where lines of the three arrays push each other out of L1, counted by hits of L2 per element."""
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
        """The slowdown over the median without conflicts of either kind. 0.5 means 1.5 times as long."""
        free = ~self.near & ~self.aliased
        return np.asarray(self.seconds / np.median(self.seconds[free]) - 1)

    def windows(self, cut_off: bool = False) -> list[NDArray[np.int64]]:
        """Return the indexes of the offsets of each dip.

        With `cut_off`, dips at the sweep's ends are included, though they may be incomplete.
        """
        near = self.near
        runs = np.split(np.arange(len(near)), np.flatnonzero(np.diff(near.astype(int))) + 1)
        return [each for each in (runs if cut_off else runs[1:-1]) if near[each[0]]]

    @property
    def over_median(self) -> Floats:
        """The slowdown over the median without cache aliasing."""
        return np.asarray(self.seconds / np.median(self.seconds[~self.aliased]) - 1)

    @property
    def over_best(self) -> Floats:
        """The slowdown over the best offset."""
        return np.asarray(self.seconds / self.seconds.min() - 1)


def aliasing_offsets() -> NDArray[np.int64]:
    """Return the offsets at which neighbouring arrays lie a multiple of an L1 way apart."""
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
    """Return one point of a sweep."""
    return run(machine, _stream(offset), kernel_of(places), lines, WARM_UP, translate, store)


def _stream(offset: int) -> Stream:
    return Stream(ELEMENTS, offset)


def kernel_of(places: tuple[int, ...]) -> StreamLoop:
    """Return the kernel that loads all places but the last, and stores to the last."""
    return StreamLoop("", places[:-1], places[-1])


@dataclass(frozen=True)
class Linux:
    """Triad on frames that Linux gives, or that a map of the slides proposes."""

    machine: Machine
    context: StudyContext
    kernel: StreamLoop

    def frames(self, history: str, node: int, policy: str = "aged", scale: float = 1.0) -> NDArray[np.uint32]:
        """Return frames in the order of first touch, as many as the arrays can need.

        `scale` applies to the sizes in the history.
        """
        at = Node(self.machine, self.context.seed, node, grain=1, history=parse_history(history), scale=scale)
        pages = ARRAYS * (ELEMENTS + LARGEST_OFFSET) * 8 // FRAME_BYTES
        return policies[policy].place(self.machine, at).first_frames(1, pages)

    def point(self, offset: int, translate: Translation) -> Cost:
        """Return one point of a sweep."""
        lines = self.context.pick(LONG // 2, LONG // 16)
        return point(self.machine, self.kernel.places, offset, lines, translate=translate)

    def sweep(self, offsets: NDArray[np.int64], frames: Callable[[int], NDArray[np.uint32]]) -> Sweep:
        """Run each offset on the frames that `frames` returns for its index."""

        def one(number: int) -> Cost:
            translate = _stream(int(offsets[number])).on_frames(frames(number))
            return self.point(int(offsets[number]), translate)

        return Sweep(offsets, self.kernel, self.context.map(one, range(len(offsets))))

    def runs(self, count: int, mix: str) -> Sweep:
        """Run over whole arrays on nodes that a mix fragmented.

        The runs use so many offsets, and those at which L1 aliases (a quarter of these at quick scale).
        """
        evenly = np.arange(count) * LARGEST_OFFSET // count // 8 * 8
        offsets = np.union1d(evenly, aliasing_offsets()[:: self.context.pick(1, 4)])
        lines = ELEMENTS * 8 // LINE_BYTES

        def one(number: int) -> Cost:
            stream = _stream(int(offsets[number]))
            frames = self.frames(f"boot; age(mix={mix}); run", number, scale=MIXES[mix])
            return run(self.machine, stream, self.kernel, lines, translate=stream.on_frames(frames))

        return Sweep(offsets, self.kernel, self.context.map(one, range(len(offsets))))

    def adapted(self, offsets: NDArray[np.int64]) -> tuple[Sweep, Sweep]:
        """Return two sweeps: one on contiguous frames, and one after shuffles.

        While row conflicts stay above the level, the frames are shuffled at random, at most three times.
        """

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
