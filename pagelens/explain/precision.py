"""Decides when a policy has enough nodes, so that more would not change what is said of it.

Nodes come in rounds, each of twice as many as all before (`pagelens.ensemble.ROUNDS`). After each round, the
spread between the nodes says how far the median of many more nodes can lie from the present one. A policy
stops when its median is known. It also stops when it no longer competes, because it surely gains nothing, or
others surely gain more and what is said of it is sure. It stops, too, when all nodes together would neither
make its median known nor change what is said of it: where nodes are of two kinds, the median can lie between
them, and its interval stays wide, and where only stretches of a run are simulated, no number of nodes makes
up for their choice. A policy of large pages that gets none stops at once. The rest of the nodes goes where
the answer is open. Two nodes are enough if the bounds of the time (`Simulation.bounds`) say that no placement
changes it by 2%.

Few nodes show no rare slow ones. If neither a median nor the nodes' spread shows that placement matters, the
baseline therefore goes on until it surely has a node of each kind that is one in twenty. If such nodes are
slow, the other policies follow to them. So do policies that gained nothing on faster nodes.
"""

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from pagelens.address.units import HUGE_PAGE_BITS
from pagelens.ensemble import ROUNDS, Ensemble
from pagelens.explain.distributions import totals_by_node
from pagelens.explain.intervals import FEW, SURER, Interval, Intervals, relative_error
from pagelens.explain.verdict import EQUAL, MATTERS
from pagelens.explain.words import NODES_FOR_RARE
from pagelens.statistics import CONFIDENCE, t_quantile

