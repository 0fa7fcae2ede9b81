"""A product of matrices in BLIS's blocks, as HPL's update computes it (examples/dgemm.cpp is its small twin).

Each thread keeps a packed block of A in its L2. It sweeps the block once for every sliver of a packed panel
of B, which all threads share, and for the columns of C that belong to the sliver. A sliver that does not fit
into L1 comes from L2 for every tile of A, but the model reads it once.
"""

from pagelens.accesses.declared.loops import Array, Kind, Loops, Stream, Sweep, Walk, read, write
from pagelens.address.units import FRAME_BYTES

ROWS, DEPTH, COLUMNS = 240, 384, 14  # of a block of A and of a sliver of B (bli_cntx_init_skx.c)
_ELEMENT = 8
_INSTRUCTIONS = 28.0  # a line of A: slots of issue, two for each of 14 multiply-adds


def panel_slivers(size_bytes: int, threads: int) -> int:
    """Return how many slivers of B make the footprint."""
    a = threads * ROWS * DEPTH
    return max(1, round((size_bytes / _ELEMENT - 2 * a) / (COLUMNS * (2 * DEPTH + threads * ROWS))))


def dgemm(slivers: int, threads: int, repeats: int, rows: int = ROWS) -> Loops:
    """Compute C += A B for one block of A of `rows` rows a thread. C has only the rows of the threads."""
    sliver = DEPTH * COLUMNS * _ELEMENT
    columns = threads * rows * COLUMNS * _ELEMENT  # of C, that a sliver updates

    def part(name: str, kind: Kind, size: int, number: int, walk: Walk) -> Stream:
        """Return the `number`-th part of `size` bytes. Parts begin on whole pages."""
        first, end = (round(at * size / FRAME_BYTES) for at in (number, number + 1))
        return Stream(name, kind, first * FRAME_BYTES, (end - first) * FRAME_BYTES, walk=walk)

    def update(number: int) -> Sweep:
        b = part("b_packed", Kind.read, sliver, number, Walk.shared)
        c = part("c", Kind.write, columns, number, Walk.parts)
        return Sweep("update", _INSTRUCTIONS, (*read("a_packed"), b, c))

    sizes = {"a": threads * rows * DEPTH * _ELEMENT, "b": slivers * sliver}
    return Loops(
        (
            *(Array(name, size) for name, size in sizes.items()),
            Array("c", slivers * columns),
            *(Array(f"{name}_packed", size) for name, size in sizes.items()),
        ),
        (
            *(Sweep("initialise", 40.0, write(name), first_touch=True) for name in (*sizes, "c")),
            *(
                Sweep("pack", 40.0, (*read(name), *write(f"{name}_packed")), first_touch=True)
                for name in sizes
            ),
            *map(update, range(slivers)),
        ),
        {"update": repeats},
    )
