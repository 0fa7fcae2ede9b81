"""What DGEMM's inner loops ask of the L2s, in BLIS's blocks (examples/dgemm.cpp is the small real twin).

Each core keeps a packed block of A. It sweeps the block once for every sliver of a packed panel of B, which
all cores share, and updates its part of C tile by tile. A tile of A and a sliver of B together do not fit
into an L1.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pagelens import _core
from pagelens.address.units import LINE_BYTES
from pagelens.reproduce.programs.pages import PAGE_LINES, Numbers

TILE_ROWS, TILE_COLUMNS = 16, 14  # of BLIS's kernel for skx
ELEMENT_BYTES = 8  # double precision


@dataclass(frozen=True)
class Accesses:
    """Accesses in the order of time."""

    lines: Numbers  # virtual: address / 64
    cores: NDArray[np.uint32]
    kinds: NDArray[np.uint8]


@dataclass(frozen=True)
class Blocks:
    """The sizes and places of the blocks: the cores' blocks of A, then B, then C in pages of its own."""

    cores: int
    tiles: int  # the tiles in a block of A
    depth: int
    slivers: int  # the slivers of B
    c_rows: int  # the rows of the whole matrix, which is how long C's columns are

    @property
    def rows(self) -> int:
        """The rows of a core's block of A."""
        return self.tiles * TILE_ROWS

    @property
    def tile_lines(self) -> int:
        """The lines of a tile of A."""
        return TILE_ROWS * self.depth * ELEMENT_BYTES // LINE_BYTES

    @property
    def sliver_lines(self) -> int:
        """The lines of a sliver of B."""
        return TILE_COLUMNS * self.depth * ELEMENT_BYTES // LINE_BYTES

    @property
    def b_line(self) -> int:
        """The first line of B."""
        return self.cores * self.tiles * self.tile_lines

    @property
    def workspace_pages(self) -> int:
        """The number of 2 MiB pages that hold A and B."""
        return -(-(self.b_line + self.slivers * self.sliver_lines) // PAGE_LINES)

    @property
    def c_line(self) -> int:
        """The first line of C."""
        return self.workspace_pages * PAGE_LINES

    def accesses(self, slivers: range, sampled: int = 1) -> Accesses:
        """Return the accesses for some slivers of B.

        They proceed by the rows of a tile. In each step the cores follow one after the other. `sampled` keeps
        one line in so many.
        """

        def some(lines: NDArray[np.int64]) -> Numbers:
            chosen: Numbers = lines[lines % sampled == sampled // 2].astype(np.uint64)
            return chosen

        parts: list[tuple[Numbers, int, int]] = []
        for sliver in slivers:
            b = some(self.b_line + sliver * self.sliver_lines + np.arange(self.sliver_lines))
            for tile in range(self.tiles):
                for core in range(self.cores):
                    number = core * self.tiles + tile
                    a = some(number * self.tile_lines + np.arange(self.tile_lines))
                    parts += [
                        (a, core, _core.AccessKind.read),
                        (b, core, _core.AccessKind.read),
                        (some(self._tile_of_c(sliver, number)), core, _core.AccessKind.write),
                    ]
        sizes = [len(lines) for lines, _, _ in parts]
        return Accesses(
            np.concatenate([lines for lines, _, _ in parts]),
            np.repeat(np.array([core for _, core, _ in parts], dtype=np.uint32), sizes),
            np.repeat(np.array([kind for _, _, kind in parts], dtype=np.uint8), sizes),
        )

    def _tile_of_c(self, sliver: int, tile: int) -> NDArray[np.int64]:
        """Return the lines of a tile, which are parts of columns."""
        columns = (sliver * TILE_COLUMNS + np.arange(TILE_COLUMNS)) * self.c_rows
        rows = tile * TILE_ROWS + np.arange(0, TILE_ROWS, LINE_BYTES // ELEMENT_BYTES)
        elements = columns[:, None] + rows[None, :]
        return self.c_line + elements.ravel() * ELEMENT_BYTES // LINE_BYTES
