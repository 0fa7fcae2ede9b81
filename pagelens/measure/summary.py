"""Summarises trials on fresh page maps: the distribution, the share that goes with the map, the outliers.

A trial is one page map. It is visited twice, with other trials' visits in between. If something goes with the
map, its two visits agree better than visits of different maps that are as far apart in time.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pagelens.statistics import Spread, modes, spread

OUTLIER = 3.5  # modified z-score: Iglewicz, Hoaglin, How to Detect and Handle Outliers, ASQC 1993
FEWEST = 8  # trials, to call one of them an outlier
PERMUTATIONS = 2000
FEWEST_PAIRS = 3
MOST_STEPS = 6  # from a visit to others of its page size that it is compared with
SIGNIFICANT = 0.05
_NORMAL = 0.6745  # the third quartile of the standard normal distribution

Floats = NDArray[np.float64]
Positions = NDArray[np.int64]


@dataclass(frozen=True)
class MapShare:
    """The share of the variance that goes with the page map.

    `share` is 1 minus a ratio, and at least 0. The ratio is the mean squared difference between visits of the
    same map over that between visits of different maps which are no farther apart in time (half of it is the
    variogram: Cressie, Statistics for Spatial Data, 1993, 2.4). So whatever drifts, or comes and goes, takes
    part in both. `p` is the share of shuffles of the pairs that give a share at least as large.
    """

    share: float
    p: float

    @property
    def significant(self) -> bool:
        """Whether chance would rarely make a share as large."""
        return self.p < SIGNIFICANT


@dataclass(frozen=True)
class Summary:
    """A distribution over trials, with values in the unit of the measurement."""

    spread: Spread
    modes: int
    map_share: MapShare | None  # None for fewer than three trials, and if all visits are equal
    outliers: tuple[int, ...]  # indices of trials, the farthest first


def summarise(visits: Floats, order: Positions, best: Floats, seed: int) -> Summary:
    """Summarise `visits` [trial, visit], with one value each, which were made in this `order`.

    `best` [trial] is the value that counts for each trial.
    """
    return Summary(
        spread=spread(best, seed),
        modes=modes(best, seed),
        map_share=map_share(visits, order, seed),
        outliers=outliers(best),
    )


def map_share(visits: Floats, order: Positions, seed: int) -> MapShare | None:
    """Return the share of values [trial, 2] that goes with the map, or None if there are too few.

    `order` has their places in the order of all visits.
    """
    same_lag = int(np.median(np.abs(np.diff(order, axis=1))))
    same = _squared(visits[:, 0], visits[:, 1])
    different = _others(visits, order, same_lag)
    if len(same) < FEWEST_PAIRS or len(different) < FEWEST_PAIRS or different.mean() == 0:
        return None
    observed = _share(same, different)
    pairs = np.concatenate([same, different])
    rng = np.random.default_rng(seed)
    shuffled = rng.permuted(np.tile(pairs, (PERMUTATIONS, 1)), axis=1)
    with np.errstate(divide="ignore", invalid="ignore"):
        chance = _share(shuffled[:, : len(same)], shuffled[:, len(same) :])
    as_large = int((~(chance < observed)).sum())
    return MapShare(max(0.0, float(observed)), (as_large + 1) / (PERMUTATIONS + 1))


def _squared(a: Floats, b: Floats) -> Floats:
    return np.asarray((a - b) ** 2, dtype=np.float64)


def _share(same: Floats, different: Floats) -> Floats:
    return np.asarray(1 - same.mean(axis=-1) / different.mean(axis=-1))


def _others(visits: Floats, order: Positions, lag: int) -> Floats:
    """Return squared differences of visits of different maps.

    They are `lag` apart in time, or as near to that as possible.
    """
    at = np.argsort(order, axis=None, kind="stable")
    values, places = visits.ravel()[at], order.ravel()[at]
    trials = np.repeat(np.arange(len(visits)), visits.shape[1])[at]
    by_lag: dict[int, list[Floats]] = {}
    for step in range(1, MOST_STEPS + 1):
        apart = places[step:] - places[:-step]
        differ = trials[step:] != trials[:-step]
        for each in np.unique(apart[differ]).tolist():
            chosen = differ & (apart == each)
            by_lag.setdefault(each, []).append(_squared(values[step:], values[:-step])[chosen])
    found = {each: np.concatenate(parts) for each, parts in by_lag.items()}
    enough = [each for each, squares in found.items() if len(squares) >= FEWEST_PAIRS]
    nearest = max((each for each in enough if each <= lag), default=min(enough, default=None))
    return found[nearest] if nearest is not None else np.empty(0)


def outliers(values: Floats) -> tuple[int, ...]:
    """Return the indices of values with a modified z-score beyond `OUTLIER`, the farthest first."""
    if values.size < FEWEST:
        return ()
    away = np.abs(values - np.median(values))
    typical = np.median(away)
    # If more than half of the values are equal, every other value is far from them.
    score = _NORMAL * away / typical if typical > 0 else np.where(away > 0, np.inf, 0.0)
    far = np.flatnonzero(score > OUTLIER)
    return tuple(int(index) for index in far[np.argsort(-score[far], kind="stable")])


def unusual(trial: int, evidence: Sequence[tuple[str, Floats, float]]) -> str:
    """Return which of the named columns stands out at this trial.

    A column has one value for each trial, and the least difference that matters.
    """
    return ", ".join(
        name
        for name, values, least in evidence
        if trial in outliers(values) and abs(values[trial] - np.median(values)) >= least
    )
