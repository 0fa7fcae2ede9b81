"""Times operations of one kind and size on scratch files, over repetitions.

The processor time of a whole loop is read, and not that of each operation, because the clock itself takes as
long as a small operation.
"""

from __future__ import annotations

import errno
import os
import random
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import numpy as np

from pagelens import _probes
from pagelens.errors import Failure
from pagelens.host.stalls import stalled

MIB = 1 << 20
FILE_BYTES = 256 * MIB  # of the scratch file
NEW_BYTES = 64 * MIB  # to which new files grow
_SMALLEST_PART, _LARGEST_PART = 8 * MIB, 64 * MIB
_MOST = 200  # repetitions
_FEWEST_OPERATIONS = 4  # of a repetition

Once = tuple[float, float, int]  # processor and wall seconds of one repetition, and its operations
Sample = tuple[float, float]  # processor and wall seconds of an operation in one repetition


@dataclass(frozen=True)
class Times:
    """The times of one operation, in seconds."""

    cpu_s: float
    wall_s: float
    repetitions: int


class Scratch:
    """The scratch file of a measurement. It is removed, whatever happens."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / f".pagelens-io-{os.getpid()}"

    @contextmanager
    def open(self, flags: int = 0, name: str = "") -> Iterator[int]:
        """Open the file, and make it if it is not there. Raises Failure."""
        descriptor = os.open(f"{self.path}{name}", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | flags, 0o600)
        try:
            yield descriptor
        finally:
            os.close(descriptor)

    def remove(self, name: str = "") -> None:
        """Remove the file, and with it all that was not yet written of it."""
        Path(f"{self.path}{name}").unlink(missing_ok=True)


def part_bytes(size: int) -> int:
    """Return how much one repetition moves. It is little with small operations, which take long."""
    return max(min(_LARGEST_PART, 4096 * size), _SMALLEST_PART, _FEWEST_OPERATIONS * size)


def offsets(size: int, number: int = 0) -> list[int]:
    """Return the offsets of a repetition's operations, one after the other.

    Repetitions take turns through a file that is larger than caches, because programs seldom find their data
    there.
    """
    part = part_bytes(size)
    start = number % (FILE_BYTES // part) * part
    return list(range(start, start + part - size + 1, size))


def new_offsets(size: int, number: int) -> list[int]:
    """Return the offsets of a repetition's writes at the end of a file, which begins anew at `NEW_BYTES`."""
    part = part_bytes(size) // size * size
    start = number % max(1, NEW_BYTES // part) * part
    return list(range(start, start + part, size))


def far(size: int, number: int, operations: int = 4096) -> list[int]:
    """Return offsets of at most `operations` in random order, all over the file and up to 8 parts of it."""
    drawn = random.Random(number)
    count = min(operations, max(_FEWEST_OPERATIONS, 8 * MIB // size))
    return [drawn.randrange(FILE_BYTES // size) * size for _ in range(count)]


def scattered(size: int, number: int, operations: int = 256) -> list[int]:
    """Return at most `operations` of the same offsets, in random order."""
    found = offsets(size, number)
    random.Random(number).shuffle(found)
    return found[:operations]


def forget(descriptor: int) -> None:
    """Make the page cache drop the file."""
    os.fsync(descriptor)
    os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)


def repeat(once: Callable[[int], Once], budget_s: float, most: int = _MOST) -> list[Sample]:
    """Return what an operation took in each of some repetitions: at least one, and at most `most`.

    `once(number)` makes one repetition, and returns its processor time, its wall time, and its number of
    operations.
    """
    found: list[Sample] = []
    began = time.monotonic()
    while not found or (len(found) < most and time.monotonic() - began < budget_s):
        cpu, wall, operations = once(len(found))
        found.append((cpu / operations, wall / operations))
    return found


def times_of(samples: Sequence[Sample]) -> Times:
    """Return the median of the processor times, and the least wall time, of repetitions."""
    cpu_s = median(cpu for cpu, _ in samples)
    wall_s = max(cpu_s, min(wall for _, wall in samples))  # others' work makes it only longer
    return Times(max(cpu_s, 1e-9), max(wall_s, 1e-9), len(samples))


def timed(work: Callable[[], object], times: int) -> Once:
    """Do some work several times. Return its processor time, its wall time, and how often it was done."""
    cpu, wall = time.thread_time(), time.monotonic()
    for _ in range(times):
        work()
    return time.thread_time() - cpu, time.monotonic() - wall, times


def transfer(descriptor: int, write: bool, size: int, at: Sequence[int], in_memory: bool = False) -> Once:
    """Make one repetition. Return processor time, wall time and the number of operations. Raises Failure.

    The time in which a host mapped memory does not count if all operations are `in_memory`. Others wait for
    the storage, and some of them do the work of many.
    """
    try:
        done = _probes.file_loop(descriptor, write, size, list(at))
    except OSError as error:
        raise failure_of(error) from None
    stalls = float(stalled(np.asarray(done.parts_cpu_s)).sum()) if in_memory else 0.0
    # Waiting for a processor is caused by other programs, so it does not count.
    return done.cpu_s - stalls, max(done.cpu_s, done.wall_s - done.queued_s) - stalls, len(at)


def failure_of(error: OSError) -> Failure:
    """Return what the user is told of an operation that failed."""
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return Failure("folder: its file system is full; free some space or name another folder")
    return Failure(f"folder: {error.strerror or error}; name another folder")


def together(count: int, cpus: Sequence[int], work: Callable[[int], None]) -> float:
    """Return the wall seconds until `count` threads have done their work.

    Each runs on a processor of the list in turn.
    """
    ready = threading.Barrier(count + 1)
    failed: list[BaseException] = []

    def run(number: int) -> None:
        try:
            os.sched_setaffinity(0, {cpus[number % len(cpus)]})  # of this thread
            ready.wait()
            work(number)
        except BaseException as error:
            failed.append(error)
            ready.abort()

    threads = [threading.Thread(target=run, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    with suppress(threading.BrokenBarrierError):
        ready.wait()
    began = time.monotonic()
    for thread in threads:
        thread.join()
    if failed:
        raise failed[0]
    return time.monotonic() - began
