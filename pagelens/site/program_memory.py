"""Compares a job's memory with that of other jobs of the same program on nodes of the same kind.

The Epilog leaves what the samplers saw. The check of the node that follows takes it into the history.
"""

from __future__ import annotations

import json
import os
import sqlite3
import statistics
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from pagelens.site.check import MOST_PROGRAMS, ProgramMemory
from pagelens.units import format_share

_FILE = "last-job.json"  # in the node's state folder
_DAYS = 90  # how far back other jobs are looked for
_FEWEST = 3  # jobs; fewer say nothing

# A job has a check on each of its nodes; it counts once, with the mean of its nodes.
_OTHERS = """
SELECT avg(json_extract(program.value, '$.conflict_share'))
FROM checks, json_each(details, '$.programs') AS program
WHERE instr(details, '"programs"') AND checks.kind = ? AND checks.at > ? AND checks.job <> ?
    AND json_extract(program.value, '$.name') = ?
    AND json_extract(program.value, '$.conflict_share') IS NOT NULL
GROUP BY checks.job
"""


def programs_of(samples: Iterable[Mapping[str, Any]]) -> list[ProgramMemory]:
    """Return the largest programs of a job. Shares are the means of a program's processes."""
    by_name: dict[str, list[Mapping[str, Any]]] = {}
    for sample in samples:
        by_name.setdefault(str(sample.get("program", "")), []).append(sample)
    found = []
    for name, own in by_name.items():
        resident = sum(sample.get("resident", 0) for sample in own)
        shares = [sample["conflict_share"] for sample in own if sample.get("conflict_share") is not None]
        large = sum(sample.get("on_large_pages", 0) for sample in own)
        with suppress(ValidationError):  # a name that no check may have
            found.append(
                ProgramMemory(
                    name=name,
                    resident=resident,
                    conflict_share=round(statistics.fmean(shares), 4) if shares else None,
                    large_share=round(large / resident, 4) if resident else None,
                )
            )
    return sorted(found, key=lambda one: -one.resident)[:MOST_PROGRAMS]


def leave(state: Path, job: str, programs: Sequence[ProgramMemory]) -> None:
    """Keep a job's programs for the check that may follow. A full disk costs nothing but the comparison."""
    partial = state / f".{_FILE}.partial"
    with suppress(OSError):
        partial.write_text(json.dumps({"job": job, "programs": [one.model_dump() for one in programs]}))
        os.replace(partial, state / _FILE)


def left_by(state: Path, job: str) -> list[ProgramMemory]:
    """Return what the Epilog of that job left; nothing if the last one was another job's."""
    with suppress(OSError, ValueError, TypeError, KeyError):  # pydantic's error is a ValueError
        found = json.loads((state / _FILE).read_text())
        if job and found["job"] == job:
            return [ProgramMemory.model_validate(one) for one in found["programs"]]
    return []


def beside_others(
    connection: sqlite3.Connection, node: str, job: str, programs: Sequence[ProgramMemory], now: float
) -> list[str]:
    """Say how the conflict shares of a job's programs compare with those of other jobs in the history."""
    kind = connection.execute(
        "SELECT states.kind FROM states JOIN nodes USING (node) WHERE name = ? ORDER BY at DESC", (node,)
    ).fetchone()
    if kind is None:
        return []
    lines = []
    for own in programs:
        if own.conflict_share is None:
            continue
        rows = connection.execute(_OTHERS, (kind[0], now - _DAYS * 86_400, job, own.name)).fetchall()
        shares = sorted(float(share) for (share,) in rows)
        if len(shares) < _FEWEST:
            continue
        median = format_share(statistics.median(shares))
        lines.append(
            f"In {len(shares)} other jobs of {own.name} on nodes of this kind, {format_share(shares[0])} to "
            f"{format_share(shares[-1])} of the pages shared a slot, and {median} in the median; in this "
            f"job, {format_share(own.conflict_share)} did."
        )
    return lines
