"""How unevenly ranks or threads are busy, and what those that wait for the slowest take."""

import sys
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class RankLoad:
    """What the cores of each rank of a job have to do, as multiples of the mean over all cores.

    Ranks meet at the end of each round, so the rank that has most to do in a round decides how long it takes.
    A round has its share of the row: the multiples of a rank that is busy like the mean core add up to 1.
    In a process of several threads, these take the place of ranks (`accesses.thread_load`).
    """

    instructions: Sequence[Floats]  # [row] arrays [round, rank]
    lines: Sequence[Floats]  # [row] arrays [round, rank], past the first cache
    shares: Sequence[Floats]  # [row] arrays [round]: that of the row's lines which all cores move in it

    def of_rows(self, rows: NDArray[np.int64] | slice) -> "RankLoad":
        """Return the load of other rows, each of which is one of these."""
        numbers = np.arange(len(self.instructions))[rows]
        every = (self.instructions, self.lines, self.shares)
        return RankLoad(*([of[row] for row in numbers] for of in every))

    def mean_share(self, issue: Floats, stalls: Floats) -> float:
        """Return the share of the time that the mean core is busy, given the seconds [row] of the slowest."""
        issue, stalls = self.of_mean(issue, stalls)
        longest = self.slowest(issue, stalls).sum()
        return float((issue + stalls).sum() / longest) if longest > 0 else 1.0

    def of_mean(self, issue: Floats, stalls: Floats) -> tuple[Floats, Floats]:
        """Return the seconds [row] of the mean core, given those of the slowest."""
        most_instructions, most_lines = self.most()
        return issue / most_instructions, stalls / most_lines

    def most(self) -> tuple[Floats, Floats]:
        """Return the slowest's time over the mean core's [row], by instructions alone and by lines alone."""
        ones = np.ones(len(self.instructions))
        return self.slowest(ones, 0 * ones), self.slowest(0 * ones, ones)

    def working(self) -> list[tuple[Floats, Floats]]:
        """Return for each row the share [round] of its lines, and that of all cores that move them at a time.

        A round is as long as its busiest rank is, and the mean core has the round's share of lines to move.
        """
        return [
            (shares, np.minimum(1.0, shares / np.maximum(lines.max(axis=1), sys.float_info.min)))
            for lines, shares in zip(self.lines, self.shares, strict=True)
        ]

    def slowest(self, issue: Floats, stalls: Floats) -> Floats:
        """Return the seconds [row] of ranks that wait for the slowest, given those of the mean core."""
        rows = zip(issue, stalls, self.instructions, self.lines, strict=True)
        return np.array([(a * each + b * lines).max(axis=1).sum() for a, b, each, lines in rows])
