"""Computes the figures of the fleet, or of one node, that status, page and metrics show."""

from __future__ import annotations

import json
import sqlite3
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from pagelens.errors import UsageError
from pagelens.site.decision import Rule, State
from pagelens.site.history import Action, actions_of
from pagelens.site.standing import Standing, standings
from pagelens.spelling import nearest

MOST_CHECKS = 300  # of a node, the newest
LATELY = 10  # checks


@dataclass(frozen=True)
class FleetStatus:
    """All nodes, or those in one state."""

    at: float
    counts: dict[str, int]  # the number of nodes in each state
    nodes: Sequence[Standing]  # slow ones first, the slowest first
    slow_shares: dict[str, float]  # the mean of a slow node's last figures over its peers'

    @property
    def node_hours_a_day(self) -> float:
        """What the slow nodes cost today, if each is in use all day and its jobs wait only for memory."""
        return sum(24 * max(0.0, 1 - each) for each in self.slow_shares.values())

    def to_json(self) -> dict[str, Any]:
        """Return everything by name."""
        return {
            "schema": "pagelens site status",
            "version": 1,
            "at": self.at,
            "counts": self.counts,
            "node_hours_a_day": self.node_hours_a_day,
            "nodes": [each.to_json() for each in self.nodes],
        }


@dataclass(frozen=True)
class CheckRow:
    """One check in the history."""

    at: float
    uptime: float
    boot: str
    job: str
    figure: float | None
    z: float | None
    counted: bool
    details: dict[str, Any]


@dataclass(frozen=True)
class NodeStatus:
    """One node: its standing, its checks in order of time, and what was done to it."""

    standing: Standing
    checks: Sequence[CheckRow]
    actions: Sequence[Action]

    def to_json(self) -> dict[str, Any]:
        """Return everything by name."""
        return {
            "schema": "pagelens site node",
            "version": 1,
            **self.standing.to_json(),
            "checks": [asdict(each) for each in self.checks],
            "actions": [asdict(each) for each in self.actions],
        }


def fleet_status(
    connection: sqlite3.Connection, rule: Rule, state: str | None = None, now: float | None = None
) -> FleetStatus:
    """Return all nodes, or those in one state."""
    if state is not None and state not in list(State):
        raise UsageError(f"--state {state}: one of {', '.join(State)}")
    moment = time.time() if now is None else now
    every = standings(connection, rule, moment)
    counts = {str(each): sum(one.state is each for one in every) for each in State}
    rank = {State.slow: 0, State.unknown: 1, State.ok: 2}
    chosen = [each for each in every if state is None or each.state == state]
    shares = {each.node: _lately(connection, each) for each in every if each.state is State.slow}
    return FleetStatus(
        moment,
        counts,
        sorted(chosen, key=lambda each: (rank[each.state], shares.get(each.node, 1.0), each.node)),
        shares,
    )


def _lately(connection: sqlite3.Connection, node: Standing) -> float:
    """Return the mean of the last checks that count, as a share of what the peers reach."""
    (mean,) = connection.execute(
        "SELECT avg(figure) FROM (SELECT figure FROM checks WHERE node = ? AND boot = ? AND counted = 1"
        " ORDER BY uptime DESC LIMIT ?)",
        (node.number, node.boot, LATELY),
    ).fetchone()
    return float(mean) / node.peers if mean and node.peers else 1.0


def node_status(
    connection: sqlite3.Connection,
    rule: Rule,
    name: str,
    now: float | None = None,
    found: Standing | None = None,
) -> NodeStatus:
    """Return one node by its name, or by a name that its board had before. Raises UsageError."""
    if found is None:
        by_name = {each.node: each for each in standings(connection, rule, now)}
        if name not in by_name:
            hint = f"; did you mean {nearest(name, by_name)}?" if by_name else "; nothing was collected yet"
            raise UsageError(f"NODE: no node is called '{name}'{hint}")
        found = by_name[name]
    rows = connection.execute(
        "WITH RECURSIVE chain (node) AS (SELECT ? UNION SELECT follows FROM nodes JOIN chain USING (node)"
        " WHERE follows IS NOT NULL)"
        " SELECT at, uptime, boot, job, figure, z, counted, details FROM checks"
        " WHERE node IN (SELECT node FROM chain UNION SELECT node FROM nodes WHERE name = ?)"
        " ORDER BY at DESC LIMIT ?",
        (found.number, name, MOST_CHECKS),
    ).fetchall()
    checks = [
        CheckRow(at, uptime, boot, job, figure, z, bool(counted), json.loads(details))
        for at, uptime, boot, job, figure, z, counted, details in reversed(rows)
    ]
    return NodeStatus(found, checks, actions_of(connection, name))
