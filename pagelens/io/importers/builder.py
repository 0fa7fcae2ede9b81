"""Collects the operations that an importer finds, and makes a recording of them."""

from __future__ import annotations

from typing import Any

import polars as pl

from pagelens.io.kinds import KINDS
from pagelens.io.recording import COLUMNS, MOST, File, Header, Process, Recording

_NOTHING = {
    "start_ns": 0, "wall_ns": 0, "cpu_ns": 0, "process": 0, "thread": 0, "file": -1, "descriptor": -1,
    "offset": -1, "size": 0, "result": 0, "address": 0, "flags": 0, "direct": False, "synchronous": False,
    "append": False, "cpu": 0, "buffers": 1, "caller": 0,
}  # fmt: skip
_MOST_NUMBER = (1 << 31) - 1  # of processes and descriptors in Linux


class RecordingBuilder:
    """Operations by their begin, and files by their path."""

    def __init__(self, header: Header, unknown: list[str]) -> None:
        self._header = header.model_copy(update={"unknown": unknown})
        self._rows: list[dict[str, Any]] = []
        self._files: list[File] = []
        self._numbers: dict[str, int] = {}
        self._processes: dict[int, Process] = {}

    def file(self, path: str, **facts: Any) -> int:
        """Return the number of a file, and a new one for a new path."""
        if path not in self._numbers:
            self._numbers[path] = len(self._files)
            self._files.append(File(path=path, **facts))
        return self._numbers[path]

    def process(self, number: int, **facts: Any) -> None:
        """Says what is known of a process."""
        self._processes.setdefault(number, Process(process=number, **facts))

    def add(self, kind: str, **values: Any) -> None:
        """Add one operation. Values that are not given have their defaults.

        Raises ValueError if Linux cannot have such a number of a process, thread or descriptor.
        """
        row = {**_NOTHING, "kind": KINDS[kind], **values}
        if not (0 <= row["process"] <= _MOST_NUMBER and 0 <= row["thread"] <= _MOST_NUMBER):
            raise ValueError
        if not -_MOST_NUMBER <= row["descriptor"] <= _MOST_NUMBER:
            raise ValueError
        for name in ("wall_ns", "cpu_ns", "size"):
            row[name] = max(0, min(int(row[name]), MOST))
        for name in ("start_ns", "result"):
            row[name] = max(-MOST, min(int(row[name]), MOST))
        row["offset"] = max(-1, min(int(row["offset"]), MOST))
        self._rows.append(row)

    def build(self) -> Recording:
        """Return the recording. Its times count from the first operation."""
        frame = pl.DataFrame(self._rows, schema=COLUMNS, orient="row").sort("start_ns", maintain_order=True)
        began = int(frame["start_ns"][0]) if frame.height else 0
        frame = frame.with_columns(pl.col("start_ns") - began)
        facts = {"files": self._files, "processes": list(self._processes.values())}
        if self._header.elapsed_ns is None and frame.height:
            ends = frame.select((pl.col("start_ns") + pl.col("wall_ns")).max()).item()
            facts["elapsed_ns"] = max(0, min(int(ends), MOST))
        return Recording(self._header.model_copy(update=facts), frame)
