"""Finds how much of the variance each input decides alone, and together with others, with intervals."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pagelens.study.effects import answers
from pagelens.study.result import StudyResult

RESAMPLES = 500  # of a bootstrap; a bound of an interval then moves by some percent of its width (assumed)

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Index:
    """The indices of Sobol' of one input, as (estimate, low, high); low and high bound 95%.

    `first` is the share of the answer's variance that the input decides alone, `total` the share that would
    be left if all other inputs were known.
    """

    name: str
    first: tuple[float, float, float]
    total: tuple[float, float, float]


def indices_of(found: StudyResult) -> list[Index]:
    """Return the indices of every input, the one with the largest total first.

    There are none where the design is not Saltelli's, points are missing, or the answer is always the same.
    The estimators are those of Saltelli et al., Computer Physics Communications 181, 2010, table 2, as SciPy
    has them. The intervals are of a bootstrap over the rows of the base sample.
    """
    sample = found.file.sample
    if sample is None or sample.method != "saltelli" or found.missing:
        return []
    answer = answers(found).sort("point")["answer"].to_numpy().reshape(len(found.varied) + 2, sample.points)
    if not answer[:2].var() > 0:
        return []
    estimate = _indices(answer)
    draw = np.random.default_rng(found.file.seed)
    resampled: list[Floats] = []
    while len(resampled) < RESAMPLES:
        drawn = answer[:, draw.integers(sample.points, size=sample.points)]
        if drawn[:2].var() > 0:
            resampled.append(_indices(drawn))
    low, high = np.quantile(resampled, (0.025, 0.975), axis=0)

    def of(which: int, place: int) -> tuple[float, float, float]:
        return float(estimate[which, place]), float(low[which, place]), float(high[which, place])

    found_indices = [Index(name, of(0, place), of(1, place)) for place, name in enumerate(found.varied)]
    return sorted(found_indices, key=lambda index: -index.total[0])


def _indices(answer: Floats) -> Floats:
    """Return first and total indices, [2, input], of answers [2 + input, row] at A, at B, and at each AB."""
    from scipy.stats import sobol_indices  # takes half a second to import

    given = answer.copy()  # SciPy writes into what it is given
    at = {"f_A": given[None, 0], "f_B": given[None, 1], "f_AB": given[2:, None]}
    found = sobol_indices(func=at, n=answer.shape[1])
    return np.array([found.first_order.ravel(), found.total_order.ravel()])
