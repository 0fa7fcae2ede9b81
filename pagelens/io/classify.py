"""Classifies operations by their path through the kernel, which depends on what came before them.

The page cache is followed by pages. Data that were read or written before are in it. The recording says how
much of the files was in it when the program began. docs/io.md has the rules.
"""

from __future__ import annotations

import os

import numpy as np
import polars as pl
from numpy.typing import NDArray

from pagelens.io import kinds
from pagelens.io.kinds import KINDS
from pagelens.io.recording import Recording, without_queues

# The paths that operations take. Those of the first row have a table by size in a machine file.
WRITE, OVERWRITE, READ, COLD_READ, SCATTERED_READ, DIRECT_READ, DIRECT_WRITE = (
    "write", "overwrite", "read", "cold_read", "scattered_read", "direct_read", "direct_write",
)  # fmt: skip
# These are parts of the paths above, with tables of their own.
UNALIGNED_WRITE, SHARED_WRITE, SMALL_FOLIO_READ, FAR_READ, DIRECT_NEW_WRITE = (
    "unaligned_write", "shared_write", "small_folio_read", "far_read", "direct_new_write",
)  # fmt: skip
BUFFERED_READS = (READ, COLD_READ, SCATTERED_READ)
COPY = "file_copy"  # by the kernel, from file to file
SYNC, OPENING, CREATING, CALL, QUEUED, OTHER = "sync", "opening", "creating", "call", "queued", "other"

_NEAR = 128 << 10  # bytes further in a file that are still a sequence: the least that Linux reads ahead
_MOST_PAGES = 1 << 23  # looked at one by one; if there are more, several count as one
_WAITED_NS = 20_000  # a read that waited so long was not in the page cache, where nothing else says
_DONTNEED, _RANDOM, _ORDERS = 4, 1, (0, 1, 2)  # of posix_fadvise: normal, random, sequential
_QUEUE = (*kinds.QUEUED, KINDS["submit"], KINDS["await"])
_CALLS = tuple(KINDS[name] for name in ("seek", "dup", "setfl", "advise", "readahead", "close"))


def classify(recording: Recording) -> pl.DataFrame:
    """Return the operations on files, each with its `path`, the `bytes` it moved, and shares of these bytes.

    - `new_share` of a write makes the file longer, or fills a hole.
    - `cold_share` of a read was not in the page cache.
    - `waiting` is the recorded wall time without the processor time.
    - `run` numbers the sequences of transfers that follow each other in a file, and `exactly_follows` marks
      their transfers but the first.
    - `epoch` changes where transfers of a file cannot be moved across an operation.
    - `gap_ns` is the time since the last operation of the thread.
    - `aligned` transfers have whole pages, and `folio_share` is the folios of a file's page cache a page.
    - `dropped_bytes` is what an open truncated or `fadvise` dropped from the page cache, and `dropped_share`
      the folios of these pages a page. `rewritten_bytes` is what a close writes out after a truncation.
    """
    end = pl.col("start_ns") + pl.col("wall_ns")
    every = without_queues(recording.operations).with_columns(
        gap_ns=(pl.col("start_ns") - end.shift(1).over("process", "thread")).fill_null(0).clip(0)
    )
    frame = every.filter(pl.col("file").is_in(recording.regular_files)).with_columns(
        bytes=pl.when(pl.col("kind").is_in([KINDS["read"], KINDS["write"], KINDS["copy"]]))
        .then(pl.col("result").clip(0))
        .otherwise(0),
        waiting=(pl.col("wall_ns") - pl.col("cpu_ns")).clip(0),
    )
    frame = _epochs(_runs(frame))
    cached = pl.Series([file.cached_bytes or 0 for file in recording.header.files], dtype=pl.Int64)
    frame = frame.with_columns(
        new_share=_new_share(frame, recording),
        uncached=_uncached(frame, recording),
        cached_before=cached.gather(frame["file"]) if frame.height else cached.head(0),
    )
    return with_paths(_truncations(_folios(frame, recording)))


