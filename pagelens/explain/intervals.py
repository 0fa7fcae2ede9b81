"""Confidence intervals of times and gains, from an ensemble's nodes and from the stretches of its run.

Nodes are drawn, so a bootstrap over nodes puts their spread into the interval. With few nodes the bootstrap
draws the same ones again and again, and its intervals are too narrow. They are therefore at least as wide as
Student's t makes them for the logarithms of the values.

If a run is simulated in stretches, all nodes and policies have the same ones, and no number of nodes makes up
for these. Their part is a jackknife: the figure is made again without each stretch
(pagelens/replay/stretches.py), for all nodes and policies at once, so that what two policies have in common
cancels. Both parts are added as variances.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
import polars as pl
from numpy.typing import NDArray

from pagelens import statistics
from pagelens.ensemble.result import Ensemble

Floats = NDArray[np.float64]
Figure = Callable[[Mapping[str, Floats]], float]  # of each policy's times by node
FEW = 16  # nodes; of as many the bootstrap's intervals hold what they should (tests/python/test_precision.py)
# An interval over fewer nodes counts if it is so much narrower. Where the narrower of two is taken whatever
# they say, it is often one that is too narrow by chance (docs/decisions/anytime.md).
SURER = 0.5


@dataclass(frozen=True)
class Interval:
    """A figure and its 95% confidence interval."""

    value: float
    low: float
    high: float

    @property
    def width(self) -> float:
        """The natural logarithm of the highest value over the lowest."""
        return float(np.log(self.high / self.low)) if self.low > 0 else np.inf


_TAILS = ((1 - statistics.CONFIDENCE) / 2, (1 + statistics.CONFIDENCE) / 2)


def relative_error(values: Floats, quantile: float) -> float:
    """Return the standard error of a quantile of positive values, as a share of it.

    For n normal values with the standard deviation s it is s sqrt(q (1 - q) / n) / d, where d is the density
    of the standard normal distribution at its quantile q (Kendall, Stuart: The Advanced Theory of Statistics
    1, chapter 10). Here the values are logarithms.
    """
    density = np.exp(-(statistics.normal_quantile(quantile) ** 2) / 2) / np.sqrt(2 * np.pi)
    error = np.log(values).std(ddof=1) * np.sqrt(quantile * (1 - quantile) / len(values)) / density
    return float(error)


def _of_few(of_nodes: Interval, values: Floats, quantile: float) -> Interval:
    """Widen a bootstrap interval over few values to at least that of Student's t."""
    n = len(values)
    if n < 2 or n >= FEW:
        return of_nodes
    width = float(np.exp(statistics.t_quantile(n - 1, _TAILS[1]) * relative_error(values, quantile)))
    return Interval(
        of_nodes.value,
        min(of_nodes.low, of_nodes.value / width),
        max(of_nodes.high, of_nodes.value * width),
    )


