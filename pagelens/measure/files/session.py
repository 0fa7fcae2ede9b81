"""Measures operations on files in a folder, in some 30 seconds."""

from __future__ import annotations

import math
import os
import shutil
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from pagelens import _probes
from pagelens.errors import UsageError
from pagelens.measure.files.series import (
    FILE_BYTES,
    MIB,
    NEW_BYTES,
    Scratch,
    Times,
    far,
    forget,
    new_offsets,
    offsets,
    part_bytes,
    repeat,
    scattered,
    together,
    transfer,
)
from pagelens.measure.files.system import FileSystem, read_file_system

SIZES = (512, 4 << 10, 16 << 10, 64 << 10, 256 << 10, MIB, 4 * MIB, 16 * MIB)
SECONDS = 30.0  # default time of a measurement
LEAST_BYTES = 3 * FILE_BYTES  # of free space
_NEW = "-new"  # the file that becomes longer
_OLD = "-old"  # the file that was written 4 KiB at a time
_OLD_BYTES = 64 * MIB
# Loops that are repeated at several moments: the file, the flags, the size and the number of writes. The new
# file needs memory, which the host of a guest may have to provide.
_MOMENTS = {
    "overwrite": ("", 0, 64 << 10, 256),
    "write": (_NEW, 0, 4 * MIB, 16),
    "direct_write": ("", os.O_DIRECT, 64 << 10, 256),
}
_MOMENT_TIMES = 5  # repetitions
_WORK = (0, 4 << 10, 64 << 10, MIB, 4 * MIB, 16 * MIB, 64 * MIB)  # bytes that a program touches between
_WORK_TRANSFER, _WORK_TRANSFERS = 4096, (20, 200)  # bytes of a transfer; the fewest and the most
_WORK_IN_ALL = 1024 * MIB
_WRITER_BYTES = 32 * MIB  # of each of several writers
_MOST_WRITERS = 8
_RATE_BYTES = 64 * MIB
# New files in a repetition, and repetitions. ext4 without a journal reuses the number of a removed file only
# after minutes, and looks at each such number for a new file (fs/ext4/ialloc.c, recently_deleted). So few
# files are made, lest they slow down the programs that are recorded next, and none is removed in between.
_NEW_FILES, _NEW_TIMES = 8, 4
_COPIES = 7  # measurements of the rate of copies
_MOST_DIRECT = 512  # operations of a repetition, all over the file

Progress = Callable[[int, int], None]


