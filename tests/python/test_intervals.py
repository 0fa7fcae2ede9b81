"""Intervals of an explanation: 95% means 95%, and what lies within them is not claimed."""

import dataclasses
from typing import Any

import numpy as np
import polars as pl
import pytest
import synthetic

from pagelens.ensemble.result import STRETCHES, Ensemble, table
from pagelens.explain import explain
from pagelens.explain.intervals import Interval, Intervals
from pagelens.explain.model import RemedyGain
from pagelens.explain.remedy_words import advice, harm_in_words, unknown_in_words
from pagelens.explain.verdict import Verdict, verdict

NODES, PHASES = 5, ("setup", "solve")


def in_stretches(ensemble: Ensemble, seed: int, apart: float, by_chance_right: bool = False) -> Ensemble:
    """The ensemble, its runs as estimated from 12 stretches of each phase that differ by a twentieth.

    What the stretches do to a run is the same on all nodes and under all policies, but for `apart` of it.
    """
    random = np.random.default_rng(seed)
    rows, left_out = [], []
    common = {phase: random.normal(0, 0.05, 12) for phase in PHASES}
    for policy in ensemble.policies:
        own = {phase: random.normal(0, 0.05 * apart, 12) for phase in PHASES}
        for row in ensemble.tables.placements.filter(pl.col("policy") == policy).iter_rows(named=True):
            lines = 1 + common[row["phase"]] + own[row["phase"]]
            if by_chance_right:
                lines += 1 - lines.mean()
            others = (lines.sum() - lines) / (len(lines) - 1)
            rows.append(row | {"time_s": row["time_s"] * lines.mean()})
            left_out.append(
                table(
                    STRETCHES,
                    {name: row[name] for name in ("node", "policy", "phase")}
                    | {
                        "stretch": np.arange(len(lines)),
                        "time_s": row["time_s"] * others,
                        "serial_time_s": row["serial_time_s"] * others,
                    },
                )
            )
    tables = dataclasses.replace(
        ensemble.tables,
        placements=pl.DataFrame(rows, schema=ensemble.tables.placements.schema),
        stretches=pl.concat(left_out),
    )
    return dataclasses.replace(ensemble, tables=tables)


def alike() -> Ensemble:
    """Returns nodes that are alike, so that only the choice of stretches is left to chance."""
    ensemble = synthetic.ensemble(nodes=NODES, policies=("contiguous", "2m"))
    rows = ensemble.tables.placements.with_columns(pl.col("time_s").first().over("policy", "phase"))
    return dataclasses.replace(ensemble, tables=dataclasses.replace(ensemble.tables, placements=rows))


def test_95_percent_of_the_intervals_hold_the_value_of_the_whole_run() -> None:
    whole = alike()
    of = {
        "median": lambda intervals: intervals.median("2m"),
        "gain": lambda intervals: intervals.gain("contiguous", "2m", 0.5),
    }
    exact = {name: interval(Intervals(whole)).value for name, interval in of.items()}
    held, trials = dict.fromkeys(of, 0), 200
    for seed in range(trials):
        some = Intervals(in_stretches(whole, seed, apart=0.3))
        for name, interval in of.items():
            found = interval(some)
            held[name] += found.low <= exact[name] <= found.high
    for name, often in held.items():
        assert 0.9 <= often / trials <= 0.99, name


def test_what_policies_have_in_common_is_not_in_the_interval_of_their_gain() -> None:
    some = Intervals(in_stretches(alike(), 1, apart=0))
    median, gain = some.median("2m"), some.gain("contiguous", "2m", 0.5)
    widths = [(of.high - of.low) / of.value for of in (median, gain)]
    assert widths[0] > 0.02
    assert widths[1] < widths[0] / 10


def test_no_interval_reaches_below_zero() -> None:
    some = Intervals(in_stretches(alike(), 2, apart=30))
    assert some.median("2m").low >= 0
    assert some.gain("contiguous", "2m", 0.5).low >= 0


