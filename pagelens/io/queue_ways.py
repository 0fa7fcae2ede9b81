"""Other ways that do not wait for each transfer: several requests in flight, and a thread that writes."""

from __future__ import annotations

import numpy as np
import polars as pl
from numpy.typing import NDArray

from pagelens.io import classify as paths
from pagelens.io.kinds import KINDS
from pagelens.io.option import Option, Run, copy_s, sizes_of, wall_of
from pagelens.io.predict import Cost, Floats, costs_of, of_storage_s, table_cost
from pagelens.machine import Costs, InFlight, Io
from pagelens.units import format_binary_size

_DEPTHS = (2, 8, 32)  # requests in flight, as `pagelens measure io` measures them
_LEAST_PART = 1 << 20  # bytes of a write that a thread takes (ioapply/parts.c)
_AS_GOOD = 1.02  # times the least time: a deeper queue is not worth that
_THREAD = ["process", "thread"]
_TOGETHER = [*_THREAD, "file", "kind", "epoch", "sequence"]


def deeper_queue(frame: pl.DataFrame, io: Io, now: Cost) -> Option | None:
    """Keep several direct requests of a thread in flight (io_uring, libaio).

    These can be reads that follow each other in a file, and writes that overlap no other ones up to the next
    operation of another kind on the file. Writes that make a file longer take turns on ext4, so they stay.

    The last one of a sequence waits as long as now. The others take as much less as `pagelens measure io`
    measured. Without its tables, one ends every (c + w)/n on the average (Little's law), if each of n in
    flight takes the processor time c and waits w. It does not end sooner than every c, nor faster than the
    node transfers.
    """
    some = _independent(frame, now).filter(pl.len().over(_TOGETHER) > 1)
    if some.is_empty():
        return None
    at, alone = some["at"].to_numpy(), _of(now, some["at"].to_numpy())
    last = some.select(pl.col("at") == pl.col("at").max().over(_TOGETHER)).to_series().to_numpy()
    found: dict[int, Cost] = {}
    for depth in _DEPTHS:
        queued = _queued(some, io, alone, of_storage_s(frame, io)[at], depth)
        found[depth] = Cost(
            np.where(last, alone.cpu_s, queued.cpu_s), np.where(last, alone.wait_s, queued.wait_s)
        )
    spent = {depth: float(wall_of(cost).sum()) for depth, cost in found.items()}
    best = min(depth for depth, wall in spent.items() if wall <= _AS_GOOD * min(spent.values()))
    cpu_s, wait_s = now.cpu_s.copy(), now.wait_s.copy()
    cpu_s[at], wait_s[at] = found[best].cpu_s, found[best].wait_s
    measured = io.direct_read_in_flight is not None or io.direct_write_in_flight is not None
    return Option(
        "queue-depth",
        f"{best} direct requests in flight",
        f"io_uring or libaio, and {best} buffers"
        + ("" if measured else "; the disk must take so many requests at a time"),
        Cost(cpu_s, wait_s),
    )


def _of(cost: Cost, at: np.ndarray[tuple[int], np.dtype[np.uint32]]) -> Cost:
    return Cost(cost.cpu_s[at], cost.wait_s[at])


def _queued(some: pl.DataFrame, io: Io, alone: Cost, storage_s: Floats, depth: int) -> Cost:
    """Return what transfers cost with `depth` of them in flight, or with all of a shorter sequence."""
    count = np.minimum(some.select(pl.len().over(_TOGETHER)).to_series().to_numpy(), depth)
    wall = wall_of(alone)
    period = np.minimum(np.maximum(np.maximum(alone.cpu_s, storage_s), wall / depth), wall)
    cpu = alone.cpu_s.copy()
    for path, table in (
        (paths.DIRECT_READ, io.direct_read_in_flight),
        (paths.DIRECT_WRITE, io.direct_write_in_flight),
    ):
        costs = costs_of(io, path)
        if table is None or costs is None:
            continue
        of_path = (some["path"] == path).to_numpy()
        for number in set(count[of_path].tolist()):
            where = of_path & (count == number)
            of_cpu, of_wall = _ratios(table.value, costs, sizes_of(some)[where], number)
            cpu[where] = alone.cpu_s[where] * of_cpu
            period[where] = np.maximum(wall[where] * of_wall, cpu[where])
    return Cost(cpu, period - cpu)


