"""Conjugate gradients on a sparse matrix with 27 entries a row.

The matrix is a stencil, as in HPCCG (examples/cg.cpp is its small twin), or is assembled from finite
elements, as in MiniFE (examples/fe.cpp).

Each thread owns a cube of rows, as each rank of the originals does. The matrix is stored in compressed rows.
A cube with n rows a side has (3 n - 2)^3 entries, because rows at its surface have fewer neighbours. The
model assumes that planes of a cube are too large for the caches above memory, and that neighbouring lines of
rows fit into them.
"""

import numpy as np

from pagelens.accesses.declared.loops import Array, Kind, Loops, Stream, Sweep, read, write

BYTES_PER_ROW = 27 * (8 + 4) + 8 + 5 * 8  # values, columns; row starts; b, x, r, p, ap


def cube_side(size_bytes: int, threads: int) -> int:
    """Return the number of rows along a side of each thread's cube."""
    return int(np.cbrt(size_bytes / threads / BYTES_PER_ROW).round())


def cg(side: int, threads: int, repeats: int) -> Loops:
    """Return conjugate gradients on a 27-point stencil."""
    return Loops(
        _arrays(side, threads),
        (
            Sweep("generate", 60.0, write("columns", "values", "starts", "b"), first_touch=True),
            *_solver(side),
        ),
        {"solve": repeats},
    )


def hpccg(side: int, threads: int, repeats: int) -> Loops:
    """Return the same with all arrays of HPCCG, in its order.

    A row has no start. It has pointers to its values, columns and diagonal, and its number of entries; the
    product reads all but the diagonal. The exact solution is stored, too.
    """
    _, columns, values, b, x, r, ap, p = _arrays(side, threads)
    rows = threads * side**3
    of_row = (Array("entries", 4 * rows), *(Array(f"{of}_of_row", 8 * rows) for of in ("values", "columns")))
    diagonals, exact = (Array(name, 8 * rows) for name in ("diagonals", "exact"))
    generated = (*of_row, diagonals, x, b, exact, values, columns)
    read_by_product = tuple(array.name for array in (*of_row, columns, values))
    return Loops(
        (*generated, r, p, ap),
        (
            Sweep("generate", 60.0, write(*(array.name for array in generated)), first_touch=True),
            *_solver(side, read_by_product)[1:],
        ),
        {"solve": repeats},
    )


def minife(side: int, threads: int, repeats: int) -> Loops:
    """Return finite elements: the pattern of the matrix, its assembly by elements, conjugate gradients.

    A layer of elements adds to the rows of two planes of nodes. It adds nothing to their columns of a third
    plane. These are 72 neighbouring bytes of a row, which hold a whole line at two of eight alignments.
    """
    entries = (3 * side - 2) ** 3
    passed_over = 2 * (side - 2) ** 2 * side / entries  # share of the lines of `values`
    of_plane = 2 / (3 * side - 2)  # share of the entries that the first plane has, and the last

    def layer(name: str, kind: Kind, bytes_: float, plane: float, stride: float = 1.0) -> tuple[Stream, ...]:
        """Return the rows of the two planes that a layer of elements uses."""
        covered = threads * bytes_ * (1 - plane)
        return tuple(Stream(name, kind, shift, covered, stride) for shift in (0, plane * bytes_))

    return Loops(
        _arrays(side, threads),
        (
            Sweep("structure", 380.0, write("columns", "starts"), first_touch=True),
            Sweep("structure", 4.0, write("values"), first_touch=True),
            Sweep(
                "assembly",
                5740.0,  # sums over Gauss points an element, where examples/fe stretches those of a unit cube
                (
                    *layer("starts", Kind.read, 8 * side**3, 1 / side),
                    *layer("columns", Kind.read, 4 * entries, of_plane),
                    *layer("values", Kind.write, 8 * entries, of_plane, 1 / (1 - passed_over)),
                ),
            ),
            Sweep("vectors", 8.0, write("b"), first_touch=True),
            *_solver(side),
        ),
        {"solve": repeats},
    )


def minife_solve(side: int, threads: int, repeats: int) -> Loops:
    """Return MiniFE's iterations on a matrix that exists already.

    Everything else only takes its frames, in MiniFE's order. The program moves a third of MiniFE's lines, and
    its `solve` is the same.
    """
    whole = minife(side, threads, repeats)
    kept = (sweep for sweep in whole.sweeps if sweep.first_touch or sweep.phase in ("warm-up", "solve"))
    return Loops(whole.arrays, tuple(kept), whole.repeats)


def _arrays(side: int, threads: int) -> tuple[Array, ...]:
    rows, entries = threads * side**3, threads * (3 * side - 2) ** 3
    matrix = (Array("starts", 8 * rows), Array("columns", 4 * entries), Array("values", 8 * entries))
    return (*matrix, *(Array(name, 8 * rows) for name in ("b", "x", "r", "ap", "p")))


def _solver(side: int, matrix: tuple[str, ...] = ("starts", "columns", "values")) -> tuple[Sweep, ...]:
    """Return the solver: it starts at x = 0, warms the caches by one iteration, and runs measured ones.

    The first sweep makes x.
    """
    plane = side * side * 8

    def product(source: str) -> tuple[Stream, ...]:
        planes = tuple(Stream(source, Kind.read, shift) for shift in (plane, 0, -plane))
        return (*read(*matrix), *planes, *write("ap"))

    iteration = (  # (instructions a line of the longest array, streams), as examples/sparse.hpp executes them
        (34.0, product("p")),
        (16.0, read("p", "ap")),  # p . ap
        (18.0, (*read("p"), *write("x"))),  # x += alpha p
        (18.0, (*read("ap"), *write("r"))),  # r -= alpha ap
        (14.0, read("r")),  # r . r
        (18.0, (*read("r"), *write("p"))),  # p = r + beta p
    )
    return (
        Sweep("vectors", 8.0, write("x"), first_touch=True),
        Sweep("start", 8.0, write("r"), first_touch=True),
        Sweep("start", 8.0, write("ap"), first_touch=True),
        Sweep("start", 34.0, product("x")),
        Sweep("start", 18.0, (*read("b", "ap"), *write("r"))),  # r = b - ap
        Sweep("start", 12.0, (*read("r"), *write("p")), first_touch=True),  # p = r
        Sweep("start", 14.0, read("b")),  # b . b
        Sweep("start", 14.0, read("r")),  # r . r
        *(Sweep("warm-up", cost, moved) for cost, moved in iteration),
        *(Sweep("solve", cost, moved) for cost, moved in iteration),
    )
