"""Declared workloads: the loops of well-known programs, stated at any size instead of traced.

Each module states one family of programs. It names a small real program in examples/ that moves the same
lines (tests/python/test_twins.py, docs/declared.md).
"""

from collections.abc import Callable

from pagelens.accesses.declared.contained import fft, l2_sum, shallow
from pagelens.accesses.declared.dgemm import dgemm, panel_slivers
from pagelens.accesses.declared.hydro import elements_side, hydro
from pagelens.accesses.declared.loops import Array, Kind, Loops, Stream, Sweep, Walk, serial_first_touch
from pagelens.accesses.declared.random_access import gups_hot, gups_regions, random_access
from pagelens.accesses.declared.sparse import cg, cube_side, hpccg, minife, minife_solve
from pagelens.accesses.declared.stencil import boxes_side, stencil
from pagelens.accesses.declared.stream import KERNELS, all_kernels, stream
from pagelens.accesses.declared.workload import DeclaredWorkload
from pagelens.address.units import FRAME_BYTES
from pagelens.errors import UsageError
from pagelens.spelling import nearest
from pagelens.units import format_size

__all__ = [
    "DECLARED",
    "REPEATS",
    "Array",
    "DeclaredWorkload",
    "Kind",
    "Loops",
    "Stream",
    "Sweep",
    "Walk",
    "declared",
]

_WORKLOADS: dict[str, Callable[[int, int, int], Loops]] = {  # of (size in bytes, threads, repeats)
    "stream": all_kernels(Kind.stream_store),
    **{f"stream-{kernel}": stream(kernel, Kind.stream_store) for kernel in KERNELS},
    "triad": stream("triad", Kind.write),  # has the ordinary stores that compilers make of examples/triad.c
    "cg": lambda size, threads, repeats: cg(cube_side(size, threads), threads, repeats),
    "hpccg": lambda size, threads, repeats: hpccg(cube_side(size, threads), threads, repeats),
    "minife": lambda size, threads, repeats: minife(cube_side(size, threads), threads, repeats),
    "minife-solve": lambda size, threads, repeats: minife_solve(cube_side(size, threads), threads, repeats),
    "random-access": random_access,
    "gups-hot": gups_hot,
    "gups-regions": gups_regions,
    "stencil": lambda size, threads, repeats: stencil(boxes_side(size, threads), threads, repeats),
    "l2-sum": l2_sum,
    "shallow": shallow,
    "fft": fft,
    "dgemm": lambda size, threads, repeats: dgemm(panel_slivers(size, threads), threads, repeats),
    "hydro": lambda size, threads, repeats: hydro(elements_side(size), threads, repeats),
}
DECLARED = tuple(_WORKLOADS)
SERIAL = "-serial"  # after a workload's name: its first thread initialises all arrays
_LEAST_PAGES = dict.fromkeys(("l2-sum", "shallow", "fft"), 16)  # a thread; of all others 1024
REPEATS = 1  # measured sweeps or iterations, after one that warms the caches; more would count the same again


def declared(name: str, size_bytes: int, threads: int, repeats: int = REPEATS) -> DeclaredWorkload:
    """Return a declared workload of about `size_bytes`, of which each thread has a part of every array.

    NAME-serial is the same program if its first thread initialises all arrays.

    Raises UsageError for an unknown name, which it answers with the nearest known one. Raises it also for
    less than 4 MiB a thread, or less than 64 KiB if the workload lives in L2.
    """
    parallel = name.removesuffix(SERIAL)
    make = _WORKLOADS.get(name) or _WORKLOADS.get(parallel)
    if make is None:
        raise UsageError(f"workload: {name!r} is not declared; did you mean {nearest(name, DECLARED)}?")
    least = threads * _LEAST_PAGES.get(parallel, 1024) * FRAME_BYTES
    if size_bytes < least:
        raise UsageError(
            f"size: {format_size(size_bytes)} for {threads} threads of {name}: at least {format_size(least)}"
        )
    loops = make(size_bytes, threads, repeats)
    if name != parallel:
        loops = serial_first_touch(loops)
    return DeclaredWorkload(name, loops, threads)
