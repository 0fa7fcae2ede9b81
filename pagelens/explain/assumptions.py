"""Tells whether the conclusion would change if a value that the machine file assumes were different."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from pagelens.ensemble.result import Ensemble
from pagelens.explain.model import Assumption, RemedyGain
from pagelens.explain.verdict import MATTERS
from pagelens.machine.values import stated_values
from pagelens.replay.assumed import assumed_values, factors_of, is_of_time_model, scaled
from pagelens.values.quantities import Sourced

Gains = Mapping[str, float]  # in the median, by remedy
Tried = Mapping[str, Mapping[float, Gains]]  # by assumed value, and by the factor of it that was simulated


def assumptions(
    ensemble: Ensemble, remedies: Sequence[RemedyGain], tried: Tried | None = None
) -> list[Assumption]:
    """Return one entry for each assumed value of the time model, and for each that was `tried`.

    Those of the time model come first, in the order of the machine file. All are judged by the gain in the
    median. Where the conclusion rests on the slow nodes, the median cannot judge it, and there is no entry.
    """
    rows = ensemble.tables.assumed
    if ensemble.phase is not None:
        rows = rows.filter(pl.col("phase") == ensemble.phase)
    sums = rows.group_by("value", "factor", "policy", "node").agg(pl.col("time_s").sum())
    times = {
        (value, factor, policy): seconds
        for value, factor, policy, seconds in sums.sort("node")
        .group_by("value", "factor", "policy", maintain_order=True)
        .agg("time_s")
        .iter_rows()
    }
    as_it_is = {remedy.policy: remedy.gain_median for remedy in remedies}

    def gains(value: str, factor: float) -> Gains:
        before = times[value, factor, ensemble.baseline]
        of = {name: times[value, factor, name] for name in as_it_is}
        # A policy may have fewer nodes than the baseline. Only those of both compare.
        return {
            name: float(np.median(before[: len(after)]) / np.median(after[: len(before)]))
            for name, after in of.items()
        }

    of_times = {
        name: {factor: gains(name, factor) for factor in factors_of(sourced)}
        for name, sourced in assumed_values(ensemble.machine).items()
        if (name, factors_of(sourced)[0], ensemble.baseline) in times
    }
    stated = {each.name: each.value for each in stated_values(ensemble.machine)}
    found = (
        _assumption(name, stated[name], dict(sorted({**of, 1.0: as_it_is}.items())), remedies)
        for name, of in {**of_times, **(tried or {})}.items()
    )
    return [each for each in found if each is not None]


def _assumption(
    name: str, sourced: Sourced[Any], gains: Mapping[float, Gains], remedies: Sequence[RemedyGain]
) -> Assumption | None:
    advised = next((r.policy for r in remedies if r.verdict == "gains"), None)
    factors = np.array(list(gains))
    policies = [advised] if advised else [r.policy for r in remedies if r.verdict == "none"]
    best = np.array([max((of[name] for name in policies), default=1.0) for of in gains.values()])
    every = [advised] if advised else [r.policy for r in remedies]
    gained = [max((of[name] for name in every), default=1.0) for of in gains.values()]
    which = [max(policies, key=of.__getitem__, default="") for of in gains.values()]
    holds = best > MATTERS if advised else best <= MATTERS
    if not holds[factors == 1].all():
        return None
    low, high = _around(factors, best, holds)
    turns = {
        side: f"'{which[at]}' gains {'less' if advised else 'more'} than 2%"
        for side, at in (("below", 0), ("above", -1))
        if not holds[at]
    }

    def shown(factor: float) -> str:
        return _shown(sourced, scaled(sourced, factor), digits=2)

    return Assumption(
        name=name,
        value=_shown(sourced, sourced.value, digits=6) if isinstance(sourced.value, tuple) else sourced.shown,
        note=sourced.origin,
        tried_from=shown(factors[0]),
        tried_to=shown(factors[-1]),
        holds_from=shown(low),
        holds_to=shown(high),
        below=turns.get("below", ""),
        above=turns.get("above", ""),
        range_is_stated=sourced.range is not None,
        simulated=not is_of_time_model(name.rpartition(".")[2]),
        gain_as_it_is=gained[list(gains).index(1.0)],
        gain_from=gained[0],
        gain_to=gained[-1],
    )


def _shown(sourced: Sourced[Any], value: Any, digits: int) -> str:
    """Return a value as a machine file writes it. Of a matrix these are its least and its largest."""
    if isinstance(value, tuple):
        every = [each for row in value for each in row]
        ends = tuple(float(f"{end:.{digits}g}") for end in (min(every), max(every)))
        return sourced.model_copy(update={"value": (ends,)}).shown.replace(" ", " to ", 1)
    rounded = value if isinstance(value, int) else float(f"{value:.{digits}g}")
    return sourced.model_copy(update={"value": rounded}).shown


def _around(
    factors: NDArray[np.float64], gains: NDArray[np.float64], holds: NDArray[np.bool_]
) -> tuple[float, float]:
    """Return the factors around 1 between which the conclusion holds.

    Where the gain crosses 2% is interpolated.
    """
    at = int(np.flatnonzero(factors == 1)[0])
    logs = np.log(factors)
    ends = []
    for step, last in ((-1, 0), (1, len(factors) - 1)):
        here = at
        while here != last and holds[here + step]:
            here += step
        if here == last:
            ends.append(float(factors[last]))
            continue
        there = here + step
        share = (MATTERS - gains[here]) / (gains[there] - gains[here])
        ends.append(float(np.exp(logs[here] + share * (logs[there] - logs[here]))))
    return ends[0], ends[1]
