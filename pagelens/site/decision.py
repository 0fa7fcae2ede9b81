"""Decides which nodes are slow, by a cumulative sum over the checks of several jobs since the last boot.

A check's figure is compared with the figures of nodes of the same kind (hardware and memory mode): z is the
distance from their median in robust standard deviations. A node's sum grows by how far z lies below -k, and
shrinks if z lies above (Page: Continuous Inspection Schemes, Biometrika 41 (1954), 100-115). z is clipped, so
one figure, however low, does not decide. Only the first check after a job counts, because immediate repeats
share what disturbed the first.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike, NDArray

if TYPE_CHECKING:
    from pagelens.site.config import DecisionSection

Floats = NDArray[np.float64]

MAD_TO_SIGMA = 1.4826  # of a normal distribution
# Nodes differ by this much without anybody wanting one rebooted for it (assumed). It bounds the scale from
# below.
LEAST_SCALE = 0.005
FEWEST_FIGURES = 30  # of peers, for a median and a scale; assumed
MOST_SUM = 2.0  # times h: a node that was slow for long recovers in bounded time


class State(StrEnum):
    """The verdict on a node. `unknown` means that the node is left as it is."""

    ok = "ok"
    slow = "slow"
    unknown = "unknown"


@dataclass(frozen=True)
class Rule:
    """The constants of the sum. docs/decisions/site-history.md gives their sources."""

    k: float = 2.0
    h: float = 10.0
    clip: float = 6.0
    least_jobs: int = 3
    least_peers: int = 8


def rule_of(section: DecisionSection) -> Rule:
    """Return the rule of the site's configuration."""
    return Rule(section.k, section.h, section.clip, section.least_jobs, section.least_peers)


@dataclass(frozen=True)
class Reference:
    """The figures that nodes of a kind reach."""

    median: float
    scale: float  # a robust standard deviation
    nodes: int
    figures: int

    def z(self, figures: ArrayLike) -> Floats:
        """Return how far each figure lies above the median, in standard deviations."""
        return (np.asarray(figures, dtype=np.float64) - self.median) / self.scale


def reference(figures: ArrayLike, nodes: ArrayLike, least_peers: int) -> Reference | None:
    """Return median and MAD of the figures of `nodes` (one number a figure), or None if there are too few."""
    x, of = np.asarray(figures, dtype=np.float64), np.asarray(nodes)
    different = len(np.unique(of))
    if different < least_peers or len(x) < FEWEST_FIGURES:
        return None
    median = float(np.median(x))
    mad = float(np.median(np.abs(x - median)))
    return Reference(median, max(MAD_TO_SIGMA * mad, LEAST_SCALE * median), different, len(x))


@dataclass(frozen=True)
class Evidence:
    """The evidence on each node: the sum, the number of checks in it, and whether the node is slow."""

    sums: Floats
    jobs: NDArray[np.int64]
    slow: NDArray[np.bool_]

    @staticmethod
    def none(nodes: int) -> Evidence:
        """Return the evidence on nodes that have just booted."""
        return Evidence(np.zeros(nodes), np.zeros(nodes, dtype=np.int64), np.zeros(nodes, dtype=np.bool_))


def add(evidence: Evidence, z: Floats, rule: Rule) -> Evidence:
    """Return the evidence after more checks.

    z is [node, check], in order, with NaN where a node has fewer checks. A node becomes slow when its sum
    reaches h, and stays slow until the sum is back at 0.
    """
    sums, jobs, slow = evidence.sums.copy(), evidence.jobs.copy(), evidence.slow.copy()
    bounded = np.clip(z, -rule.clip, rule.clip)
    for column in bounded.T:
        there = ~np.isnan(column)
        step = np.where(there, -column - rule.k, 0.0)
        sums = np.clip(sums + step, 0.0, MOST_SUM * rule.h)
        jobs += there
        slow = (slow & (sums > 0)) | ((sums >= rule.h) & (jobs >= rule.least_jobs))
    return Evidence(sums, jobs, slow)


def ragged(of: NDArray[np.int64], values: Floats, count: int) -> Floats:
    """Return the values of things 0 to count - 1, in order, as [thing, value], filled up with NaN."""
    order = np.argsort(of, kind="stable")
    of, values = of[order], values[order]
    sizes = np.bincount(of, minlength=count)
    begins = np.cumsum(sizes) - sizes
    table = np.full((count, int(sizes.max(initial=0))), np.nan)
    table[of, np.arange(len(of)) - begins[of]] = values
    return table
