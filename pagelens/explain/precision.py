"""Decides when a policy has enough nodes, so that more would not change what is said of it.

Nodes come in rounds, each of twice as many as all before (`pagelens.ensemble.ROUNDS`). After each round, the
spread between the nodes says how far the median of many more nodes can lie from the present one. A policy
stops when its median is known. It also stops when it no longer competes, because others surely gain more and
what is said of it is sure. The rest of the nodes goes where the answer is open. Two nodes are enough if the
bounds of the time (`Simulation.bounds`) say that no placement changes it by 2%. None of this holds for rare
slow nodes (`words.few_nodes_note`).
"""

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtrit  # scipy.stats takes half a second to import

from pagelens.ensemble import ROUNDS, Ensemble
from pagelens.explain.intervals import Interval, Intervals, relative_error
from pagelens.explain.verdict import MATTERS
from pagelens.statistics import CONFIDENCE

NODES_TO_CONFIRM = 2  # enough if the bounds of the time leave nothing open
DEFAULT_PRECISION = 0.02  # as far apart as two times must lie to be called different

_COLUMNS = ("time_s", "serial_time_s")  # both bounds of what a run takes

Floats = NDArray[np.float64]


class ByPrecision:
    """Judges an ensemble by its medians (`pagelens.ensemble.growing.Judge`)."""

    def __init__(self, precision: float) -> None:
        self._precision = precision

    def first_nodes(self, bounds: Ensemble) -> int:
        """Return the number of nodes of the first round.

        They are few if the bounds of the time have the answer already. Cores of several speeds need more.
        """
        return NODES_TO_CONFIRM if self._is_bounded(bounds) else ROUNDS[0]

    def unsettled(self, found: Ensemble) -> Sequence[str]:
        """Return what the function of that name returns, or nothing if the bounds say enough."""
        return [] if self._is_bounded(found) else unsettled(found, self._precision)

    def alike(self, found: Ensemble) -> bool:
        """Say whether no node under the baseline takes longer than another by the precision."""
        times = (Intervals(found, column).times[found.baseline] for column in _COLUMNS)
        return all(bool(of.max() <= (1 + self._precision) * of.min()) for of in times)

    def _is_bounded(self, found: Ensemble) -> bool:
        least, most = found.between()
        return most <= MATTERS * least and found.machine.cores.frequency_spread is None


def unsettled(ensemble: Ensemble, precision: float) -> Sequence[str]:
    """Return the policies that need more nodes until their medians are known to `precision`.

    If any other policy is one of them, so is the baseline, because gains are over it on the same nodes.
    """
    of_columns = [Intervals(ensemble, column).times for column in _COLUMNS]
    open_ones = {policy for times in of_columns for policy in _unknown(times, precision)}
    for times in of_columns:
        open_ones &= _competing(times, ensemble.baseline)
    if not open_ones:
        return []
    return [policy for policy in ensemble.policies if policy in open_ones | {ensemble.baseline}]


def half_width(values: Floats) -> float:
    """Return half of the interval of the median of positive values, as a share of it; infinite for one value.

    An ensemble is asked once per round. Each of these answers is therefore wrong so rarely that all of them
    together keep CONFIDENCE (Bonferroni).
    """
    n = len(values)
    if n < 2:
        return np.inf
    doubt = (1 - CONFIDENCE) / len(ROUNDS)
    return float(np.expm1(stdtrit(n - 1, 1 - doubt / 2) * relative_error(values, 0.5)))


def _unknown(times: Mapping[str, Floats], precision: float) -> set[str]:
    return {policy for policy, of_nodes in times.items() if half_width(of_nodes) > precision}


def _competing(times: Mapping[str, Floats], baseline: str) -> set[str]:
    """Return the policies of which it is open whether they gain, or whether they gain most."""
    gains = {policy: _gain(times[baseline], after) for policy, after in times.items() if policy != baseline}
    most = max((gain.low for gain in gains.values()), default=1.0)
    beaten = {policy for policy, gain in gains.items() if gain.high < most and _side_is_sure(gain)}
    return set(times) - beaten


def _gain(before: Floats, after: Floats) -> Interval:
    """Return the gain over the nodes that have both."""
    both = min(len(before), len(after))
    ratios = before[:both] / after[:both]
    middle, width = float(np.median(ratios)), 1 + half_width(ratios)
    return Interval(middle, middle / width, middle * width)


def _side_is_sure(gain: Interval) -> bool:
    return any(
        low <= gain.low and gain.high <= high
        for low, high in ((0, 1 / MATTERS), (1 / MATTERS, MATTERS), (MATTERS, np.inf))
    )