@pytest.mark.parametrize(
    ("median", "slow_nodes", "serial", "said"),
    [
        ((1.2, 1.1, 1.3), (1.2, 1.1, 1.3), (1.1, 1.1), "gains"),
        ((1.0, 1.0, 1.0), (1.5, 1.2, 1.7), (1.0, 1.2), "gains"),
        ((1.0, 1.0, 1.0), (1.5, 1.2, 1.7), (0.98, 1.2), "gains"),
        ((1.0, 1.0, 1.0), (1.5, 1.2, 1.7), (1.0, 0.9), "bounds disagree"),
        ((1.27, 0.9, 1.6), (1.27, 0.9, 1.6), (1.2, 1.2), "unsure"),
        ((1.02, 1.02, 1.02), (1.02, 1.02, 1.02), (0.9, 0.9), "none"),
        ((1.05, 1.04, 1.06), (1.05, 1.04, 1.06), (0.9, 0.9), "bounds disagree"),
        ((0.8, 0.7, 0.9), (0.8, 0.7, 0.9), (0.9, 0.9), "costs"),
        ((0.88, 0.8, 0.9), (1.1, 1.05, 1.2), (0.88, 1.1), "costs"),
        ((0.8, 0.7, 0.9), (0.8, 0.7, 0.9), (1.1, 1.1), "bounds disagree"),
        ((0.8, 0.5, 1.1), (0.8, 0.5, 1.1), (0.9, 0.9), "unsure"),
    ],
)
def test_only_what_interval_and_bounds_agree_on_is_claimed(
    median: tuple[float, ...], slow_nodes: tuple[float, ...], serial: tuple[float, float], said: Verdict
) -> None:
    assert verdict(Interval(*median), Interval(*slow_nodes), *serial) == said


def _gain(policy: str, median: tuple[float, ...], slow_nodes: tuple[float, ...], **more: Any) -> RemedyGain:
    of = (("median", median), ("p95", slow_nodes))
    figures = {
        f"gain_{name}{part}": value
        for name, three in of
        for part, value in zip(("", "_low", "_high"), three, strict=True)
    }
    texts = {"title": "its title", "root": "", "memory": "", "code": ""}
    return RemedyGain(policy=policy, **figures, gain_worst=1.0, **texts, **more)


@pytest.mark.parametrize("policy", ["shuffled", "interleave:field", "2m+offset-64k"])
def test_a_remedy_that_takes_more_than_one_command_is_referred_to_its_page(policy: str) -> None:
    [best] = advice([_gain(policy, (1.1, 1.1, 1.1), (1.1, 1.1, 1.1), gain_serial=1.1, verdict="gains")])
    assert best.endswith("docs/remedies.md says how to apply it.")


def test_what_is_said_of_a_remedy_is_what_decided_its_verdict() -> None:
    """A gain of slow nodes is no gain of the median node, whose interval holds 1 or lies below it."""
    slow = (1.06, 1.01, 1.11)
    [best] = advice([_gain("2m", (1.06, 0.99, 1.14), slow, gain_serial=1.05, verdict="gains")])
    assert "1.06x as fast on the slow nodes (95th percentile; 95% interval 1.01-1.11)" in best
    assert "on the median node 1.06x (0.99-1.14)" in best
    assert best.endswith("To apply it, run `pagelens run --pages thp -- ./app`.")
    [harm] = harm_in_words([_gain("2m", (0.88, 0.8, 0.9), slow, gain_serial=0.88, verdict="costs")])
    assert "'2m' (1.14x as long, but 1.06x as fast on the slow nodes)" in harm
    apart = _gain("2m", (1.0, 1.0, 1.0), slow, gain_serial=1, gain_p95_serial=0.9, verdict="bounds disagree")
    [claimless] = unknown_in_words([apart], 64, 0)
    assert "1.06x as fast on the slow nodes" in claimless
    assert "0.90x as fast if they take turns" in claimless


def test_what_is_not_sure_is_not_advised_but_said() -> None:
    """A gain of 27% in one trace, within the error of what was simulated, and the two bounds of the time."""
    ensemble = synthetic.ensemble(nodes=4, placement_matters=False)
    faster = pl.when(pl.col("policy") == "2m").then(pl.col("time_s") / 1.27).otherwise(pl.col("time_s"))
    ensemble = dataclasses.replace(
        ensemble,
        tables=dataclasses.replace(
            ensemble.tables, placements=ensemble.tables.placements.with_columns(faster.alias("time_s"))
        ),
    )
    assert any("'2m'" in text for text in advice(explain(ensemble).remedies))

    unsure = explain(in_stretches(ensemble, 1, apart=10, by_chance_right=True))
    text = " ".join(unsure.conclusion.sentences)
    assert unsure.remedies[0].verdict == "unsure"
    assert not unsure.conclusion.placement_matters
    assert "too small to tell whether these remedies help: '2m'" in text
    assert "More nodes would not tell" in text
    assert "(--nodes) may tell" not in text

    serial = pl.when(pl.col("policy") == "2m").then(pl.col("serial_time_s") * 1.11)
    serial = serial.otherwise(pl.col("serial_time_s")).alias("serial_time_s")
    disagreeing = explain(
        dataclasses.replace(
            ensemble,
            tables=dataclasses.replace(
                ensemble.tables, placements=ensemble.tables.placements.with_columns(serial)
            ),
        )
    )
    text = " ".join(disagreeing.conclusion.sentences)
    assert not disagreeing.conclusion.placement_matters
    assert "Nothing is claimed for '2m': with it the program runs 1.27x as fast if all resources" in text
    assert "0.90x as fast if they take turns" in text
