"""The contents of a recording, in figures that are counted."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import polars as pl

from pagelens.io.kinds import CALLERS, KINDS, NAMES, QUEUED
from pagelens.io.recording import Recording, without_queues

_MOST_FILES = 10
# Bytes of queued operations are those that were asked for.
TRANSFERS = (*(KINDS[name] for name in ("read", "write", "copy")), *QUEUED)


@dataclass(frozen=True)
class OfKind:
    """All operations of one kind. Times are in seconds."""

    kind: str
    count: int
    bytes: int
    median_bytes: int
    wall_s: float
    cpu_s: float
    failed: int


@dataclass(frozen=True)
class OfFile:
    """All transfers on one file."""

    path: str
    file_system: str
    reads: int
    read_bytes: int
    writes: int
    written_bytes: int
    wall_s: float


@dataclass(frozen=True)
class OfCaller:
    """All operations that were made in one function of MPI-IO or HDF5, or in none of them."""

    caller: str  # empty: in none
    count: int
    bytes: int
    wall_s: float
    cpu_s: float


@dataclass(frozen=True)
class Facts:
    """The facts of a whole recording."""

    source: str
    command: list[str]
    operations: int
    processes: int
    threads: int
    files: int
    elapsed_s: float | None
    dropped: int
    unknown: list[str]
    kinds: list[OfKind]
    largest: list[OfFile]  # the files that took most time
    callers: list[OfCaller]  # empty if no such function was called

    def to_json(self) -> dict[str, Any]:
        """Return the facts as docs/io-format.md describes them."""
        return {"version": 1, **asdict(self)}


def describe(recording: Recording) -> Facts:
    """Count what is in a recording. Pipes, terminals and devices are left out."""
    header, plain = recording.header, without_queues(recording.regular)
    return Facts(
        source=header.source,
        command=header.command,
        operations=recording.operations.height,
        processes=max(1, len({process.process for process in header.processes})),
        threads=recording.operations.select("process", "thread").n_unique()
        if recording.operations.height
        else 0,
        files=sum(file.type == "file" for file in header.files),
        elapsed_s=None if header.elapsed_ns is None else header.elapsed_ns / 1e9,
        dropped=header.dropped,
        unknown=header.unknown,
        kinds=_kinds(plain),
        largest=_files(recording, plain),
        callers=_callers(plain),
    )


def _kinds(plain: pl.DataFrame) -> list[OfKind]:
    moved = pl.when(pl.col("kind").is_in(TRANSFERS)).then(pl.col("result").clip(0)).otherwise(0)
    grouped = (
        plain.group_by("kind")
        .agg(
            count=pl.len(),
            bytes=moved.sum(),
            median=moved.median(),
            wall=pl.col("wall_ns").sum(),
            cpu=pl.col("cpu_ns").sum(),
            failed=(pl.col("result") < 0).sum(),
        )
        .sort("wall", "kind", descending=[True, False])
    )
    return [
        OfKind(NAMES[row["kind"]], row["count"], row["bytes"], round(row["median"] or 0), row["wall"] / 1e9,
               row["cpu"] / 1e9, row["failed"])
        for row in grouped.iter_rows(named=True)
    ]  # fmt: skip


def _callers(plain: pl.DataFrame) -> list[OfCaller]:
    if not (plain["caller"] > 0).any():
        return []
    moved = pl.when(pl.col("kind").is_in(TRANSFERS)).then(pl.col("result").clip(0)).otherwise(0)
    grouped = plain.group_by("caller").agg(
        pl.len(), moved.sum().alias("bytes"), pl.col("wall_ns", "cpu_ns").sum()
    )
    return [
        OfCaller(CALLERS[row["caller"]] if row["caller"] < len(CALLERS) else "unknown", row["len"],
                 row["bytes"], row["wall_ns"] / 1e9, row["cpu_ns"] / 1e9)
        for row in grouped.sort("wall_ns", "caller", descending=[True, False]).iter_rows(named=True)
    ]  # fmt: skip


def _files(recording: Recording, plain: pl.DataFrame) -> list[OfFile]:
    reads, writes = pl.col("kind") == KINDS["read"], pl.col("kind").is_in([KINDS["write"], KINDS["copy"]])
    done = pl.col("result").clip(0)
    grouped = (
        plain.filter(pl.col("file") >= 0)
        .group_by("file")
        .agg(
            reads=reads.sum(),
            read_bytes=done.filter(reads).sum(),
            writes=writes.sum(),
            written_bytes=done.filter(writes).sum(),
            wall=pl.col("wall_ns").sum(),
        )
        .sort("wall", "file", descending=[True, False])
        .head(_MOST_FILES)
    )
    files = recording.header.files
    return [
        OfFile(files[row["file"]].path, files[row["file"]].file_system, row["reads"], row["read_bytes"],
               row["writes"], row["written_bytes"], row["wall"] / 1e9)
        for row in grouped.iter_rows(named=True)
    ]  # fmt: skip
