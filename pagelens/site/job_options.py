"""Reads what a job's user requested with the options of the Slurm plugin, for the Prolog and the Epilog.

Slurm hands users' variables on, so nothing in them is trusted: whatever is not one of the few valid values
counts as not given. A user's text can only choose among what the options offer anyway.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

_PREFIX = "SPANK_PAGELENS_"  # spank/options.c has the names and the same ranges
_MOST_SECONDS = 86400
_PAGE_BYTES = {"4k": 0, "thp": 0, "2m": 2 << 20, "1g": 1 << 30}
_LONGEST_PATH = 4095


@dataclass(frozen=True)
class JobOptions:
    """The options of one job."""

    job: str
    uid: int
    sort: bool = True
    interval_s: int = 0  # 0: no sorts while the job runs
    pool_page_bytes: int = 0  # 0: no pool
    report: Path | None = None
    ignored: tuple[str, ...] = ()  # values that are none, as "NAME=value"


def read_options(environment: Mapping[str, str]) -> JobOptions | None:
    """Return the options of the job that Slurm names, or None if it names none."""
    job, uid = environment.get("SLURM_JOB_ID", ""), environment.get("SLURM_JOB_UID", "")
    if not re.fullmatch(r"[0-9]{1,10}", job) or not re.fullmatch(r"[0-9]{1,10}", uid):
        return None
    ignored = []

    def value(name: str, pattern: str) -> str:
        text = environment.get(_PREFIX + name, "")
        if text and not (text.isprintable() and re.fullmatch(pattern, text, re.DOTALL)):
            ignored.append(f"{name}={text[:40]!r}")
            return ""
        return text

    zonesort = value("ZONESORT", r"on|off|[0-9]{1,5}")
    seconds = int(zonesort) if zonesort.isdigit() else 0
    if zonesort.isdigit() and not 1 <= seconds <= _MOST_SECONDS:
        ignored.append(f"ZONESORT={zonesort}")
        seconds = 0
    pages = value("PAGES", "|".join(_PAGE_BYTES))
    report = value("REPORT", rf"/.{{0,{_LONGEST_PATH}}}")
    return JobOptions(
        job,
        int(uid),
        zonesort != "off",
        seconds,
        _PAGE_BYTES.get(pages, 0),
        Path(report) if report else None,
        tuple(ignored),
    )
