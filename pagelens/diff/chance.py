"""The difference between two samples, and tests whether chance alone may have made it.

The change is the ratio of two quantiles, with a bootstrap interval. Medians are tested by ranks, as benchstat
does (golang.org/x/perf): Mann and Whitney's test for independent samples, Wilcoxon's for pairs. Other
quantiles have a permutation test, because a bootstrap interval of a tail is too narrow. If several figures
are tested, chance makes one of them differ more often than a single one. Holm's procedure allows for that
(Scand. J. Stat. 6, 1979, 65-70).
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pagelens.statistics import BOOTSTRAP_RESAMPLES, CONFIDENCE

FEWEST_PAIRS = 6  # with fewer pairs, no outcome of Wilcoxon's test has p < 0.05
FEWEST = 4  # likewise of Mann and Whitney's, in each sample
_SEED = 1
_PERMUTATIONS = 2000

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Change:
    """The ratio of a quantile of B to the same quantile of A. Where a value is zero, there is no ratio."""

    a: float
    b: float
    ratio: float | None
    low: float | None
    high: float | None
    p: float | None  # None if there are too few values for a test, or no ratio

    @property
    def apart(self) -> bool:
        """Return whether the interval leaves out 1."""
        return self.low is not None and self.high is not None and not self.low <= 1 <= self.high


def sure(changes: Sequence[Change]) -> list[bool]:
    """Return for each change whether chance would rarely make one as large, by its interval and by its test.

    Chance makes one or more of them sure with a probability of at most 5% (Holm).
    """
    tested = sorted((found.p, number) for number, found in enumerate(changes) if found.p is not None)
    rejected = [False] * len(changes)
    for rank, (p, number) in enumerate(tested):
        if p * (len(tested) - rank) >= 1 - CONFIDENCE:
            break
        rejected[number] = changes[number].apart
    return rejected


def change(
    a: Sequence[float],
    b: Sequence[float],
    quantile: float = 0.5,
    paired: bool = False,
    error: float = 0.0,
) -> Change:
    """Compare the same quantile of two samples.

    `error` is half the width of an interval that has another cause, as a share of the ratio. With `paired`,
    value i of both samples is of the same node.
    """
    x, y = np.asarray(a, dtype=np.float64), np.asarray(b, dtype=np.float64)
    if paired and x.size != y.size:
        raise ValueError(f"pairs need equal lengths, not {x.size} and {y.size}")
    enough = x.size >= FEWEST_PAIRS if paired else min(x.size, y.size) >= FEWEST
    if x.size == y.size and bool((x == y).all()):  # equal whatever chance does, as a model's times are
        value = float(np.quantile(x, quantile))
        return Change(value, value, 1.0, 1 / (1 + error), 1 + error, 1.0)
    before, after = float(np.quantile(x, quantile)), float(np.quantile(y, quantile))
    if min(x.min(), y.min()) <= 0:
        return Change(before, after, None, None, None, None)
    rng = np.random.default_rng(_SEED)
    picks_a = rng.integers(0, x.size, (BOOTSTRAP_RESAMPLES, x.size))
    picks_b = picks_a if paired else rng.integers(0, y.size, (BOOTSTRAP_RESAMPLES, y.size))
    ratios = np.quantile(y[picks_b], quantile, axis=1) / np.quantile(x[picks_a], quantile, axis=1)
    tail = (1 - CONFIDENCE) / 2
    low, high = (float(bound) for bound in np.quantile(ratios, [tail, 1 - tail]))
    ratio = after / before
    return Change(
        before,
        after,
        ratio,
        ratio / _wider(ratio, low, error),
        ratio * _wider(high, ratio, error),
        None
        if not enough
        else _rank_test(x, y, paired)
        if quantile == 0.5
        else _permuted(x, y, quantile, paired),
    )


def _wider(above: float, below: float, error: float) -> float:
    """Return the factor from `below` to `above` with the error on top: errors of ratios add as logarithms.

    So an interval of a ratio does not reach zero, however large the error is.
    """
    apart = np.log(above / below) if min(above, below) > 0 else 0.0
    return float(np.exp(np.hypot(apart, np.log1p(error))))


def _rank_test(x: Floats, y: Floats, paired: bool) -> float:
    from scipy import stats  # takes a second to import

    if not paired:
        return float(stats.mannwhitneyu(x, y).pvalue)
    if np.count_nonzero(x - y) < FEWEST_PAIRS:
        return 1.0
    return float(stats.wilcoxon(x, y).pvalue)


def _permuted(x: Floats, y: Floats, quantile: float, paired: bool) -> float:
    """Return the share of permutations in which the quantiles are at least as far apart as in A and B."""
    rng = np.random.default_rng(_SEED)
    if paired:
        swap = rng.random((_PERMUTATIONS, x.size)) < 0.5
        first, second = np.where(swap, y, x), np.where(swap, x, y)
    else:
        both = rng.permuted(np.tile(np.concatenate([x, y]), (_PERMUTATIONS, 1)), axis=1)
        first, second = both[:, : x.size], both[:, x.size :]
    apart = np.abs(np.log(np.quantile(second, quantile, axis=1) / np.quantile(first, quantile, axis=1)))
    found = abs(float(np.log(np.quantile(y, quantile) / np.quantile(x, quantile))))
    return (int(np.count_nonzero(apart >= found - 1e-12)) + 1) / (_PERMUTATIONS + 1)