def made_direct(frame: pl.DataFrame, where: NDArray[np.bool_]) -> pl.DataFrame:
    """Return classified operations, of which some are now direct.

    Direct writes leave no pages in the page cache, so reads of these data are not cached any more.
    """
    return with_paths(frame.with_columns(direct=pl.col("direct") | pl.Series(where)))


def with_paths(frame: pl.DataFrame) -> pl.DataFrame:
    """Return the operations with the shares of reads that are not cached, and the paths that follow."""
    frame = frame.with_columns(cold_share=_cold_share(frame))
    frame = frame.with_columns(dropped_bytes=_dropped_bytes(), random=_announced_as_random())
    return frame.with_columns(continues=_continues(frame)).with_columns(path=_path())


def _path() -> pl.Expr:
    kind = pl.col("kind")
    moves, direct = pl.col("bytes") > 0, pl.col("direct")
    writes = kind == KINDS["write"]
    flags = pl.col("flags")
    makes = (flags & os.O_CREAT != 0) & ((pl.col("offset") == 0) | pl.col("new_file"))
    makes |= flags & os.O_TMPFILE == os.O_TMPFILE  # a file without a name
    buffered = (
        pl.when(writes)
        .then(pl.when(pl.col("new_share") > 0).then(pl.lit(WRITE)).otherwise(pl.lit(OVERWRITE)))
        .when(pl.col("cold_share") <= 0)
        .then(pl.lit(READ))
        .when((pl.col("follows") | pl.col("continues")) & ~pl.col("random"))
        .then(pl.lit(COLD_READ))
        .otherwise(pl.lit(SCATTERED_READ))
    )
    transfer = kind.is_in([KINDS["read"], KINDS["write"]])
    return (
        pl.when(transfer & moves & direct)
        .then(pl.when(writes).then(pl.lit(DIRECT_WRITE)).otherwise(pl.lit(DIRECT_READ)))
        .when(transfer & moves)
        .then(buffered)
        .when((kind == KINDS["copy"]) & moves)
        .then(pl.lit(COPY))
        .when(kind.is_in([KINDS["sync"], KINDS["datasync"]]))
        .then(pl.lit(SYNC))
        .when((kind == KINDS["open"]) & (pl.col("result") >= 0))
        .then(pl.when(makes).then(pl.lit(CREATING)).otherwise(pl.lit(OPENING)))
        .when(kind.is_in(_CALLS) | transfer)
        .then(pl.lit(CALL))
        .when(kind.is_in(_QUEUE))
        .then(pl.lit(QUEUED))
        .otherwise(pl.lit(OTHER))
    )


def _runs(frame: pl.DataFrame) -> pl.DataFrame:
    """Give each sequence of transfers a number.

    A sequence has one kind and one thread, and each transfer begins where the last one on its file ended.
    """
    keys = ["process", "thread", "file", "kind"]
    moves = pl.col("bytes") > 0
    end = pl.when(moves).then(pl.col("offset") + pl.col("bytes"))
    last = end.forward_fill().shift(1).over(keys)
    gap = pl.col("offset") - last
    follows = (moves & (gap == 0)).fill_null(False)
    return frame.with_columns(
        exactly_follows=follows,
        follows=(moves & gap.is_between(0, _NEAR)).fill_null(False) | (moves & (pl.col("offset") == 0)),
        run=pl.struct(*keys, (~follows).cum_sum().over(keys)).rank("dense"),
        new_file=(pl.int_range(pl.len()).over("file") == 0) & (pl.col("bytes").sum().over("file") > 0),
    )


def _epochs(frame: pl.DataFrame) -> pl.DataFrame:
    """Count the operations before each one on its file that it cannot be moved across.

    A read can be made before other reads, and a write after later writes, but neither across any operation
    that changes, reads or syncs the file.
    """
    reads = pl.col("kind").is_in([KINDS[name] for name in ("read", "seek", "advise", "readahead")])
    writes = pl.col("kind").is_in([KINDS["write"], KINDS["seek"]])
    of_read, of_write = ((~each).cum_sum().over("file") for each in (reads, writes))
    return frame.with_columns(
        epoch=pl.when(pl.col("kind") == KINDS["read"]).then(of_read).otherwise(of_write)
    )


