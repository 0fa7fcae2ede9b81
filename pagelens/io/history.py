"""What a program's own files do to free memory, as steps of a node's history."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from pagelens.frames import Step
from pagelens.frames.steps import Io, Run
from pagelens.io.classify import classify
from pagelens.io.kinds import KINDS
from pagelens.io.recording import Recording


def transferred(recording: Recording) -> tuple[int, int]:
    """Bytes of files that the program brought into the page cache, and bytes of direct operations.

    Of a file it can be no more than was read or written of it, and no more than the file has.
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


def steps_with_files(steps: Sequence[Step], recording: Recording) -> tuple[Step, ...]:
    """The history with the program's own transfers before its memory is allocated, which is the last step."""
    buffered, direct = transferred(recording)
    files = [Io(size=size, how=how) for size, how in ((buffered, True), (direct, False)) if size > 0]
    last = [steps[-1]] if steps and isinstance(steps[-1], Run) else []
    before = steps[: len(steps) - len(last)]
    return (*before, *files, *last)
