"""Judges a remedy by its gains, and by how sure these are."""

from typing import Literal

from pagelens.explain.intervals import Interval

# A smaller spread or gain is less than a run varies by itself; see `Conclusion.placement_matters`.
MATTERS = 1.02
# If a smaller share of a run was traced, the report says so first.
COVERED = 0.9
EQUAL = 1.005  # no model is exact to half a percent
Verdict = Literal["gains", "costs", "none", "unsure", "bounds disagree"]


def surely_gains(value: float, low: float) -> bool:
    """Return whether a gain is above 2%, and its interval leaves out 1."""
    return value > MATTERS and low > 1


def surely_costs(value: float, high: float) -> bool:
    """Return whether a gain is a loss of more than 2%, and its interval leaves out 1."""
    return value < 1 / MATTERS and high < 1


def verdict(median: Interval, slow_nodes: Interval, serial: float, serial_slow: float) -> Verdict:
    """Return the verdict.

    It depends on the gain in the median and in the 95th percentile, and on both if nothing overlaps. Where
    the median node surely gains or loses, that decides, and the slow nodes do otherwise.
    """
    if surely_gains(median.value, median.low):
        return "bounds disagree" if serial < 1 / EQUAL else "gains"
    if surely_costs(median.value, median.high):
        return "bounds disagree" if serial > EQUAL else "costs"
    if surely_gains(slow_nodes.value, slow_nodes.low):
        return "bounds disagree" if serial_slow < 1 / EQUAL else "gains"
    if median.value >= 1 / MATTERS and max(median.value, slow_nodes.value) <= MATTERS:
        return "none"
    return "unsure"
