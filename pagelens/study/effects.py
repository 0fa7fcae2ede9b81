"""Finds which input decides the answer: what each changes on average, and its share of the variance."""

from dataclasses import dataclass

import numpy as np
import polars as pl
from numpy.typing import NDArray

from pagelens.study.result import POINT, StudyResult

MOST_LEVELS = 8  # an input with more numbers is cut into QUARTERS
QUARTERS = 4

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Effect:
    """What one input changes: the mean answer at each of its levels, over all values of the others."""

    name: str
    levels: list[str]
    means: list[float]  # the mean answer at each level
    share: float  # the correlation ratio: the share of variance over the points that the means explain

    @property
    def low(self) -> float:
        """Return the least mean."""
        return min(self.means)

    @property
    def high(self) -> float:
        """Return the largest mean."""
        return max(self.means)


def answers(found: StudyResult) -> pl.DataFrame:
    """Return the figure that the study is about, a row for each point: columns POINT and `answer`.

    The gain is that of the best policy at the point, the time the median of the baseline in seconds, the
    spread the time of the slowest node over that of the fastest under the baseline.
    """
    baseline = pl.col("policy") == found.baseline
    if found.file.asked == "gain":
        rows = found.table.filter(~baseline) if found.table["policy"].n_unique() > 1 else found.table
        return rows.group_by(POINT, maintain_order=True).agg(pl.col("gain").max().alias("answer"))
    figure = (
        pl.col("median_s") if found.file.asked == "time" else pl.col("worst_s") / pl.col("best_s")
    ).alias("answer")
    return found.table.filter(baseline).select(POINT, figure)


def effects_of(found: StudyResult) -> list[Effect]:
    """Return the effect of every input that varies, the one that decides most first.

    The share is that of the variance of the conditional means (Saltelli et al., Global Sensitivity Analysis,
    2008, section 1.2.4: the first-order index); what all shares leave of 1 is due to inputs together. An
    input with more than MOST_LEVELS numbers is cut into quarters of the points. Shares of a sample of n
    points are too large by chance, by about (levels - 1) / n.
    """
    by_point = answers(found)
    if by_point.height < 2:
        return []
    numbers, answer = by_point[POINT].to_list(), by_point["answer"].to_numpy()
    columns = found.table.unique(POINT, keep="first", maintain_order=True)
    of_inputs = []
    for name in found.varied:
        labels = [str(found.values[number][name]) for number in numbers]
        of_inputs.append(_effect(name, labels, columns[name], answer))
    return sorted(of_inputs, key=lambda effect: -effect.share)


def _effect(name: str, labels: list[str], column: pl.Series, answer: Floats) -> Effect:
    order = list(dict.fromkeys(labels))
    groups = np.array([order.index(label) for label in labels])
    if len(order) > MOST_LEVELS and column.dtype.is_numeric():
        values = column.to_numpy()
        groups = _quarters(values)
        ends = [np.flatnonzero(groups == group) for group in np.unique(groups)]
        order = [f"{labels[at[np.argmin(values[at])]]} to {labels[at[np.argmax(values[at])]]}" for at in ends]
        groups = np.unique(groups, return_inverse=True)[1]
    present = [group for group in range(len(order)) if (groups == group).any()]
    means = [float(answer[groups == group].mean()) for group in present]
    sizes = np.array([(groups == group).sum() for group in present])
    total = float(answer.var())
    between = float((sizes * (np.array(means) - answer.mean()) ** 2).sum() / len(answer))
    return Effect(name, [order[group] for group in present], means, between / total if total > 0 else 0.0)


def _quarters(values: Floats) -> NDArray[np.int64]:
    """Return the quarter of the points in which each value lies. Equal values stay together.

    Else points of one value would be parted by their order, in which the other inputs change.
    """
    _, level, counts = np.unique(values, return_inverse=True, return_counts=True)
    middle = np.cumsum(counts) - counts / 2
    return (middle * QUARTERS / len(values)).astype(np.int64)[level]
