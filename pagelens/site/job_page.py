"""Writes a job's own page: the memory that its processes had, beside the job's output.

Each node of the job writes what it saw into the job's folder, with the rights of the job's user, and then
makes the page anew from all that is there. So the last node's page is complete. Files in that folder are the
user's and may hold anything.
"""

from __future__ import annotations

import json
import os
import pwd
import re
import textwrap
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pagelens.report.columns import WIDTH
from pagelens.report.page import page_template
from pagelens.units import format_binary_size, format_share

_MOST_FILES, _MOST_BYTES = 20000, 1 << 20
_LIBRARY = re.compile(r"([0-9]{1,10}|script)\.[0-9]{1,10}\.[0-9]{1,10}\.json")
_NODE = "node-"


@dataclass(frozen=True)
class Row:
    """One process of the job. None and empty values were not seen."""

    node: str
    step: str
    rank: int | None
    program: str
    resident: int | None
    on_large_pages: int | None
    by_numa_node: dict[str, int]
    conflict_share: float | None
    banks: int | None  # how many banks of DRAM hold a line of it
    fullest_bank: float | None  # its lines over the mean of all banks
    blocks: int | None  # bytes in large blocks at the peak, by the library
    said: tuple[str, ...]  # says what the library could not do

    @property
    def who(self) -> str:
        """The process in words, by its rank or else its program, and its node."""
        return f"{self.program if self.rank is None else f'rank {self.rank}'} on {self.node}"


def as_user(uid: int, work: Callable[[], object]) -> Callable[[], None]:
    """Return work that is done with the rights of that user alone.

    It is meant for a child, because the rights cannot be taken back.
    """

    def dropped() -> None:
        if os.geteuid() == 0 and uid != 0:
            user = pwd.getpwuid(uid)
            os.initgroups(user.pw_name, user.pw_gid)
            os.setresgid(user.pw_gid, user.pw_gid, user.pw_gid)
            os.setresuid(uid, uid, uid)
        os.umask(0o022)
        work()

    return dropped


def write_job_page(folder: Path, job: str, node: str, samples: Sequence[Any], fleet: str) -> None:
    """Add this node's samples, and make the page and its text anew. Raises OSError."""
    parts = folder / f".pagelens-{job}"
    parts.mkdir(exist_ok=True)
    _write(parts / f"{_NODE}{node}.json", json.dumps({"node": node, "samples": samples, "fleet": fleet}))
    rows, fleets = read_parts(parts)
    _write(folder / f"pagelens-{job}.txt", "".join(f"{line}\n" for line in text_lines(job, rows, fleets)))
    template = page_template("pagelens.site", "job.html.j2", {})
    table = [cells(row) for row in rows]
    _write(
        folder / f"pagelens-{job}.html",
        template.render(job=job, heads=HEADS, rows=table, summary=summary(rows), fleets=fleets),
    )


def _write(final: Path, text: str) -> None:
    partial = final.with_name(f".{final.name}.{os.uname().nodename}.{os.getpid()}.partial")
    partial.write_text(text)
    os.replace(partial, final)


def read_parts(parts: Path) -> tuple[list[Row], list[str]]:
    """Return the processes that nodes and library saw, in order of their ranks, and what the nodes say."""
    samples: list[tuple[str, dict[str, Any]]] = []
    fleets, reports = [], {}
    for path in sorted(parts.glob("*.json"))[:_MOST_FILES]:
        found = _object(path)
        if path.name.startswith(_NODE):
            if fleet := str(found.get("fleet", ""))[:300]:
                fleets.append(fleet)
            listed = found.get("samples")
            node = str(found.get("node", ""))[:64]
            samples += [(node, one) for one in (listed if isinstance(listed, list) else []) if _is_dict(one)]
        elif match := _LIBRARY.fullmatch(path.name):
            reports[match[1], _whole(found.get("process"))] = found
    rows = [_row(node, one, reports.pop((_text(one, "step"), _whole(one.get("process"))), {}))
            for node, one in samples]  # fmt: skip
    rows += [_row("", {"step": step, "process": process}, of) for (step, process), of in reports.items()]
    return sorted(rows, key=lambda row: (row.step, row.rank is None, row.rank or 0, row.node)), fleets


def _object(path: Path) -> dict[str, Any]:
    with suppress(OSError, ValueError, RecursionError):
        with open(path, "rb") as file:
            found = json.loads(file.read(_MOST_BYTES))
        if isinstance(found, dict):
            return found
    return {}


