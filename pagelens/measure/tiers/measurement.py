"""Measures STREAM's kernels and a chase of pointers from the device, in each memory. Every answer is checked.

A round runs the four kernels and the chase in host memory, and then in the device's own. The first round is
not counted. Times are those of the device.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pagelens.errors import Failure, Interrupted
from pagelens.measure.tiers.device import Device, Facts, Tier

TIERS: tuple[Tier, ...] = ("host", "device")
STREAM_BYTES = {"copy": 16, "scale": 16, "add": 24, "triad": 24}  # an element, as STREAM counts
CHASE = "chase"
LINE_BYTES = 128  # of NVIDIA's caches
ARRAYS = 4  # of a memory: STREAM's three, and the links

_DOUBLE = 8
_FACTOR = 0.4  # BabelStream's: with it the arrays neither grow nor vanish in hundreds of rounds
_PATTERN = 1 + np.arange(977) / 977  # of array a; a prime, so that a shift by any block is seen
_CHUNK = 1 << 23  # doubles that are filled or checked at a time: 64 MiB
_MOST_LOADS = 1 << 18  # of a chase
_ERROR = 1e-13  # STREAM's; of more rounds than that allows an ulp each: the device fuses, NumPy rounds twice

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Figures:
    """The figures of one kernel in one memory, one for each round.

    They are in 10^9 bytes a second or, for the chase, in nanoseconds a load.
    """

    tier: Tier
    kernel: str
    values: Floats

    @property
    def rate(self) -> bool:
        """Whether more is better."""
        return self.kernel != CHASE

    @property
    def best(self) -> float:
        """The highest rate or the lowest latency."""
        return float(self.values.max() if self.rate else self.values.min())

    @property
    def median(self) -> float:
        """The median of the rounds."""
        return float(np.median(self.values))

    @property
    def spread(self) -> float:
        """The difference of the highest and the lowest figure, over the median."""
        return float(np.ptp(self.values)) / self.median


@dataclass(frozen=True)
class Measured:
    """The outcome of a measurement."""

    facts: Facts
    array_bytes: int  # the size of each array
    rounds: int
    figures: dict[tuple[Tier, str], Figures]

    def ratio(self, kernel: str) -> float:
        """Return how much better the device's own memory is, by the best rounds."""
        host, device = (self.figures[tier, kernel].best for tier in TIERS)
        return host / device if kernel == CHASE else device / host

    @property
    def normalized(self) -> float:
        """The sum of the four kernels' best rates in the device's own memory, over that in host memory."""
        sums = {tier: sum(self.figures[tier, kernel].best for kernel in STREAM_BYTES) for tier in TIERS}
        return sums["device"] / sums["host"]


def measure(
    device: Device,
    array_bytes: int,
    rounds: int,
    seed: int,
    progress: Callable[[int], object] = lambda done: None,
) -> Measured:
    """Measure arrays of `array_bytes`, a multiple of LINE_BYTES.

    Raises Failure if an answer is wrong.
    """
    memories = [_Memory(device, tier, array_bytes, seed) for tier in TIERS]
    try:
        for number in range(rounds + 1):
            for memory in memories:
                memory.run(counted=number > 0)
            progress(number)
    except KeyboardInterrupt:
        raise Interrupted("measure tiers: interrupted; nothing is kept") from None
    for memory in memories:
        memory.check()
    figures = [
        Figures(memory.tier, kernel, np.array(values))
        for memory in memories
        for kernel, values in memory.values.items()
    ]
    return Measured(device.facts, array_bytes, rounds, {(each.tier, each.kernel): each for each in figures})


