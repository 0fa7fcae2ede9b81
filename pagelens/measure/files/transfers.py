"""One round of a measurement of files: transfers of all kinds and sizes on scratch files."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from functools import partial

from pagelens import _probes
from pagelens.machine import LARGE_AFTER_WORK, SMALL_AFTER_WORK
from pagelens.measure.files.cores import find_interrupt_core, on_core
from pagelens.measure.files.in_flight import measure_in_flight
from pagelens.measure.files.measured import Measured
from pagelens.measure.files.series import (
    FILE_BYTES,
    MIB,
    NEW_BYTES,
    Once,
    Scratch,
    failure_of,
    far,
    forget,
    new_offsets,
    offsets,
    repeat,
    scattered,
    timed,
    transfer,
)

NEW = "-new"  # the file that becomes longer
OLD = "-old"  # the file that was written 4 KiB at a time
# Loops that are repeated at several moments: the file, the flags, the size and the number of writes. The new
# file needs memory, which the host of a guest may have to provide.
_MOMENTS = {
    "overwrite": ("", 0, 64 << 10, 256),
    "write": (NEW, 0, 4 * MIB, 16),
    "direct_write": ("", os.O_DIRECT, 64 << 10, 256),
}
_MOMENT_TIMES = 5  # repetitions
_MOMENT_SECONDS = 3.0  # at most: the first repetition can wait for memory of the host
_WORK = (0, 4 << 10, 64 << 10, MIB, 4 * MIB, 16 * MIB, 64 * MIB)  # bytes that a program touches between
_WORK_TRANSFERS = (8, 100)  # the fewest and the most
_WORK_IN_ALL = 256 * MIB  # of each round
_BLOCK = 4096
_SHARED_SIZES = (4 << 10, 32 << 10, 256 << 10)  # of writes by two processors in turn
_MOST_SHARED = 256  # of them in a round
_MOST_DIRECT = 256  # operations of a repetition, all over the file


def transfer_steps(
    m: Measured, scratch: Scratch, sizes: Sequence[int], each_s: float
) -> Iterator[Callable[[], None]]:
    """Yield the parts of one round. Each series of a size takes some `each_s`, and repeats at least once."""
    direct = [size for size in sizes if m.file_system.direct and size % m.file_system.direct_alignment == 0]
    yield lambda: _new(m, scratch, sizes, each_s)
    yield lambda: _moment(m, scratch, "write")
    if direct and not m.file_system.direct_copies:
        yield lambda: _cores(m, scratch)
    if m.file_system.forgets:
        yield lambda: _cold(m, scratch, sizes, each_s)
    yield lambda: _cached(m, scratch, sizes, each_s)
    yield lambda: _moment(m, scratch, "overwrite")
    if direct:
        yield lambda: _direct(m, scratch, direct, each_s)
        if not m.file_system.direct_copies:
            yield lambda: measure_in_flight(m, scratch, direct, each_s)
        yield lambda: _moment(m, scratch, "direct_write")
    yield lambda: _in_small_folios(m, scratch, sizes, each_s)
    yield lambda: _after_work(m, scratch)
    yield lambda: _shared(m, scratch)
    yield lambda: _copies(m, scratch, sizes, each_s)
    for kind in ("write", "overwrite", *(["direct_write"] if direct else [])):
        yield partial(_moment, m, scratch, kind)


def _filled(scratch: Scratch) -> None:
    """Make the scratch file as long as it has to be, and bring it into the page cache."""
    with scratch.open() as file:
        whole = os.fstat(file).st_size >= FILE_BYTES
        transfer(file, not whole, MIB, range(0, FILE_BYTES, MIB))


def _ordered(
    file: int,
    write: bool,
    order: Callable[[int, int], list[int]],
    size: int,
    number: int,
    in_memory: bool = False,
) -> Once:
    """Make the transfers of one repetition in an order that its number tells."""
    return transfer(file, write, size, order(size, number), in_memory)


def _new(m: Measured, scratch: Scratch, sizes: Sequence[int], each_s: float) -> None:
    def once(size: int, number: int) -> Once:
        at = new_offsets(size, number)
        if at[0] == 0:
            os.ftruncate(file, 0)
        return transfer(file, True, size, at, in_memory=True)

    with scratch.open(name=NEW) as file:
        # A guest's host may have to provide the frames of new pages first. Here they are those of pages that
        # were just freed.
        transfer(file, True, MIB, range(0, NEW_BYTES, MIB))
        for size in sizes:
            for kind, of in (("write", size), ("unaligned_write", size * 5 // 8 + 512)):
                m.keep(kind, of, repeat(partial(once, of), each_s))
    scratch.remove(NEW)


def _cores(m: Measured, scratch: Scratch) -> None:
    """Find the processor that takes the storage's interrupts, and measure what a wait on another one adds."""

    def read() -> int:
        at = offsets(_BLOCK)[:_MOST_DIRECT]
        transfer(file, False, _BLOCK, at)
        return len(at)

    _filled(scratch)
    with scratch.open(os.O_DIRECT) as file:
        os.fsync(file)
        if m.interrupt_core is None:
            m.interrupt_core = find_interrupt_core(read)
        others = sorted(os.sched_getaffinity(0) - {m.interrupt_core})
        if m.interrupt_core is None or not others:
            return
        taken = []
        for core in (m.interrupt_core, others[0]):
            with on_core(core):
                samples = repeat(partial(_ordered, file, False, offsets, _BLOCK), 0)
            taken.append(samples[0][0])
        m.other_core_s.append(taken[1] - taken[0])


