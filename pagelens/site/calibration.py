"""`pagelens site calibrate`: what rules would have done to this site's own nodes.

**Good nodes.** Boots that in hindsight have a tail are left out. The checks of all others are dealt out to
the boots at random, within a kind of nodes. Then no node is worse than another, low figures are as frequent
as they were, and every alarm is a false one.

**Bad nodes.** Low figures that the site had are put into such dealt checks: in two of five checks, and in one
of ten. The result also shows what each rule does to the boots that were bad in hindsight.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray
from scipy.stats import chi2

from pagelens.errors import Failure
from pagelens.site.decision import Rule, ragged
from pagelens.site.history import frame
from pagelens.site.rules import NERSC_SHARE, Checks, alarms, rules

LOW_Z = -3.0  # a low figure
TAIL_SHARE, TAIL_LEAST = 0.25, 3  # of the later half of a boot's checks: then it is bad in hindsight
LOW_SHARES = (0.4, 0.1)  # of a bad node's checks
FEWEST = 300  # checks
_DEALS = 20  # times the good checks are dealt out
_BAD_NODES, _BAD_CHECKS = 1000, 400
_DEFAULT_LOW = (-12.0, 0.75)  # z and share of a low figure where the site had none; assumed

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Delay:
    """How long a node stays in service if it is low in this share of its checks."""

    low_share: float
    median_jobs: float | None  # None if half of the cases are not found within _BAD_CHECKS checks
    median_hours: float | None


@dataclass(frozen=True)
class RuleRecord:
    """What one rule does."""

    name: str
    false_drains_an_hour: float  # the rate of the whole fleet
    false_low: float  # 95% interval, of Poisson counts
    false_high: float
    delays: list[Delay]
    found_in_hindsight: int  # how many of the bad boots are found
    drains_in_history: int  # how many of all boots are drained as they were


@dataclass(frozen=True)
class Calibration:
    """What the rules would do here."""

    nodes: int
    checks: int
    hours: float
    checks_an_hour: float
    hours_a_check: float  # the hours between two checks of a node
    low_share: float  # the share of the good nodes' checks that are low
    bad_boots: int
    boots: int
    rules: list[RuleRecord]

    def to_json(self) -> dict[str, Any]:
        """Return everything by name."""
        return {"schema": "pagelens site calibrate", "version": 1, **asdict(self)}


def calibrate(
    connection: sqlite3.Connection,
    rule: Rule,
    threshold: float = NERSC_SHARE,
    seed: int = 1,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> Calibration:
    """Try all rules on the history. Raises Failure if the history is too short."""
    rows = frame(
        connection,
        "SELECT node, checks.kind, boot, checks.at, uptime, z, figure / median FROM checks"
        " JOIN peers ON peers.kind = checks.kind AND peers.day = CAST(checks.at / 86400 AS INTEGER)"
        " WHERE counted = 1 AND z IS NOT NULL ORDER BY node, boot, uptime",
        {
            "node": pl.Int64,
            "kind": pl.Int64,
            "boot": pl.String,
            "at": pl.Float64,
            "uptime": pl.Float64,
            "z": pl.Float64,
            "share": pl.Float64,
        },
    )
    if rows.height < FEWEST:
        raise Failure(f"calibrate: {rows.height} checks count; collect at least {FEWEST} first")
    rows = rows.with_columns(pl.struct("node", "boot").rank("dense").cast(pl.Int64).sub(1).alias("life"))
    lives = int(rows["life"].to_numpy().max()) + 1
    life = rows["life"].to_numpy()
    own = Checks(ragged(life, rows["z"].to_numpy(), lives), ragged(life, rows["share"].to_numpy(), lives))
    bad = _bad_in_hindsight(own.z)
    good_rows = rows.filter(~pl.col("life").is_in(np.flatnonzero(bad).tolist()))
    hours = max(float(np.ptp(rows["at"].to_numpy())) / 3600, 1e-9)
    nodes = rows["node"].n_unique()
    an_hour, a_check = rows.height / hours, hours * nodes / rows.height
    rng = np.random.default_rng(seed)
    dealt = [_deal(good_rows, rng) for _ in range(_DEALS)]
    ill = [_with_lows(good_rows, share, rng) for share in LOW_SHARES]
    records = []
    known = rules(rule, threshold)
    for number, (name, make) in enumerate(known.items()):
        false = sum(int(alarms(make(len(each.z)), each).sum()) for each in dealt)
        scale = an_hour / (_DEALS * good_rows.height)
        low, high = _poisson(false)
        in_history = alarms(make(lives), own)
        records.append(
            RuleRecord(
                name=name,
                false_drains_an_hour=false * scale,
                false_low=low * scale,
                false_high=high * scale,
                delays=[
                    _delay(share, alarms(make(_BAD_NODES), each), a_check)
                    for share, each in zip(LOW_SHARES, ill, strict=True)
                ],
                found_in_hindsight=int(in_history[bad].any(axis=1).sum()),
                drains_in_history=int(in_history.sum()),
            )
        )
        progress(number + 1, len(known))
    return Calibration(
        nodes=nodes,
        checks=rows.height,
        hours=hours,
        checks_an_hour=an_hour,
        hours_a_check=a_check,
        low_share=float((good_rows["z"].to_numpy() < LOW_Z).mean()),
        bad_boots=int(bad.sum()),
        boots=lives,
        rules=records,
    )


def _bad_in_hindsight(z: Floats) -> NDArray[np.bool_]:
    """Return which boots have many low checks in their later half."""
    sizes = (~np.isnan(z)).sum(axis=1)
    later = np.arange(z.shape[1])[None, :] >= (sizes // 2)[:, None]
    low = ((z < LOW_Z) & later).sum(axis=1)
    return np.asarray((low >= TAIL_LEAST) & (low >= TAIL_SHARE * np.maximum(sizes - sizes // 2, 1)))


def _deal(rows: pl.DataFrame, rng: np.random.Generator) -> Checks:
    """Return the checks, each at the place of another of its kind."""
    kinds = rows["kind"].to_numpy()
    order = np.lexsort((rng.random(len(kinds)), kinds))  # shuffled within each kind
    places = np.argsort(kinds, kind="stable")
    z, share = np.empty(len(kinds)), np.empty(len(kinds))
    z[places], share[places] = rows["z"].to_numpy()[order], rows["share"].to_numpy()[order]
    _, life = np.unique(rows["life"].to_numpy(), return_inverse=True)
    count = int(life.max()) + 1
    return Checks(ragged(life, z, count), ragged(life, share, count))


def _with_lows(rows: pl.DataFrame, low_share: float, rng: np.random.Generator) -> Checks:
    """Return nodes that draw from all good checks, but low ones in this share of theirs."""
    shape = (_BAD_NODES, _BAD_CHECKS)
    z, share = rows["z"].to_numpy(), rows["share"].to_numpy()
    picks = rng.integers(0, len(z), shape)
    low = np.flatnonzero(z < LOW_Z)
    z_low, share_low = (z[low], share[low]) if len(low) else (np.array([v]) for v in _DEFAULT_LOW)
    which = rng.random(shape) < low_share
    of_low = rng.integers(0, len(z_low), shape)
    return Checks(np.where(which, z_low[of_low], z[picks]), np.where(which, share_low[of_low], share[picks]))


def _delay(low_share: float, found: NDArray[np.bool_], hours_a_check: float) -> Delay:
    first = np.where(found.any(axis=1), found.argmax(axis=1) + 1, found.shape[1] + 1)
    jobs = float(np.median(first))
    if jobs > found.shape[1]:
        return Delay(low_share, None, None)
    return Delay(low_share, jobs, jobs * hours_a_check)


def _poisson(count: int) -> tuple[float, float]:
    """Return the exact 95% interval of a Poisson mean (Garwood: Biometrika 28 (1936), 437-442)."""
    low = 0.0 if count == 0 else float(chi2.ppf(0.025, 2 * count) / 2)
    return low, float(chi2.ppf(0.975, 2 * count + 2) / 2)
