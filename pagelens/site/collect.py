"""`pagelens site collect`: takes each record into the history once, and updates all evidence.

A record is deleted from the spool after it is safe in the history. If anything ends between the two, the
record comes again, and its id shows that it is known.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path

from pagelens.site.check import Check, parse_check
from pagelens.site.decision import Rule
from pagelens.site.evidence import bring_up_to_date
from pagelens.site.history import writing
from pagelens.site.spool import records, set_aside

BATCH = 100_000  # records in a transaction
# A clock before 2020-01-01 cannot be right. Neither can one ahead of the collector's.
_EARLIEST = 1_577_836_800.0
_AHEAD_S = 600.0
IDLE_REPEAT_S = 600.0  # checks without a job that are closer than this count once

Report = Callable[[int, int], None]


@dataclass
class Collected:
    """The number of records that came in, and those that are invalid."""

    new: int = 0
    known: int = 0
    invalid: list[str] = field(default_factory=list)  # file or line, and what is wrong


def collect_spools(
    connection: sqlite3.Connection,
    spools: Iterable[Path],
    rule: Rule,
    now: float | None = None,
    report: Report = lambda done, total: None,
) -> Collected:
    """Take in the records of these folders, and delete them there.

    `report` gets the records that are done, twice: nobody knows how many there are before they are read.
    """
    done = Collected()
    found = (item for spool in spools for item in records(spool))
    while batch := list(islice(found, BATCH)):
        valid = []
        for path, raw in batch:
            check = parse_check(raw)
            if isinstance(check, str):
                done.invalid.append(f"{path}: {check}")
                set_aside(path)
            else:
                valid.append((path, check))
        _count(done, collect(connection, [check for _, check in valid], rule, now), len(valid))
        for path, _ in valid:
            with suppress(OSError):
                path.unlink()
        report(done.new + done.known, done.new + done.known)
    return done


def collect_lines(
    connection: sqlite3.Connection,
    lines: Iterable[bytes],
    rule: Rule,
    now: float | None = None,
    report: Report = lambda done, total: None,
) -> Collected:
    """Take in records that come as lines, as from many nodes' spools through one pipe."""
    done = Collected()
    numbered = ((number, line) for number, line in enumerate(lines, 1) if line.strip())
    while batch := list(islice(numbered, BATCH)):
        valid = []
        for number, line in batch:
            check = parse_check(line)
            if isinstance(check, str):
                done.invalid.append(f"line {number}: {check}")
            else:
                valid.append(check)
        _count(done, collect(connection, valid, rule, now), len(valid))
        report(done.new + done.known, done.new + done.known)
    return done


def _count(done: Collected, new: int, valid: int) -> None:
    done.new += new
    done.known += valid - new


def collect(
    connection: sqlite3.Connection, checks: Iterable[Check], rule: Rule, now: float | None = None
) -> int:
    """Take all checks into the history or, if anything fails, none. Return how many were new."""
    given = list(checks)
    if not given:
        return 0
    with writing(connection):
        (before,) = connection.execute("SELECT coalesce(max(number), 0) FROM checks").fetchone()
        rows = _rows(connection, given, time.time() if now is None else now)
        connection.executemany(
            "INSERT OR IGNORE INTO checks"
            " (id, node, kind, at, stated, uptime, boot, job, figure, counted, details)"
            " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            rows,
        )
        _leave_out_repeats(connection, before)
        (new,) = connection.execute("SELECT count(*) FROM checks WHERE number > ?", (before,)).fetchone()
        bring_up_to_date(connection, before, rule)
    return int(new)


def _rows(
    connection: sqlite3.Connection, checks: Iterable[Check], now: float
) -> Iterator[tuple[object, ...]]:
    nodes: dict[tuple[str, str], int] = {}
    kinds: dict[tuple[str, str], int] = {}
    for check in checks:
        if (key := (check.node, check.board)) not in nodes:
            nodes[key] = _node(connection, *key)
        if (kind := (check.hardware, check.mode)) not in kinds:
            kinds[kind] = _kind(connection, *kind)
        possible = _EARLIEST <= check.time <= now + _AHEAD_S
        counted = check.figure is not None and not check.disturbed
        yield (
            bytes.fromhex(check.id),
            nodes[key],
            kinds[kind],
            check.time if possible else now,
            check.time,
            check.uptime,
            check.boot,
            check.job,
            check.figure,
            int(counted),
            check.details(),
        )


def _node(connection: sqlite3.Connection, name: str, board: str) -> int:
    """Return the row of a name on a board.

    If a board had another name, and is alone in having it, its row goes on.
    """
    known = connection.execute(
        "SELECT node FROM nodes WHERE name = ? AND board = ?", (name, board)
    ).fetchone()
    if known:
        return int(known[0])
    before = [] if not board else connection.execute(
        "SELECT node FROM nodes WHERE board = ? ORDER BY node DESC", (board,)
    ).fetchall()  # fmt: skip
    follows = before[0][0] if before else None
    cursor = connection.execute(
        "INSERT INTO nodes (name, board, follows) VALUES (?, ?, ?)", (name, board, follows)
    )
    return int(cursor.lastrowid or 0)


def _kind(connection: sqlite3.Connection, hardware: str, mode: str) -> int:
    connection.execute("INSERT OR IGNORE INTO kinds (hardware, mode) VALUES (?, ?)", (hardware, mode))
    row = connection.execute(
        "SELECT kind FROM kinds WHERE hardware = ? AND mode = ?", (hardware, mode)
    ).fetchone()
    return int(row[0])


def _leave_out_repeats(connection: sqlite3.Connection, before: int) -> None:
    """Count the first of the checks after one job.

    Of checks without a job, count one in IDLE_REPEAT_S.
    """
    connection.execute(
        "UPDATE checks SET counted = 0 WHERE number > ?1 AND counted = 1 AND job <> '' AND EXISTS ("
        " SELECT 1 FROM checks AS first WHERE first.node = checks.node AND first.boot = checks.boot"
        " AND first.job = checks.job AND first.counted = 1 AND first.number < checks.number)",
        (before,),
    )
    connection.execute(
        "UPDATE checks SET counted = 0 WHERE number > ?1 AND counted = 1 AND job = '' AND EXISTS ("
        " SELECT 1 FROM checks AS first WHERE first.node = checks.node AND first.boot = checks.boot"
        " AND first.job = '' AND first.counted = 1 AND first.number < checks.number"
        " AND first.uptime BETWEEN checks.uptime - ?2 AND checks.uptime + ?2)",
        (before, IDLE_REPEAT_S),
    )