SOME = ROUNDS[1]  # as many nodes as the spread over all can be judged from
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
        times = _of_placement(found)
        base = times[found.baseline]
        if _spread(base) <= MATTERS:
            return []
        of = Intervals(found)
        idle = _without_gain(of, found.baseline) - _surely_beaten(of, found.baseline)
        return [
            policy
            for policy, seconds in times.items()
            if len(seconds) < len(base)
            and (_spread(base[: len(seconds)]) <= MATTERS or (policy in idle and _lacks(base, len(seconds))))
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
    baseline = ensemble.baseline
    of, in_turn = (Intervals(ensemble, column) for column in _COLUMNS)
    open_ones = _open(of, baseline, precision, most_nodes)
    open_ones |= _open(in_turn, baseline, precision, most_nodes) & _of_either_sign(in_turn, baseline)
    open_ones &= _competing(of, baseline) - set(_without_effect(ensemble))
    if not open_ones:
        return [baseline] if _only_tail_matters(ensemble, of.times) else []
    return [policy for policy in ensemble.policies if policy in open_ones | {baseline}]


def _open(of: Intervals, baseline: str, precision: float, most_nodes: int) -> set[str]:
    """Return the policies of whose times by one bound more nodes would say more."""
    said, expected = (_said(of, baseline, nodes) for nodes in (None, most_nodes))
    return {
        policy
        for policy in of.times
        if _is_open(of, policy, baseline, precision, most_nodes, said.get(policy) == expected.get(policy))
    }


def _is_open(
    of: Intervals, policy: str, baseline: str, precision: float, most_nodes: int, settled: bool
) -> bool:
    """Say whether more nodes would make the median known, or change what is said of the gain.

    `settled`: all nodes together are expected to say the same of it.
    """
    times = of.times[policy]
    if half_width(times) <= precision:
        return False
    if len(times) < SOME or not settled:
        return True
    if any(_is_vain(of, either, precision, most_nodes) for either in (policy, baseline)):
        return False
    in_all = np.hypot(half_width(times, most_nodes), of.by_stretches(policy))
    return len(times) < FEW or float(in_all) <= precision


def _is_vain(of: Intervals, policy: str, precision: float, most_nodes: int) -> bool:
    """Say whether the stretches leave the median open, and more of it than all nodes together would."""
    by_stretches = of.by_stretches(policy)
    return by_stretches > precision and half_width(of.times[policy], most_nodes) <= by_stretches


def _without_effect(ensemble: Ensemble) -> list[str]:
    """Return the policies with large pages for which no part of the memory is large enough."""
    totals = totals_by_node(ensemble)
    return [
        name
        for name, policy in ensemble.policies.items()
        if policy.page_bits >= HUGE_PAGE_BITS
        and not sum(float(totals[name][of].sum()) for of in ("large_pages", "large_pages_missing"))
    ]


def _only_tail_matters(ensemble: Ensemble, times: Mapping[str, Floats]) -> bool:
    """Say whether only rare slow nodes could show that placement matters, and too few nodes are known.

    What could show it before are the medians and the spread that `conclusion.conclude` goes by.
    """
    base = times[ensemble.baseline]
    if ensemble.baseline == SAME_ON_ALL or len(base) >= NODES_FOR_RARE:
        return False
    gains = {policy: float(np.median(base) / np.median(of)) for policy, of in times.items()}
    if max(1 / gains.get(SAME_ON_ALL, 1.0), *gains.values()) > MATTERS:
        return False
    return len(base) < FEW or _spread(_of_placement(ensemble)[ensemble.baseline]) <= MATTERS


def _of_placement(ensemble: Ensemble) -> Mapping[str, Floats]:
    """Return what the nodes of each policy would take if all cores ran at the median node's frequency."""
    totals = totals_by_node(ensemble)
    return {policy: of["equal_cores_time_s"].to_numpy() for policy, of in totals.items()}


def _lacks(times: Floats, nodes: int) -> bool:
    """Say whether none of the first nodes is as slow as those at the 95th percentile of all."""
    return float(np.quantile(times, 0.95)) > MATTERS * float(times[:nodes].max())


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


def _of_either_sign(in_turn: Intervals, baseline: str) -> set[str]:
    """Return the policies that may lose, or not, where all resources take turns (`verdict`)."""
    gains = {policy: _gain(in_turn, baseline, policy, None) for policy in in_turn.times if policy != baseline}
    return {policy for policy, gain in gains.items() if gain.low < 1 / EQUAL <= gain.high}


def _competing(of: Intervals, baseline: str) -> set[str]:
    """Return the policies of which it is open whether they gain, or whether they gain most."""
    return set(of.times) - _surely_beaten(of, baseline) - _without_gain(of, baseline)


def _surely_beaten(of: Intervals, baseline: str) -> set[str]:
    """Return the policies that others surely gain more than, if what is said of their gain is sure, too."""
    return {policy for policy, (beaten, side) in _said(of, baseline).items() if beaten and side}


def _without_gain(of: Intervals, baseline: str) -> set[str]:
    """Return the policies that surely gain nothing on the median node."""
    return {
        policy
        for policy in of.times
        if policy != baseline and _gain(of, baseline, policy, None).high <= MATTERS
    }


def _said(of: Intervals, baseline: str, nodes: int | None = None) -> Mapping[str, tuple[bool, int | None]]:
    """Return of each policy whether others surely gain more, and on which side of 1 its gain surely lies.

    With `nodes`, it is what is to be expected of that many nodes.
    """
    gains = {policy: _gain(of, baseline, policy, nodes) for policy in of.times if policy != baseline}
    most = max((gain.low for gain in gains.values()), default=1.0)
    return {policy: (gain.high < most, _side(gain)) for policy, gain in gains.items()}


def _gain(of: Intervals, before: str, after: str, nodes: int | None) -> Interval:
    """Return the gain by what is surer now, as the report does (`Intervals.gain`).

    That is the nodes that have both, or each policy's own nodes.
    """
    x, y = of.times[before], of.times[after]
    both = min(len(x), len(y))
    ratios = x[:both] / y[:both]
    middle, apart = float(np.median(ratios)), [ratios]
    if len(x) != len(y) and half_width(ratios) >= SURER * np.hypot(half_width(x), half_width(y)):
        middle, apart = float(np.median(x) / np.median(y)), [x, y]
    by_nodes = np.hypot.reduce([half_width(values, nodes) for values in apart])
    width = 1 + float(np.hypot(by_nodes, of.gain_by_stretches(before, after)))
    return Interval(middle, middle / width, middle * width)


_SIDES = ((0.0, 1 / MATTERS), (1 / MATTERS, MATTERS), (MATTERS, np.inf))


def _side(gain: Interval) -> int | None:
    """Return the number of the side, counted from 1, or None if the gain may lie on several."""
    sure = [number for number, (low, high) in enumerate(_SIDES, 1) if low <= gain.low and gain.high <= high]
    return sure[0] if sure else None
