"""Finds which operations on a file waited for another thread's operation on it, as the recording shows.

The threads and ranks of a job can write one file at the same time. Local file systems let them take turns: a
buffered write holds the lock of the inode (ext4, fs/ext4/file.c, ext4_buffered_write_iter). A thread that
finds the lock taken goes round in a loop while the owner runs (kernel/locking/rwsem.c,
rwsem_optimistic_spin), so its wait is processor time.
"""

from __future__ import annotations

import numpy as np
import polars as pl
from numpy.typing import NDArray

from pagelens.io import classify as paths

Mask = NDArray[np.bool_]


def waited_for(
    frame: pl.DataFrame, waiting: Mask, holding: Mask, in_order: bool
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Return the place of the operation that each one waited for, and the share of it that was left then.

    The operations are in the order of their begins. Those of `waiting` can wait for those of `holding`, which
    began before on the same file in another thread and were still under way; if there are several, for the
    one that ended last. With `in_order`, the one that is waited for must also have ended first. The place is
    -1 where an operation waited for none.
    """
    place, left = np.full(frame.height, -1), np.zeros(frame.height)
    file, process, thread = (frame[name].to_numpy() for name in ("file", "process", "thread"))
    start, wall = frame["start_ns"].to_numpy(), frame["wall_ns"].to_numpy()
    end = start + wall
    under_way: dict[int, list[int]] = {}
    for at in np.flatnonzero((waiting | holding) & _shared(frame, waiting | holding)).tolist():
        others = [other for other in under_way.get(file[at], []) if end[other] > start[at]]
        if waiting[at]:
            fit = [
                other for other in others
                if (process[other], thread[other]) != (process[at], thread[at])
                and not (in_order and end[other] > end[at])
            ]  # fmt: skip
            if fit:
                place[at] = max(fit, key=lambda other: end[other])
                left[at] = (end[place[at]] - start[at]) / wall[place[at]]
        under_way[file[at]] = [*others, at] if holding[at] else others
    return place, left


def left_of_others(frame: pl.DataFrame, some: Mask, amounts: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return how much was left, when each operation began, of what other threads' operations had to do.

    These are operations on the same file that began before and were still under way. Of its amount, each has
    left the share that is left of its time.
    """
    found = np.zeros(frame.height)
    file, process, thread = (frame[name].to_numpy() for name in ("file", "process", "thread"))
    start, wall = frame["start_ns"].to_numpy(), frame["wall_ns"].to_numpy()
    end = start + wall
    under_way: dict[int, list[int]] = {}
    for at in np.flatnonzero(some & _shared(frame, some)).tolist():
        others = [other for other in under_way.get(file[at], []) if end[other] > start[at]]
        found[at] = sum(
            amounts[other] * (end[other] - start[at]) / wall[other]
            for other in others
            if (process[other], thread[other]) != (process[at], thread[at])
        )
        under_way[file[at]] = [*others, at] if amounts[at] > 0 else others
    return found


def waits_of_threads(frame: pl.DataFrame) -> pl.DataFrame:
    """Return how often and how long each thread waited for each other one, the longest first.

    A buffered write waits for another one, and an fsync for another one. The wait ends when the other
    operation ends, or with the operation itself.
    """
    writes = frame["path"].is_in([paths.WRITE, paths.OVERWRITE]).to_numpy()
    syncs = (frame["path"] == paths.SYNC).to_numpy()
    parts = []
    for some, in_order in ((writes, True), (syncs, False)):
        place, left = waited_for(frame, some, some, in_order)
        at = np.flatnonzero(place >= 0)
        other = frame[place[at]].select(for_process="process", for_thread="thread")
        wall = frame["wall_ns"].to_numpy()
        waited = pl.Series("wait_ns", np.minimum(left[at] * wall[place[at]], wall[at]))
        parts.append(
            pl.concat([frame[at].select("process", "thread"), other], how="horizontal").with_columns(waited)
        )
    pair = ["process", "thread", "for_process", "for_thread"]
    grouped = pl.concat(parts).group_by(pair).agg(pl.len().alias("count"), pl.col("wait_ns").sum())
    return grouped.sort("wait_ns", *pair, descending=[True, False, False, False, False])


def _shared(frame: pl.DataFrame, some: Mask) -> Mask:
    """Return which operations are on files on which several threads make some."""
    threads = (
        frame.filter(pl.Series(some))
        .group_by("file")
        .agg(shared=pl.struct("process", "thread").n_unique() > 1)
        .filter("shared")["file"]
    )
    return frame["file"].is_in(threads.to_list()).to_numpy()
