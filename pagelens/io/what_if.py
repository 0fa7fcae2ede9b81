"""Computes what other ways of doing the same operations would take: processor time and waiting."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np
import polars as pl

from pagelens.io import classify as paths
from pagelens.io.classify import classify, made_direct
from pagelens.io.core_ways import interrupt_core, kernel_core, more_threads, on_core
from pagelens.io.kinds import IN_STDIO
from pagelens.io.library_ways import aggregators, aligned_objects, chunk_cache, larger_chunks, repeated_chunks
from pagelens.io.option import BUFFERED, Option, Run, buffered, copy_s, sizes_of, wall_of
from pagelens.io.predict import Cost, Floats, costs_of, predict, table_cost
from pagelens.io.queue_ways import deeper_queue, divided_writes, writer_thread
from pagelens.io.recording import Recording
from pagelens.io.request_ways import REQUESTS, direct_path, has_direct, larger_buffers, merged, merged_direct
from pagelens.machine import Io
from pagelens.units import format_binary_size

LARGE = 1 << 20  # bytes from which on `pagelens io run` makes writes direct by default
# File systems with checksums, where `pagelens io run` leaves files alone (ioapply/left_alone.c).
CHECKSUMMED = ("btrfs", "bcachefs", "zfs", "overlay", "cifs", "smb2", "smb3")
_SAME_FILE_SYNCS = 2
_THREADS = (2, 4, 8, 16)  # that share a large write
_AS_GOOD = 1.02  # times the least time: more threads are not worth that


def options(frame: pl.DataFrame, io: Io, run: Run | None = None) -> Iterator[Option]:
    """Yield all ways that this program and this file system allow. The operations as they are come first."""
    as_it_ran = predict(frame, io)
    yield Option("as-it-ran", "as it ran", "", as_it_ran)
    for make in (
        merged,
        larger_buffers,
        _direct,
        _large_direct,
        _divided,
        merged_direct,
        _read_ahead,
        _fewer_syncs,
        _larger_chunks,
        aligned_objects,
        chunk_cache,
        aggregators,
        deeper_queue,
        more_threads,
        interrupt_core,
    ):
        found = make(frame, io, as_it_ran)
        if found is not None:
            yield found
    for make_in in (writer_thread, kernel_core):
        found = make_in(frame, io, as_it_ran, run or Run())
        if found is not None:
            yield found


def _larger_chunks(frame: pl.DataFrame, io: Io, now: Cost) -> Option | None:
    return larger_chunks(frame, io, now, REQUESTS)


def _direct(frame: pl.DataFrame, io: Io, now: Cost) -> Option | None:
    """Make each buffered operation direct, as it is if it is aligned, else through an aligned buffer."""
    where = buffered(frame)
    if not has_direct(io) or not where.any():
        return None
    cost, bounces = _made_direct(frame, io, where)
    return Option(
        "direct",
        "direct, request by request",
        "O_DIRECT" + (f"; {bounces:.0%} of the requests need an aligned copy" if bounces >= 0.005 else ""),
        cost,
    )


def _large_direct(frame: pl.DataFrame, io: Io, now: Cost) -> Option | None:
    """Make large writes direct, as `pagelens io run` does."""
    where = large_writes(frame, io, LARGE)
    if not has_direct(io) or not where.any() or io.file_system.value in CHECKSUMMED:
        return None
    return Option(
        "large-direct",
        f"direct writes of {format_binary_size(LARGE)} and more",
        "O_DIRECT where it is safe, and a copy where the memory is not aligned",
        _made_direct(frame, io, where)[0],
        applied_by="--apply direct",
    )


def _divided(frame: pl.DataFrame, io: Io, now: Cost) -> Option | None:
    """Divide large writes over data among threads, too."""
    where = large_writes(frame, io, LARGE)
    if not has_direct(io) or not where.any() or io.file_system.value in CHECKSUMMED:
        return None
    direct, _ = _made_direct(frame, io, where)
    found = [(divided_writes(frame, io, direct, where, threads), threads) for threads in _THREADS]
    known = [(cost, wall, threads) for (cost, wall, some), threads in found if some.any()]
    if not known:
        return None
    least = min(float(wall.sum()) for _, wall, _ in known)
    cost, wall, threads = next(each for each in known if float(each[1].sum()) <= _AS_GOOD * least)
    return Option(
        "divided",
        f"large direct writes by {threads} threads",
        "O_DIRECT where it is safe, and parts of a write over data that threads write",
        cost,
        wall,
        applied_by=f"--threads {threads}",
    )


def large_writes(frame: pl.DataFrame, io: Io, smallest: int) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    """Return which operations the library of `pagelens io run` makes direct."""
    block = io.direct_alignment.value if io.direct_alignment is not None else 4096
    return (
        frame["path"].is_in([paths.WRITE, paths.OVERWRITE])
        & (frame["size"] >= smallest)
        & (frame["offset"] % block == 0)
        & ~frame["append"]
        & ~frame["synchronous"]
        & (frame["flags"] & IN_STDIO == 0)
        & (frame["buffers"] <= 1)
    ).to_numpy()


def _made_direct(
    frame: pl.DataFrame, io: Io, where: np.ndarray[tuple[int], np.dtype[np.bool_]]
) -> tuple[Cost, float]:
    """Return the cost if these operations were direct, and the share of them that is copied first.

    Reads of what was written directly cost more then, because it is not in the page cache.
    """
    block = io.direct_alignment.value if io.direct_alignment is not None else 4096
    memory = io.memory_alignment.value if io.memory_alignment is not None else 4096
    after = predict(made_direct(frame, where), io)
    cpu_s, wait_s = after.cpu_s.copy(), after.wait_s.copy()
    sizes, kind = sizes_of(frame), frame["path"].to_numpy()
    offset = frame["offset"].to_numpy()
    first, last = offset % block, (offset + sizes.astype(np.int64)) % block
    whole = np.ceil((sizes + first) / block) * block
    bounced = (first != 0) | (last != 0) | (frame["address"].to_numpy() % memory != 0)
    edges = (first != 0).astype(float) + (last != 0)  # blocks that are read first, because a part changes
    for path in BUFFERED:
        some = where & (kind == path)
        writes = path in (paths.WRITE, paths.OVERWRITE)
        costs = costs_of(io, direct_path(path))
        if costs is None or not some.any():
            continue
        each = table_cost(costs, whole[some])
        cpu_s[some] = each.cpu_s + copy_s(io, sizes[some]) * bounced[some]
        wait_s[some] = each.wait_s
        if writes and (reads := costs_of(io, paths.DIRECT_READ)) is not None:
            edge = table_cost(reads, np.full(int(some.sum()), float(block)))
            cpu_s[some] += edges[some] * edge.cpu_s
            wait_s[some] += edges[some] * edge.wait_s
    return Cost(cpu_s, wait_s), float(bounced[where].mean())


def saved_by_advice(
    recording: Recording,
    io: Io,
    smallest: int | None,
    hdf5: Mapping[str, int],
    cores: tuple[int, ...] = (),
    threads: int = 1,
    buffer: int | None = None,
) -> tuple[float, float] | None:
    """Return the processor and wall seconds that `pagelens io run` saves.

    `smallest` is the size from which on writes are made direct, by so many `threads`. `buffer` is the size of
    stdio's buffers, and `hdf5` has the bytes of properties of
    HDF5. `cores` are those that the program is bound to; the model knows what one of them changes for a
    program with one thread. What each of them saves is added. Return None if none of them changes anything,
    or the model does not know what it changes: the machine file may not know direct writes, the library may
    leave files of this file system alone, and the cache of HDF5 may be too small for all chunks.
    """
    frame = classify(recording)
    now = predict(frame, io)
    ways: list[tuple[Cost, Floats]] = []
    if smallest is not None and io.direct_write is not None and io.file_system.value not in CHECKSUMMED:
        where = large_writes(frame, io, smallest)
        if where.any():
            ways.append(divided_writes(frame, io, _made_direct(frame, io, where)[0], where, threads)[:2])
    if buffer is not None and (buffers := larger_buffers(frame, io, now, (buffer,))) is not None:
        ways.append((buffers.cost, buffers.wall_s))
    if "alignment" in hdf5 and (aligned := aligned_objects(frame, io, now)) is not None:
        ways.append((aligned.cost, aligned.wall_s))
    if "cache" in hdf5 and hdf5["cache"] >= repeated_chunks(frame)[1]:
        cached = chunk_cache(frame, io, now)
        ways += [(cached.cost, cached.wall_s)] if cached is not None else []
    if len(cores) == 1 and (bound := on_core(frame, io, cores[0])) is not None:
        ways.append((bound, wall_of(bound)))
    if not ways:
        return None
    cpu = sum(float(np.nansum(now.cpu_s - then.cpu_s)) for then, _ in ways)
    return cpu, sum(float(np.nansum(wall_of(now) - wall)) for _, wall in ways)


def _read_ahead(frame: pl.DataFrame, io: Io, now: Cost) -> Option | None:
    """Announce reads that the kernel does not foresee by fadvise(WILLNEED), so that they come early."""
    where = (frame["path"] == paths.SCATTERED_READ).to_numpy()
    if io.read_rate is None or not where.any():
        return None
    wait_s = now.wait_s.copy()
    wait_s[where] = np.minimum(wait_s[where], sizes_of(frame)[where] / io.read_rate.value)
    return Option(
        "willneed",
        "reads announced before (fadvise)",
        "posix_fadvise(WILLNEED) where the program knows what it will read",
        Cost(now.cpu_s, wait_s),
    )


def _fewer_syncs(frame: pl.DataFrame, io: Io, now: Cost) -> Option | None:
    """Keep only the last fsync of each file."""
    syncs = frame["path"] == paths.SYNC
    per_file = frame.select((pl.col("path") == paths.SYNC).sum().over("file")).to_series()
    last = frame.select(
        (pl.col("path") == paths.SYNC).cum_sum().over("file")
        == (pl.col("path") == paths.SYNC).sum().over("file")
    ).to_series()
    early = (syncs & ~last & (per_file >= _SAME_FILE_SYNCS)).to_numpy()
    if not early.any():
        return None
    kept = pl.when(pl.Series(early)).then(pl.lit(paths.OTHER)).otherwise(pl.col("path"))
    after = predict(frame.with_columns(path=kept), io)  # the last one then writes what all of them wrote
    cpu_s, wait_s = after.cpu_s.copy(), after.wait_s.copy()
    cpu_s[early], wait_s[early] = 0.0, 0.0
    return Option(
        "sync-once",
        "one fsync a file, at its end",
        "the risk that a crash loses what was written since the last fsync",
        Cost(cpu_s, wait_s),
    )
