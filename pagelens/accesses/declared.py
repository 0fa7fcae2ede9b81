"""Declared workloads: the loops of well-known programs, stated at any size instead of traced."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from itertools import accumulate

from pagelens import _core
from pagelens.accesses.workload import ObjectInfo, Workload
from pagelens.errors import UsageError
from pagelens.machine.quantities import FRAME_BYTES
from pagelens.machine.schema import Machine, PrivateCache
from pagelens.names import nearest
from pagelens.units import format_size

Kind = _core.StreamKind


@dataclass(frozen=True)
class Array:
    """One array of a workload; `bytes` is its size over all threads."""

    name: str
    bytes: float


@dataclass(frozen=True)
class Stream:
    """An array that a sweep walks; `shift_bytes` moves the walk (a stencil's neighbouring planes)."""

    array: str
    kind: Kind
    shift_bytes: float = 0.0


@dataclass(frozen=True)
class Sweep:
    """One loop over arrays, all streams in step; instructions are per line of its longest array."""

    phase: str
    instructions_per_line: float
    streams: tuple[Stream, ...]
    first_touch: bool = False


@dataclass(frozen=True)
class Loops:
    """A whole program: arrays in the order of memory, sweeps in the order of execution."""

    arrays: tuple[Array, ...]
    sweeps: tuple[Sweep, ...]
    repeats: Mapping[str, int] = field(default_factory=dict)  # by phase; 1 where not stated


class DeclaredWorkload(Workload):
    """Loops as a Workload. Its private caches are replayed per placement, whatever the page size."""

    def __init__(self, name: str, loops: Loops, threads: int) -> None:
        super().__init__()
        self.name, self.source, self.threads = name, "declared", threads
        self.digest = hashlib.sha256(repr((name, loops, threads)).encode()).hexdigest()
        self.share_seen, self.warnings = None, []
        self.phases = list(dict.fromkeys(sweep.phase for sweep in loops.sweeps))
        self.measured_phase = self.phases[-1]
        pages = [max(threads, round(array.bytes / FRAME_BYTES)) for array in loops.arrays]
        self.footprint_bytes = sum(pages) * FRAME_BYTES
        self.objects = [ObjectInfo(0, "[kernel: page clearing]")] + [
            ObjectInfo(index, array.name, bytes=count * FRAME_BYTES)
            for index, (array, count) in enumerate(zip(loops.arrays, pages, strict=True), start=1)
        ]
        ends = accumulate(pages)
        least = _core.large_block_bytes // FRAME_BYTES
        self.large_blocks = [end - count for end, count in zip(ends, pages, strict=True) if count >= least]
        self._loops, self._pages = loops, pages

    def _compile(
        self,
        machine: Machine,
        caches: tuple[PrivateCache, ...],
        page_bits: int,
        in_order: bool,
        padding: _core.Padding,
    ) -> _core.Program:
        return _to_core(self._loops, self.phases, self._pages, self.threads, in_order, padding)


def _to_core(
    loops: Loops,
    phases: list[str],
    pages: list[int],
    threads: int,
    in_order: bool,
    padding: _core.Padding,
) -> _core.Program:
    index = {array.name: position for position, array in enumerate(loops.arrays)}
    sweeps = [
        (
            phases.index(sweep.phase),
            sweep.first_touch,
            sweep.instructions_per_line,
            [(index[s.array], s.kind, round(s.shift_bytes / FRAME_BYTES)) for s in sweep.streams],
        )
        for sweep in loops.sweeps
    ]
    repeats = [loops.repeats.get(phase, 1) for phase in phases]
    return _core.declare_sweeps(pages, sweeps, repeats, threads, in_order, padding)


# --- STREAM 5.10 (McCalpin): arrays a, b, c in this order ---

_STREAM = {  # loads, store, and vector instructions a line of 8 doubles (AVX-512 and a loop unrolled by four)
    "copy": ("a", "c", 2.5),
    "scale": ("c", "b", 3.5),
    "add": ("ab", "c", 4.5),
    "triad": ("bc", "a", 4.5),
}


def _stream(kernel: str, store: Kind) -> Callable[[int, int, int], Loops]:
    loads, stored, instructions = _STREAM[kernel]

    def loops(size_bytes: int, threads: int, repeats: int) -> Loops:
        arrays = tuple(Array(name, size_bytes / 3) for name in "abc")
        streams = (*(Stream(name, Kind.read) for name in loads), Stream(stored, store))
        first = tuple(Stream(name, Kind.write) for name in "abc")
        return Loops(
            arrays,
            (
                Sweep("initialise", instructions, first, first_touch=True),
                Sweep("warm-up", instructions, streams),  # STREAM leaves its first repeat out, too
                Sweep(kernel, instructions, streams),
            ),
            {kernel: repeats},
        )

    return loops


# --- conjugate gradients on a 27-point stencil, in HPCCG's manner (examples/cg.cpp is its small twin) ---


def _cg(size_bytes: int, threads: int, repeats: int) -> Loops:
    """Each thread owns a cube of rows, as each rank of HPCCG does; the matrix is in compressed rows."""
    per_row = 27 * (8 + 4) + 8 + 5 * 8  # values, columns; row starts; b, x, r, p, ap
    side = round((size_bytes / threads / per_row) ** (1 / 3))
    rows, entries = threads * side**3, threads * (3 * side - 2) ** 3  # the boundary has fewer neighbours
    plane = side * side * 8
    vectors = {name: Array(name, 8 * rows) for name in ("b", "x", "r", "ap", "p")}
    matrix = (Array("starts", 8 * rows), Array("columns", 4 * entries), Array("values", 8 * entries))
    read, write = Kind.read, Kind.write

    def streams(kinds: Mapping[str, Kind]) -> tuple[Stream, ...]:
        return tuple(Stream(name, kind) for name, kind in kinds.items())

    def product(source: str) -> tuple[Stream, ...]:
        planes = tuple(Stream(source, read, shift) for shift in (plane, 0, -plane))
        return streams({"starts": read, "columns": read, "values": read}) + planes + (Stream("ap", write),)

    iteration = (  # (instructions a line of the longest array, streams), as examples/cg.cpp executes them
        (34.0, product("p")),
        (16.0, streams({"p": read, "ap": read})),  # p . ap
        (18.0, streams({"p": read, "x": write})),  # x += alpha p
        (18.0, streams({"ap": read, "r": write})),  # r -= alpha ap
        (14.0, streams({"r": read})),  # r . r
        (18.0, streams({"r": read, "p": write})),  # p = r + beta p
    )
    generate = streams({"columns": write, "values": write, "starts": write, "b": write})
    return Loops(
        (*matrix, *vectors.values()),
        (
            Sweep("generate", 60.0, generate, first_touch=True),
            *(
                Sweep("generate", 8.0, (Stream(name, write),), first_touch=True)
                for name in ("x", "r", "ap", "p")
            ),
            *(Sweep("warm-up", cost, moved) for cost, moved in iteration),
            *(Sweep("solve", cost, moved) for cost, moved in iteration),
        ),
        {"solve": repeats},
    )


# --- what a user names ---

_WORKLOADS: dict[str, Callable[[int, int, int], Loops]] = {
    **{f"stream-{kernel}": _stream(kernel, Kind.stream_store) for kernel in _STREAM},
    "triad": _stream("triad", Kind.write),  # with ordinary stores, as a compiler makes it of examples/triad.c
    "cg": _cg,
}
DECLARED = tuple(_WORKLOADS)
REPEATS = 1  # measured sweeps or iterations, after one that warms the caches; more would count the same again


def declared(name: str, size_bytes: int, threads: int, repeats: int = REPEATS) -> DeclaredWorkload:
    """A declared workload of about `size_bytes`, run by `threads` threads, each with a part of every array.

    Raises UsageError for an unknown name (naming the nearest) and for less than 4 MiB a thread.
    """
    if name not in _WORKLOADS:
        raise UsageError(f"workload: {name!r} is not declared; did you mean {nearest(name, DECLARED)}?")
    least = threads * 1024 * FRAME_BYTES
    if size_bytes < least:
        raise UsageError(
            f"size: {format_size(size_bytes)} for {threads} threads of {name}: at least {format_size(least)}"
        )
    return DeclaredWorkload(name, _WORKLOADS[name](size_bytes, threads, repeats), threads)
