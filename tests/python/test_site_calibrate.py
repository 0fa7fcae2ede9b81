"""Rules on a site's own history: what they would do to good nodes and to bad ones."""

import numpy as np
import pytest
from fleet_history import NOW, check, fleet

from pagelens.errors import Failure
from pagelens.site.calibration import calibrate
from pagelens.site.collect import collect
from pagelens.site.decision import Evidence, Rule, add
from pagelens.site.history import open_history
from pagelens.site.rules import Below, Checks, Cusum, Ewma, alarms

RULE = Rule()


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    with open_history(tmp_path_factory.mktemp("site") / "h", write=True) as history:
        collect(history, fleet(150, 60, bad=0.05), RULE, NOW)
        return calibrate(history, RULE)


def rule(found, name):
    return next(each for each in found.rules if each.name.startswith(name))


def test_the_sum_drains_fewer_good_nodes_than_one_low_figure_does(found):
    one, cusum = rule(found, "one below"), rule(found, "CUSUM")
    assert one.false_drains_an_hour > 10 * cusum.false_drains_an_hour
    assert cusum.false_low <= cusum.false_drains_an_hour <= cusum.false_high
    # Every low figure is a drain by NERSC's rule: as many an hour as there are low figures.
    lows = found.low_share * found.checks_an_hour
    assert one.false_drains_an_hour == pytest.approx(lows, rel=0.5)


def test_bad_nodes_are_found_and_three_in_a_row_takes_longest(found):
    assert found.bad_boots > 0
    assert rule(found, "CUSUM").found_in_hindsight >= 0.5 * found.bad_boots
    often, rarely = zip(
        *((d.median_jobs or np.inf for d in each.delays) for each in found.rules), strict=True
    )
    assert all(a <= b for a, b in zip(often, rarely, strict=True))
    assert rule(found, "3 in a row").delays[0].median_jobs > rule(found, "CUSUM").delays[0].median_jobs


def test_too_short_a_history_is_an_error(tmp_path):
    with open_history(tmp_path / "h", write=True) as history:
        collect(history, [check(job="1")], RULE, NOW)
        with pytest.raises(Failure, match="collect at least 300"):
            calibrate(history, RULE)


def test_each_rule_alarms_at_its_edge_and_begins_anew():
    row = np.array([[-6.0, -6.0, -6.0, -6.0, -6.0, -6.0]])
    low = np.full((1, 6), 0.8)
    assert alarms(Below(1), Checks(row, low)).tolist() == [[True] * 6]
    assert alarms(Below(1, row=3), Checks(row, low)).tolist() == [[False, False, True] * 2]
    assert alarms(Cusum(1), Checks(row, low)).tolist() == [[False, False, True] * 2]
    assert not alarms(Below(1), Checks(row, np.full((1, 6), 0.846))).any()
    below, above = np.full((1, 200), -1.4), np.full((1, 200), -1.6)
    assert not alarms(Ewma(1), Checks(below, below)).any()
    assert alarms(Ewma(1), Checks(above, above)).any()


def test_the_compared_sum_is_the_one_that_decides():
    z = np.random.default_rng(3).normal(-1.2, 3, (40, 25))
    first = alarms(Cusum(40), Checks(z, z)).cumsum(axis=1) > 0
    for last in range(1, 26):
        decided = add(Evidence.none(40), z[:, :last], RULE)
        assert (decided.slow <= first[:, last - 1]).all()
