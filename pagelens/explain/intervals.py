"""How sure times and gains of an ensemble are: by its nodes, and by the stretches of the run in it.

Nodes are drawn, so their spread is in the interval by a bootstrap over nodes. Where a run is simulated in
stretches, all nodes and policies have the same ones, and no number of nodes makes up for these. Their part is
a jackknife: the figure is made again without each stretch (pagelens/replay/stretches.py), for all nodes and
policies at once, so that what two policies have in common cancels. Both parts are added as variances.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
import polars as pl
from numpy.typing import NDArray
from scipy.special import stdtrit  # scipy.stats takes half a second to import

from pagelens import statistics
from pagelens.ensemble.result import Ensemble

Floats = NDArray[np.float64]
Figure = Callable[[Mapping[str, Floats]], float]  # of each policy's times by node


@dataclass(frozen=True)
class Interval:
    """A figure and its 95% confidence interval."""

    value: float
    low: float
    high: float


class Intervals:
    """Of figures made from one column of `Ensemble.placements`, summed over the phases that are explained."""

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
        """Over the nodes."""
        spread = statistics.spread(self.times[policy], self._seed)
        return self._widened(
            Interval(spread.median, spread.median_low, spread.median_high),
            lambda times: float(np.median(times[policy])),
        )

    def gain(self, before: str, after: str, quantile: float) -> Interval:
        """The quantile over the nodes of one policy's times over that of another's: 2 is twice as fast."""
        value, low, high = statistics.paired_gain(self.times[before], self.times[after], quantile, self._seed)
        return self._widened(
            Interval(value, low, high),
            lambda times: float(np.quantile(times[before], quantile) / np.quantile(times[after], quantile)),
        )

    def _widened(self, of_nodes: Interval, figure: Figure) -> Interval:
        error = self._half_width(figure)
        below, above = of_nodes.value - of_nodes.low, of_nodes.high - of_nodes.value
        return Interval(
            of_nodes.value,
            of_nodes.value - float(np.hypot(below, error)),
            of_nodes.value + float(np.hypot(above, error)),
        )

    def _half_width(self, figure: Figure) -> float:
        """Of the 95% interval by the choice of stretches; 0 where everything is simulated.

        Each phase is a stratum. Degrees of freedom by Satterthwaite: An Approximate Distribution of Estimates
        of Variance Components, Biometrics Bulletin 2 (1946), 110-114.
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
        return float(stdtrit(freedom, (1 + statistics.CONFIDENCE) / 2) * np.sqrt(total))

    def _without(self, changes: Mapping[str, Floats]) -> Mapping[str, Floats]:
        return {policy: times + changes.get(policy, 0.0) for policy, times in self.times.items()}
