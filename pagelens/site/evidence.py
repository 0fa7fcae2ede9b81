"""Each node's evidence in the history: its peers of a day, every check's z, and the sum since the last boot.

Checks within a boot are ordered by the kernel's uptime, because clocks step. Of two boots, the one with the
later last check is the current one.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable

import numpy as np
import polars as pl

from pagelens.site.decision import Evidence, Reference, Rule, add, ragged, reference
from pagelens.site.history import frame

PEER_DAYS = 7  # before a check: what peers reached then
DAY_S = 86_400

_ROWS = {
    "node": pl.Int64,
    "kind": pl.Int64,
    "boot": pl.String,
    "at": pl.Float64,
    "uptime": pl.Float64,
    "figure": pl.Float64,
    "counted": pl.Int64,
    "z": pl.Float64,
}
_STATES = {
    "node": pl.Int64,
    "boot": pl.String,
    "uptime": pl.Float64,
    "sum": pl.Float64,
    "jobs": pl.Int64,
    "slow": pl.Int64,
    "since": pl.Float64,
    "after": pl.Float64,
}


def bring_up_to_date(connection: sqlite3.Connection, before: int, rule: Rule) -> None:
    """Judge the checks after number `before`, within the caller's transaction."""
    changed = _judge(connection, before, rule)
    connection.execute("CREATE TEMP TABLE IF NOT EXISTS touched (node INTEGER PRIMARY KEY)")
    connection.execute("DELETE FROM touched")
    connection.execute(
        "INSERT OR IGNORE INTO touched SELECT DISTINCT node FROM checks WHERE number > ?", (before,)
    )
    connection.executemany("INSERT OR IGNORE INTO touched VALUES (?)", [(node,) for node in changed])
    _fold(connection, before, set(changed), rule)


def rebuild(connection: sqlite3.Connection, rule: Rule) -> None:
    """Make all evidence again from the checks, within the caller's transaction."""
    connection.execute("CREATE TEMP TABLE IF NOT EXISTS touched (node INTEGER PRIMARY KEY)")
    connection.execute("DELETE FROM touched")
    connection.execute("INSERT INTO touched SELECT node FROM nodes")
    every = {int(node) for (node,) in connection.execute("SELECT node FROM nodes")}
    _fold(connection, 0, every, rule)


def _judge(connection: sqlite3.Connection, before: int, rule: Rule) -> list[int]:
    """Give z to the checks that have none. Return the nodes of older checks among them."""
    late: list[int] = []
    waiting = connection.execute(
        f"SELECT DISTINCT kind, CAST(at / {DAY_S} AS INTEGER) FROM checks WHERE counted = 1 AND z IS NULL"
    ).fetchall()
    for kind, day in waiting:
        peers = _peers(connection, kind, day, rule)
        if peers is None:
            continue
        begin, end = day * DAY_S, (day + 1) * DAY_S
        where = "kind = ? AND counted = 1 AND z IS NULL AND at >= ? AND at < ?"
        late += [
            int(node)
            for (node,) in connection.execute(
                f"SELECT DISTINCT node FROM checks WHERE {where} AND number <= ?", (kind, begin, end, before)
            )
        ]
        connection.execute(
            f"UPDATE checks SET z = (figure - ?) / ? WHERE {where}",
            (peers.median, peers.scale, kind, begin, end),
        )
    return late


def _peers(connection: sqlite3.Connection, kind: int, day: int, rule: Rule) -> Reference | None:
    """Return what nodes of the kind reached in the days before, and on this day as far as it is known."""
    known = connection.execute(
        "SELECT median, scale, nodes, figures FROM peers WHERE kind = ? AND day = ?", (kind, day)
    ).fetchone()
    if known:
        return Reference(*known)
    rows = frame(
        connection,
        "SELECT node, figure FROM checks WHERE kind = ? AND counted = 1 AND at >= ? AND at < ?",
        {"node": pl.Int64, "figure": pl.Float64},
        (kind, (day - PEER_DAYS) * DAY_S, (day + 1) * DAY_S),
    )
    found = reference(rows["figure"].to_numpy(), rows["node"].to_numpy(), rule.least_peers)
    if found is not None:
        connection.execute(
            "INSERT INTO peers VALUES (?, ?, ?, ?, ?, ?)",
            (kind, day, found.median, found.scale, found.nodes, found.figures),
        )
    return found


