"""Scales what stretches of a run counted up to the whole run, and estimates the error.

A long phase is simulated in stretches at equal distances (pagelens/replay/whole_node.py). Their counts of the
program's own lines are scaled up by the lines of the phase. Lines that the kernel clears are not: faults are
rare, and a stretch that meets one by chance would stand for many. Cleared lines are counted in the whole
phase, and each is a line written to memory.

The first fetch of each line is rare in the same way, and no cache can save it. So first fetches are counted
in the whole phase, too (`FirstFetches`). What is scaled up are the other reads of memory: those of the
stretches, less the first fetches in them. This is a difference estimator (Cochran: Sampling Techniques, 3rd
edition, 1977, section 7.3): it is without bias, and no estimate falls below the compulsory misses.

The jackknife estimates how far another choice of stretches could be from this one. It takes the counts of a
phase without each of its stretches in turn (Efron, Stein: The Jackknife Estimate of Variance, Ann. Statist. 9
(1981), 586-596).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pagelens import _core
from pagelens.accesses.workload import ALL_SETS
from pagelens.address.units import FRAME_BYTES, HUGE_PAGE_BITS, LINE_BYTES
from pagelens.machine import FAULT_COUNTS

Floats = NDArray[np.float64]
Counts = Mapping[str, Floats]
# A phase each, in lines of all ranks: period, stretch, warm-up, begin and recalled lines (excerpt.hpp).
Excerpts = Sequence[tuple[int, int, int, int, int]]

CACHES = tuple(_core.cache_counter_names())
DRAM = tuple(_core.dram_sum_names())
TRANSLATION = ("stlb_hits", "walks", "walker_loads")
# Each first fetch counts in these.
PAST_CACHES = ("l2_misses", "l2_lines_in", "l3_misses", "dram_reads")
_READS, _WRITES, _LATENCY = (DRAM.index(name) for name in ("reads", "writes", "read_latency_ps"))


@dataclass(frozen=True)
class Estimates:
    """Counts of whole phases, one entry for each row. Each twin of DRAM has counts of its own.

    Caches have the counters of `_core.cache_counter_names()`. TLBs have stlb_hits, walks and walker_loads,
    which are the page table entries that walks read. DRAM has those of `_core.dram_sum_names()`, with times
    in seconds as dram_time_s and read_latency_s.
    """

    phase: NDArray[np.int64]  # the phase of each row
    counts: Counts
    rows: Sequence[Counts]

    def with_row(self, number: int) -> Counts:
        """Return all counts, with DRAM's of the given twin."""
        return {**self.counts, **(self.rows[number] if self.rows else {})}


@dataclass(frozen=True)
class FirstFetches:
    """How often lines are fetched for the first time, in all of a run and in its stretches.

    Lines are those of all copies of the program.
    """

    of_phase: Floats  # [phase]
    of_stretch: Mapping[tuple[int, int], float]  # by phase and by its number there
    of_object: Floats  # [phase, object]
    of_object_in_stretches: Floats  # [phase, object]

    def sampled(self, sets: int) -> "FirstFetches":
        """Return those at the places `sets` of pages (bit i: place i), if all places are used alike."""
        share = sets.bit_count() / ALL_SETS.bit_count()
        if share == 1:
            return self
        of_stretch = {stretch: share * reads for stretch, reads in self.of_stretch.items()}
        return FirstFetches(
            share * self.of_phase, of_stretch, share * self.of_object, share * self.of_object_in_stretches
        )

    def in_stretches(self, phase: NDArray[np.int64], number: NDArray[np.int64]) -> Floats:
        """Return those of each of some stretches."""
        of = zip(phase.tolist(), number.tolist(), strict=True)
        return np.array([self.of_stretch.get(stretch, 0.0) for stretch in of], dtype=np.float64)


def first_fetches(whole: _core.Program, ranks: int, excerpts: Excerpts) -> tuple[FirstFetches, Floats]:
    """Count first fetches. With them come the lines [phase, 2] that memory reads and writes at least."""
    least, stretches, objects, in_stretches = _core.compulsory_by_phase(whole, ranks, excerpts)
    least = np.asarray(least, dtype=np.float64)
    of_stretch = {(phase, number): float(reads) for phase, number, reads in np.asarray(stretches).tolist()}
    of_object, counted = (np.asarray(of, dtype=np.float64) for of in (objects, in_stretches))
    return FirstFetches(least[:, 0], of_stretch, of_object, counted), least


def scales(found: _core.NodeCounters) -> Floats:
    """Return by how much the counts of each phase [p] are scaled up."""
    lines = np.asarray(found.lines, dtype=np.float64)[:, 0]
    stretches = np.asarray(found.stretches, dtype=np.float64).reshape(-1, 4)
    counted = np.zeros(len(lines))
    np.add.at(counted, stretches[:, 0].astype(int), stretches[:, 2])
    return _scale(lines, counted)