def _ratios(table: InFlight, alone: Costs, sizes: Floats, depth: int) -> tuple[Floats, Floats]:
    """Return processor and wall time of a transfer with `depth` of them in flight, over those of one alone.

    Both are in proportion between measured depths, and between measured sizes. One in flight is one alone.
    """
    found = [(1, np.ones_like(sizes), np.ones_like(sizes))]
    for count, costs in zip(*table, strict=True):
        rows = np.asarray(costs.sizes, np.float64)
        with_it, without = table_cost(costs, rows), table_cost(alone, rows)
        cpu, wall = with_it.cpu_s / without.cpu_s, wall_of(with_it) / wall_of(without)
        found.append(
            (count, np.interp(sizes, rows, np.nan_to_num(cpu, nan=1.0)), np.interp(sizes, rows, wall))
        )
    counts = [count for count, _, _ in found]
    upper = min(int(np.searchsorted(counts, depth)), len(counts) - 1)
    lower = max(upper - 1, 0)
    share = min((depth - counts[lower]) / max(counts[upper] - counts[lower], 1), 1.0)
    (_, cpu, wall), (_, less_cpu, less_wall) = found[upper], found[lower]
    return share * cpu + (1 - share) * less_cpu, share * wall + (1 - share) * less_wall


def divided_writes(
    frame: pl.DataFrame, io: Io, direct: Cost, large: NDArray[np.bool_], threads: int
) -> tuple[Cost, Floats, NDArray[np.bool_]]:
    """Return the cost and the wall time if threads divide the large writes, and which writes these are.

    `direct` is the cost if these writes are direct. Those over data of 2 MiB and more are divided in parts of
    at least 1 MiB, as by ioapply/parts.c. The parts are in flight together. The calling thread also waits for
    a copy of its own part only. What it takes to make a thread is not priced.
    """
    sizes, costs = sizes_of(frame), costs_of(io, paths.DIRECT_WRITE)
    parts = np.minimum(sizes // _LEAST_PART, threads)
    some = large & (parts > 1) & (frame["new_share"].to_numpy() <= 0)
    cpu_s, wall = direct.cpu_s.copy(), wall_of(direct)
    if costs is None:
        return direct, wall, np.zeros_like(some)
    for number in {int(count) for count in parts[some]}:
        at = np.flatnonzero(some & (parts == number))
        each, whole = table_cost(costs, sizes[at] / number), table_cost(costs, sizes[at])
        alone, copies = wall_of(each), np.maximum(direct.cpu_s[at] - whole.cpu_s, 0)
        if io.direct_write_in_flight is not None:
            of_cpu, of_wall = _ratios(io.direct_write_in_flight.value, costs, sizes[at] / number, number)
        else:  # as fast as the node transfers, but no slower than one
            least = 0.0 if io.write_rate is None else sizes[at] / number / io.write_rate.value
            of_cpu = np.ones_like(alone)
            of_wall = np.maximum(1 / number, np.minimum(least / alone, 1.0))
        cpu_s[at] = number * each.cpu_s * of_cpu + copies
        wall[at] = number * alone * of_wall + copies / number
    return Cost(cpu_s, np.maximum(wall - cpu_s, 0)), wall, some


def flights(frame: pl.DataFrame) -> NDArray[np.uint8]:
    """Return for each operation whether it is made alone (0), or can be in flight with the next ones (1).

    The last one of such a sequence has a 2: the program waits for all of them.
    """
    nothing = Cost(np.zeros(frame.height), np.zeros(frame.height))
    some = _independent(frame, nothing).filter(pl.len().over(_TOGETHER) > 1)
    found = np.zeros(frame.height, np.uint8)
    last = some.select(pl.col("at") == pl.col("at").max().over(_TOGETHER)).to_series().to_numpy()
    found[some["at"].to_numpy()] = np.where(last, 2, 1)
    return found


def _independent(frame: pl.DataFrame, now: Cost) -> pl.DataFrame:
    """Return the places `at` of direct transfers whose results are not needed before the next one begins.

    The columns `_TOGETHER` tell which of them can be in flight together.
    """
    reads = pl.col("kind") == KINDS["read"]
    end = pl.col("offset") + pl.col("bytes")
    found = (
        frame.with_row_index("at")
        .with_columns(known=pl.Series(np.isfinite(now.cpu_s)))
        .filter(pl.col("bytes") > 0, pl.col("kind").is_in([KINDS["read"], KINDS["write"]]))
        .with_columns(sequence=pl.when(reads).then("run").otherwise(0))
        .sort("offset", maintain_order=True)
        .with_columns(overlaps=(pl.col("offset") < end.cum_max().shift(1).over(_TOGETHER)).fill_null(False))
        .filter(~pl.col("overlaps").any().over(_TOGETHER))
    )
    free = ~pl.col("synchronous") & ~pl.col("append") & (reads | (pl.col("new_share") <= 0))
    return found.filter("known", free, pl.col("path").is_in([paths.DIRECT_READ, paths.DIRECT_WRITE])).sort(
        "at"
    )


def writer_thread(frame: pl.DataFrame, io: Io, now: Cost, run: Run) -> Option | None:
    """Let a thread write copies of the data while the program goes on.

    The program waits for that thread at the next operation of another kind on a file, such as fsync, close
    or a read, and at its end. Until then it does its own work and its operations on other files. Only files
    that one thread uses are written so. If no core is known to be free, only the waiting moves to the
    thread.

    What is left to write follows the recursion of a queue (Lindley): it shrinks by the time that passes,
    not below 0, and grows by what each write takes.
    """
    free = 0 < run.busy_cores <= run.cores - 1
    moved, barrier = _moved(frame, now)
    if not moved.any():
        return None
    sizes, wall = sizes_of(frame), np.nan_to_num(wall_of(now))
    copies = np.where(moved, copy_s(io, sizes), 0.0)
    stays = np.zeros_like(wall) if free else np.nan_to_num(now.cpu_s)
    work = np.where(moved, wall - stays, 0.0)
    if work.sum() <= 0:
        return None
    mine = np.where(moved, copies + stays, wall)
    passes = frame["gap_ns"].to_numpy() / 1e9 + np.where(barrier, 0.0, mine)
    left, bytes_ = _left(frame, barrier, passes, work, np.where(moved, sizes, 0.0))
    wall_s = mine + left
    cpu_s, wait_s = now.cpu_s + copies, np.where(moved, 0.0, now.wait_s) + left
    return Option(
        "writer-thread",
        "a thread that writes meanwhile",
        f"copies of up to {format_binary_size(bytes_)} in a queue"
        + ("" if free else ", and no core is known to be free for it")
        + "; errors come later, and kill -9 loses what is in it",
        Cost(cpu_s, wait_s),
        wall_s,
    )


def _moved(
    frame: pl.DataFrame, now: Cost
) -> tuple[np.ndarray[tuple[int], np.dtype[np.bool_]], np.ndarray[tuple[int], np.dtype[np.bool_]]]:
    """Return which operations are writes that a thread can do, and which must wait for it.

    An operation that the model does not know is not in `frame`, but the next write of the file has another
    epoch then. That write waits and stays.
    """
    writes = (pl.col("kind") == KINDS["write"]) & (pl.col("bytes") > 0) & ~pl.col("synchronous")
    alone = pl.struct(_THREAD).n_unique().over("file") == 1
    parts = frame.select(
        *_THREAD,
        "file",
        "epoch",
        moved=writes & alone & pl.Series(np.isfinite(now.cpu_s)),
        seeks=pl.col("kind") == KINDS["seek"],
    )

    def before(column: str) -> pl.Expr:
        return pl.when(~pl.col("seeks")).then(column).forward_fill().shift(1).over("file")

    waits = before("moved").fill_null(False) & ~pl.col("seeks")
    waits &= ~pl.col("moved") | (pl.col("epoch") != before("epoch"))
    parts = parts.with_columns(waits=waits.fill_null(False))
    return (parts["moved"] & ~parts["waits"]).to_numpy(), parts["waits"].to_numpy()


def _left(
    frame: pl.DataFrame,
    barrier: np.ndarray[tuple[int], np.dtype[np.bool_]],
    passes: Floats,
    work: Floats,
    sizes: Floats,
) -> tuple[Floats, int]:
    """Return the seconds that each operation waits for the thread, and the most bytes that can be queued.

    Those that must wait, wait for all that is left, and the last operation of a thread does so, too.
    """
    part = [*_THREAD, "part"]
    parts = (
        frame.select(_THREAD)
        .with_columns(
            barrier=pl.Series(barrier), passes=pl.Series(passes), work=pl.Series(work), bytes=pl.Series(sizes)
        )
        .with_columns(part=pl.col("barrier").cum_sum().shift(1).fill_null(0).over(_THREAD))
        .with_columns(added=pl.col("work").shift(1).fill_null(0.0).over(part))
        .with_columns(sum=(pl.col("added") - pl.col("passes")).cum_sum().over(part))
        .with_columns(left=pl.col("sum") - pl.col("sum").cum_min().over(part).clip(upper_bound=0))
        .with_columns(last=pl.int_range(pl.len()).over(_THREAD) == pl.len().over(_THREAD) - 1)
    )
    waits = pl.when(pl.col("barrier")).then("left").when("last").then(pl.col("left") + pl.col("work"))
    most = parts.group_by(part).agg(pl.col("bytes").sum())["bytes"].max()
    return parts.select(waits.otherwise(0.0)).to_series().to_numpy(), int(most or 0)  # type: ignore[arg-type]
