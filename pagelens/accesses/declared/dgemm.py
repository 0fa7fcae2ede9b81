"""A product of matrices by the blocks of BLIS, as of HPL's update (examples/dgemm.cpp is its small twin).

Each thread keeps a packed block of A in its L2, and sweeps it once for every sliver of a packed panel of B,
which all share, and the columns of C that belong to it. A sliver that L1 cannot keep comes from L2 for every
tile of A; here it is met once.
"""

from pagelens.accesses.declared.loops import Array, Kind, Loops, Stream, Sweep, Walk, read, write
from pagelens.address.units import FRAME_BYTES

ROWS, DEPTH, COLUMNS = 240, 384, 14  # of a block of A and of a sliver of B (bli_cntx_init_skx.c)
_ELEMENT = 8
_INSTRUCTIONS = 28.0  # a line of A: slots of issue, two for each of 14 multiply-adds


def panel_slivers(size_bytes: int, threads: int) -> int:
    """Slivers of B for a footprint."""
    a = threads * ROWS * DEPTH
    return max(1, round((size_bytes / _ELEMENT - 2 * a) / (COLUMNS * (2 * DEPTH + threads * ROWS))))


def dgemm(slivers: int, threads: int, repeats: int, rows: int = ROWS) -> Loops:
    """C += A B for one block of A of `rows` a thread; C has the threads' rows and no others."""
    sliver = DEPTH * COLUMNS * _ELEMENT
    columns = threads * rows * COLUMNS * _ELEMENT  # of C, that a sliver updates

    def part(name: str, kind: Kind, size: int, number: int, walk: Walk) -> Stream:
        """The `number`-th of the parts of `size` bytes; they begin with whole pages."""
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