def _cold(m: Measured, scratch: Scratch, sizes: Sequence[int], each_s: float) -> None:
    def once(order: Callable[[int, int], list[int]], size: int, number: int) -> Once:
        forget(file)
        return _ordered(file, False, order, size, number)

    _filled(scratch)
    with scratch.open() as file, on_core(m.interrupt_core):
        for size in sizes:
            for kind, order in (("cold_read", offsets), ("scattered_read", scattered)):
                m.keep(kind, size, repeat(partial(once, order, size), each_s))


def _cached(m: Measured, scratch: Scratch, sizes: Sequence[int], each_s: float) -> None:
    _filled(scratch)
    with scratch.open() as file:
        for size in sizes:
            for kind, write, order in (
                ("far_read", False, far),
                ("read", False, offsets),
                ("overwrite", True, offsets),
            ):
                once = partial(_ordered, file, write, order, size, in_memory=True)
                m.keep(kind, size, repeat(once, each_s))


def _direct(m: Measured, scratch: Scratch, sizes: Sequence[int], each_s: float) -> None:
    """Measure on a new file, which takes blocks for each write, and on one that has its blocks."""

    def some(size: int, number: int) -> list[int]:
        at = offsets(size, number)
        return at[:: -(-len(at) // _MOST_DIRECT)]

    def new(size: int, _: int) -> Once:
        os.ftruncate(file, 0)
        return transfer(file, True, size, offsets(size)[:_MOST_DIRECT])

    with scratch.open() as file:
        forget(file)
    with scratch.open(os.O_DIRECT, NEW) as file, on_core(m.interrupt_core):
        for size in sizes:
            m.keep("direct_new_write", size, repeat(partial(new, size), each_s))
    scratch.remove(NEW)
    with scratch.open(os.O_DIRECT) as file, on_core(m.interrupt_core):
        for size in sizes:
            for kind, write in (("direct_write", True), ("direct_read", False)):
                m.keep(kind, size, repeat(partial(_ordered, file, write, some, size), each_s))


def _in_small_folios(m: Measured, scratch: Scratch, sizes: Sequence[int], each_s: float) -> None:
    """Measure reads of a file that was written 4 KiB at a time."""
    with scratch.open(name=OLD) as file:
        transfer(file, True, 4096, range(0, FILE_BYTES, 4096))
        for size in sizes:
            once = partial(_ordered, file, False, offsets, size, in_memory=True)
            m.keep("small_folio_read", size, repeat(once, each_s))
    scratch.remove(OLD)


def _after_work(m: Measured, scratch: Scratch) -> None:
    """Measure reads of cached data, and writes of new ones, after the program has touched other memory."""
    fewest, most = _WORK_TRANSFERS
    _filled(scratch)
    for kind, write, name, size in (
        ("after_work", False, "", SMALL_AFTER_WORK),
        ("large_after_work", False, "", LARGE_AFTER_WORK),
        ("write_after_work", True, NEW, SMALL_AFTER_WORK),
        ("large_write_after_work", True, NEW, LARGE_AFTER_WORK),
    ):
        with scratch.open(name=name) as file:
            if write:
                transfer(file, True, MIB, range(0, NEW_BYTES, MIB))
            for work in _WORK:
                at = offsets(size)[: max(fewest, min(most, _WORK_IN_ALL // max(work, size)))]
                if write:
                    os.ftruncate(file, 0)
                took, other = _probes.transfer_after_work(file, write, size, work, at)
                took = max(took, 1e-9)
                m.keep(kind, max(work, 1), [(took, took + other)])
    scratch.remove(NEW)


def _shared(m: Measured, scratch: Scratch) -> None:
    """Measure writes by two processors in turn, which move the kernel's data of the file between them."""
    here, *others = sorted(os.sched_getaffinity(0))
    if not others:
        return
    with scratch.open(name=NEW) as file, on_core(here):
        transfer(file, True, MIB, range(0, NEW_BYTES, MIB))
        for size in _SHARED_SIZES:
            os.ftruncate(file, 0)
            try:
                took = _probes.alternate_writes(file, size, offsets(size)[:_MOST_SHARED], others[0])
            except OSError as error:
                raise failure_of(error) from None
            m.keep("shared_write", size, [(cpu, cpu) for cpu in took])
    scratch.remove(NEW)


def _copies(m: Measured, scratch: Scratch, sizes: Sequence[int], each_s: float) -> None:
    """Measure copy_file_range from cached data to the end of a file."""

    def copy(size: int, number: int) -> Once:
        at = new_offsets(size, number)
        if at[0] == 0:
            os.ftruncate(new, 0)
        begin = iter(at).__next__

        def one() -> None:
            offset = begin()
            os.copy_file_range(old, new, size, offset, offset)

        return timed(one, len(at))

    with scratch.open() as old, scratch.open(name=NEW) as new:
        transfer(new, True, MIB, range(0, NEW_BYTES, MIB))
        try:
            for size in sizes:
                m.keep("file_copy", size, repeat(partial(copy, size), each_s))
        except OSError:
            m.samples.pop("file_copy", None)  # the file system has no such copies
    scratch.remove(NEW)


def _moment(m: Measured, scratch: Scratch, kind: str) -> None:
    """Measure a loop that was measured before, to see how much the machine itself changes."""
    name, flags, size, writes = _MOMENTS[kind]

    def once(_: int) -> Once:
        if name:
            os.ftruncate(file, 0)
        return transfer(file, True, size, range(0, size * writes, size))

    with scratch.open(flags, name) as file, on_core(m.interrupt_core if flags & os.O_DIRECT else None):
        samples = repeat(once, _MOMENT_SECONDS, _MOMENT_TIMES)
    m.moments.setdefault(kind, []).append(sorted(cpu for cpu, _ in samples)[len(samples) // 4])
    if name:
        scratch.remove(name)
