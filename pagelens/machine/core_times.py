"""The time that a core takes for a program's instructions, from the samples of its trace.

`pagelens/replay/core_model.py` makes these figures. The time model multiplies them by counts.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

LEVELS = ("l2", "l3", "memory")  # the levels that may serve an access that misses L1
DENSITIES = (1.0, 0.25, 0.0625, 0.015625)  # shares of the accesses past the first filter that miss


@dataclass(frozen=True)
class CoreTimes:
    """The figures of each phase [p] of a program on a machine."""

    cycles: Floats  # [p] of an instruction if every load hits L1, wrong guesses of branches included
    load_cycles: Floats  # [p] of an instruction that its loads keep their ports busy
    mispredicted: Floats  # [p] branches of an instruction that were not foreseen
    # The following arrays concern accesses that a level may have to serve, because their data do not fit into
    # the nearer ones.
    past_filter: Floats  # [p, level] those of an instruction that the tracer's first filter passed on
    irregular: Floats  # [p, level] the share of these that are loads and that no prefetcher foresees
    irregular_stores: Floats  # [p, level] the same of stores
    overlap: Floats  # [p, level, density] misses of such loads that a core waits for at a time

    def of_rows(self, phase: NDArray[np.int64]) -> CoreTimes:
        """Return the figures of rows [r], given the phase of each row."""
        return CoreTimes(
            self.cycles[phase],
            self.load_cycles[phase],
            self.mispredicted[phase],
            self.past_filter[phase],
            self.irregular[phase],
            self.irregular_stores[phase],
            self.overlap[phase],
        )

    def foreseen_lines(self, level: str, instructions: Floats, lines: Floats) -> Floats:
        """Return how many of the lines that `level` serves a prefetcher foresees, for each phase."""
        of = LEVELS.index(level)
        irregular = self.irregular[:, of] + self.irregular_stores[:, of]
        return lines * np.maximum(1 - self._sampled(instructions, lines) * irregular, 0)

    def in_buffers(
        self, instructions: Floats, lines: Mapping[str, Floats], waiting: Mapping[str, Floats]
    ) -> Floats:
        """Return the seconds, for each phase, that irregular lines keep the L1s' miss buffers busy.

        They are added up over all buffers. The parameters are those of `stalls`. A prefetcher's lines are
        kept in other buffers.
        """
        busy = np.zeros_like(self.cycles)
        for level, name in enumerate(LEVELS):
            if name in waiting:
                irregular = self.irregular[:, level] + self.irregular_stores[:, level]
                busy += waiting[name] * self._sampled(instructions, lines[name]) * irregular
        return busy

    def stalls(
        self, instructions: Floats, lines: Mapping[str, Floats], waiting: Mapping[str, Floats]
    ) -> Floats:
        """Return the seconds that all cores together stand still, for each phase.

        `lines` gives by level how many lines it serves, and `waiting` the seconds if each line were waited
        for alone. The overlap is interpolated between the densities on either side, by the logarithm of the
        density.
        """
        stalls = np.zeros_like(self.cycles)
        grid = -np.log2(np.asarray(DENSITIES))
        for level, name in enumerate(LEVELS):
            if name not in lines:
                continue
            accesses = np.maximum(self.past_filter[:, level] * instructions, 1)
            density = np.clip(lines[name] / accesses, DENSITIES[-1], DENSITIES[0])
            overlap = [
                np.interp(-np.log2(at), grid, table)
                for at, table in zip(density, self.overlap[:, level], strict=True)
            ]
            irregular = self._sampled(instructions, lines[name]) * self.irregular[:, level]
            stalls += waiting[name] * irregular / np.asarray(overlap)
        return stalls

    def _sampled(self, instructions: Floats, lines: Floats) -> Floats:
        """Return the share of a level's lines that accesses such as those of the samples can ask for.

        One string operation (rep stosb) can move millions of lines, one after the other. It is one
        instruction, so the samples tell nothing of these lines. Of the others there are no more than there
        are accesses.
        """
        return np.minimum(self.past_filter[:, 0] * instructions / np.maximum(lines, 1), 1)
