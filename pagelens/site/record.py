"""Records what a Prolog or an Epilog did and left out, for the log and for later readers."""

from __future__ import annotations

import os
import sys
import syslog
from contextlib import suppress
from typing import Any, Self

from pagelens.site.budget import Budget

_LONGEST = 900  # characters of a line


class Record:
    """Collects the steps of one Prolog or Epilog."""

    def __init__(self, part: str, budget: Budget) -> None:
        self.part = part
        self.job = ""
        self.done: list[str] = []
        self.left: list[str] = []
        self._budget = budget

    def did(self, what: str, why_not: str, result: str = "") -> None:
        """Note a step: it was done, or left out for a reason."""
        if why_not:
            self.leave(what, why_not)
        else:
            self.done.append(f"{what} ({result})" if result else what)

    def leave(self, what: str, why: str) -> Self:
        """Note what was not done."""
        self.left.append(f"{what}: {why}")
        return self

    def to_json(self) -> dict[str, Any]:
        """Return the record as the node's state keeps it."""
        seconds = round(self._budget.used_s, 3)
        return {
            "part": self.part, "job": self.job, "seconds": seconds, "done": self.done, "left": self.left
        }  # fmt: skip

    @property
    def line(self) -> str:
        """The record as one line for the log."""
        done = ", ".join(self.done) or "nothing"
        left = f"; left: {'; '.join(self.left)}" if self.left else ""
        text = f"{self.part} of job {self.job or '?'}: {done} in {self._budget.used_s:.2f} s{left}"
        return "".join(c if c.isprintable() else "?" for c in text)[:_LONGEST]

    def tell(self, to_syslog: bool) -> None:
        """Write the line to stderr, and to the system's log, which has it when slurmd drops the other."""
        with suppress(OSError, ValueError):
            print(f"pagelens site: {self.line}", file=sys.stderr, flush=True)
        if to_syslog and os.geteuid() == 0:
            level = syslog.LOG_WARNING if self.left else syslog.LOG_INFO
            syslog.syslog(level | syslog.LOG_DAEMON, f"pagelens site: {self.line}")
