"""The page's data as JSON: all nodes in columns, the fleet's distributions, or one node's history.

Every file is a script that hands its JSON to the page. So the page also works from a folder, where browsers
let no page read files.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Sequence
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from pagelens.site.decision import Rule, State
from pagelens.site.history import frame
from pagelens.site.status import FleetStatus, NodeStatus, fleet_status

STATES = (State.ok, State.slow, State.unknown)
# Hours since the boot: from a tenth of an hour to sixty days, in equal steps of the logarithm.
AGE_EDGES = np.geomspace(0.1, 1440, 29)
SHARE_EDGES = np.linspace(0.2, 1.1, 46)  # of what peers reach
QUANTILES = (0.01, 0.05, 0.5, 0.95)
MOST_DAYS = 90
MOST_CHECKS = 400_000  # in a distribution
# Decides which checks are drawn. Nodes are collected in patterns, and every n-th check could always be of the
# same nodes. This multiplicative hash breaks them up (Knuth, The Art of Computer Programming, section 6.4).
_HASH = "(number * 2654435761 & 4294967295) >> 12"

Floats = NDArray[np.float64]


def script(function: str, value: Any) -> str:
    """Return a call of one of the page's functions. `<` in it cannot end the script."""
    text = json.dumps(value, separators=(",", ":"), allow_nan=False).replace("<", "\\u003c")
    return f"pagelens.{function}({text});\n"


def fleet_data(
    connection: sqlite3.Connection, rule: Rule, title: str, now: float | None = None
) -> tuple[FleetStatus, dict[str, Any]]:
    """Return all nodes in columns, and how their figures are distributed by kind, age and day."""
    fleet = fleet_status(connection, rule, now=now)
    nodes = sorted(fleet.nodes, key=lambda each: each.node)
    kinds = sorted({(each.hardware, each.mode) for each in nodes})
    number = {kind: at for at, kind in enumerate(kinds)}
    peers = {(each.hardware, each.mode): each.peers for each in nodes}
    shares = [fleet.slow_shares.get(each.node, 1 / each.slowdown) for each in nodes]
    return fleet, {
        "title": title,
        "at": round(fleet.at),
        "limit": rule.h,
        "counts": fleet.counts,
        "node_hours_a_day": round(fleet.node_hours_a_day, 1),
        "kinds": [
            {"hardware": hardware, "mode": mode, "peers": peers[hardware, mode]} for hardware, mode in kinds
        ],
        "nodes": {
            "name": [each.node for each in nodes],
            "state": [STATES.index(each.state) for each in nodes],
            "kind": [number[each.hardware, each.mode] for each in nodes],
            "figure": [None if each.figure is None else round(each.figure / 1e9, 1) for each in nodes],
            "share": [round(each, 4) for each in shares],
            "booted": [round(each.booted) for each in nodes],
            "checked": [round(each.at) for each in nodes],
            "jobs": [each.jobs for each in nodes],
            "evidence": [round(each.evidence, 1) for each in nodes],
        },
        "distributions": _distributions(connection, kinds, fleet.at),
    }


def _distributions(
    connection: sqlite3.Connection, kinds: Sequence[tuple[str, str]], now: float
) -> list[dict[str, Any]]:
    """Return the distributions of checks for each kind.

    They are by age and share of the peers' median, by share alone, and by day. If the history has more than
    400,000 checks, one in n of them is drawn and stands for n, so that millions are shown as soon.
    """
    (last,) = connection.execute("SELECT coalesce(max(number), 0) FROM checks").fetchone()
    step = 1 + last // MOST_CHECKS
    rows = frame(
        connection,
        "SELECT hardware, mode, checks.at, uptime, figure / median FROM checks JOIN kinds USING (kind)"
        " JOIN peers ON peers.kind = checks.kind AND peers.day = CAST(checks.at / 86400 AS INTEGER)"
        f" WHERE counted = 1 AND checks.at > ? AND ({_HASH}) % ? = 0",
        {
            "hardware": pl.String,
            "mode": pl.String,
            "at": pl.Float64,
            "uptime": pl.Float64,
            "share": pl.Float64,
        },
        (now - MOST_DAYS * 86_400, step),
    )
    by_kind = {(str(h), str(m)): of for (h, m), of in rows.group_by("hardware", "mode")}
    empty = rows.clear()
    return [_of_kind(by_kind.get(kind, empty), step) for kind in kinds]


def _of_kind(rows: pl.DataFrame, step: int) -> dict[str, Any]:
    """Return one kind's distributions, of rows that stand for `step` checks each."""
    share = np.clip(rows["share"].to_numpy(), SHARE_EDGES[0], SHARE_EDGES[-1])
    age = np.clip(rows["uptime"].to_numpy() / 3600, AGE_EDGES[0], AGE_EDGES[-1])
    counts, _, _ = np.histogram2d(age, share, bins=(AGE_EDGES, SHARE_EDGES))
    days = rows.group_by((pl.col("at") / 86_400).cast(pl.Int64).alias("day")).agg(
        *(pl.col("share").quantile(q, "linear").round(4).alias(f"q{q}") for q in QUANTILES),
        (pl.len() * step).alias("checks"),
    ).sort("day")  # fmt: skip
    return {
        "ages": [round(float(edge), 3) for edge in AGE_EDGES],
        "shares": [round(float(edge), 3) for edge in SHARE_EDGES],
        "by_age": (step * counts.astype(int)).tolist(),
        "by_share": (step * np.histogram(share, SHARE_EDGES)[0]).tolist(),
        "days": {name: days[name].to_list() for name in days.columns},
    }


def node_data(one: NodeStatus) -> dict[str, Any]:
    """Return one node's checks in columns, and its actions."""
    each = one.standing
    return {
        "name": each.node,
        "state": STATES.index(each.state),
        "reason": each.reason,
        "hardware": each.hardware,
        "mode": each.mode,
        "peers": None if each.peers is None else round(each.peers / 1e9, 1),
        "boot": each.boot,
        "booted": round(each.booted),
        "since": None if each.since is None else round(each.since),
        "checks": {
            "at": [round(check.at) for check in one.checks],
            "age": [round(check.uptime / 3600, 2) for check in one.checks],
            "boot": _numbered([check.boot for check in one.checks]),
            "job": [check.job for check in one.checks],
            "figure": [
                None if check.figure is None else round(check.figure / 1e9, 1) for check in one.checks
            ],
            "z": [None if check.z is None else round(check.z, 1) for check in one.checks],
            "counted": [int(check.counted) for check in one.checks],
            "free": [check.details.get("free_blocks", []) for check in one.checks],
            "huge": [check.details.get("huge_2m") for check in one.checks],
            "unusable": [check.details.get("unusable") for check in one.checks],
        },
        "actions": [
            {"at": round(action.at), "step": action.step, "reason": action.reason, "result": action.result}
            for action in one.actions
        ],
    }


def _numbered(boots: Sequence[str]) -> list[int]:
    known: dict[str, int] = {}
    return [known.setdefault(boot, len(known)) for boot in boots]
