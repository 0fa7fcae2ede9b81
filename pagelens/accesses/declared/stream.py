"""STREAM 5.10 (McCalpin): arrays a, b, c in this order."""

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
    loads, stored, instructions = KERNELS[kernel]

    def loops(size_bytes: int, threads: int, repeats: int) -> Loops:
        streams = (*read(*loads), Stream(stored, store))
        return Loops(
            tuple(Array(name, size_bytes / 3) for name in "abc"),
            (
                Sweep("initialise", instructions, write(*"abc"), first_touch=True),
                Sweep("warm-up", instructions, streams),  # STREAM leaves its first repeat out, too
                Sweep(kernel, instructions, streams),
            ),
            {kernel: repeats},
        )

    return loops