def _is_dict(value: object) -> bool:
    return isinstance(value, dict)


def _whole(value: object) -> int | None:
    return value if type(value) is int and 0 <= value < 1 << 60 else None


def _text(of: dict[str, Any], name: str) -> str:
    text = of.get(name, "")
    return "".join(c if c.isprintable() else "?" for c in text[:200]) if isinstance(text, str) else ""


def _row(node: str, sample: dict[str, Any], report: dict[str, Any]) -> Row:
    share = sample.get("conflict_share")
    fullest = sample.get("fullest_bank")
    by_node = sample.get("by_numa_node")
    rank = _whole(sample.get("rank"))
    said = report.get("said")
    return Row(
        node,
        _text(sample, "step"),
        _whole(report.get("rank")) if rank is None else rank,
        _text(sample, "program") or _text(report, "program").rpartition("/")[2],
        _whole(sample.get("resident")),
        _whole(sample.get("on_large_pages")),
        {str(n)[:8]: size for n, size in by_node.items() if _whole(size)}
        if isinstance(by_node, dict)
        else {},
        share if isinstance(share, float) and 0 <= share <= 1 else None,
        _whole(sample.get("banks")),
        fullest if isinstance(fullest, float) and 0 <= fullest <= 1e6 else None,
        _whole(report.get("peak_bytes")),
        tuple(str(line)[:300] for line in said[:5]) if isinstance(said, list) else (),
    )


HEADS = (
    "step", "rank", "node", "program", "memory", "on large pages", "NUMA nodes", "conflict share",
    "DRAM banks",
)  # fmt: skip


def cells(row: Row) -> tuple[str, ...]:
    """Return a process as a line of the table."""
    total = sum(row.by_numa_node.values())
    tiers = (f"{node}: {format_share(size / total)}" for node, size in sorted(row.by_numa_node.items()))
    memory = row.resident if row.resident is not None else row.blocks
    return (
        row.step,
        "" if row.rank is None else str(row.rank),
        row.node,
        row.program,
        "" if memory is None else format_binary_size(memory),
        format_share(row.on_large_pages / row.resident)
        if row.on_large_pages is not None and row.resident
        else "",
        ", ".join(tiers),
        "" if row.conflict_share is None else format_share(row.conflict_share),
        "" if row.banks is None or row.fullest_bank is None else f"{row.banks}, {row.fullest_bank:.2f}x",
    )


def summary(rows: Sequence[Row]) -> list[str]:
    """Return what a reader wants to know first."""
    seen = [row for row in rows if row.resident]
    lines = []
    if not seen:
        lines.append("No process was looked at while it ran; a look needs a second, and 8 MiB of memory.")
    else:
        resident = sum(row.resident or 0 for row in seen)
        large = sum(row.on_large_pages or 0 for row in seen)
        who = "1 process" if len(seen) == 1 else f"{len(seen)} processes"
        lines.append(
            f"{who} had {format_binary_size(resident)}, {format_share(large / resident)} of it on pages of "
            "2 MiB or more."
        )
    shares = [(row.conflict_share, row) for row in seen if row.conflict_share is not None]
    if shares:
        worst, row = max(shares, key=lambda pair: pair[0])
        mean = sum(share for share, _ in shares) / len(shares)
        lines.append(
            f"On average, {format_share(mean)} of a process's pages share a slot of the memory-side cache; "
            f"at most {format_share(worst)} ({row.who})."
        )
    elif seen:
        lines.append("The nodes have no direct-mapped memory-side cache that is known of.")
    if full := [(row.fullest_bank, row) for row in seen if row.fullest_bank is not None]:
        most, row = max(full, key=lambda pair: pair[0])
        lines.append(
            f"The fullest bank of DRAM holds {most:.2f} times as many lines of a process as the mean of all "
            f"banks ({row.who}); 1.00 is even."
        )
    said = sorted({line for row in rows for line in row.said})
    return [*lines, *said[:5]]


def text_lines(job: str, rows: Sequence[Row], fleets: Sequence[str]) -> Iterator[str]:
    """Yield the page as text with fixed columns."""
    yield f"Memory of job {job}"
    for paragraph in (*summary(rows), *fleets):
        yield from textwrap.wrap(paragraph, WIDTH)
    table = [HEADS, *(cells(row) for row in rows)]
    widths = [max(len(line[column]) for line in table) for column in range(len(HEADS))]
    for line in table:
        yield "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
