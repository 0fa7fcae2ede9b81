"""Policies against each other on modelled nodes."""

import numpy as np
import pytest

from pagelens.errors import UsageError
from pagelens.site.decision import Rule
from pagelens.site.fleet_model import simulation
from pagelens.site.fleet_model.ageing import Lives, lives
from pagelens.site.fleet_model.simulation import Inputs, simulate_site

SMALL = Inputs(nodes=400, jobs=30, draws=4)


@pytest.fixture(scope="module")
def found():
    return {each.name: each for each in simulate_site(SMALL, Rule()).policies}


def test_sorting_gains_more_than_it_costs(found):
    sort = found["sort"]
    assert sort.gain.low > 0
    assert sort.sorting.value < sort.gain.value
    assert found["nothing"].gain.value == 0
    assert found["sort, also each 180 s"].sorting.value > sort.sorting.value


def test_rebooting_at_one_low_figure_reboots_more_than_the_sum_does(found):
    one, cusum = found["sort, reboot below 300"], found["sort, reboot by CUSUM"]
    assert one.reboots_a_day.value > 2 * cusum.reboots_a_day.value
    assert found["sort"].reboots.value == 0


def test_equal_seeds_give_equal_answers_and_more_nodes_lose_more():
    few = simulate_site(Inputs(nodes=50, jobs=5, draws=2), Rule()).policies[0].slow_jobs.value
    assert few == simulate_site(Inputs(nodes=50, jobs=5, draws=2), Rule()).policies[0].slow_jobs.value
    assert simulate_site(Inputs(nodes=500, jobs=5, draws=2), Rule()).policies[0].slow_jobs.value > few


def test_nodes_that_never_age_lose_nothing_but_what_is_done_to_them(monkeypatch):
    even = Lives(np.ones((3, 7)), np.ones((3, 7)))
    monkeypatch.setattr(simulation, "lives", lambda: dict.fromkeys(("sorted", "intel", "unsorted"), even))
    quiet = Inputs(nodes=60, jobs=8, draws=2, disturbed=0.0, reboot_hours=1.0, sort_s=36.0)
    for each in simulate_site(quiet, Rule()).policies:
        assert each.slow_jobs.value == each.reboots.value == 0
        # 36 s in each 2 h of work are half a percent of the year.
        if each.name == "sort":
            assert each.sorting.value == pytest.approx(60 * 8766 * 0.01 / 2.01)


def test_jobs_wait_for_their_slowest_node():
    slowdown = np.ones(64)
    slowdown[5] = 2.0
    rng = np.random.default_rng(1)
    alone = simulation._waiting(Inputs(sizes={1: 1.0}, job_hours=1.0), slowdown, rng)
    together = simulation._waiting(Inputs(sizes={64: 1.0}, job_hours=1.0), slowdown, rng)
    assert (alone, together) == (1.0, 64.0)


def test_lives_begin_fresh_and_are_of_the_same_nodes():
    table = lives()
    assert set(table) == {"sorted", "intel", "unsorted"}
    assert len({each.stream.shape for each in table.values()}) == 1
    assert all((each.stream[:, 0] == 1).all() and (each.job >= 1).all() for each in table.values())


def test_no_nodes_are_refused():
    with pytest.raises(UsageError, match="--nodes 0"):
        simulate_site(Inputs(nodes=0), Rule())
