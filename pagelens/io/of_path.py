"""Sums up the operations of a recording by their paths through the kernel."""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl

from pagelens.io.predict import Cost


@dataclass(frozen=True)
class OfPath:
    """All operations that took one path through the kernel."""

    path: str
    operations: int
    bytes: int
    recorded_cpu_s: float
    recorded_wait_s: float
    cpu_s: float
    wait_s: float


def of_paths(frame: pl.DataFrame, cost: Cost) -> list[OfPath]:
    """Return the sums of classified operations, with the path first that took most processor time."""
    grouped = (
        frame.with_columns(cpu=pl.Series(cost.cpu_s), wait=pl.Series(cost.wait_s))
        .group_by("path")
        .agg(pl.len(), pl.col("bytes", "cpu_ns", "waiting", "cpu", "wait").sum())
        .sort("cpu_ns", "path", descending=[True, False])
    )
    return [
        OfPath(r["path"], r["len"], r["bytes"], r["cpu_ns"] / 1e9, r["waiting"] / 1e9, r["cpu"], r["wait"])
        for r in grouped.iter_rows(named=True)
    ]
