"""What trials on fresh page maps say: a distribution, how much of it goes with the map, and its outliers.

A trial is one page map. It is visited twice, with another trial's visit in between, so that what goes with
the map shows as agreement of its two visits, and what goes with the moment does not.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pagelens.statistics import Spread, modes, spread

OUTLIER = 3.5  # modified z-score: Iglewicz, Hoaglin, How to Detect and Handle Outliers, ASQC 1993
FEWEST = 8  # trials, to call one of them an outlier
PERMUTATIONS = 2000
SIGNIFICANT = 0.05
_NORMAL = 0.6745  # the third quartile of the standard normal distribution

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class MapShare:
    """How much of the variance goes with the page map.

    share: the intraclass correlation of the trials' visits, ICC(1) of Shrout and Fleiss (Psychological
    Bulletin 86, 1979), at least 0. p: of permutations of all visits over the trials, those that
    agree as well.
    """

    share: float
    p: float

    @property
    def significant(self) -> bool:
        """Whether chance would rarely make visits agree as well."""
        return self.p < SIGNIFICANT


@dataclass(frozen=True)
class Summary:
    """A distribution over trials; values in the unit of the measurement."""

    spread: Spread
    modes: int
    map_share: MapShare | None  # None for fewer than three trials, or where all visits are equal
    outliers: tuple[int, ...]  # indices of trials, the farthest first


def summarise(visits: Floats, best: Floats, seed: int) -> Summary:
    """`visits`: [trial, visit], a value each; `best`: [trial], what counts as the trial's."""
    return Summary(
        spread=spread(best, seed),
        modes=modes(best, seed),
        map_share=map_share(visits, seed),
        outliers=outliers(best),
    )


def map_share(visits: Floats, seed: int) -> MapShare | None:
    """Of values [trial, visit]; both visits of every trial must be there."""
    trials, each = visits.shape
    if trials < 3 or each < 2 or np.ptp(visits) == 0:
        return None
    observed = _intraclass(visits)
    rng = np.random.default_rng(seed)
    shuffled = rng.permuted(np.tile(visits.ravel(), (PERMUTATIONS, 1)), axis=1)
    as_good = sum(_intraclass(one.reshape(trials, each)) >= observed for one in shuffled)
    return MapShare(max(0.0, observed), float((as_good + 1) / (PERMUTATIONS + 1)))


def _intraclass(visits: Floats) -> float:
    trials, each = visits.shape
    means = visits.mean(axis=1)
    between = each * means.var() * trials / (trials - 1)
    within = ((visits - means[:, None]) ** 2).sum() / (trials * (each - 1))
    total = between + (each - 1) * within
    return float((between - within) / total) if total > 0 else 0.0


def outliers(values: Floats) -> tuple[int, ...]:
    """Indices of values whose modified z-score is beyond `OUTLIER`, the farthest first; of few, none."""
    if values.size < FEWEST:
        return ()
    away = np.abs(values - np.median(values))
    typical = np.median(away)
    # Where more than half are equal, whatever differs is far.
    score = _NORMAL * away / typical if typical > 0 else np.where(away > 0, np.inf, 0.0)
    far = np.flatnonzero(score > OUTLIER)
    return tuple(int(index) for index in far[np.argsort(-score[far], kind="stable")])


def cause(trial: int, evidence: Sequence[tuple[str, Floats]]) -> str:
    """Which of the named columns (one value a trial) is an outlier at this trial, too; empty if none is."""
    return ", ".join(name for name, values in evidence if trial in outliers(values))
