"""Judges a remedy by its gains, and by how sure these are."""

from typing import Literal

from pagelens.explain.intervals import Interval

# A smaller spread or gain is less than a run varies by itself; see `Conclusion.placement_matters`.
MATTERS = 1.02
# If a smaller share of a run was traced, the report says so first.
COVERED = 0.9
EQUAL = 1.005  # no model is exact to half a percent
Verdict = Literal["gains", "costs", "none", "unsure", "bounds disagree"]


def verdict(median: Interval, slow_nodes: Interval, serial: float) -> Verdict:
    """Return the verdict.

    It depends on the gain in the median, in the 95th percentile, and in the median if nothing overlaps.
    """
    if any(gain.value > MATTERS and gain.low > 1 for gain in (median, slow_nodes)):
        return "bounds disagree" if serial < 1 / EQUAL else "gains"
    if median.value < 1 / MATTERS and median.high < 1:
        return "bounds disagree" if serial > EQUAL else "costs"
    if median.value >= 1 / MATTERS and max(median.value, slow_nodes.value) <= MATTERS:
        return "none"
    return "unsure"
