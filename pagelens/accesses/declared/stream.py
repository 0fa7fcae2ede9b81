"""STREAM 5.10 (McCalpin): arrays a, b, c in this order (examples/stream.c is the small twin).

N is the size over three arrays of doubles; OFFSET is a policy's `+offset-SIZE` (docs/remedies.md).
"""

from collections.abc import Callable

from pagelens.accesses.declared.loops import Array, Kind, Loops, Stream, Sweep, read, write

# Loads, store, and vector instructions a line of 8 doubles (AVX-512 and a loop unrolled by four).
KERNELS = {
    "copy": ("a", "c", 2.5),
    "scale": ("c", "b", 3.5),
    "add": ("ab", "c", 4.5),
    "triad": ("bc", "a", 4.5),
}


def stream(kernel: str, store: Kind) -> Callable[[int, int, int], Loops]:
    """One of its kernels; `store` says whether its stores pass the caches."""
    return lambda size_bytes, threads, repeats: _stream((kernel,), store, size_bytes, repeats)


def all_kernels(store: Kind) -> Callable[[int, int, int], Loops]:
    """The whole of it: all kernels in turn, a phase each."""
    return lambda size_bytes, threads, repeats: _stream(tuple(KERNELS), store, size_bytes, repeats)


def _stream(kernels: tuple[str, ...], store: Kind, size_bytes: int, repeats: int) -> Loops:
    def sweep(phase: str, kernel: str) -> Sweep:
        loads, stored, instructions = KERNELS[kernel]
        return Sweep(phase, instructions, (*read(*loads), Stream(stored, store)))

    return Loops(
        tuple(Array(name, size_bytes / 3) for name in "abc"),
        (
            Sweep("initialise", 4.5, write(*"abc"), first_touch=True),
            *(sweep("warm-up", kernel) for kernel in kernels),  # STREAM leaves its first repeat out, too
            *(sweep(kernel, kernel) for kernel in kernels),
        ),
        dict.fromkeys(kernels, repeats),
    )
