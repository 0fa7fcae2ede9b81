"""The site's history: one SQLite file with every check and action, and a row of evidence for each node.

The file is in WAL mode, so pages and metrics read while checks are collected. All its tables are STRICT.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl

from pagelens.errors import Failure, UsageError
from pagelens.files import write_table

VERSION = 1  # of the tables: PRAGMA user_version
_BUSY_MS = 30_000  # another process writes
_CACHE_KIB = 256 << 10  # of the writer: indexes of millions of checks are hit everywhere

_TABLES = """
CREATE TABLE nodes (        -- a name on a board: a node that is renamed, or gets a new board, is a new row
    node INTEGER PRIMARY KEY,
    name TEXT NOT NULL,
    board TEXT NOT NULL,
    follows INTEGER REFERENCES nodes,   -- the same board under the name that it had before
    UNIQUE (name, board)
) STRICT;
CREATE TABLE kinds (        -- nodes are compared with others of their kind
    kind INTEGER PRIMARY KEY,
    hardware TEXT NOT NULL,
    mode TEXT NOT NULL,
    UNIQUE (hardware, mode)
) STRICT;
CREATE TABLE checks (
    number INTEGER PRIMARY KEY,         -- in the order of collection
    id BLOB NOT NULL UNIQUE,            -- drawn on the node
    node INTEGER NOT NULL REFERENCES nodes,
    kind INTEGER NOT NULL REFERENCES kinds,
    at REAL NOT NULL,                   -- seconds since 1970, mended where the node's clock was impossible
    stated REAL NOT NULL,               -- the node's clock
    uptime REAL NOT NULL,               -- seconds since the boot; orders the checks of a boot
    boot TEXT NOT NULL,
    job TEXT NOT NULL,
    figure REAL,                        -- bytes a second
    counted INTEGER NOT NULL,           -- 1: evidence; 0: a repeat, disturbed, or without a figure
    z REAL,                             -- against the peers of its day
    details TEXT NOT NULL               -- JSON: all kernels, free blocks by order, huge pages, notes
) STRICT;
CREATE INDEX checks_of_node ON checks (node, boot, uptime);
CREATE INDEX checks_of_kind ON checks (kind, at);
CREATE INDEX checks_not_judged ON checks (kind) WHERE counted = 1 AND z IS NULL;
CREATE TABLE peers (        -- what a kind of nodes reached, by day: fixed once it is known
    kind INTEGER NOT NULL REFERENCES kinds,
    day INTEGER NOT NULL,               -- days since 1970, UTC
    median REAL NOT NULL,
    scale REAL NOT NULL,
    nodes INTEGER NOT NULL,
    figures INTEGER NOT NULL,
    PRIMARY KEY (kind, day)
) STRICT;
CREATE TABLE states (       -- the evidence of a node's current boot; made again from checks at any time
    node INTEGER PRIMARY KEY REFERENCES nodes,
    kind INTEGER NOT NULL REFERENCES kinds,
    boot TEXT NOT NULL,
    booted REAL NOT NULL,
    at REAL NOT NULL,                   -- of the last check
    uptime REAL NOT NULL,
    figure REAL,                        -- the last one
    z REAL,
    sum REAL NOT NULL,
    jobs INTEGER NOT NULL,
    slow INTEGER NOT NULL,
    since REAL,                         -- when it became slow
    after REAL NOT NULL                 -- uptime: earlier checks of this boot are no evidence any more
) STRICT;
CREATE TABLE actions (
    number INTEGER PRIMARY KEY,
    at REAL NOT NULL,
    name TEXT NOT NULL,                 -- of the node
    step TEXT NOT NULL,                 -- clean, reboot, drain, resume
    reason TEXT NOT NULL,
    figures TEXT NOT NULL,              -- JSON: what led to it
    result TEXT NOT NULL
) STRICT;
CREATE INDEX actions_of_node ON actions (name, at);
"""
# An index that histories made before it lack; a writer adds it.
_OF_PROGRAMS = """
CREATE INDEX IF NOT EXISTS checks_with_programs ON checks (kind, at) WHERE instr(details, '"programs"')
"""


@dataclass(frozen=True)
class Action:
    """Something that was done to a node, and the figures that led to it."""

    at: float
    name: str
    step: str
    reason: str
    figures: Mapping[str, Any]
    result: str = ""


@contextmanager
def open_history(path: Path, write: bool = False) -> Iterator[sqlite3.Connection]:
    """Open the history. If it is to be written and does not exist, it is made.

    Raises UsageError and Failure.
    """
    if not write and not path.is_file():
        raise UsageError(f"history: there is no {path} yet; pagelens site collect makes it")
    try:
        if write:
            path.parent.mkdir(parents=True, exist_ok=True)
        with closing(_connect(path, write)) as connection:
            yield connection
    except sqlite3.DatabaseError as error:
        raise Failure(
            f"history: {path}: {error}; free some space or restore a copy if it persists"
        ) from error
    except OSError as error:
        raise Failure(
            f"history: cannot write {path} ({error.strerror}); name another in [history]"
        ) from error


def _connect(path: Path, write: bool) -> sqlite3.Connection:
    mode = "rwc" if write else "ro"
    connection = sqlite3.connect(
        f"{path.absolute().as_uri()}?mode={mode}", uri=True, isolation_level=None, timeout=_BUSY_MS / 1000
    )
    try:
        if write:
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute("PRAGMA synchronous = NORMAL")
            connection.execute(f"PRAGMA cache_size = -{_CACHE_KIB}")
            connection.execute("PRAGMA foreign_keys = ON")
        (version,) = connection.execute("PRAGMA user_version").fetchone()
        if version == 0 and write:
            _create(connection)
        elif version != VERSION:
            raise Failure(
                f"history: {path} has version {version}, and this pagelens reads {VERSION}; "
                "use the pagelens that wrote it"
            )
        if write:
            connection.execute(_OF_PROGRAMS)
    except BaseException:
        connection.close()
        raise
    return connection


def _create(connection: sqlite3.Connection) -> None:
    with writing(connection):
        (version,) = connection.execute("PRAGMA user_version").fetchone()
        if version == 0:  # nobody was quicker
            for statement in _TABLES.split(";\n"):
                if statement.strip():
                    connection.execute(statement)
            connection.execute(f"PRAGMA user_version = {VERSION}")


@contextmanager
def writing(connection: sqlite3.Connection) -> Iterator[None]:
    """Enter a transaction. Either all of it is kept, or nothing."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
    except BaseException:
        connection.execute("ROLLBACK")
        raise
    connection.execute("COMMIT")


