"""Turns a program's own transfers into steps of a node's history, because they change free memory."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from pagelens.frames import Step
from pagelens.frames.steps import DropCaches, Io, Run
from pagelens.io.classify import classify
from pagelens.io.kinds import KINDS
from pagelens.io.recording import Recording


def transferred(recording: Recording) -> tuple[int, int]:
    """Return the bytes of files that the program brought into the page cache, and those of direct operations.

    The former are, for each file, at most what was read or written of it, and at most its size.
    """
    frame = classify(recording).filter(
        (pl.col("bytes") > 0) & pl.col("kind").is_in([KINDS["read"], KINDS["write"]])
    )
    direct = int(frame.filter("direct")["bytes"].sum())
    by_file = (
        frame.filter(~pl.col("direct"))
        .group_by("file")
        .agg(
            end=(pl.col("offset") + pl.col("bytes")).max(),
            written=pl.when(pl.col("new_share") > 0).then(pl.col("bytes") * pl.col("new_share")).sum(),
            read=(pl.col("bytes") * pl.col("cold_share")).sum(),
        )
    )
    entered = sum(min(end, round(written + read)) for end, written, read in by_file.drop("file").iter_rows())
    return entered, direct


def steps_with_files(steps: Sequence[Step], recording: Recording, dropped: bool = False) -> tuple[Step, ...]:
    """Return the history with the program's own transfers, and with their pages dropped again if wished.

    They come before the last step, which allocates the program's memory.
    """
    buffered, direct = transferred(recording)
    files = [Io(size=size, how=how) for size, how in ((buffered, True), (direct, False)) if size > 0]
    last = [steps[-1]] if steps and isinstance(steps[-1], Run) else []
    before = steps[: len(steps) - len(last)]
    return (*before, *files, *([DropCaches()] if dropped else []), *last)