def _folios(frame: pl.DataFrame, recording: Recording) -> pl.DataFrame:
    """Add whether transfers have whole pages, and the folios a page of their file.

    Linux takes for a write the largest folio that its size and its place allow (mm/filemap.c,
    __filemap_get_folio): an aligned write of 2^n pages has one, and others have some log2 of their pages. A
    file that was written before the recording counts as written at once, unless the recording tells.
    """
    page = recording.header.page_bytes
    whole = (pl.col("offset") % page == 0) & (pl.col("bytes") % page == 0)
    writes = (pl.col("kind") == KINDS["write"]) & (pl.col("bytes") > 0) & ~pl.col("direct")
    number, size = writes.cum_sum().over("file"), pl.when(writes).then("bytes").otherwise(0)
    lengths = pl.Series([file.bytes for file in recording.header.files], dtype=pl.Int64)
    told = pl.Series([file.folio_share for file in recording.header.files], dtype=pl.Float64)
    first, at_first = (of.gather(frame["file"]) if frame.height else of.head(0) for of in (lengths, told))
    mean = pl.when(number > 0).then(size.cum_sum().over("file") / number).otherwise(first)
    power = (pl.col("bytes") & (pl.col("bytes") - 1)) == 0
    single = whole & power & (pl.col("offset") % pl.col("bytes") == 0)
    singles = pl.when(number > 0).then((single | ~writes).cast(pl.Int8).cum_min().over("file") > 0)
    pages = (mean / page).clip(1)
    folios = pl.when(singles.fill_null(False)).then(1.0).otherwise(1 + pages.log(2))
    share = pl.when(number == 0).then(pl.coalesce(at_first, folios / pages)).otherwise(folios / pages)
    return frame.with_columns(aligned=whole, folio_share=share.clip(0, 1))


def _truncations(frame: pl.DataFrame) -> pl.DataFrame:
    """Add what opens truncated, and what the next close writes out for that reason.

    File systems write a file out that was truncated and written again, lest a crash leave it empty.
    """
    truncates = (pl.col("kind") == KINDS["open"]) & (pl.col("flags") & os.O_TRUNC != 0)
    # A file that is opened for direct operations is taken to have no pages in the cache.
    drops = truncates & (pl.col("result") >= 0) & (pl.col("flags") & os.O_DIRECT == 0)
    truncated = pl.when(drops).then("size").otherwise(0)
    closes = (pl.col("kind") == KINDS["close"]) & (pl.col("result") == 0)
    writes = (pl.col("kind") == KINDS["write"]) & ~pl.col("direct")
    parts = frame.with_columns(
        truncated_bytes=truncated,
        dropped_share=pl.when(truncates)
        .then(pl.col("folio_share").last().over("file"))
        .otherwise("folio_share"),
        life=truncates.cum_sum().over("file"),
        total=pl.when(writes).then("bytes").otherwise(0).cum_sum().over("file"),
    )
    before = pl.when(closes | truncates).then("total").forward_fill().shift(1).over("file").fill_null(0)
    replaced = pl.col("truncated_bytes").max().over("file", "life") > 0
    rewritten = pl.when(closes & replaced).then(pl.col("total") - before).otherwise(0)
    return parts.with_columns(rewritten_bytes=rewritten).drop("life", "total")


