"""Repeats a recording's operations on scratch files, as they were and in other ways, in turn.

One thread makes the transfers of all threads, in their order. What they write is not what the program wrote.
Files that the program only read are filled before, and are in the page cache if they were then.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import numpy as np
import polars as pl
from numpy.typing import NDArray

from pagelens import _probes
from pagelens.errors import Failure, UsageError
from pagelens.measure.files.series import MIB, Scratch, forget
from pagelens.units import format_binary_size, format_size

ROUNDS = 3
_KINDS = {"read": 0, "write": 1, "sync": 2}
_MOST_FILES = 4096  # open at the same time
_BLOCK = 4096  # bytes, of direct operations
_SPARE = 1.1  # times the bytes of the files must be free


@dataclass(frozen=True)
class Variant:
    """One way of making the operations. A request size of 0 leaves them as they were."""

    title: str
    request: int = 0
    direct: bool = False
    depth: int = 1  # direct transfers in flight


@dataclass(frozen=True)
class Replayed:
    """The times of one way: medians of the rounds, in seconds."""

    title: str
    operations: int
    cpu_s: float
    wall_s: float


@dataclass(frozen=True)
class _Operations:
    files: NDArray[np.int32]
    kinds: NDArray[np.int32]
    offsets: NDArray[np.int64]
    bytes: NDArray[np.uint64]
    direct: NDArray[np.bool_]
    flights: NDArray[np.uint8]


def variants(request: int, direct: bool, depth: int = 1) -> list[Variant]:
    """Return the ways: as recorded, merged, and with direct operations if the file system allows them.

    With a depth above 1, one way keeps so many of the recorded direct transfers in flight.
    """
    found = [Variant("as recorded"), Variant(f"merged to {format_binary_size(request)}", request)]
    if direct:
        found.append(Variant(f"direct requests of {format_binary_size(request)}", request, True))
    if direct and depth > 1:
        found.append(Variant(f"{depth} direct requests in flight", depth=depth))
    return found


def replay(
    transfers: pl.DataFrame,
    lengths: Sequence[tuple[int, bool]],
    folder: Path,
    ways: Sequence[Variant],
    rounds: int = ROUNDS,
    progress: Callable[[int, int], None] | None = None,
) -> list[Replayed]:
    """Make the operations in each way, in turn.

    `transfers` has `file`, `what` (read, write, sync), `offset`, `bytes`, `run`, `direct` and `flight` (0 if
    it is made alone, 1 if it can be in flight with the next ones, 2 for the last of them). `lengths` has, for
    each file, its bytes before the program began, and whether they were in the page cache. Raises UsageError
    where the folder will not do.
    """
    made = [_operations(transfers, way) for way in ways]
    _check(folder, transfers, lengths)
    taken: list[list[tuple[float, float]]] = [[] for _ in ways]
    for number in range(rounds):
        for way, (variant, operations) in enumerate(zip(ways, made, strict=True)):
            if progress is not None:
                progress(number * len(ways) + way, rounds * len(ways))
            taken[way].append(_once(operations, lengths, folder, variant))
    return [
        Replayed(variant.title, len(operations.kinds), *(median(each[i] for each in times) for i in (0, 1)))
        for variant, operations, times in zip(ways, made, taken, strict=True)
    ]


def _operations(transfers: pl.DataFrame, way: Variant) -> _Operations:
    frame = transfers.select("file", "what", "offset", "bytes", "run", "direct", "flight")
    if way.direct:  # nobody would make a shorter sequence one request of that size
        long = pl.col("bytes").sum().over("run") >= way.request
        frame = frame.with_columns(direct=pl.col("direct") | (long & (pl.col("what") != "sync")))
    if way.request:
        frame = pl.concat(list(_merged(frame, way)) or [frame.clear()])
    return _Operations(
        frame["file"].to_numpy().astype(np.int32),
        frame["what"].replace_strict(_KINDS, return_dtype=pl.Int32).to_numpy(),
        frame["offset"].clip(0).to_numpy(),
        frame["bytes"].cast(pl.UInt64).to_numpy(),
        frame["direct"].to_numpy(),
        frame["flight"].to_numpy().astype(np.uint8),
    )


def _merged(frame: pl.DataFrame, way: Variant) -> Iterator[pl.DataFrame]:
    """Yield each sequence as requests of the given size, at the place of its first transfer."""
    kinds = frame["what"].to_list()
    runs, offsets, sizes, files = (frame[name].to_list() for name in ("run", "offset", "bytes", "file"))
    direct = frame["direct"].to_list()
    last: dict[int, int] = {}
    rows: list[list[int | str]] = []
    columns = (kinds, runs, offsets, sizes, files, direct)
    for kind, run, offset, size, file, is_direct in zip(*columns, strict=True):
        at = last.get(run)
        if kind == "sync" or at is None or int(rows[at][3]) + size > way.request:
            last[run] = len(rows)
            rows.append([file, kind, offset, size, run, is_direct, 0])
            if kind == "sync":
                last.clear()  # what was written before it is written before it
        else:
            rows[at][3] = int(rows[at][3]) + size
    yield pl.DataFrame(rows, schema=frame.schema, orient="row")


def _check(folder: Path, transfers: pl.DataFrame, lengths: Sequence[tuple[int, bool]]) -> None:
    if not folder.is_dir() or not os.access(folder, os.W_OK | os.X_OK):
        raise UsageError(f"folder: {folder} is no folder that can be written; name another one")
    if len(lengths) > _MOST_FILES:
        raise UsageError(
            f"recording: it has {len(lengths):,} files, and at most {_MOST_FILES:,} are replayed"
        )
    needed = sum(_lengths(transfers, lengths))
    free = shutil.disk_usage(folder).free
    if free < _SPARE * needed:
        raise UsageError(
            f"folder: {folder} has {format_size(free)} of free space, and the files take "
            f"{format_size(needed)}; free some or name another folder"
        )


def _lengths(transfers: pl.DataFrame, lengths: Sequence[tuple[int, bool]]) -> list[int]:
    ends = transfers.group_by("file").agg((pl.col("offset") + pl.col("bytes")).max()).rows()
    whole = [length for length, _ in lengths]
    for file, end in ends:
        whole[file] = max(whole[file], end or 0)
    return whole


def _once(
    operations: _Operations, lengths: Sequence[tuple[int, bool]], folder: Path, way: Variant
) -> tuple[float, float]:
    scratch = Scratch(folder)
    with ExitStack() as stack:
        buffered = np.full(max(len(lengths), 1), -1, np.int32)
        direct = buffered.copy()
        direct_files = set(operations.files[operations.direct].tolist())
        for number in sorted(set(operations.files.tolist())):
            stack.callback(scratch.remove, f"-{number}")
            length, cached = lengths[number]
            with scratch.open(name=f"-{number}") as file:
                _fill(file, length)
                # A direct program leaves no pages in the cache. Pages left here would be written out first.
                if not cached or number in direct_files:
                    forget(file)
            buffered[number] = stack.enter_context(scratch.open(0, f"-{number}"))
            if number in direct_files:
                direct[number] = stack.enter_context(scratch.open(os.O_DIRECT, f"-{number}"))
        _commit(folder)
        # Direct operations move whole blocks. A program does the same through its aligned buffer.
        block = np.where(operations.direct, _BLOCK, 1)
        end = -(-(operations.offsets + operations.bytes.astype(np.int64)) // block) * block
        offsets = operations.offsets // block * block
        sizes = (end - offsets).astype(np.uint64)
        descriptors = np.where(operations.direct, direct[operations.files], buffered[operations.files])
        try:
            done = _probes.replay_operations(
                descriptors,
                operations.kinds,
                offsets,
                sizes,
                operations.flights,
                bool(way.request),
                way.depth,
            )
        except OSError as error:
            raise Failure(f"replay: {error.strerror or error}; name another folder") from None
    return done.cpu_s, max(done.cpu_s, done.wall_s - done.queued_s)


def _commit(folder: Path) -> None:
    """Let the file system finish what the last way left.

    Until its journal is written, blocks of removed files are not free, and new ones take long to find.
    """
    opened = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        with suppress(OSError):  # some file systems have no sync of folders
            os.fsync(opened)
    finally:
        os.close(opened)


def _fill(file: int, length: int) -> None:
    part = b"x" * MIB
    for at in range(0, length, MIB):
        os.pwrite(file, part[: min(MIB, length - at)], at)
