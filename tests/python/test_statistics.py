"""Statistics of distributions: known answers, and slow obvious references."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pagelens import statistics as stats


def test_spread_of_known_values() -> None:
    s = stats.spread(np.arange(1, 102), seed=1)  # 1..101
    assert (s.median, s.p5, s.p95, s.best, s.worst) == (51, 6, 96, 1, 101)
    assert 35 < s.median_low < 51 < s.median_high < 67


def test_the_interval_of_the_median_covers_it_about_as_often_as_it_says() -> None:
    rng = np.random.default_rng(5)
    covered = sum(
        s.median_low <= 0 <= s.median_high
        for s in (stats.spread(rng.standard_normal(51), seed=i) for i in range(200))
    )
    assert 180 <= covered <= 199  # 95% of 200, within 3 standard errors


def test_share_slower_counts_strictly_beyond_the_margin() -> None:
    assert stats.share_slower([100.0, 110.0, 111.0, 130.0], best=100, margin=0.1) == 0.5


def test_gain_is_paired_by_node() -> None:
    """Nodes differ by 10x but each gains exactly 2x: the paired interval has no width."""
    before = np.geomspace(1, 10, 31)
    assert stats.paired_gain(before, before / 2, 0.5, seed=3) == pytest.approx((2, 2, 2))


def test_equal_seeds_give_equal_answers() -> None:
    x = np.random.default_rng(0).lognormal(size=64)
    assert stats.spread(x, 7) == stats.spread(x, 7)
    assert stats.spread(x, 7) != stats.spread(x, 8)


pairs = st.lists(
    st.tuples(st.integers(-1000, 1000), st.integers(-1000, 1000)), min_size=3, max_size=40
).filter(lambda p: len({a for a, _ in p}) > 1 and len({b for _, b in p}) > 1)


@given(pairs)
def test_pearson_is_numpys(values: list[tuple[int, int]]) -> None:
    x, y = zip(*values, strict=True)
    assert stats.pearson(x, y) == pytest.approx(np.corrcoef(x, y)[0, 1], abs=1e-9)


@given(pairs)
def test_spearman_is_pearson_of_naive_ranks(values: list[tuple[int, int]]) -> None:
    def rank(v: int, all_v: tuple[int, ...]) -> float:
        return sum(w < v for w in all_v) + (sum(w == v for w in all_v) + 1) / 2

    x, y = zip(*values, strict=True)
    expected = np.corrcoef([rank(v, x) for v in x], [rank(v, y) for v in y])[0, 1]
    assert stats.spearman(x, y) == pytest.approx(expected, abs=1e-9)


def test_a_constant_column_has_no_correlation() -> None:
    assert stats.pearson([5.0, 5.0, 5.0], [1.0, 2.0, 3.0]) is None
    assert stats.spearman([1.0, 2.0, 3.0], [5.0, 5.0, 5.0]) is None
    assert stats.pearson([0.0, 0.0, 0.0], [1.0, 2.0, 3.0]) is None


def test_spearman_sees_what_is_monotonous_but_not_linear() -> None:
    x = np.linspace(0, 5, 30)
    assert stats.spearman(x, np.exp(3 * x)) == pytest.approx(1)
    assert stats.pearson(x, np.exp(3 * x)) < 0.9  # type: ignore[operator]


@pytest.mark.parametrize("seed", range(5))
def test_modes_of_one_two_and_three_groups(seed: int) -> None:
    rng = np.random.default_rng(seed)
    groups = [
        10 + 0.3 * rng.standard_normal(80),
        15 + 0.3 * rng.standard_normal(60),
        22 + 0.3 * rng.standard_normal(60),
    ]
    assert stats.modes(groups[0], seed=1) == 1
    assert stats.modes(np.concatenate(groups[:2]), seed=1) == 2
    assert stats.modes(np.concatenate(groups), seed=1) == 3


def test_a_spread_under_one_percent_is_one_mode() -> None:
    two_close = np.array([100.0] * 20 + [100.9] * 20)
    assert stats.modes(two_close, seed=1) == 1
    assert stats.modes(two_close * np.array([1.0] * 20 + [1.5] * 20), seed=1) == 2


@pytest.mark.parametrize("values", [[], [1.0, math.nan], [math.inf]])
def test_no_distribution_of_nothing(values: list[float]) -> None:
    with pytest.raises(ValueError, match="at least one value"):
        stats.spread(values, 0)
