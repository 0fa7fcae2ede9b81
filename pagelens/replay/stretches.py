"""Scales what stretches of a run counted up to the whole run, and estimates the error.

A long phase is simulated in stretches at equal distances (pagelens/replay/whole_node.py). Their counts of the
program's own lines are scaled up by the lines of the phase. Lines that the kernel clears are not: faults are
rare, and a stretch that meets one by chance would stand for many. Cleared lines are counted in the whole
phase, and each is a line written to memory.

The jackknife estimates how far another choice of stretches could be from this one. It takes the counts of a
phase without each of its stretches in turn (Efron, Stein: The Jackknife Estimate of Variance, Ann. Statist. 9
(1981), 586-596).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pagelens import _core

Floats = NDArray[np.float64]
Counts = Mapping[str, Floats]

CACHES = tuple(_core.cache_counter_names())
DRAM = tuple(_core.dram_sum_names())
TRANSLATION = ("stlb_hits", "walks", "walker_loads")
_READS, _WRITES, _LATENCY = (DRAM.index(name) for name in ("reads", "writes", "read_latency_ps"))


@dataclass(frozen=True)
class Estimates:
    """Counts of whole phases, one entry for each row. Each twin of DRAM has counts of its own.

    Caches have the counters of `_core.cache_counter_names()`. TLBs have stlb_hits, walks and walker_loads,
    which are the page table entries that walks read. DRAM has those of `_core.dram_sum_names()`, with times
    in seconds as dram_time_s and read_latency_s.
    """

    phase: NDArray[np.int64]  # of each row
    counts: Counts
    rows: Sequence[Counts]

    def with_row(self, number: int) -> Counts:
        """Return all counts, with DRAM's of the given twin."""
        return {**self.counts, **(self.rows[number] if self.rows else {})}


def moved_in_run(found: _core.NodeCounters, scales: Floats | float = 1.0) -> Floats:
    """Return `found.lines`, the lines [phase, 4], of the whole run, if those of a phase stand for more.

    Cleared lines are always those of the whole run.
    """
    moved = np.array(found.lines, dtype=np.float64)
    moved[:, 0] *= scales
    return moved


def estimates(found: _core.NodeCounters, moved: Floats) -> tuple[Estimates, Estimates]:
    """Return the estimates of each phase from all its stretches, and those without each of its stretches.

    `moved` is what `moved_in_run` returns.
    A phase that was simulated whole, or in one stretch, has no entry in the second.
    """
    stretches = np.asarray(found.stretches, dtype=np.float64).reshape(-1, 3)
    phase = stretches[:, 0].astype(np.int64)
    tlb = [(sum(t.stlb_hits), sum(t.walks_completed), sum(t.walker_loads)) for t in found.tlb]
    drams = np.asarray(found.drams, dtype=np.float64)
    parts = (
        stretches[:, 1:],
        np.asarray(found.caches, dtype=np.float64),
        np.asarray(tlb, dtype=np.float64).reshape(-1, len(TRANSLATION)),
        drams,
    )
    phases = len(moved)
    sums = [_by_phase(part, phase, phases) for part in parts]
    of_each = np.bincount(phase[stretches[:, 1] > 0], minlength=phases)
    left_out = np.flatnonzero((stretches[:, 1] > 0) & (of_each[phase] > 1))
    rest = [total[phase[left_out]] - part[left_out] for total, part in zip(sums, parts, strict=True)]
    of_rest = phase[left_out]
    return (
        _estimated(found, moved, np.arange(phases), sums),
        _estimated(found, moved[of_rest], of_rest, rest),
    )


def _by_phase(part: Floats, phase: NDArray[np.int64], phases: int) -> Floats:
    total = np.zeros((phases, *part.shape[1:]))
    np.add.at(total, phase, part)
    return total


def _estimated(
    found: _core.NodeCounters, moved: Floats, phase: NDArray[np.int64], sums: Sequence[Floats]
) -> Estimates:
    """Return the estimates of rows [r], each of a phase, from what some of its stretches counted."""
    counted_lines, caches, tlb, drams = sums
    lines, cleared, cleared_large, simulated_large = moved.T
    of_lines, of_cleared = counted_lines.T
    scale = np.divide(lines, of_lines, out=np.ones(len(lines)), where=of_lines > 0)
    counts = dict(zip(CACHES, caches.T * scale, strict=True))
    counts["dram_writes"] = counts["dram_writes"] - of_cleared * scale + cleared
    counts |= dict(zip(TRANSLATION, tlb.T * scale, strict=True))
    large = np.asarray(found.large_drams, dtype=np.float64)[phase]
    rows = []
    for number in range(drams.shape[1]):
        own, apart = drams[:, number], large[:, number]
        counted = own[:, _READS] + own[:, _WRITES]
        average = own.sum(axis=0) / max(1.0, counted.sum())
        # All lines that DRAM moves, without those of large pages while they are cleared.
        in_all = (counted - of_cleared) * scale + cleared - cleared_large
        of_line = np.where(counted[:, None] > 0, own / np.maximum(counted, 1)[:, None], average)
        cost = of_line * in_all[:, None]
        cost += apart * (cleared_large / np.maximum(simulated_large, 1))[:, None]
        cost[:, _READS] = own[:, _READS] * scale
        cost[:, _LATENCY] = own[:, _LATENCY] * scale
        cost[:, _WRITES] = (own[:, _WRITES] - of_cleared) * scale + cleared
        row = dict(zip(DRAM, cost.T, strict=True))
        row["dram_time_s"] = 1e-12 * row.pop("time_ps")
        row["read_latency_s"] = 1e-12 * row.pop("read_latency_ps")
        rows.append(row)
    return Estimates(phase, counts, rows)