def frame(
    connection: sqlite3.Connection, query: str, schema: Mapping[str, Any], parameters: Sequence[object] = ()
) -> pl.DataFrame:
    """Return the rows of a query as columns of these types."""
    rows = connection.execute(query, parameters).fetchall()
    columns = zip(*rows, strict=True) if rows else [() for _ in schema]
    return pl.DataFrame(
        {name: list(column) for name, column in zip(schema, columns, strict=True)}, schema=dict(schema)
    )


def record_action(connection: sqlite3.Connection, action: Action, forget: bool = True) -> int:
    """Keep an action, and return its number.

    With `forget` the node's evidence begins anew: what is measured from now on counts.
    """
    with writing(connection):
        number = connection.execute(
            "INSERT INTO actions (at, name, step, reason, figures, result) VALUES (?, ?, ?, ?, ?, ?)",
            (
                action.at,
                action.name,
                action.step,
                action.reason,
                json.dumps(dict(action.figures)),
                action.result,
            ),
        ).lastrowid
        if forget:
            connection.execute(
                "UPDATE states SET sum = 0, jobs = 0, slow = 0, since = NULL, after = uptime "
                "WHERE node IN (SELECT node FROM nodes WHERE name = ?)",
                (action.name,),
            )
    return number or 0


def finish_action(connection: sqlite3.Connection, number: int, result: str) -> None:
    """Note how an action ended."""
    with writing(connection):
        connection.execute("UPDATE actions SET result = ? WHERE number = ?", (result, number))


def actions_with(connection: sqlite3.Connection, result: str) -> list[tuple[int, Action]]:
    """Return the actions with this result, and their numbers, the oldest first."""
    rows = connection.execute(
        "SELECT number, at, name, step, reason, figures FROM actions WHERE result = ? ORDER BY number",
        (result,),
    )
    return [
        (number, Action(at, name, step, reason, json.loads(figures), result))
        for number, at, name, step, reason, figures in rows
    ]


def actions_of(connection: sqlite3.Connection, name: str | None = None) -> list[Action]:
    """Return the actions on a node, or on all nodes, the oldest first."""
    where, values = ("WHERE name = ?", (name,)) if name is not None else ("", ())
    rows = connection.execute(
        f"SELECT at, name, step, reason, figures, result FROM actions {where} ORDER BY number", values
    )
    return [
        Action(at, of, step, reason, json.loads(text), result) for at, of, step, reason, text, result in rows
    ]


CHECKS = {
    "node": pl.String,
    "board": pl.String,
    "hardware": pl.String,
    "mode": pl.String,
    "at": pl.Float64,
    "uptime_s": pl.Float64,
    "boot": pl.String,
    "job": pl.String,
    "bytes_per_second": pl.Float64,
    "counted": pl.Int64,
    "z": pl.Float64,
    "details": pl.String,
}


def export_checks(connection: sqlite3.Connection, final: Path) -> int:
    """Write all checks as Parquet. Return their number."""
    table = frame(
        connection,
        "SELECT name, board, hardware, mode, at, uptime, boot, job, figure, counted, z, details "
        "FROM checks JOIN nodes USING (node) JOIN kinds USING (kind) ORDER BY number",
        CHECKS,
    )
    write_table(final, table)
    return table.height
