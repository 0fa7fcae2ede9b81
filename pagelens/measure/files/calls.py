"""One round of a measurement of files: calls without a size, what dropping and writing back take, writers."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from statistics import median

from pagelens import _probes
from pagelens.machine import JOINED_PIECE, SMALL_JOINED_PIECE
from pagelens.measure.files.cores import on_core
from pagelens.measure.files.measured import Measured
from pagelens.measure.files.series import (
    MIB,
    Scratch,
    forget,
    repeat,
    timed,
    together,
    transfer,
)

MOST_WRITERS = 8
_RATE_BYTES = 64 * MIB
_SYNCING = 8  # threads that sync a file at once
_WRITER_BYTES = 32 * MIB  # of each of several writers
# New files in a round. ext4 without a journal reuses the number of a removed file only after minutes, and
# looks at each such number for a new file (fs/ext4/ialloc.c, recently_deleted). So few files are made, lest
# they slow down the programs that are recorded next, and none is removed before the last round.
_NEW_FILES = 8
_REPLACED, _FIRST_ONES = 10, 2  # times that a small file is replaced; at first it has no place on the disk
_COPIES = 3  # measurements of the rate of copies


class NewFiles:
    """The files that all rounds make."""

    def __init__(self, scratch: Scratch) -> None:
        self._names = (f"{scratch.path}-{number}" for number in count())
        self._made: list[str] = []

    def next(self) -> str:
        """Return a new name."""
        self._made.append(next(self._names))
        return self._made[-1]

    def remove(self) -> None:
        """Remove all files that were made."""
        for name in self._made:
            Path(name).unlink(missing_ok=True)


def call_steps(
    m: Measured, scratch: Scratch, new_files: NewFiles, each_s: float
) -> Iterator[Callable[[], None]]:
    """Yield the parts of one round. They begin without the scratch file."""
    yield lambda: _single_calls(m, scratch, new_files, each_s)
    yield lambda: _replaced(m, scratch)
    yield lambda: _drops(m, scratch, MIB, "")
    yield lambda: _drops(m, scratch, 4096, "small_folio_")
    yield lambda: _joined_syncs(m, scratch)
    yield lambda: _read_rate(m, scratch)


def _single_calls(m: Measured, scratch: Scratch, new_files: NewFiles, each_s: float) -> None:
    path = str(scratch.path)
    flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC

    def make() -> None:
        """Make a file of a new name, as programs do. A file that replaces one gets its place for less."""
        os.close(os.open(new_files.next(), flags, 0o600))

    def write_and_sync() -> None:
        os.pwrite(file, b"x" * 4096, os.fstat(file).st_size)  # new data: they need a place on the disk
        os.fsync(file)

    m.keep_call("creating", repeat(lambda _: timed(make, _NEW_FILES), 0, 1))
    with scratch.open() as file:
        m.keep_call(
            "opening",
            repeat(lambda _: timed(lambda: os.close(os.open(path, os.O_RDWR | os.O_CLOEXEC)), 64), each_s),
        )
        call = min(_probes.call_seconds(file, 10_000) for _ in range(3))
        m.keep_call("call", [(call, call)])
        with on_core(m.interrupt_core):
            m.keep_call("sync", repeat(lambda _: timed(write_and_sync, 4), each_s))
    scratch.remove()
    # The least of several, because another program may get the processor during a copy.
    m.keep_pace("copying", min(_probes.copy_seconds(MIB, 16) for _ in range(_COPIES)), 16 * MIB)


def _replaced(m: Measured, scratch: Scratch) -> None:
    """Measure the open that truncates a small file, and the close that writes the new contents out."""
    flags = os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC
    with on_core(m.interrupt_core):
        for number in range(_REPLACED):
            cpu = time.thread_time()
            file = os.open(scratch.path, flags, 0o600)
            opened = time.thread_time() - cpu
            os.pwrite(file, b"x" * 4096, 0)
            cpu = time.thread_time()
            os.close(file)
            closed = time.thread_time() - cpu
            if number >= _FIRST_ONES:
                m.keep_call("replacing_open", [(opened, opened)])
                m.keep_call("replacing_close", [(closed, closed)])
    scratch.remove()


def _drops(m: Measured, scratch: Scratch, size: int, prefix: str) -> None:
    """Measure what truncation drops, and what close and fsync write out, of a file written in such pieces."""

    def fill() -> None:
        transfer(file, True, size, range(0, _RATE_BYTES, size))

    with scratch.open() as file:
        fill()
    cpu = time.thread_time()
    with scratch.open(os.O_TRUNC) as file:
        m.keep_pace(f"{prefix}truncating", time.thread_time() - cpu, _RATE_BYTES)
        fill()
        cpu = time.thread_time()
    m.keep_pace(f"{prefix}close_work", time.thread_time() - cpu, _RATE_BYTES)
    scratch.remove()
    with scratch.open() as file, on_core(m.interrupt_core):  # new data: the sync gives them their place
        began = time.monotonic()
        fill()
        cpu = time.thread_time()
        os.fsync(file)
        m.keep_pace(f"{prefix}sync_work", time.thread_time() - cpu, _RATE_BYTES)
        if not prefix:
            m.keep_pace("write", time.monotonic() - began, _RATE_BYTES)
    scratch.remove()


def _joined_syncs(m: Measured, scratch: Scratch) -> None:
    """Measure threads that sync a file at once, as ranks do: all but one wait, and look at each page.

    A waiter can look at a folio, and sleep again, while the interrupt still ends the next folios. So it takes
    longer where folios are small.
    """
    _joined_sync(m, scratch, JOINED_PIECE, "")
    _joined_sync(m, scratch, SMALL_JOINED_PIECE, "small_folio_")


def _joined_sync(m: Measured, scratch: Scratch, size: int, prefix: str) -> None:
    def sync(_: int) -> None:
        cpu = time.thread_time()
        os.fsync(file)
        took.append(time.thread_time() - cpu)

    took: list[float] = []
    with scratch.open() as file:
        transfer(file, True, size, range(0, _RATE_BYTES, size))
        together(_SYNCING, sorted(os.sched_getaffinity(0)), sync)
    scratch.remove()
    small = os.sysconf("SC_PAGESIZE") / size
    paces = (median(m.paces[name]) for name in ("sync_work", "small_folio_sync_work"))
    of_one = sum(share * pace for share, pace in zip((1 - small, small), paces, strict=True)) * _RATE_BYTES
    m.keep_pace(f"{prefix}joined_sync_work", (sum(took) - of_one) / (_SYNCING - 1), _RATE_BYTES)


def _read_rate(m: Measured, scratch: Scratch) -> None:
    """Measure at which rate the storage gives data: a cold read by all processors."""
    if not m.file_system.forgets:
        return
    cpus = sorted(os.sched_getaffinity(0))
    readers = min(len(cpus), MOST_WRITERS)
    share = _RATE_BYTES // readers // MIB * MIB
    with scratch.open() as file:
        transfer(file, True, MIB, range(0, _RATE_BYTES, MIB))
        forget(file)

        def read(number: int) -> None:
            transfer(file, False, MIB, range(number * share, (number + 1) * share, MIB))

        m.keep_pace("read", together(readers, cpus, read), readers * share)
    scratch.remove()


def measure_writers(m: Measured, scratch: Scratch) -> None:
    """Measure two and all writers of new files on their own cores, and all on one, over one writer's rate."""
    cpus = sorted(os.sched_getaffinity(0))
    m.writers = max(2, min(len(cpus), MOST_WRITERS))

    def write(number: int) -> None:
        with scratch.open(name=f"-writer-{number}") as file:
            os.ftruncate(file, 0)
            transfer(file, True, MIB, range(0, _WRITER_BYTES, MIB))

    def rate(writers: int, on: list[int]) -> float:
        try:
            return median(writers * _WRITER_BYTES / together(writers, on, write) for _ in range(3))
        finally:
            for number in range(writers):
                scratch.remove(f"-writer-{number}")

    one = rate(1, cpus)
    if len(cpus) > 1:
        m.writers_apart = rate(m.writers, cpus) / one
        m.two_writers_apart = rate(2, cpus) / one if m.writers > 2 else None
    else:
        m.notes.append("only one processor: writers apart were not measured")
    m.writers_together = rate(m.writers, cpus[:1]) / one
