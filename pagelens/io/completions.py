"""Finds out what became of operations that a program handed over to libaio or io_uring."""

from __future__ import annotations

import polars as pl

from pagelens.io import kinds
from pagelens.io.kinds import QUEUED

_IN, _KEY = "wall_ns", "cpu_ns"  # of records of queued operations and of completions (iorecord/record.h)


def with_completions(records: pl.DataFrame) -> pl.DataFrame:
    """Return the records of a log, of which queued operations now have their results and wall times.

    A completion belongs to the operation before it with the same queue and key. If a program gives the same
    key to several operations at a time, nobody can tell their completions apart. Such operations keep the
    result that was asked for, and a wall time of 0, as do those that were never seen to end. `records` has
    the columns of `RECORD`, and `place`, the order in the log.
    """
    queued = pl.col("kind").is_in(QUEUED)
    parts = records.filter(queued | (pl.col("kind") == kinds.DONE))
    if not parts.height:
        return records
    keys = [_IN, _KEY]
    ordered = parts.sort(*keys, "start_ns", "place")
    is_next = pl.col("kind").shift(-1).over(keys) == kinds.DONE
    is_alone = (pl.col("kind").shift(1).over(keys) == kinds.DONE).fill_null(True)
    ends = (
        ordered.with_columns(
            ended=is_next.fill_null(False) & is_alone,
            end_result=pl.col("result").shift(-1).over(keys),
            took=(pl.col("start_ns").shift(-1).over(keys) - pl.col("start_ns")).clip(1),
        )
        .filter(queued, "ended")
        .select("place", "end_result", "took")
    )
    joined = records.join(ends, on="place", how="left", maintain_order="left")
    return joined.with_columns(
        result=pl.coalesce("end_result", "result"),
        wall_ns=pl.when(queued).then(pl.col("took").fill_null(0)).otherwise("wall_ns").cast(pl.UInt64),
        cpu_ns=pl.when(queued).then(0).otherwise("cpu_ns").cast(pl.UInt64),
    ).drop("end_result", "took")
