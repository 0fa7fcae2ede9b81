"""A 7-point stencil over boxes with ghost cells, in Chombo's manner (examples/stencil.cpp is its small twin).

Each thread owns a cube of boxes. Its cache holds three planes of a box. It holds the faces of a box and of
its neighbours in x, but not the faces of a whole row of boxes. Which lines an exchange of ghost cells moves
follows from the lines that the faces lie in.
"""

from dataclasses import dataclass
from functools import cache

import numpy as np

from pagelens.accesses.declared.loops import Array, Kind, Loops, Stream, Sweep, read, write

CELLS = 32  # a side of a box: Chombo's usual size
_MALLOC_HEADER = 16  # bytes that a mapped block of glibc begins with
_LINE, _CELL = 64, 8


@dataclass(frozen=True)
class Shares:
    """Shares of the lines of a box, ghosts included."""

    ghosts: float  # lines that the exchange writes
    sources: float  # lines that it reads for neighbours that are or were far away by then
    turns: float  # lines of the faces in x, which the ends of a row of boxes read once more
    cells: float  # lines that hold cells
    used: float  # cells or ghosts


@cache
def shares(cells: int) -> Shares:
    """Return the shares, counted over the lines of one box."""
    ghosted = cells + 2
    z, y, x = np.indices((ghosted,) * 3)
    line = (_MALLOC_HEADER + _CELL * ((z * ghosted + y) * ghosted + x)) // _LINE
    inside = [(axis >= 1) & (axis <= cells) for axis in (x, y, z)]

    def face(axis: int, at: int) -> set[int]:
        others = [inside[other] for other in range(3) if other != axis]
        return set(line[((x, y, z)[axis] == at) & others[0] & others[1]].tolist())

    ghosts = set().union(*(face(axis, at) for axis in range(3) for at in (0, cells + 1)))
    in_x = [face(0, at) for at in (1, cells)]
    of_cells = set(line[inside[0] & inside[1] & inside[2]].tolist())
    far = sum(len(face(axis, at)) for axis in (1, 2) for at in (1, cells))
    lines = ghosted**3 * _CELL / _LINE
    return Shares(
        ghosts=len(ghosts) / lines,
        sources=(len(set().union(*in_x) - ghosts) + far) / lines,
        turns=sum(map(len, in_x)) / lines,
        cells=len(of_cells) / lines,
        used=len(of_cells | ghosts) / lines,
    )


def boxes_side(size_bytes: int, threads: int) -> float:
    """Return the number of boxes along a side of each thread's cube.

    It need not be whole, as boxes can be dealt out unevenly.
    """
    return float(np.cbrt(size_bytes / threads / (2 * _CELL * (CELLS + 2) ** 3)))


def stencil(side: float, threads: int, repeats: int, cells: int = CELLS) -> Loops:
    """Return two levels of side^3 boxes a thread, which take turns. A repeat makes two steps."""
    of = shares(cells)
    size = threads * side**3 * _CELL * (cells + 2) ** 3

    def step(phase: str, old: str, new: str) -> tuple[Sweep, ...]:
        again = of.sources + of.turns / side
        return (
            Sweep(phase, 17.0, (Stream(old, Kind.write, stride=1 / of.ghosts),)),
            Sweep(phase, 17.0, (Stream(old, Kind.read, stride=1 / again),)),
            Sweep(
                phase,
                43.0,
                (
                    Stream(old, Kind.read, stride=1 / of.used),
                    Stream(new, Kind.write, stride=1 / of.cells),
                ),
            ),
        )

    def steps(phase: str) -> tuple[Sweep, ...]:
        return (*step(phase, "u", "v"), *step(phase, "v", "u"))

    return Loops(
        (Array("u", size), Array("v", size)),
        (
            Sweep("initialise", 30.0, write("u"), first_touch=True),
            Sweep("initialise", 12.0, (*read("u"), *write("v")), first_touch=True),
            *steps("warm-up"),
            *steps("steps"),
        ),
        {"steps": repeats},
    )