@dataclass
class _Memory:
    """The arrays in one memory, and the figures of what ran there."""

    device: Device
    tier: Tier
    array_bytes: int
    seed: int
    values: dict[str, list[float]] = field(init=False)

    def __post_init__(self) -> None:
        self.values = {kernel: [] for kernel in (*STREAM_BYTES, CHASE)}
        self.count = self.array_bytes // _DOUBLE
        self.a, self.b, self.c = (self.device.empty(self.tier, self.count, np.float64) for _ in range(3))
        for begin in range(0, self.count, _CHUNK):
            chunk = _part(_PATTERN, begin, min(_CHUNK, self.count - begin))
            self.device.write(self.a, begin, chunk)
            self.device.write(self.b, begin, 2 * chunk)
            self.device.write(self.c, begin, np.zeros_like(chunk))
        self.order = np.random.default_rng(self.seed).permutation(self.array_bytes // LINE_BYTES)
        self.links = self.device.empty(self.tier, self.count, np.uint64)
        self._write_links()
        self.at = self.device.empty("device", 1, np.uint64)  # read and written once a run
        self.device.write(self.at, 0, _places(self.order[:1]))
        self.loads = min(self.order.size, _MOST_LOADS)
        self.chases = 0

    def run(self, counted: bool) -> None:
        """Run every kernel twice, and time the second run.

        The second run finds what the first one left in caches.
        """
        a, b, c, n = self.a, self.b, self.c, self.count
        arguments: dict[str, tuple[Any, ...]] = {
            "copy": (c, a),
            "scale": (b, c, _FACTOR),
            "add": (c, a, b),
            "triad": (a, b, c, _FACTOR),
        }
        for kernel, given in arguments.items():
            seconds = self.device.seconds(kernel, n, *given)
            if counted:
                self.values[kernel].append(STREAM_BYTES[kernel] * n / seconds / 1e9)
        # The chase goes on where it stopped. The lines of the last round have left the caches when it returns
        # to them.
        seconds = self.device.seconds(CHASE, 1, self.links, self.loads, self.at)
        self.chases += 1
        if counted:
            self.values[CHASE].append(seconds / self.loads * 1e9)

    def check(self) -> None:
        """Compare all elements with the same kernels on the pattern. Raises Failure."""
        a, b, c = _PATTERN, 2 * _PATTERN, 0 * _PATTERN
        for _ in range(self.chases):
            c = a
            b = _FACTOR * c
            c = a + b
            a = b + _FACTOR * c
        allowed = max(_ERROR, self.chases * float(np.finfo(np.float64).eps))
        for name, array, expected in (("a", self.a, a), ("b", self.b, b), ("c", self.c, c)):
            for begin in range(0, self.count, _CHUNK):
                found = self.device.read(array, begin, min(begin + _CHUNK, self.count))
                off = np.abs(found / _part(expected, begin, found.size) - 1).max()
                self._require(bool(off <= allowed), f"array {name} is off by {off:.1e}")  # nan: wrong
        ended = _places(self.order[[2 * self.chases * self.loads % self.order.size]])
        self._require(bool(self.device.read(self.at, 0, 1)[0] == ended[0]), "the chase came to another link")

    def _write_links(self) -> None:
        """Write a cycle through all lines in random order. The first element of a line holds the next one."""
        following = np.empty(self.order.size, dtype=np.uint64)
        following[self.order] = _places(np.roll(self.order, -1))
        lines = _CHUNK * _DOUBLE // LINE_BYTES
        for begin in range(0, following.size, lines):
            part = following[begin : begin + lines]
            chunk = np.zeros((part.size, LINE_BYTES // _DOUBLE), dtype=np.uint64)
            chunk[:, 0] = part
            self.device.write(self.links, begin * LINE_BYTES // _DOUBLE, chunk.ravel())

    def _require(self, right: bool, what: str) -> None:
        if not right:
            where = "pinned host memory" if self.tier == "host" else "the device's memory"
            raise Failure(
                f"measure tiers: the answer is wrong ({what}, in {where}); do not trust this device"
            )


def _part(pattern: Floats, begin: int, count: int) -> Floats:
    """Return `count` elements, from `begin` on, of an array that repeats the pattern."""
    return np.resize(np.roll(pattern, -begin), count)


def _places(lines: NDArray[np.int64]) -> NDArray[np.uint64]:
    """Return the indices of the first elements of lines."""
    return (lines * (LINE_BYTES // _DOUBLE)).astype(np.uint64)
