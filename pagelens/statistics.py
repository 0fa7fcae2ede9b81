"""Statistics of a distribution of run times over nodes: spread, tail, modes, and correlations.

All functions take plain arrays, and a seed if they draw, so equal input gives equal output.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

BOOTSTRAP_RESAMPLES = 2000
CONFIDENCE = 0.95
# Below this p95/p5 a distribution counts as one value, because modes within half a percent of each other do
# not matter.
UNIFORM_SPREAD = 1.01
# A column whose range is below this share of its largest value is constant, because it varies only by
# rounding.
CONSTANT = 1e-4
_MODE_RESAMPLES = 400
_MODE_LEVEL = 0.05
_MAX_MODES = 4
_GRID = 512  # points of the density's grid; a power of two for the transform

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Spread:
    """A distribution in a few figures, in the unit of the values."""

    median: float
    median_low: float  # bootstrap confidence interval of the median
    median_high: float
    p5: float
    p95: float
    best: float
    worst: float


def spread(values: ArrayLike, seed: int) -> Spread:
    """Return quantiles (linear interpolation) and a 95% percentile-bootstrap interval of the median.

    Efron, Tibshirani: An Introduction to the Bootstrap, 1993, chapter 13.
    """
    x = _finite(values)
    medians = np.median(resampled(x, seed), axis=1)
    tail = (1 - CONFIDENCE) / 2
    low, high = np.quantile(medians, [tail, 1 - tail])
    p5, median, p95 = np.quantile(x, [0.05, 0.5, 0.95])
    return Spread(
        float(median), float(low), float(high), float(p5), float(p95), float(x.min()), float(x.max())
    )


def resampled(values: Floats, seed: int) -> Floats:
    """Return bootstrap resamples: rows of as many values, each drawn at random from the values."""
    return np.asarray(values[_picks(values.size, BOOTSTRAP_RESAMPLES, seed)])


def share_slower(values: ArrayLike, best: float, margin: float) -> float:
    """Return the share of values more than `margin` (0.1 is 10%) above `best`."""
    return float(np.mean(_finite(values) > best * (1 + margin)))


def paired_gain(
    before: ArrayLike, after: ArrayLike, quantile: float, seed: int
) -> tuple[float, float, float]:
    """Return quantile(before) / quantile(after) with a 95% bootstrap interval.

    Both are resampled by the same nodes.
    """
    x, y = _finite(before), _finite(after)
    if x.shape != y.shape:
        raise ValueError(f"pairs need equal lengths, not {x.size} and {y.size}")
    picks = _picks(x.size, BOOTSTRAP_RESAMPLES, seed)
    ratios = np.quantile(x[picks], quantile, axis=1) / np.quantile(y[picks], quantile, axis=1)
    tail = (1 - CONFIDENCE) / 2
    low, high = np.quantile(ratios, [tail, 1 - tail])
    return float(np.quantile(x, quantile) / np.quantile(y, quantile)), float(low), float(high)


def pearson(x: ArrayLike, y: ArrayLike) -> float | None:
    """Return the linear correlation; None for fewer than 3 pairs, or if a side is constant."""
    a, b = _finite(x), _finite(y)
    if a.size < 3 or _constant(a) or _constant(b):
        return None
    a, b = a - a.mean(), b - b.mean()
    # Scaling comes first: squares of counters near 10^12 are fine, squares of differences near 10^-200 are
    # not.
    a, b = a / np.abs(a).max(), b / np.abs(b).max()
    return float(np.clip((a @ b) / np.sqrt((a @ a) * (b @ b)), -1, 1))


def spearman(x: ArrayLike, y: ArrayLike) -> float | None:
    """Return the correlation of ranks (ties share their mean rank), or None as `pearson` does."""
    a, b = _finite(x), _finite(y)
    if a.size < 3 or _constant(a) or _constant(b):
        return None
    return pearson(_ranks(a), _ranks(b))


def modes(values: ArrayLike, seed: int) -> int:
    """Return the number of modes by Silverman's test at the 5% level; 1 if p95/p5 is below `UNIFORM_SPREAD`.

    For k = 1, 2, ... the critical bandwidth is the smallest at which a Gaussian kernel density of the values
    has at most k modes. k is rejected when fewer than 5% of smoothed resamples show more than k modes at that
    bandwidth: that much smoothing was needed only because the values themselves hold more than k groups.
    Silverman: Using kernel density estimates to investigate multimodality, J. R. Stat. Soc. B 43 (1981),
    97-99.
    """
    x = _finite(values)
    p5, p95 = np.quantile(x, [0.05, 0.95])
    if x.size < 8 or p95 < p5 * UNIFORM_SPREAD:
        return 1
    x = (x - x.mean()) / x.std()
    rng = np.random.default_rng(seed)
    for k in range(1, _MAX_MODES):
        h = _critical_bandwidth(x, k)
        # The resamples are smoothed, and shrunk so that their variance is that of the values.
        drawn = x[_picks(x.size, _MODE_RESAMPLES, seed + k)]
        noise = h * rng.standard_normal(drawn.shape)
        smooth = (drawn + noise) / np.sqrt(1 + h * h)
        if np.mean(_count_modes(smooth, h) > k) >= _MODE_LEVEL:
            return k
    return _MAX_MODES


def _critical_bandwidth(x: Floats, k: int) -> float:
    """Return the smallest bandwidth with at most k modes. Their number falls as the bandwidth grows."""
    low, high = 1e-3, 4.0
    for _ in range(24):
        middle = float(np.sqrt(low * high))
        if _count_modes(x[None, :], middle)[0] > k:
            low = middle
        else:
            high = middle
    return high


def _count_modes(samples: Floats, h: float) -> NDArray[np.int64]:
    """Return the modes of the Gaussian kernel density of each row of `samples` at bandwidth `h`."""
    low, high = samples.min() - 3 * h, samples.max() + 3 * h
    step = (high - low) / (_GRID - 1)
    # Values are binned linearly onto the grid, then convolved once by transform. Padding keeps the ends
    # apart.
    position = (samples - low) / step
    left = np.minimum(position.astype(np.int64), _GRID - 2)
    weight = position - left
    row = np.arange(samples.shape[0])[:, None] * _GRID
    size = samples.shape[0] * _GRID
    mass = np.bincount((row + left).ravel(), (1 - weight).ravel(), size)
    mass += np.bincount((row + left + 1).ravel(), weight.ravel(), size)
    frequency = 2 * np.pi * np.fft.rfftfreq(2 * _GRID, step)
    kernel = np.exp(-0.5 * (frequency * h) ** 2)
    density = np.fft.irfft(np.fft.rfft(mass.reshape(-1, _GRID), 2 * _GRID, axis=1) * kernel, axis=1)[
        :, :_GRID
    ]
    floor = 1e-6 * density.max(axis=1, keepdims=True)  # below it the transform's rounding makes ripples
    inner = density[:, 1:-1]
    peaks = (inner > density[:, :-2]) & (inner >= density[:, 2:]) & (inner > floor)
    return np.asarray(np.maximum(peaks.sum(axis=1), 1), dtype=np.int64)


def t_quantile(freedom: float, probability: float) -> float:
    """Return the quantile of Student's t distribution with so many degrees of freedom."""
    from scipy.special import stdtrit  # takes a fifth of a second to import

    return float(stdtrit(freedom, probability))


def normal_quantile(probability: float) -> float:
    """Return the quantile of the standard normal distribution."""
    from scipy.special import ndtri  # takes a fifth of a second to import

    return float(ndtri(probability))


def _picks(n: int, resamples: int, seed: int) -> NDArray[np.int64]:
    return np.random.default_rng(seed).integers(0, n, size=(resamples, n))


def _constant(x: Floats) -> bool:
    return bool(np.ptp(x) <= CONSTANT * np.abs(x).max())


def _ranks(x: Floats) -> Floats:
    _, inverse, counts = np.unique(x, return_inverse=True, return_counts=True)
    last = np.cumsum(counts)
    return np.asarray((last - (counts - 1) / 2)[inverse], dtype=np.float64)


def _finite(values: ArrayLike) -> Floats:
    x = np.asarray(values, dtype=np.float64)
    if x.ndim != 1 or x.size == 0 or not np.isfinite(x).all():
        raise ValueError("a distribution needs at least one value, all finite")
    return x
