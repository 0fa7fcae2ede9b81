"""What a job on many nodes costs, against a slow and obvious way to say it."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from synthetic import ensemble

import pagelens as pl
from pagelens.cli.text.explain import render_terminal
from pagelens.errors import UsageError
from pagelens.explain import explain
from pagelens.explain.html import render_html
from pagelens.explain.job_cost import job_cost

TITLES = {"sorted": "Sorted"}


def cost(times, nodes, **others):
    return job_cost({"aged": np.array(times, dtype=float), **others}, "aged", nodes, TITLES, 1)


@given(st.lists(st.floats(1, 9), min_size=2, max_size=6), st.integers(1, 4), st.integers(0, 2))
@settings(max_examples=30, deadline=None)
def test_expectations_equal_those_of_all_draws(times, nodes, spare):
    """Every way to draw the job's nodes, one by one."""
    from pagelens.explain.job_cost import _weights

    draws = np.array(np.meshgrid(*[times] * (nodes + spare))).reshape(nodes + spare, -1)
    kept = np.sort(draws, axis=0)[nodes - 1]
    assert np.sort(times) @ _weights(len(times), nodes, spare) == pytest.approx(kept.mean())


def test_one_slow_node_in_a_hundred_costs_large_jobs_and_leaving_it_out_helps():
    times = [1.0] * 99 + [2.0]
    assert cost(times, 1).ways[0].time_s == pytest.approx(1.01)
    large = cost(times, 1736)
    assert large.ways[0].time_s == pytest.approx(2.0, abs=1e-6)
    one, hundredth, twentieth = (way for way in large.ways if way.left_out)
    assert (one.left_out, hundredth.left_out, twentieth.left_out) == (1, 18, 87)
    assert one.gain == pytest.approx(1.0, abs=1e-4)
    assert twentieth.gain == pytest.approx(2.0)
    assert twentieth.gain_low < 2.0 <= twentieth.gain_high + 1e-9


def test_a_remedy_on_every_node_first_is_compared_on_the_same_nodes():
    aged = np.random.default_rng(1).uniform(1, 2, 64)
    found = cost(aged, 20, sorted=aged / 2, other=aged).ways[-1]
    assert found.policy == "sorted"
    assert (found.gain_low, found.gain, found.gain_high) == pytest.approx((2, 2, 2))


def test_more_nodes_than_the_ensemble_has_is_a_lower_bound_and_says_so():
    explanation = explain(ensemble(8))
    told = [
        render_terminal(explanation.model_copy(update={"job_cost": pl.job_cost(ensemble(8), nodes)}))
        for nodes in (8, 1736)
    ]
    assert "at least" not in told[0]
    assert "at least" in told[1]
    assert "rarer than 1 in 8" in " ".join(told[1].split())
    assert max(map(len, told[1].splitlines())) <= 80
    page = render_html(explanation.model_copy(update={"job_cost": pl.job_cost(ensemble(8), 1736)}))
    assert "A job on 1,736 nodes" in page


def test_jobs_without_nodes_and_ensembles_of_one_are_refused():
    with pytest.raises(UsageError, match="--job-nodes 0"):
        cost([1.0, 2.0], 0)
    with pytest.raises(UsageError, match="at least two"):
        cost([1.0], 5)