def _dropped_bytes() -> pl.Expr:
    """Return what each open, `fadvise(DONTNEED)` or close of a removed file dropped from the page cache.

    That is what was in it at first, and what transfers have brought in since the last `fadvise`.
    """
    drops = (pl.col("kind") == KINDS["advise"]) & (pl.col("flags") == _DONTNEED)
    share = pl.when(pl.col("kind") == KINDS["read"]).then("cold_share").otherwise("new_share")
    brought = pl.when(pl.col("direct")).then(0.0).otherwise(share * pl.col("bytes"))
    total = brought.cum_sum().over("file") + pl.col("cached_before")
    earlier = pl.when(drops).then(total).forward_fill().shift(1).over("file").fill_null(0)
    length = pl.when(pl.col("size") > 0).then("size").otherwise(None)  # 0 means: up to the end
    of_removed = (pl.col("kind") == KINDS["close"]) & (pl.col("size") > 0)
    removed = of_removed & (of_removed.cum_sum(reverse=True).over("file") == 1) & ~pl.col("direct")
    return (
        pl.when(drops)
        .then(pl.min_horizontal(total - earlier, length))
        .when(removed)
        .then("size")
        .otherwise("truncated_bytes")
    )


def _new_share(frame: pl.DataFrame, recording: Recording) -> pl.Series:
    """Return the share of each write that lies beyond the previous end of the file, or in a hole of it."""
    lengths = pl.Series([file.bytes for file in recording.header.files], dtype=pl.Int64)
    shortened = pl.col("kind") == KINDS["truncate"]
    emptied = (
        (pl.col("kind") == KINDS["open"]) & (pl.col("flags") & os.O_TRUNC != 0) & (pl.col("result") >= 0)
    )
    truncated = shortened | emptied
    writes = (pl.col("kind") == KINDS["write"]) & (pl.col("bytes") > 0)
    end = pl.when(writes).then(pl.col("offset") + pl.col("bytes")).when(shortened).then(pl.col("size"))
    parts = frame.with_columns(
        part=truncated.cum_sum().over("file"),
        first=pl.Series(lengths.gather(frame["file"]) if frame.height else [], dtype=pl.Int64),
        end=end,
    )
    start = pl.when(pl.col("part") == 0).then(pl.col("first")).otherwise(0)
    reached = pl.col("end").cum_max().forward_fill().shift(1).over("file", "part")  # reads have no end
    before = pl.max_horizontal(start, reached.fill_null(0))
    new = (pl.col("offset") + pl.col("bytes") - pl.max_horizontal(before, "offset")).clip(0)
    # Where threads write out of order, one fills holes that others have left: those pages are new, too.
    in_hole = writes & (pl.col("offset") >= start) & ~pl.col("direct")
    fresh = pl.Series(np.zeros(frame.height), dtype=pl.Float64)
    at = np.flatnonzero(parts.select(in_hole).to_series().to_numpy())
    if at.size:
        fresh = fresh.scatter(at, _first_touches(frame, at))
    share = pl.max_horizontal(new / pl.col("bytes"), fresh)
    return parts.select(pl.when(writes).then(share).otherwise(0.0).clip(0, 1).alias("new_share")).to_series()


def _cold_share(frame: pl.DataFrame) -> pl.Series:
    """Return for each buffered read the share of pages that nothing had brought into the page cache."""
    kinds = frame["kind"].to_numpy()
    moved = (frame["bytes"].to_numpy() > 0) & ~frame["direct"].to_numpy() & (frame["offset"].to_numpy() >= 0)
    reads = moved & (kinds == KINDS["read"])
    share = np.zeros(frame.height)
    at = np.flatnonzero(moved & np.isin(kinds, (KINDS["read"], KINDS["write"], KINDS["copy"])))
    if at.size and reads.any():
        share[at] = _first_touches(frame, at)
    share[~reads] = 0
    again = _lives(frame) > 0  # everything was dropped since the begin
    return pl.Series("cold_share", share * np.where(again, 1.0, frame["uncached"].to_numpy()))


def _announced_as_random() -> pl.Expr:
    """Return whether the program has said that it reads in random order. Nothing is read ahead then."""
    advised = pl.when((pl.col("kind") == KINDS["advise"]) & pl.col("flags").is_in(_ORDERS)).then("flags")
    return advised.forward_fill().over("file").fill_null(0) == _RANDOM


