"""STREAM 5.10 (McCalpin) with its arrays a, b, c in this order (examples/stream.c is its small twin).

N is the size divided by three arrays of doubles. For OFFSET use a policy's `+offset-SIZE` (docs/remedies.md).
"""

from collections.abc import Callable

from pagelens.accesses.declared.loops import Array, Kind, Loops, Stream, Sweep, read, write

# The loads, the store, and the vector instructions per line of 8 doubles (AVX-512, loop unrolled by four).
KERNELS = {
    "copy": ("a", "c", 2.5),
    "scale": ("c", "b", 3.5),
    "add": ("ab", "c", 4.5),
    "triad": ("bc", "a", 4.5),
}


def stream(kernel: str, store: Kind) -> Callable[[int, int, int], Loops]:
    """Return one kernel of STREAM. `store` says whether its stores bypass the caches."""
    return lambda size_bytes, threads, repeats: _stream((kernel,), store, size_bytes, repeats)


def all_kernels(store: Kind) -> Callable[[int, int, int], Loops]:
    """Return all kernels in turn, each as a phase."""
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
