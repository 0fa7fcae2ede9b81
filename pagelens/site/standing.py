"""What the history says of each node now: whether it is ok, slow or unknown, and the figures behind it."""

from __future__ import annotations

import sqlite3
import time
from dataclasses import asdict, dataclass
from typing import Any

import polars as pl

from pagelens.site.decision import Rule, State
from pagelens.site.history import frame

STALE_S = 7 * 86_400  # a node that was not checked for so long is unknown; assumed

_QUERY = """
SELECT states.node, name, hardware, mode, boot, booted, states.at, figure, z, sum, jobs, slow, since, follows,
    median,
    CASE WHEN follows IS NOT NULL THEN
        (SELECT min(checks.at) FROM checks WHERE checks.node = states.node)
    END
FROM states JOIN nodes ON nodes.node = states.node JOIN kinds ON kinds.kind = states.kind
    LEFT JOIN (SELECT kind, median, max(day) FROM peers GROUP BY kind) AS latest ON latest.kind = states.kind
ORDER BY name, states.at
"""
_COLUMNS = {
    "node": pl.Int64,
    "name": pl.String,
    "hardware": pl.String,
    "mode": pl.String,
    "boot": pl.String,
    "booted": pl.Float64,
    "at": pl.Float64,
    "figure": pl.Float64,
    "z": pl.Float64,
    "sum": pl.Float64,
    "jobs": pl.Int64,
    "slow": pl.Int64,
    "since": pl.Float64,
    "follows": pl.Int64,
    "median": pl.Float64,
    "first": pl.Float64,
}


@dataclass(frozen=True)
class Standing:
    """A node's state and why. Times are seconds since 1970, figures bytes a second."""

    node: str
    state: State
    reason: str
    hardware: str
    mode: str
    figure: float | None  # the figure of the last check
    peers: float | None  # the median of nodes of the kind
    z: float | None
    evidence: float  # the sum; slow from the rule's h on
    jobs: int  # checks in it
    at: float  # the time of the last check
    booted: float
    since: float | None  # when it became slow
    boot: str
    number: int  # the node's row in the history

    @property
    def slowdown(self) -> float:
        """The peers' figure over the node's; 1 if one of them is not known."""
        return self.peers / self.figure if self.peers and self.figure else 1.0

    def to_json(self) -> dict[str, Any]:
        """Return everything by name."""
        return asdict(self)


def standings(connection: sqlite3.Connection, rule: Rule, now: float | None = None) -> list[Standing]:
    """Return all nodes by name.

    A node that goes on under another name, or with another board, is one node.
    """
    moment = time.time() if now is None else now
    rows = frame(connection, _QUERY, _COLUMNS).to_dicts()
    last = {row["node"]: row["at"] for row in rows}
    gone = {row["follows"] for row in rows if last.get(row["follows"], moment) < (row["first"] or 0)}
    current = {row["name"]: row for row in rows if row["node"] not in gone}  # the latest of a name wins
    return [_standing(row, rule, moment) for _, row in sorted(current.items())]


def _standing(row: dict[str, Any], rule: Rule, now: float) -> Standing:
    state, reason = _judgement(row, rule, now)
    return Standing(
        node=row["name"],
        state=state,
        reason=reason,
        hardware=row["hardware"],
        mode=row["mode"],
        figure=row["figure"],
        peers=row["median"],
        z=row["z"],
        evidence=row["sum"],
        jobs=row["jobs"],
        at=row["at"],
        booted=row["booted"],
        since=row["since"],
        boot=row["boot"],
        number=row["node"],
    )


def _judgement(row: dict[str, Any], rule: Rule, now: float) -> tuple[State, str]:
    jobs = f"{row['jobs']} check{'' if row['jobs'] == 1 else 's'}"
    if now - row["at"] > STALE_S:
        return State.unknown, f"not checked for {(now - row['at']) / 86_400:.0f} days"
    if row["jobs"] == 0 and row["median"] is None:
        return State.unknown, f"fewer than {rule.least_peers} nodes of its kind to compare it with"
    if row["jobs"] == 0:
        return State.unknown, "no check counts since it booted or was mended"
    if row["slow"]:
        return State.slow, f"below its peers by more than chance: evidence {row['sum']:.1f} after {jobs}"
    return State.ok, f"evidence {row['sum']:.1f} of {rule.h:g} after {jobs}"