def _fold(connection: sqlite3.Connection, before: int, again: set[int], rule: Rule) -> None:
    """Update the states of touched nodes.

    Those of `again` start from the beginning of their boots.
    """
    new = frame(
        connection,
        f"SELECT {', '.join(_ROWS)} FROM checks WHERE number > ? ORDER BY node, uptime",
        _ROWS,
        (before,),
    )
    states = frame(connection, f"SELECT {', '.join(_STATES)} FROM states JOIN touched USING (node)", _STATES)
    joined = new.join(
        states.select("node", pl.col("boot").alias("boot_before"), pl.col("uptime").alias("uptime_before")),
        on="node",
        how="left",
    )
    odd = joined.filter(
        pl.col("boot_before").is_null()
        | (pl.col("boot") != pl.col("boot_before"))
        | (pl.col("uptime") <= pl.col("uptime_before"))
    )["node"]
    again = again | set(odd.to_list())
    _write(connection, new.filter(~pl.col("node").is_in(list(again))), states, rule)
    _from_the_beginning(connection, again, states, rule)


def _from_the_beginning(
    connection: sqlite3.Connection, nodes: Iterable[int], states: pl.DataFrame, rule: Rule
) -> None:
    """Fold all checks of the current boots of some nodes."""
    connection.execute("CREATE TEMP TABLE IF NOT EXISTS again (node INTEGER PRIMARY KEY)")
    connection.execute("DELETE FROM again")
    connection.executemany("INSERT INTO again VALUES (?)", [(node,) for node in nodes])
    rows = frame(
        connection,
        "WITH boots AS (SELECT node, boot, max(at) AS last FROM checks JOIN again USING (node)"
        " GROUP BY node, boot),"
        " current AS (SELECT node, boot, max(last) FROM boots GROUP BY node)"
        f" SELECT {', '.join(f'checks.{name}' for name in _ROWS)} FROM current JOIN checks USING (node, boot)"
        " ORDER BY checks.node, checks.uptime",
        _ROWS,
    )
    # An action of this boot stays the beginning. One of an earlier boot no longer counts.
    kept = rows.select("node", "boot").unique().join(states, on=("node", "boot"), how="left").select(
        "node",
        "boot",
        pl.lit(0.0).alias("uptime"),
        pl.lit(0.0).alias("sum"),
        pl.lit(0, pl.Int64).alias("jobs"),
        pl.lit(0, pl.Int64).alias("slow"),
        "since",
        pl.col("after").fill_null(-1.0),
    )  # fmt: skip
    _write(connection, rows, kept, rule)


def _write(connection: sqlite3.Connection, rows: pl.DataFrame, states: pl.DataFrame, rule: Rule) -> None:
    """Add the rows, which follow the states of their nodes, and keep the new states."""
    if rows.is_empty():
        return
    last = rows.group_by("node", maintain_order=True).last().sort("node")
    states = last.select("node").join(states, on="node", how="left").sort("node")
    nodes = states["node"].to_numpy()
    evidence = Evidence(
        states["sum"].to_numpy().copy(),
        states["jobs"].to_numpy().copy(),
        states["slow"].to_numpy().astype(np.bool_),
    )
    after = dict(zip(states["node"].to_list(), states["after"].to_list(), strict=True))
    judged = rows.filter(
        (pl.col("counted") == 1)
        & pl.col("z").is_not_null()
        & (pl.col("uptime") > pl.col("node").replace_strict(after, return_dtype=pl.Float64))
    )
    index = np.searchsorted(nodes, judged["node"].to_numpy())
    z = ragged(index, judged["z"].to_numpy(), len(nodes))
    found = add(evidence, z, rule)
    since = [
        (at if before is None else before) if slow else None
        for at, before, slow in zip(last["at"], states["since"], found.slow.tolist(), strict=True)
    ]
    connection.executemany(
        "INSERT OR REPLACE INTO states"
        " (node, kind, boot, booted, at, uptime, figure, z, sum, jobs, slow, since, after)"
        " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        zip(
            last["node"],
            last["kind"],
            last["boot"],
            (last["at"] - last["uptime"]).to_list(),
            last["at"],
            last["uptime"],
            last["figure"],
            last["z"],
            found.sums.tolist(),
            found.jobs.tolist(),
            [int(slow) for slow in found.slow.tolist()],
            since,
            [after[node] for node in last["node"].to_list()],
            strict=True,
        ),
    )
