"""Other ways that make larger requests: merged ones, direct ones, and those of larger buffers in stdio."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import polars as pl

from pagelens.io import classify as paths
from pagelens.io.classify import made_direct
from pagelens.io.kinds import IN_STDIO
from pagelens.io.option import BUFFERED, Option, buffered, copy_s, sizes_of
from pagelens.io.predict import Cost, Floats, costs_of, predict, table_cost
from pagelens.machine import Io
from pagelens.units import format_binary_size

REQUESTS = (64 << 10, 256 << 10, 1 << 20, 4 << 20, 16 << 20)  # bytes that requests are merged to
_STREAM_BUFFERS = (64 << 10, 256 << 10, 1 << 20)  # bytes; a crash loses what is in them
_FEWEST_MERGED = 2
_STDERR = 2
_AS_GOOD = 1.02  # times the least time: a larger buffer is not worth that


def _run_totals(frame: pl.DataFrame) -> tuple[Floats, Floats]:
    """Return for each operation the bytes and the number of operations of its sequence."""
    totals = frame.select(
        total=pl.col("bytes").sum().over("run"), count=(pl.col("bytes") > 0).sum().over("run")
    )
    return totals["total"].to_numpy().astype(np.float64), totals["count"].to_numpy().astype(np.float64)


def merged(frame: pl.DataFrame, io: Io, now: Cost) -> Option | None:
    """Merge small neighbouring buffered operations into larger ones."""
    total, count = _run_totals(frame)
    where = buffered(frame) & (count >= _FEWEST_MERGED)
    sizes = sizes_of(frame)

    def cost_in(request: int) -> Cost | None:
        return _in_requests(frame, io, now, where & (sizes < request), request, total, lambda path: path)

    best = _cheapest(cost_in)
    if best is None:
        return None
    request, cost = best
    return Option(
        "merge",
        f"requests merged to {format_binary_size(request)}",
        "a larger buffer in the program (setvbuf, a block size)",
        cost,
    )


def larger_buffers(
    frame: pl.DataFrame, io: Io, now: Cost, of_bytes: Sequence[int] = _STREAM_BUFFERS
) -> Option | None:
    """Let stdio write its streams in larger requests, as `pagelens io run --buffer` does.

    stdio copies each byte into its buffer at any size, so there is no other copy. stderr has no buffer.
    """
    total, count = _run_totals(frame)
    writes = frame["path"].is_in([paths.WRITE, paths.OVERWRITE]) & (frame["flags"] & IN_STDIO != 0)
    writes &= frame["descriptor"] != _STDERR
    where = (writes & ~frame["append"] & ~frame["synchronous"]).to_numpy() & (count >= _FEWEST_MERGED)
    found: list[tuple[float, int, Cost]] = []
    for request in of_bytes:
        some = where & (sizes_of(frame) < request)
        cost = _in_requests(frame, io, now, some, request, total, lambda path: path, copies=0)
        found += [] if cost is None else [(_spent(cost), request, cost)]
    if not found:
        return None
    least = min(spent for spent, _, _ in found)
    _, request, cost = next(each for each in found if each[0] <= _AS_GOOD * least)
    shown = format_binary_size(request)
    return Option(
        "stdio-buffers",
        f"buffers of {shown} in stdio",
        f"a larger buffer in stdio (setvbuf), of which a crash loses up to {shown}",
        cost,
        applied_by=f"--apply hints --buffer {shown.replace(' ', '')}",
    )


def merged_direct(frame: pl.DataFrame, io: Io, now: Cost) -> Option | None:
    """Merge them into direct operations from an aligned buffer. Larger ones stay whole."""
    if not has_direct(io):
        return None
    total, _ = _run_totals(frame)
    where, sizes = buffered(frame), sizes_of(frame)

    def cost_in(request: int) -> Cost | None:
        some = where & (total >= request)
        if not (sizes[some] <= request).any():
            return None  # the program's own requests are larger
        after = predict(made_direct(frame, some), io)
        return _in_requests(frame, io, after, some, request, total, direct_path)

    best = _cheapest(cost_in)
    if best is None:
        return None
    request, cost = best
    return Option(
        "merge-direct",
        f"direct requests of {format_binary_size(request)}",
        "O_DIRECT, and an aligned buffer of that size",
        cost,
    )


def _cheapest(cost_in: Callable[[int], Cost | None]) -> tuple[int, Cost] | None:
    """Return the size of requests that takes least time, and what it costs."""
    found = [(request, cost) for request in REQUESTS if (cost := cost_in(request)) is not None]
    return min(found, key=lambda each: _spent(each[1]), default=None)


def _spent(cost: Cost) -> float:
    return float(np.nansum(cost.cpu_s) + np.nansum(cost.wait_s))


def _in_requests(
    frame: pl.DataFrame,
    io: Io,
    now: Cost,
    some: np.ndarray[tuple[int], np.dtype[np.bool_]],
    request: int,
    total: Floats,
    path_of: Callable[[str], str],
    copies: int = 1,
) -> Cost | None:
    """Return the cost if some operations were parts of requests.

    Each operation bears its share of a request, and copies of its data.
    """
    if not some.any():
        return None
    cpu_s, wait_s = now.cpu_s.copy(), now.wait_s.copy()
    kind, sizes = frame["path"].to_numpy(), sizes_of(frame)
    for path in BUFFERED:
        where = some & (kind == path)
        if not where.any():
            continue
        costs = costs_of(io, path_of(path))
        if costs is None:
            return None
        whole = np.minimum(total[where], np.maximum(request, sizes[where]))
        each = table_cost(costs, whole)
        share = sizes[where] / whole
        cpu_s[where] = each.cpu_s * share + copies * copy_s(io, sizes[where])
        wait_s[where] = each.wait_s * share
    return Cost(cpu_s, wait_s)


def direct_path(path: str) -> str:
    """Return the path of a direct operation in place of a buffered one."""
    return {paths.WRITE: paths.DIRECT_NEW_WRITE, paths.OVERWRITE: paths.DIRECT_WRITE}.get(
        path, paths.DIRECT_READ
    )


def has_direct(io: Io) -> bool:
    """Return whether the file system has direct operations that do not copy all the same."""
    copies = io.direct_copies is not None and io.direct_copies.value
    return (io.direct_read is not None or io.direct_write is not None) and not copies