class Intervals:
    """Intervals of figures from one column of `Ensemble.placements`, summed over the explained phases."""

    def __init__(self, ensemble: Ensemble, column: str = "time_s") -> None:
        self._seed = ensemble.seed
        rows, stretches = ensemble.tables.placements, ensemble.tables.stretches
        if ensemble.phase is not None:
            rows, stretches = (of.filter(pl.col("phase") == ensemble.phase) for of in (rows, stretches))
        sums = rows.group_by("policy", "node").agg(pl.col(column).sum()).sort("node")
        self.times = {
            policy: sums.filter(pl.col("policy") == policy)[column].to_numpy() for policy in ensemble.policies
        }
        whole = rows.select("node", "policy", "phase", pl.col(column).alias("whole"))
        left_out = stretches.join(whole, on=("node", "policy", "phase")).with_columns(
            (pl.col(column) - pl.col("whole")).alias("change")
        )
        self._phases = [
            [
                {
                    str(policy): of_policy.sort("node")["change"].to_numpy()
                    for (policy,), of_policy in of_stretch.group_by("policy")
                }
                for _, of_stretch in of_phase.group_by("stretch", maintain_order=True)
            ]
            for _, of_phase in left_out.sort("phase", "stretch").group_by("phase", maintain_order=True)
        ]

    def median(self, policy: str) -> Interval:
        """Return the median over the nodes."""
        return self.quantile(policy, 0.5)

    def quantile(self, policy: str, quantile: float) -> Interval:
        """Return the interval of the times over the nodes."""
        return self._widened(
            self._of_nodes(self.times[policy], quantile),
            lambda times: float(np.quantile(times[policy], quantile)),
        )

    def gain(self, before: str, after: str, quantile: float) -> Interval:
        """Return a quantile of one policy's times over that of another's, over the nodes: 2 is twice as fast.

        If one of them has fewer nodes, a median is that of each policy on its own nodes, or of the nodes that
        have both if that is surer by `SURER`. A tail is always that of the nodes that have both, because few
        nodes do not show their tail.
        """
        both = min(len(self.times[before]), len(self.times[after]))
        paired = self._gain_of(before, after, quantile, both)
        if len(self.times[before]) == len(self.times[after]) or quantile != 0.5:
            return paired
        apart = self._gain_apart(before, after)
        return paired if paired.width < SURER * apart.width else apart

    def by_stretches(self, policy: str) -> float:
        """Return the error of the median by the choice of stretches: half of its interval, as a share."""
        return self._by_stretches(lambda of: float(np.median(of[policy])))

    def gain_by_stretches(self, before: str, after: str) -> float:
        """Return the same error of the median gain over the nodes that both policies have, as a share."""
        nodes = min(len(self.times[policy]) for policy in (before, after))
        return self._by_stretches(self._gain_figure(before, after, 0.5, nodes))

    def _by_stretches(self, figure: Figure) -> float:
        return self._half_width(figure) / figure(self.times) if self._phases else 0.0

    def _of_nodes(self, values: Floats, quantile: float) -> Interval:
        value = float(np.quantile(values, quantile))
        found = np.quantile(statistics.resampled(values, self._seed), quantile, axis=1)
        low, high = np.quantile(found, _TAILS)
        return _of_few(Interval(value, float(low), float(high)), values, quantile)

    def _gain_of(self, before: str, after: str, quantile: float, nodes: int) -> Interval:
        """Return the gain over the first nodes."""
        x, y = self.times[before][:nodes], self.times[after][:nodes]
        drawn = Interval(*statistics.paired_gain(x, y, quantile, self._seed))
        figure = self._gain_figure(before, after, quantile, nodes)
        return self._widened(_of_few(drawn, x / y, quantile), figure)

    @staticmethod
    def _gain_figure(before: str, after: str, quantile: float, nodes: int) -> Figure:
        """Return the function of the gain over the first nodes."""

        def figure(times: Mapping[str, Floats]) -> float:
            of = (np.quantile(times[policy][:nodes], quantile) for policy in (before, after))
            return float(next(of) / next(of))

        return figure

    def _gain_apart(self, before: str, after: str) -> Interval:
        """Return the gain in the median over all nodes of each policy, whatever the other has."""
        x, y = (self._of_nodes(self.times[policy], 0.5) for policy in (before, after))
        value = x.value / y.value
        below = np.hypot(np.log(x.value / x.low), np.log(y.high / y.value))
        above = np.hypot(np.log(x.high / x.value), np.log(y.value / y.low))
        return self._widened(
            Interval(value, float(value * np.exp(-below)), float(value * np.exp(above))),
            lambda times: float(np.median(times[before]) / np.median(times[after])),
        )

    def _widened(self, of_nodes: Interval, figure: Figure) -> Interval:
        error = self._half_width(figure)
        below, above = of_nodes.value - of_nodes.low, of_nodes.high - of_nodes.value
        return Interval(
            of_nodes.value,
            max(0.0, of_nodes.value - float(np.hypot(below, error))),  # times and gains are positive
            of_nodes.value + float(np.hypot(above, error)),
        )

    def _half_width(self, figure: Figure) -> float:
        """Return half of the 95% interval by the choice of stretches, or 0 if everything is simulated.

        Each phase is a stratum. Degrees of freedom follow Satterthwaite: An Approximate Distribution of
        Estimates of Variance Components, Biometrics Bulletin 2 (1946), 110-114.
        """
        variances, freedoms = [], []
        for stretches in self._phases:
            found = np.array([figure(self._without(stretch)) for stretch in stretches])
            n = len(found)
            variances.append((n - 1) / n * float(((found - found.mean()) ** 2).sum()))
            freedoms.append(n - 1)
        total = sum(variances)
        if total == 0:
            return 0.0
        freedom = total**2 / sum(v**2 / f for v, f in zip(variances, freedoms, strict=True) if v > 0)
        return float(statistics.t_quantile(freedom, (1 + statistics.CONFIDENCE) / 2) * np.sqrt(total))

    def _without(self, changes: Mapping[str, Floats]) -> Mapping[str, Floats]:
        return {policy: times + changes.get(policy, 0.0) for policy, times in self.times.items()}