def _continues(frame: pl.DataFrame) -> pl.Series:
    """Return which reads that are not cached continue what is in the page cache before them.

    A program can read several sequences of a file in turn. Linux then reads ahead all the same, if more
    pages than the read has are in the page cache right before it (mm/readahead.c, page_cache_sync_ra).
    """
    found = np.zeros(frame.height, np.bool_)
    lone = (frame["cold_share"].to_numpy() > 0) & ~frame["follows"].to_numpy() & ~frame["random"].to_numpy()
    kinds = frame["kind"].to_numpy()
    moved = (frame["bytes"].to_numpy() > 0) & ~frame["direct"].to_numpy() & (frame["offset"].to_numpy() >= 0)
    at = np.flatnonzero(moved & np.isin(kinds, (KINDS["read"], KINDS["write"], KINDS["copy"])))
    if not lone.any() or not at.size:
        return pl.Series("continues", found)
    touched = _touched(frame, at)
    first_touch = touched.group_by("file", "life", "page").agg(pl.col("operation").min().alias("by"))
    page = 4096 << int(touched["doublings"][0])
    offset, size = frame["offset"].to_numpy()[lone], frame["bytes"].to_numpy()[lone]
    first = offset // page
    found[lone] = True
    for back in (np.ones_like(first), (offset + size - 1) // page - first + 2):  # the ends of this range
        wanted = pl.DataFrame(
            {"file": frame["file"].to_numpy()[lone], "life": _lives(frame)[lone], "page": first - back}
        )
        by = wanted.join(first_touch, on=["file", "life", "page"], how="left", maintain_order="left")["by"]
        found[lone] &= by.fill_null(frame.height).to_numpy() < np.flatnonzero(lone)
    return pl.Series("continues", found)


def _touched(frame: pl.DataFrame, at: NDArray[np.int64]) -> pl.DataFrame:
    """Return a row for each page that each of these operations touches.

    If there are too many pages, several count as one: `doublings` says how often their size was doubled.
    """
    offset, size = (frame[name].to_numpy()[at] for name in ("offset", "bytes"))
    doublings = 0
    while int((size // (4096 << doublings) + 1).sum()) > _MOST_PAGES:
        doublings += 1
    page = 4096 << doublings
    first, count = offset // page, (offset + size - 1) // page - offset // page + 1
    which = np.repeat(np.arange(at.size), count)
    pages = np.arange(which.size) - np.repeat(np.cumsum(count) - count, count) + np.repeat(first, count)
    return pl.DataFrame(
        {
            "file": frame["file"].to_numpy()[at][which],
            "life": _lives(frame)[at][which],
            "page": pages,
            "operation": at[which],
            "doublings": np.full(which.size, doublings, np.int8),
        }
    )


def _first_touches(frame: pl.DataFrame, at: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return for each operation the share of its pages that no earlier one touched."""
    touched = _touched(frame, at)
    fresh = touched.unique(["file", "life", "page"], keep="first", maintain_order=True)
    counts = [np.bincount(of["operation"].to_numpy(), minlength=frame.height)[at] for of in (fresh, touched)]
    return np.asarray(counts[0] / counts[1], np.float64)


def _lives(frame: pl.DataFrame) -> NDArray[np.int64]:
    """Return how often the file had been dropped from the page cache before each operation."""
    dropped = ((pl.col("kind") == KINDS["advise"]) & (pl.col("flags") == _DONTNEED)).cast(pl.Int64)
    return frame.select(dropped.cum_sum().over("file")).to_series().to_numpy()


def _uncached(frame: pl.DataFrame, recording: Recording) -> pl.Series:
    """Return for each operation the share of its file that was not in the page cache at first.

    If that is unknown, it is estimated by the waits.
    """
    found = np.ones(len(recording.header.files) + 1)
    unknown = np.zeros(found.size, np.bool_)
    for number, file in enumerate(recording.header.files):
        if file.cached_bytes is None:
            unknown[number] = True
        elif file.bytes > 0:
            found[number] = 1 - min(1.0, file.cached_bytes / file.bytes)
    files = frame["file"].to_numpy()
    waited = (frame["waiting"].to_numpy() > _WAITED_NS).astype(np.float64)
    return pl.Series("uncached", np.where(unknown[files], waited, found[files]))
