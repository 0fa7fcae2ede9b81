"""The rules that `pagelens site calibrate` and `simulate` compare: which checks would drain a node?

Each takes tables [node, check] and walks over the checks, all nodes at a time. After an alarm a node begins
anew, as after a reboot.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pagelens.site.decision import MOST_SUM, Rule

Floats = NDArray[np.float64]
Alarms = NDArray[np.bool_]

# NERSC rebooted Cori's nodes below 300 GB/s, where a node that has just booted reaches 350 to 360 GB/s
# (KNL Cache Mode Performance, "Node reboot policy").
NERSC_SHARE = 300 / 355
IN_A_ROW = 3
EWMA_WEIGHT, EWMA_LIMIT = 0.2, 4.5  # limit in standard deviations of the average; assumed


@dataclass(frozen=True)
class Checks:
    """Figures of nodes: distances from their peers in standard deviations, and shares of the median."""

    z: Floats  # [node, check]; NaN where a node has no more
    share: Floats


class Watch:
    """A rule at work on some nodes. Hand it one check of each node after the other."""

    def __init__(self, nodes: int) -> None:
        self.nodes = nodes

    def step(self, z: Floats, share: Floats) -> Alarms:
        """Return which nodes the rule would drain now. NaN says nothing."""
        raise NotImplementedError


class Below(Watch):
    """Alarms after so many checks in a row below a share of the median."""

    def __init__(self, nodes: int, share: float = NERSC_SHARE, row: int = 1) -> None:
        super().__init__(nodes)
        self._share, self._row = share, row
        self._found = np.zeros(nodes, dtype=np.int64)

    def step(self, z: Floats, share: Floats) -> Alarms:
        """Count checks below the share. A check that is not below begins the count anew."""
        below = share < self._share
        self._found = np.where(np.isnan(share), self._found, np.where(below, self._found + 1, 0))
        alarms = self._found >= self._row
        self._found[alarms] = 0
        return alarms


class Ewma(Watch):
    """Alarms when the exponentially weighted mean of z is far below 0.

    Roberts: Control Chart Tests Based on Geometric Moving Averages, Technometrics 1 (1959), 239-250.
    """

    def __init__(self, nodes: int) -> None:
        super().__init__(nodes)
        self._mean = np.zeros(nodes)

    def step(self, z: Floats, share: Floats) -> Alarms:
        """Update the mean."""
        there = ~np.isnan(z)
        moved = (1 - EWMA_WEIGHT) * self._mean + EWMA_WEIGHT * np.where(there, z, 0.0)
        self._mean = np.where(there, moved, self._mean)
        alarms = self._mean < -EWMA_LIMIT * np.sqrt(EWMA_WEIGHT / (2 - EWMA_WEIGHT))
        self._mean[alarms] = 0
        return np.asarray(alarms)


class Cusum(Watch):
    """The rule of `pagelens.site.decision`, for nodes that are not slow yet."""

    def __init__(self, nodes: int, rule: Rule | None = None) -> None:
        super().__init__(nodes)
        self._rule = rule or Rule()
        self._sums, self._jobs = np.zeros(nodes), np.zeros(nodes, dtype=np.int64)

    def step(self, z: Floats, share: Floats) -> Alarms:
        """Update the sum."""
        rule, there = self._rule, ~np.isnan(z)
        change = np.where(there, -np.clip(z, -rule.clip, rule.clip) - rule.k, 0.0)
        self._sums = np.clip(self._sums + change, 0.0, MOST_SUM * rule.h)
        self._jobs += there
        alarms = (self._sums >= rule.h) & (self._jobs >= rule.least_jobs)
        self._sums[alarms] = 0
        self._jobs[alarms] = 0
        return np.asarray(alarms)


def rules(rule: Rule, threshold: float = NERSC_SHARE) -> Mapping[str, Callable[[int], Watch]]:
    """Return by its name what makes each rule for some nodes."""
    return {
        f"one below {100 * threshold:.0f}% (NERSC's)": lambda nodes: Below(nodes, threshold),
        f"{IN_A_ROW} in a row below": lambda nodes: Below(nodes, threshold, IN_A_ROW),
        "EWMA": Ewma,
        "CUSUM (this site's)": lambda nodes: Cusum(nodes, rule),
    }


def alarms(watch: Watch, checks: Checks) -> Alarms:
    """Say of every check whether the rule would drain the node after it: [node, check]."""
    found = [watch.step(z, share) for z, share in zip(checks.z.T, checks.share.T, strict=True)]
    return np.array(found, dtype=np.bool_).T.reshape(checks.z.shape)
