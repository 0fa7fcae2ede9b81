"""Decides when a policy has enough nodes, so that more would not change what is said of it.

Nodes come in rounds, each of twice as many as all before (`pagelens.ensemble.ROUNDS`). After each round, the
spread between the nodes says how far the median of many more nodes can lie from the present one. A policy
stops when its median is known. It also stops when it no longer competes, because others surely gain more and
what is said of it is sure. It stops, too, when all nodes together would neither make its median known nor
change what is said of it: where nodes are of two kinds, the median can lie between them, and its interval
stays wide. The rest of the nodes goes where the answer is open. Two nodes are enough if the bounds of the
time (`Simulation.bounds`) say that no placement changes it by 2%.

Few nodes show no rare slow ones. If no median shows that placement matters, the baseline therefore goes on
until it surely has a node of each kind that is one in twenty. If such nodes are slow, the other policies
follow to them.
"""

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from pagelens.ensemble import ROUNDS, Ensemble
from pagelens.explain.distributions import totals_by_node
from pagelens.explain.intervals import FEW, Interval, Intervals, relative_error
from pagelens.explain.verdict import MATTERS
from pagelens.explain.words import NODES_FOR_RARE
from pagelens.statistics import CONFIDENCE, t_quantile

NODES_TO_CONFIRM = 2  # enough if the bounds of the time leave nothing open
SAME_ON_ALL = "contiguous"  # the policy that gives a job the same frames on every node
DEFAULT_PRECISION = 0.02  # as far apart as two times must lie to be called different

_COLUMNS = ("time_s", "serial_time_s")  # both bounds of what a run takes

Floats = NDArray[np.float64]


class ByPrecision:
    """Judges an ensemble by its medians (`pagelens.ensemble.growing.Judge`)."""

    def __init__(self, precision: float, most_nodes: int) -> None:
        self._precision, self._most_nodes = precision, most_nodes

    def first_nodes(self, bounds: Ensemble) -> int:
        """Return the number of nodes of the first round.

        They are few if the bounds of the time have the answer already. Cores of several speeds need more.
        """
        return NODES_TO_CONFIRM if self._is_bounded(bounds) else ROUNDS[0]

    def unsettled(self, found: Ensemble) -> Sequence[str]:
        """Return what the function of that name returns, or nothing if the bounds say enough."""
        return [] if self._is_bounded(found) else unsettled(found, self._precision, self._most_nodes)

    def left_behind(self, found: Ensemble) -> Sequence[str]:
        """Return the policies that have not run on the nodes whose placement slows the baseline down."""
        totals = totals_by_node(found)
        times = {policy: of["equal_cores_time_s"].to_numpy() for policy, of in totals.items()}
        base = times[found.baseline]
        if _spread(base) <= MATTERS:
            return []
        return [
            policy
            for policy, seconds in times.items()
            if len(seconds) < len(base) and _spread(base[: len(seconds)]) <= MATTERS
        ]

    def alike(self, found: Ensemble) -> bool:
        """Say whether no node under the baseline takes longer than another by the precision."""
        times = (Intervals(found, column).times[found.baseline] for column in _COLUMNS)
        return all(bool(of.max() <= (1 + self._precision) * of.min()) for of in times)

    def _is_bounded(self, found: Ensemble) -> bool:
        least, most = found.between()
        return most <= MATTERS * least and found.machine.cores.frequency_spread is None


def unsettled(ensemble: Ensemble, precision: float, most_nodes: int) -> Sequence[str]:
    """Return the policies that need more nodes until their medians are known to `precision`.

    If any other policy is one of them, so is the baseline, because gains are over it on the same nodes. There
    can be `most_nodes` in all.
    """
    of_columns = [Intervals(ensemble, column).times for column in _COLUMNS]
    open_ones: set[str] = set()
    for times in of_columns:
        said, expected = (_said(times, ensemble.baseline, nodes) for nodes in (None, most_nodes))
        open_ones |= {
            policy
            for policy, of_nodes in times.items()
            if half_width(of_nodes) > precision
            and (
                len(of_nodes) < FEW  # whose spread is not known yet
                or half_width(of_nodes, most_nodes) <= precision
                or said.get(policy) != expected.get(policy)
            )
        }
    for times in of_columns:
        open_ones &= _competing(times, ensemble.baseline)
    if not open_ones:
        return [ensemble.baseline] if _only_tail_matters(of_columns[0], ensemble.baseline) else []
    return [policy for policy in ensemble.policies if policy in open_ones | {ensemble.baseline}]


def _only_tail_matters(times: Mapping[str, Floats], baseline: str) -> bool:
    """Say whether only rare slow nodes could show that placement matters, and too few nodes are known.

    The medians that count are those of `conclusion.conclude`.
    """
    base = times[baseline]
    if baseline == SAME_ON_ALL or len(base) >= NODES_FOR_RARE:
        return False
    gains = {policy: float(np.median(base) / np.median(of)) for policy, of in times.items()}
    return max(1 / gains.get(SAME_ON_ALL, 1.0), *gains.values()) <= MATTERS


def _spread(values: Floats) -> float:
    """Return how much longer slow nodes (95th percentile) take than fast ones (5th percentile)."""
    fast, slow = np.quantile(values, (0.05, 0.95))
    return float(slow / fast)


def half_width(values: Floats, nodes: int | None = None) -> float:
    """Return half of the interval of the median of positive values, as a share of it; infinite for one value.

    With `nodes`, it is the interval to be expected of that many values with the same spread. An ensemble is
    asked once per round. Each of these answers is therefore wrong so rarely that all of them together keep
    CONFIDENCE (Bonferroni).
    """
    n = len(values)
    if n < 2:
        return np.inf
    n_then = nodes or n
    doubt = (1 - CONFIDENCE) / len(ROUNDS)
    error = relative_error(values, 0.5) * np.sqrt(n / n_then)
    return float(np.expm1(t_quantile(n_then - 1, 1 - doubt / 2) * error))


def _competing(times: Mapping[str, Floats], baseline: str) -> set[str]:
    """Return the policies of which it is open whether they gain, or whether they gain most."""
    surely = {policy for policy, (beaten, side) in _said(times, baseline).items() if beaten and side}
    return set(times) - surely


def _said(
    times: Mapping[str, Floats], baseline: str, nodes: int | None = None
) -> Mapping[str, tuple[bool, int | None]]:
    """Return of each policy whether others surely gain more, and on which side of 1 its gain surely lies.

    With `nodes`, it is what is to be expected of that many nodes.
    """
    gains = {
        policy: _gain(times[baseline], after, nodes) for policy, after in times.items() if policy != baseline
    }
    most = max((gain.low for gain in gains.values()), default=1.0)
    return {policy: (gain.high < most, _side(gain)) for policy, gain in gains.items()}


def _gain(before: Floats, after: Floats, nodes: int | None) -> Interval:
    """Return the gain over the nodes that have both."""
    both = min(len(before), len(after))
    ratios = before[:both] / after[:both]
    middle, width = float(np.median(ratios)), 1 + half_width(ratios, nodes)
    return Interval(middle, middle / width, middle * width)


_SIDES = ((0.0, 1 / MATTERS), (1 / MATTERS, MATTERS), (MATTERS, np.inf))


def _side(gain: Interval) -> int | None:
    """Return the number of the side, counted from 1, or None if the gain may lie on several."""
    sure = [number for number, (low, high) in enumerate(_SIDES, 1) if low <= gain.low and gain.high <= high]
    return sure[0] if sure else None