def _scale(lines: Floats, counted: Floats) -> Floats:
    return np.divide(lines, counted, out=np.ones(len(lines)), where=counted > 0)


def estimates(found: _core.NodeCounters, first: FirstFetches | None = None) -> tuple[Estimates, Estimates]:
    """Return the estimates of each phase from all its stretches, and those without each of its stretches.

    A phase that was simulated whole, or in one stretch, has no entry in the second. Without
    `first`, first fetches are scaled up as other reads are.
    """
    stretches = np.asarray(found.stretches, dtype=np.float64).reshape(-1, 4)
    phase = stretches[:, 0].astype(np.int64)
    fetched = np.zeros(len(phase))
    if first is not None:
        fetched = first.in_stretches(phase, stretches[:, 1].astype(np.int64))
    tlb = [(sum(t.stlb_hits), sum(t.walks_completed), sum(t.walker_loads)) for t in found.tlb]
    drams = np.asarray(found.drams, dtype=np.float64)
    parts = (
        np.column_stack((stretches[:, 2:], fetched)),
        np.asarray(found.caches, dtype=np.float64),
        np.asarray(tlb, dtype=np.float64).reshape(-1, len(TRANSLATION)),
        drams,
    )
    phases = len(np.asarray(found.lines))
    sums = [_by_phase(part, phase, phases) for part in parts]
    of_each = np.bincount(phase[stretches[:, 2] > 0], minlength=phases)
    left_out = np.flatnonzero((stretches[:, 2] > 0) & (of_each[phase] > 1))
    rest = [total[phase[left_out]] - part[left_out] for total, part in zip(sums, parts, strict=True)]
    in_all = first.of_phase if first is not None else np.zeros(phases)
    return (
        _estimated(found, np.arange(phases), sums, in_all),
        _estimated(found, phase[left_out], rest, in_all),
    )


def _pages(small: Floats, large: Floats) -> tuple[Floats, Floats]:
    """Return how many pages of 4 KiB and of 2 MiB have so many lines."""
    return small * LINE_BYTES / FRAME_BYTES, large * LINE_BYTES / (1 << HUGE_PAGE_BITS)


def _by_phase(part: Floats, phase: NDArray[np.int64], phases: int) -> Floats:
    total = np.zeros((phases, *part.shape[1:]))
    np.add.at(total, phase, part)
    return total


def _estimated(
    found: _core.NodeCounters, phase: NDArray[np.int64], sums: Sequence[Floats], first: Floats
) -> Estimates:
    """Return the estimates of rows [r], each of a phase, from what some of its stretches counted."""
    moved, caches, tlb, drams = sums
    lines, cleared, cleared_large, simulated_large = np.asarray(found.lines, dtype=np.float64)[phase].T
    of_lines, of_cleared, of_first = moved.T
    scale = _scale(lines, of_lines)
    missed_first = first[phase] - of_first * scale  # by what is scaled up
    counts = dict(zip(CACHES, caches.T * scale, strict=True))
    for name in PAST_CACHES:
        counts[name] = counts[name] + missed_first
    counts["dram_writes"] = counts["dram_writes"] - of_cleared * scale + cleared
    counts |= dict(zip(TRANSLATION, tlb.T * scale, strict=True))
    counts |= dict(zip(FAULT_COUNTS, _pages(cleared - cleared_large, cleared_large), strict=True))
    large = np.asarray(found.large_drams, dtype=np.float64)[phase]
    rows = []
    for number in range(drams.shape[1]):
        own, apart = drams[:, number], large[:, number]
        counted = own[:, _READS] + own[:, _WRITES]
        average = own.sum(axis=0) / max(1.0, counted.sum())
        # All lines that DRAM moves, without those of large pages while they are cleared.
        in_all = (counted - of_cleared) * scale + missed_first + cleared - cleared_large
        of_line = np.where(counted[:, None] > 0, own / np.maximum(counted, 1)[:, None], average)
        cost = of_line * in_all[:, None]
        cost += apart * (cleared_large / np.maximum(simulated_large, 1))[:, None]
        latency = np.where(own[:, _READS] > 0, own[:, _LATENCY] / np.maximum(own[:, _READS], 1), 0.0)
        cost[:, _READS] = own[:, _READS] * scale + missed_first
        cost[:, _LATENCY] = latency * cost[:, _READS]
        cost[:, _WRITES] = (own[:, _WRITES] - of_cleared) * scale + cleared
        row = dict(zip(DRAM, cost.T, strict=True))
        row["dram_time_s"] = 1e-12 * row.pop("time_ps")
        row["read_latency_s"] = 1e-12 * row.pop("read_latency_ps")
        rows.append(row)
    return Estimates(phase, counts, rows)
