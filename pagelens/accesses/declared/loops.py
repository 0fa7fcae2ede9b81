"""The terms in which a program is declared: arrays, and loops that walk them."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from pagelens import _core

Kind = _core.StreamKind
Walk = _core.Walk


@dataclass(frozen=True)
class Array:
    """One array of a workload; `bytes` is its size over all threads."""

    name: str
    bytes: float


@dataclass(frozen=True)
class Stream:
    """One walk of a sweep along an array."""

    array: str
    kind: Kind
    shift_bytes: float = 0.0  # begin of the walk in the array, for neighbouring planes and blocks
    bytes: float | None = None  # how far it goes; None: as far as the array is long
    stride: float = 1.0  # one line in `stride` is moved
    walk: Walk = Walk.parts


@dataclass(frozen=True)
class Sweep:
    """One loop over arrays. All streams move in step. Instructions count per line of its longest walk."""

    phase: str
    instructions_per_line: float
    streams: tuple[Stream, ...]
    first_touch: bool = False  # maps what it visits
    unmaps: tuple[str, ...] = ()  # arrays that are given back at its end


@dataclass(frozen=True)
class Loops:
    """A whole program: its arrays in the order of memory, and its sweeps in the order of execution."""

    arrays: tuple[Array, ...]
    sweeps: tuple[Sweep, ...]
    # The repeats of each phase; 1 where none is stated.
    repeats: Mapping[str, int] = field(default_factory=dict)


def serial_first_touch(loops: Loops) -> Loops:
    """Return the same program if its first thread touches all pages first, while the others wait."""

    def alone(sweep: Sweep) -> Sweep:
        if not sweep.first_touch:
            return sweep
        return replace(sweep, streams=tuple(replace(one, walk=Walk.serial) for one in sweep.streams))

    return replace(loops, sweeps=tuple(map(alone, loops.sweeps)))


def read(*names: str) -> tuple[Stream, ...]:
    """Return streams of loads."""
    return _streams(names, Kind.read)


def write(*names: str) -> tuple[Stream, ...]:
    """Return streams of stores, or of loads and stores. Their lines are fetched, and later written back."""
    return _streams(names, Kind.write)


def _streams(names: Iterable[str], kind: Kind) -> tuple[Stream, ...]:
    return tuple(Stream(name, kind) for name in names)
