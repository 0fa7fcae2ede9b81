"""Predicts the time of classified operations on a file system that a machine file describes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import polars as pl
from numpy.typing import NDArray

from pagelens.io import classify as paths
from pagelens.io.kinds import KINDS
from pagelens.io.turns import left_of_others, waited_for
from pagelens.machine import (
    JOINED_PIECE,
    LARGE_AFTER_WORK,
    SMALL_AFTER_WORK,
    SMALL_JOINED_PIECE,
    Costs,
    Io,
    Machine,
)
from pagelens.values.quantities import Sourced

Floats = NDArray[np.float64]
_PAGE = 4096  # bytes


@dataclass(frozen=True)
class Cost:
    """The cost of each operation, in seconds. NaN means that the machine file does not say."""

    cpu_s: Floats
    wait_s: Floats


def table_cost(costs: Costs, sizes: Floats) -> Cost:
    """Return what operations of these sizes cost by a table. It is `Costs.of` for many sizes."""
    rows = np.asarray(costs.sizes, np.float64)
    beyond = np.maximum(sizes / rows[-1], 1.0)
    cpu = np.asarray([np.nan if each is None else each for each in costs.cpu_s])
    cpu_s = np.interp(sizes, rows, cpu) * beyond
    wall_s = np.interp(sizes, rows, np.asarray(costs.wall_s)) * beyond
    return Cost(cpu_s, np.where(np.isnan(cpu_s), wall_s, np.maximum(wall_s - cpu_s, 0)))


def costs_of(io: Io, path: str) -> Costs | None:
    """Return the table of a path.

    If the machine file lacks it, return that of the most similar path that it has.
    """
    nearest = {
        paths.OVERWRITE: ("overwrite", "write"),
        paths.DIRECT_NEW_WRITE: ("direct_new_write", "direct_write"),
        paths.UNALIGNED_WRITE: ("unaligned_write", "write"),
        paths.SHARED_WRITE: ("shared_write", "write"),
        paths.SMALL_FOLIO_READ: ("small_folio_read", "read", "cold_read"),
        paths.FAR_READ: ("far_read", "read", "cold_read"),
        paths.READ: ("read", "cold_read"),
        paths.COLD_READ: ("cold_read", "read"),
        paths.SCATTERED_READ: ("scattered_read", "cold_read", "read"),
    }
    for name in nearest.get(path, (path,)):
        value = getattr(io, name)
        if value is not None:
            costs: Costs = value.value
            return costs
    return None


def predict(frame: pl.DataFrame, io: Io) -> Cost:
    """Return what each operation costs.

    NaN means that the model, or the machine file, says nothing of it.
    """
    count = frame.height
    cpu_s, wait_s = np.full(count, np.nan), np.full(count, np.nan)
    kind = frame["path"].to_numpy()
    sizes = frame["bytes"].to_numpy().astype(np.float64)

    def put(where: NDArray[np.bool_], cost: Cost) -> None:
        cpu_s[where], wait_s[where] = cost.cpu_s, cost.wait_s

    where, costs = kind == paths.DIRECT_READ, costs_of(io, paths.DIRECT_READ)
    if costs is not None and where.any():
        put(where, table_cost(costs, sizes[where]))
    for path, whole_path, share_name, base in (
        (paths.DIRECT_WRITE, paths.DIRECT_NEW_WRITE, "new_share", paths.DIRECT_WRITE),
        (paths.WRITE, paths.WRITE, "new_share", paths.OVERWRITE),
        (paths.OVERWRITE, paths.OVERWRITE, "new_share", paths.OVERWRITE),
        (paths.COPY, paths.COPY, "new_share", paths.COPY),
        (paths.READ, paths.READ, "cold_share", paths.READ),
        (paths.COLD_READ, paths.COLD_READ, "cold_share", paths.READ),
        (paths.SCATTERED_READ, paths.SCATTERED_READ, "cold_share", paths.READ),
    ):
        where = kind == path
        whole, rest = costs_of(io, whole_path), costs_of(io, base)
        if whole is not None and rest is not None and where.any():
            share = frame[share_name].to_numpy()[where]
            put(where, _mixed(table_cost(whole, sizes[where]), table_cost(rest, sizes[where]), share))
    _finer(frame, io, cpu_s)
    _elsewhere(frame, io, cpu_s)
    for path, value in ((paths.OPENING, io.opening), (paths.CREATING, io.creating), (paths.CALL, io.call)):
        if value is not None:
            put(kind == path, Cost(np.float64(value.value), np.float64(0)))  # type: ignore[arg-type]
    _dropped(frame, io, cpu_s)
    _spun(frame, cpu_s, wait_s)
    _synchronous(frame, io, cpu_s, wait_s)
    _throttled(frame, io, cpu_s, wait_s)
    return Cost(cpu_s, wait_s)


def _finer(frame: pl.DataFrame, io: Io, cpu_s: Floats) -> None:
    """Replace or add to the processor time of buffered transfers what depends on more than path and size.

    Each part is the difference of two measured tables. Without them the time stays as it is.
    """
    kind, sizes = frame["path"].to_numpy(), frame["bytes"].to_numpy().astype(np.float64)
    unaligned = (kind == paths.WRITE) & ~frame["aligned"].to_numpy()
    new = frame["new_share"].to_numpy()[unaligned]
    cpu_s[unaligned] += new * _difference(io, paths.UNALIGNED_WRITE, paths.WRITE, sizes[unaligned])
    shared = (kind == paths.WRITE) & _after_another_processor(frame)
    new = frame["new_share"].to_numpy()[shared]
    cpu_s[shared] += new * _difference(io, paths.SHARED_WRITE, paths.WRITE, sizes[shared])
    cached = (1 - frame["cold_share"].to_numpy()) * np.isin(kind, paths.BUFFERED_READS)
    for path, share in (
        (paths.SMALL_FOLIO_READ, frame["folio_share"].to_numpy()),
        (paths.FAR_READ, ~frame["exactly_follows"].to_numpy()),
    ):
        some = cached * share > 0
        cpu_s[some] += (cached * share)[some] * _difference(io, path, paths.READ, sizes[some])
    gap = frame["gap_ns"].to_numpy() / 1e9
    old = np.isin(kind, (*paths.BUFFERED_READS, paths.OVERWRITE))
    makes = np.isin(kind, (paths.WRITE, paths.COPY))
    for where, small, large in (
        (old, io.after_work, io.large_after_work),
        (makes, io.write_after_work or io.after_work, io.large_write_after_work),
    ):
        if small is not None:
            more = _displaced(small.value, gap[where])
            if large is not None:
                # A large buffer is displaced, too.
                share = (sizes[where] - SMALL_AFTER_WORK) / (LARGE_AFTER_WORK - SMALL_AFTER_WORK)
                more += share.clip(0, 1) * np.maximum(_displaced(large.value, gap[where]) - more, 0)
            cpu_s[where] += more


def _after_another_processor(frame: pl.DataFrame) -> NDArray[np.bool_]:
    """Return which writes follow one that another processor made to their file."""
    writes = pl.col("path").is_in([paths.WRITE, paths.OVERWRITE])
    cpu = pl.when(writes).then(pl.col("cpu"))
    before = cpu.forward_fill().shift(1).over("file")
    return frame.select((writes & (cpu != before)).fill_null(False)).to_series().to_numpy()


def _elsewhere(frame: pl.DataFrame, io: Io, cpu_s: Floats) -> None:
    """Add what operations take longer that wait for the storage where its interrupts do not come."""
    if io.interrupt_core is None or io.other_core is None:
        return
    waits = np.where(frame["path"] == paths.SCATTERED_READ, frame["cold_share"], 0.0)
    waits = np.where(frame["path"].is_in([paths.DIRECT_READ, paths.DIRECT_WRITE]), 1.0, waits)
    cpu_s += waits * (frame["cpu"] != io.interrupt_core.value).to_numpy() * io.other_core.value


def _spun(frame: pl.DataFrame, cpu_s: Floats, wait_s: Floats) -> None:
    """Add the time in which a write waits for another thread's write to the file.

    It takes as much longer as was left of the other one, with what that one itself had to wait. Meanwhile the
    thread does what the other one does: it is busy, or waits.
    """
    writes = frame["path"].is_in([paths.WRITE, paths.OVERWRITE]).to_numpy()
    place, left = waited_for(frame, writes, writes, in_order=True)
    for at in np.flatnonzero(place >= 0).tolist():
        cpu_s[at] += left[at] * cpu_s[place[at]]
        wait_s[at] += left[at] * wait_s[place[at]]


def _displaced(costs: Costs, gap_s: Floats) -> Floats:
    """Return how many seconds longer a transfer takes after a pause in which other memory was touched."""
    took = np.asarray([each or 0.0 for each in costs.cpu_s])
    work = np.asarray(costs.wall_s) - took
    return np.asarray(np.interp(gap_s, work, np.maximum(took - took[0], 0)))


def _difference(io: Io, path: str, base: str, sizes: Floats) -> Floats:
    """Return how much more processor time operations take by one table than by another, at least 0."""
    first, second = costs_of(io, path), costs_of(io, base)
    if first is None or second is None:
        return np.zeros_like(sizes)
    more = table_cost(first, sizes).cpu_s - table_cost(second, sizes).cpu_s
    return np.asarray(np.maximum(np.nan_to_num(more), 0))


def _dropped(frame: pl.DataFrame, io: Io, cpu_s: Floats) -> None:
    """Add what is dropped from the page cache, and what a close writes out after a truncation."""
    for name, call in (("truncated_bytes", io.replacing_open), ("rewritten_bytes", io.replacing_close)):
        if call is not None:
            cpu_s[:] = np.where(frame[name].to_numpy() > 0, np.maximum(cpu_s, call.value), cpu_s)
    cpu_s += frame["dropped_bytes"].to_numpy() * pace(
        io.truncating, io.small_folio_truncating, frame["dropped_share"].to_numpy()
    )
    cpu_s += frame["rewritten_bytes"].to_numpy() * pace(
        io.close_work, io.small_folio_close_work, frame["folio_share"].to_numpy()
    )


def pace(large: Sourced[float] | None, small: Sourced[float] | None, share: Floats) -> Floats:
    """Return the seconds a byte of pages of which a share are folios of their own. 0: nobody knows."""
    rates = [rate.value for rate in (large, small or large) if rate is not None]
    if not rates:
        return np.zeros_like(share)
    return np.asarray((1 - share) / rates[0] + share / rates[-1])


def _mixed(first: Cost, second: Cost, share: Floats) -> Cost:
    return Cost(
        share * first.cpu_s + (1 - share) * second.cpu_s, share * first.wait_s + (1 - share) * second.wait_s
    )


def _synchronous(frame: pl.DataFrame, io: Io, cpu_s: Floats, wait_s: Floats) -> None:
    """Add the cost of fsync, and the waits of writes to files opened with O_SYNC or O_DSYNC."""
    if io.sync is None:
        return
    base_cpu = io.sync_cpu.value if io.sync_cpu is not None else 0.0
    syncs = (frame["path"] == paths.SYNC).to_numpy()
    buffered = (pl.col("kind") == KINDS["write"]) & ~pl.col("direct")
    written = pl.when(buffered).then(pl.col("bytes")).otherwise(0)
    since = frame.select(
        total=written.cum_sum().over("file"),
        at_sync=pl.when(pl.col("path") == paths.SYNC).then(written.cum_sum().over("file")),
        file="file",
    )
    before = since.select(pl.col("at_sync").forward_fill().shift(1).over("file").fill_null(0)).to_series()
    dirty = (since["total"] - before).to_numpy().astype(np.float64)
    clean = dirty <= 0
    work = pace(io.sync_work, io.small_folio_sync_work, frame["folio_share"].to_numpy())
    out = 0.0 if io.write_rate is None else 1 / io.write_rate.value
    cpu = np.where(clean, 0.0, base_cpu) + dirty * work
    wall = np.where(clean, 0.0, io.sync.value) + dirty * out
    cpu_s[syncs] = cpu[syncs]
    wait_s[syncs] = np.maximum(wall - cpu, 0)[syncs]
    _joined(frame, io, syncs, np.where(syncs, dirty, 0.0), cpu_s, wait_s)
    each = (frame["synchronous"] & (frame["kind"] == KINDS["write"]) & (frame["bytes"] > 0)).to_numpy()
    cpu_s[each] += base_cpu
    wait_s[each] += max(io.sync.value - base_cpu, 0)


def _joined(
    frame: pl.DataFrame, io: Io, syncs: NDArray[np.bool_], dirty: Floats, cpu_s: Floats, wait_s: Floats
) -> None:
    """Add what an fsync takes that finds other threads' fsyncs writing the file out.

    It waits for the pages that they have not written yet, and looks at each of them.
    """
    if io.joined_sync_work is None:
        return
    small = io.small_folio_joined_sync_work or io.joined_sync_work
    shares = (_PAGE / JOINED_PIECE, _PAGE / SMALL_JOINED_PIECE)
    paces = (1 / io.joined_sync_work.value, 1 / small.value)
    seconds = np.interp(frame["folio_share"].to_numpy(), shares, paces)
    cpu_s += left_of_others(frame, syncs, dirty) * seconds
    place, left = waited_for(frame, syncs & (dirty <= 0), dirty > 0, in_order=False)
    joined, other = place >= 0, place[place >= 0]
    wait_s[joined] += left[joined] * wait_s[other]


def _throttled(frame: pl.DataFrame, io: Io, cpu_s: Floats, wait_s: Floats) -> None:
    """Add the waits of buffered writes for the storage beyond the dirty limit."""
    if io.dirty_limit is None or io.write_rate is None:
        return
    sizes, over = _beyond_limit(frame, io.dirty_limit.value)
    if over <= 0:
        return
    wait = max(over / io.write_rate.value - float(np.nansum(cpu_s[sizes > 0])), 0)
    wait_s += wait * sizes / sizes.sum()


def _beyond_limit(frame: pl.DataFrame, limit: int) -> tuple[Floats, float]:
    """Return the bytes of each buffered write, and by how many all together exceed the dirty limit."""
    buffered = frame["path"].is_in([paths.WRITE, paths.OVERWRITE]).to_numpy()
    sizes = frame["bytes"].to_numpy().astype(np.float64) * buffered
    return sizes, float(sizes.sum()) - limit


def of_storage_s(frame: pl.DataFrame, io: Io) -> Floats:
    """Return the seconds that the node's storage needs for each transfer, whoever makes it."""
    kind, sizes = frame["path"].to_numpy(), frame["bytes"].to_numpy().astype(np.float64)
    seconds = np.zeros_like(sizes)
    if io.read_rate is not None:
        cold = np.where(np.isin(kind, paths.BUFFERED_READS), frame["cold_share"].to_numpy(), 0.0)
        seconds += sizes * np.where(kind == paths.DIRECT_READ, 1.0, cold) / io.read_rate.value
    if io.write_rate is not None:
        written = sizes * (kind == paths.DIRECT_WRITE)
        if io.dirty_limit is not None:
            buffered, over = _beyond_limit(frame, io.dirty_limit.value)
            written = written + buffered * max(over, 0.0) / max(float(buffered.sum()), 1.0)
        seconds += written / io.write_rate.value
    return seconds


def predict_transfers(machine: Machine, path: str, size: int) -> float:
    """Return the wall seconds of one transfer of that size and path on a machine that states it."""
    assert machine.io is not None
    costs = costs_of(machine.io, path)
    assert costs is not None
    return costs.of(size).wall_s