@dataclass
class Measured:
    """The result of the measurement: times by kind of operation and size."""

    folder: Path
    file_system: FileSystem
    costs: dict[str, dict[int, Times]] = field(default_factory=dict)
    seconds: dict[str, Times] = field(default_factory=dict)  # sync, opening, creating, call
    rates: dict[str, float] = field(default_factory=dict)  # bytes a second: write, read, copying
    writers: int = 1
    writers_apart: float = 1.0  # rate of all over that of one
    writers_together: float = 1.0
    moments: dict[str, list[float]] = field(default_factory=dict)  # processor seconds of the same loops
    notes: list[str] = field(default_factory=list)

    @property
    def spread(self) -> float:
        """The longest over the shortest time that the same loop took at different moments.

        The worst of eight moments does not count, because it may be a single disturbance.
        """
        of = (sorted(times) for times in self.moments.values())
        return max((times[-1 - len(times) // len(SIZES)] / times[0] for times in of), default=1.0)

    def to_json(self) -> dict[str, Any]:
        """Return the result by name, with times in seconds and rates in bytes a second."""
        return {"schema": "pagelens measure io", "version": 1, **asdict(self), "folder": str(self.folder)}


def measure_folder(folder: Path, seconds: float = SECONDS, progress: Progress | None = None) -> Measured:
    """Measure operations on a scratch file in the folder. Raises UsageError for an unfit folder."""
    _check(folder)
    measured = Measured(folder.absolute(), read_file_system(folder))
    scratch = Scratch(folder)
    steps = list(_steps(measured, scratch, seconds))
    try:
        for number, step in enumerate(steps):
            if progress is not None:
                progress(number, len(steps))
            step()
    finally:
        scratch.remove()
        scratch.remove(_NEW)
        scratch.remove(_OLD)
        for number in range(_MOST_WRITERS):
            scratch.remove(f"-{number}")
    return measured


def _check(folder: Path) -> None:
    if not folder.is_dir():
        raise UsageError(f"folder: {folder} is no folder; name one on the file system to measure")
    if not os.access(folder, os.W_OK | os.X_OK):
        raise UsageError(f"folder: {folder} is not writable; name another one on the same file system")
    free = shutil.disk_usage(folder).free
    if free < LEAST_BYTES:
        raise UsageError(
            f"folder: {folder} has {free // MIB} MiB of free space, and at least {LEAST_BYTES // MIB} MiB "
            "are needed; free some or name another folder"
        )


def _steps(m: Measured, scratch: Scratch, seconds: float) -> Iterator[Callable[[], None]]:
    """Yield the parts of the measurement. Each size has up to twelve series, which share the time."""
    each = 0.8 * seconds / (12 * len(SIZES))
    for size in SIZES:
        yield lambda size=size: _buffered(m, scratch, size, each)  # type: ignore[misc]
        yield lambda: _moment(m, scratch, "overwrite")
        yield lambda: _moment(m, scratch, "write")
        if m.file_system.direct and size % m.file_system.direct_alignment == 0:
            yield lambda size=size: _direct(m, scratch, size, each)  # type: ignore[misc]
            yield lambda: _moment(m, scratch, "direct_write")
    if m.file_system.direct:  # again, because data that are written back meanwhile disturb them for seconds
        for size in SIZES:
            if size % m.file_system.direct_alignment == 0:
                yield lambda size=size: _direct(m, scratch, size, each / 2)  # type: ignore[misc]
    yield lambda: _in_small_folios(m, scratch, each)
    yield lambda: _after_work(m, scratch)
    yield lambda: _copies(m, scratch, each)
    yield scratch.remove
    yield lambda: _single_calls(m, scratch, each)
    yield lambda: _rates(m, scratch)
    yield lambda: _writers(m, scratch)


def _keep(m: Measured, kind: str, size: int, times: Times) -> None:
    """Keep a result. Of two measurements of the same, the shorter times count: disturbances only add."""
    earlier = m.costs.setdefault(kind, {}).get(size, Times(math.inf, math.inf, 0))
    m.costs[kind][size] = Times(
        min(earlier.cpu_s, times.cpu_s),
        min(earlier.wall_s, times.wall_s),
        earlier.repetitions + times.repetitions,
    )


def _buffered(m: Measured, scratch: Scratch, size: int, budget_s: float) -> None:
    def new(number: int, size: int) -> tuple[float, float, int]:
        at = new_offsets(size, number)
        if at[0] == 0:
            os.ftruncate(file, 0)
        return transfer(file, True, size, at)

    def cold(number: int, order: list[int]) -> tuple[float, float, int]:
        forget(file)
        return transfer(file, False, size, order)

    for kind, of in (("write", size), ("unaligned_write", size * 5 // 8 + 512)):
        with scratch.open(name=_NEW) as file:
            # A guest's host may have to provide the frames of new pages first. Here they are those of pages
            # that were just freed.
            transfer(file, True, MIB, range(0, NEW_BYTES, MIB))
            _keep(m, kind, of, repeat(lambda n, of=of: new(n, of), budget_s))  # type: ignore[misc]
        scratch.remove(_NEW)
    with scratch.open() as file:
        if os.fstat(file).st_size < FILE_BYTES:
            transfer(file, True, MIB, range(0, FILE_BYTES, MIB))
        if m.file_system.forgets:
            _keep(m, "cold_read", size, repeat(lambda n: cold(n, offsets(size, n)), budget_s))
            _keep(m, "scattered_read", size, repeat(lambda n: cold(n, scattered(size, n)), budget_s))
            transfer(file, False, MIB, range(0, FILE_BYTES, MIB))
        _keep(m, "far_read", size, repeat(lambda n: transfer(file, False, size, far(size, n)), budget_s))
        for kind, write in (("read", False), ("overwrite", True)):
            of_kind = repeat(lambda n, write=write: transfer(file, write, size, offsets(size, n)), budget_s)  # type: ignore[misc]
            _keep(m, kind, size, of_kind)


def _in_small_folios(m: Measured, scratch: Scratch, budget_s: float) -> None:
    """Measure reads of a file that was written 4 KiB at a time."""
    with scratch.open(name=_OLD) as file:
        transfer(file, True, 4096, range(0, _OLD_BYTES, 4096))
        for size in SIZES:
            at = list(range(0, _OLD_BYTES - size + 1, size))[: part_bytes(size) // size]
            times = repeat(lambda _, s=size, at=at: transfer(file, False, s, at), budget_s)  # type: ignore[misc]
            _keep(m, "small_folio_read", size, times)
    scratch.remove(_OLD)


def _after_work(m: Measured, scratch: Scratch) -> None:
    """Measure reads of cached data, and writes of new ones, after the program has touched other memory."""
    fewest, most = _WORK_TRANSFERS
    for kind, write, name in (("after_work", False, ""), ("write_after_work", True, _NEW)):
        with scratch.open(name=name) as file:
            if write:
                transfer(file, True, MIB, range(0, NEW_BYTES, MIB))
            for work in _WORK:
                at = offsets(_WORK_TRANSFER)[: max(fewest, min(most, _WORK_IN_ALL // max(work, 1)))]
                for some in (at[:fewest], at):  # the first ones only warm up
                    if write:
                        os.ftruncate(file, 0)
                    took, other = _probes.transfer_after_work(file, write, _WORK_TRANSFER, work, some)
                took = max(took, 1e-9)
                _keep(m, kind, max(work, 1), Times(took, took + other, len(at)))
    scratch.remove(_NEW)


def _copies(m: Measured, scratch: Scratch, budget_s: float) -> None:
    """Measure copy_file_range from cached data to the end of a file."""

    def copy(number: int, size: int) -> tuple[float, float, int]:
        at = new_offsets(size, number)
        if at[0] == 0:
            os.ftruncate(new, 0)
        begin = iter(at).__next__

        def one() -> None:
            offset = begin()
            os.copy_file_range(old, new, size, offset, offset)

        return _timed(one, len(at))

    with scratch.open() as old, scratch.open(name=_NEW) as new:
        transfer(new, True, MIB, range(0, NEW_BYTES, MIB))
        try:
            for size in SIZES:
                _keep(m, "file_copy", size, repeat(lambda n, size=size: copy(n, size), budget_s))  # type: ignore[misc]
        except OSError:
            m.costs.pop("file_copy", None)  # the file system has no such copies
    scratch.remove(_NEW)


def _direct(m: Measured, scratch: Scratch, size: int, budget_s: float) -> None:
    """Measure on a new file, which takes blocks for each write, and on one that has its blocks."""

    def some(number: int) -> list[int]:
        at = offsets(size, number)
        return at[:: -(-len(at) // _MOST_DIRECT)]

    def new(_: int) -> tuple[float, float, int]:
        os.ftruncate(file, 0)
        return transfer(file, True, size, offsets(size)[:_MOST_DIRECT])

    with scratch.open() as file:
        forget(file)
    with scratch.open(os.O_DIRECT, _NEW) as file:
        _keep(m, "direct_new_write", size, repeat(new, budget_s))
    scratch.remove(_NEW)
    with scratch.open(os.O_DIRECT) as file:
        for kind, write in (("direct_write", True), ("direct_read", False)):
            of_kind = repeat(lambda n, write=write: transfer(file, write, size, some(n)), budget_s)  # type: ignore[misc]
            _keep(m, kind, size, of_kind)


def _moment(m: Measured, scratch: Scratch, kind: str) -> None:
    """Measure a loop that was measured before, to see how much the machine itself changes."""
    name, flags, size, writes = _MOMENTS[kind]

    def once(_: int) -> tuple[float, float, int]:
        if name:
            os.ftruncate(file, 0)
        return transfer(file, True, size, range(0, size * writes, size))

    with scratch.open(flags, name) as file:
        m.moments.setdefault(kind, []).append(repeat(once, SECONDS, _MOMENT_TIMES).cpu_s)
    if name:
        scratch.remove(name)


def _timed(work: Callable[[], object], count: int) -> tuple[float, float, int]:
    cpu, wall = time.thread_time(), time.monotonic()
    for _ in range(count):
        work()
    return time.thread_time() - cpu, time.monotonic() - wall, count


def _single_calls(m: Measured, scratch: Scratch, budget_s: float) -> None:
    path = str(scratch.path)

    names = [f"{path}-{number}" for number in range(_NEW_FILES * _NEW_TIMES)]
    next_name = iter(names).__next__
    flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC

    def make_many(_: int) -> tuple[float, float, int]:
        """Make files of new names, as programs do. A file that replaces one gets its place for less."""
        return _timed(lambda: os.close(os.open(next_name(), flags, 0o600)), _NEW_FILES)

    def write_and_sync() -> None:
        os.pwrite(file, b"x" * 4096, os.fstat(file).st_size)  # new data: they need a place on the disk
        os.fsync(file)

    try:
        m.seconds["creating"] = repeat(make_many, budget_s, _NEW_TIMES)
    finally:
        for name in names:
            Path(name).unlink(missing_ok=True)
    with scratch.open() as file:
        m.seconds["opening"] = repeat(
            lambda _: _timed(lambda: os.close(os.open(path, os.O_RDWR | os.O_CLOEXEC)), 64), budget_s
        )
        call = min(_probes.call_seconds(file, 10_000) for _ in range(5))
        m.seconds["call"] = Times(call, call, 5)
        m.seconds["sync"] = repeat(lambda _: _timed(write_and_sync, 4), budget_s)
    scratch.remove()
    # The least of several, because another program may get the processor during a copy.
    m.rates["copying"] = 16 * MIB / min(_probes.copy_seconds(MIB, 16) for _ in range(_COPIES))


def _rates(m: Measured, scratch: Scratch) -> None:
    """Measure the rates of the storage: a sync after large writes, and a cold read by all processors."""
    with scratch.open() as file:
        transfer(file, True, MIB, range(0, _RATE_BYTES, MIB))
    cpu = time.thread_time()
    with scratch.open(os.O_TRUNC) as file:
        m.rates["truncating"] = _RATE_BYTES / max(time.thread_time() - cpu, 1e-6)
        transfer(file, True, MIB, range(0, _RATE_BYTES, MIB))
        cpu = time.thread_time()
    m.rates["close_work"] = _RATE_BYTES / max(time.thread_time() - cpu, 1e-6)
    scratch.remove()
    with scratch.open() as file:  # new data: they get their place on the disk by the sync
        began = time.monotonic()
        transfer(file, True, MIB, range(0, _RATE_BYTES, MIB))
        cpu = time.thread_time()
        os.fsync(file)
        m.rates["sync_work"] = _RATE_BYTES / max(time.thread_time() - cpu, 1e-6)
        m.rates["write"] = _RATE_BYTES / (time.monotonic() - began)
        if not m.file_system.forgets:
            return
        forget(file)
        cpus = sorted(os.sched_getaffinity(0))
        count = min(len(cpus), _MOST_WRITERS)
        share = _RATE_BYTES // count // MIB * MIB
        took = together(
            count,
            cpus,
            lambda number: (
                transfer(file, False, MIB, range(number * share, (number + 1) * share, MIB)) and None
            ),
        )
        m.rates["read"] = count * share / took
    scratch.remove()


def _writers(m: Measured, scratch: Scratch) -> None:
    """Measure writers of new files, each on its own core, and all on one, over the rate of one writer."""
    cpus = sorted(os.sched_getaffinity(0))
    m.writers = max(2, min(len(cpus), _MOST_WRITERS))

    def write(number: int) -> None:
        with scratch.open(name=f"-{number}") as file:
            os.ftruncate(file, 0)
            transfer(file, True, MIB, range(0, _WRITER_BYTES, MIB))

    def rate(count: int, on: list[int]) -> float:
        found = []
        for _ in range(3):
            found.append(count * _WRITER_BYTES / together(count, on, write))
            for number in range(count):
                scratch.remove(f"-{number}")
        return sorted(found)[1]

    one = rate(1, cpus)
    if len(cpus) > 1:
        m.writers_apart = rate(m.writers, cpus) / one
    else:
        m.notes.append("only one processor: writers apart were not measured")
    m.writers_together = rate(m.writers, cpus[:1]) / one
