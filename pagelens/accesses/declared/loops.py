"""How a program is declared: arrays, and loops that walk them."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

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
    """An array that a sweep walks."""

    array: str
    kind: Kind
    shift_bytes: float = 0.0  # where in the array the walk begins: a stencil's neighbouring planes, a block
    bytes: float | None = None  # how far it goes; None: as far as the array is long
    stride: float = 1.0  # of `stride` lines one is moved
    walk: Walk = Walk.parts


@dataclass(frozen=True)
class Sweep:
    """One loop over arrays, all streams in step; instructions are per line of its longest walk."""

    phase: str
    instructions_per_line: float
    streams: tuple[Stream, ...]
    first_touch: bool = False  # maps what it visits
    unmaps: tuple[str, ...] = ()  # arrays that are given back at its end


@dataclass(frozen=True)
class Loops:
    """A whole program: arrays in the order of memory, sweeps in the order of execution."""

    arrays: tuple[Array, ...]
    sweeps: tuple[Sweep, ...]
    repeats: Mapping[str, int] = field(default_factory=dict)  # by phase; 1 where not stated


def read(*names: str) -> tuple[Stream, ...]:
    """Streams of loads."""
    return _streams(names, Kind.read)


def write(*names: str) -> tuple[Stream, ...]:
    """Streams of stores, or of loads and stores: fetched, later written back."""
    return _streams(names, Kind.write)


def _streams(names: Iterable[str], kind: Kind) -> tuple[Stream, ...]:
    return tuple(Stream(name, kind) for name in names)
