"""Finds the operations of a recording that scratch files can repeat: reads, writes and syncs."""

from __future__ import annotations

import polars as pl

from pagelens.io.classify import classify
from pagelens.io.kinds import KINDS
from pagelens.io.queue_ways import flights
from pagelens.io.recording import Recording

_HALF = 0.5
_WHAT = {KINDS["read"]: "read", KINDS["write"]: "write", KINDS["sync"]: "sync", KINDS["datasync"]: "sync"}


def replayable(recording: Recording) -> tuple[pl.DataFrame, list[tuple[int, bool]]]:
    """Return the operations, and for each file its bytes at first and whether the page cache held them.

    The files are those that the operations use, numbered anew.
    """
    frame = classify(recording)
    frame = frame.with_columns(flight=pl.Series(flights(frame)))
    syncs = frame["kind"].is_in([KINDS["sync"], KINDS["datasync"]])
    kept = frame.filter(((pl.col("bytes") > 0) & pl.col("kind").is_in(list(_WHAT))) | pl.lit(syncs))
    used = kept["file"].unique(maintain_order=True).to_list()
    numbers = {file: number for number, file in enumerate(used)}
    transfers = kept.select(
        pl.col("file").replace_strict(numbers, default=-1, return_dtype=pl.Int32),
        pl.col("kind").replace_strict(_WHAT, default="", return_dtype=pl.String).alias("what"),
        "offset", "bytes", "run", "direct", "flight",
    )  # fmt: skip
    lengths = []
    for file in used:
        of = recording.header.files[file]
        cached = of.bytes if of.cached_bytes is None else of.cached_bytes
        lengths.append((of.bytes, cached >= _HALF * of.bytes))
    return transfers, lengths
