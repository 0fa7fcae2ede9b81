"""The section [io] of a machine: the time of operations on the files of one of its file systems.

Times are tables by the size of an operation, because no straight line fits them: kernels take other paths for
large operations, and file systems use larger folios for them. docs/io.md describes the model.
"""

from bisect import bisect_left
from itertools import pairwise
from typing import Annotated, Any, NamedTuple

from pydantic import BeforeValidator, Field

from pagelens.errors import UsageError
from pagelens.units import format_binary_size, format_time, parse_size, parse_time
from pagelens.values.quantities import (
    Bytes,
    BytesPerSecond,
    Natural,
    Positive,
    PositiveFloat,
    Seconds,
    Sourced,
    Table,
    Unit,
)

UNKNOWN = "unknown"


class Cost(NamedTuple):
    """The seconds of one operation. Its processor time may be unknown."""

    cpu_s: float | None
    wall_s: float


class Costs(NamedTuple):
    """The times of operations, by size. Sizes ascend."""

    sizes: tuple[int, ...]
    cpu_s: tuple[float | None, ...]
    wall_s: tuple[float, ...]

    def of(self, size: int) -> Cost:
        """Return the cost of an operation of that size, by linear interpolation between rows.

        Below the first row an operation costs what the first row says. Beyond the last row its time grows in
        proportion to its size.
        """
        at = bisect_left(self.sizes, size)
        if at == 0:
            return Cost(self.cpu_s[0], self.wall_s[0])
        if at == len(self.sizes):
            factor = size / self.sizes[-1]
            cpu = self.cpu_s[-1]
            return Cost(None if cpu is None else cpu * factor, self.wall_s[-1] * factor)
        low, high = at - 1, at
        share = (size - self.sizes[low]) / (self.sizes[high] - self.sizes[low])
        first, second = self.cpu_s[low], self.cpu_s[high]
        return Cost(
            None if first is None or second is None else first + share * (second - first),
            self.wall_s[low] + share * (self.wall_s[high] - self.wall_s[low]),
        )


def _parse_costs(rows: Any) -> Costs:
    if isinstance(rows, Costs):
        return rows
    if not isinstance(rows, list) or not rows or not all(_is_row(row) for row in rows):
        raise ValueError(
            'a table is an array of rows such as ["4 KiB", "2 us", "3 us"]: the size of an operation, its '
            f'processor time (or "{UNKNOWN}") and its wall time'
        )
    try:
        sizes = tuple(parse_size(row[0]) for row in rows)
        cpu = tuple(None if row[1] == UNKNOWN else parse_time(row[1]) for row in rows)
        wall = tuple(parse_time(row[2]) for row in rows)
    except UsageError as error:
        raise ValueError(str(error)) from None
    if any(low >= high for low, high in pairwise(sizes)) or sizes[0] <= 0:
        raise ValueError("the sizes of a table must ascend, from 1 B on")
    if any(not 0 < time < 1e6 for time in (*wall, *(each for each in cpu if each is not None))):
        raise ValueError("the times of a table must be above 0 s and below 1000000 s")
    return Costs(sizes, cpu, wall)


def _is_row(row: Any) -> bool:
    return isinstance(row, list) and len(row) == 3 and all(isinstance(cell, str) for cell in row)


class InFlight(NamedTuple):
    """The times of direct transfers while several of one thread are in flight. Depths ascend."""

    depths: tuple[int, ...]
    costs: tuple[Costs, ...]


def _parse_in_flight(rows: Any) -> InFlight:
    if isinstance(rows, InFlight):
        return rows
    if not isinstance(rows, list) or not rows or not all(_is_queued(row) for row in rows):
        raise ValueError(
            'a table is an array of rows such as [8, "4 KiB", "2 us", "3 us"]: how many transfers are in '
            "flight (2 to 1024), the size of each, its processor time and its wall time"
        )
    depths = tuple(sorted({row[0] for row in rows}))
    return InFlight(
        depths, tuple(_parse_costs([row[1:] for row in rows if row[0] == depth]) for depth in depths)
    )


def _is_queued(row: Any) -> bool:
    count = row[0] if isinstance(row, list) and row else None
    return type(count) is int and 2 <= count <= 1024 and _is_row(row[1:])


def _show_in_flight(found: InFlight) -> str:
    return "; ".join(f"{depth} in flight: {_show_costs(costs)}" for depth, costs in zip(*found, strict=True))


def _show_costs(costs: Costs) -> str:
    rows = (
        f"{format_binary_size(size)} {UNKNOWN if cpu is None else format_time(cpu)}/{format_time(wall)}"
        for size, cpu, wall in zip(*costs, strict=True)
    )
    return ", ".join(rows)


OperationCosts = Annotated[
    Costs,
    BeforeValidator(_parse_costs),
    Unit(_show_costs, 'array of rows `["4 KiB", "2 us", "3 us"]`: size, processor time, wall time'),
]


InFlightCosts = Annotated[
    InFlight,
    BeforeValidator(_parse_in_flight),
    Unit(
        _show_in_flight,
        'array of rows `[8, "4 KiB", "2 us", "3 us"]`: transfers in flight, size, processor time, wall time',
    ),
]


JOINED_PIECE, SMALL_JOINED_PIECE = 1 << 20, 32 << 10  # bytes of the writes before `joined_sync_work`
SMALL_AFTER_WORK, LARGE_AFTER_WORK = 4 << 10, 256 << 10  # bytes of the transfers of `after_work`


class Io(Table):
    """The time of operations on the files of one file system, as `pagelens measure io` measures it."""

    file_system: Sourced[str] = Field(
        description="the file system of the files, such as ext4, tmpfs or lustre"
    )
    write: Sourced[OperationCosts] = Field(description="a buffered write that makes the file longer")
    overwrite: Sourced[OperationCosts] | None = Field(
        default=None, description="a buffered write over data that the page cache has"
    )
    read: Sourced[OperationCosts] | None = Field(
        default=None, description="a buffered read of data that the page cache has"
    )
    unaligned_write: Sourced[OperationCosts] | None = Field(
        default=None,
        description="a buffered write that makes the file longer, and begins or ends within a page",
    )
    shared_write: Sourced[OperationCosts] | None = Field(
        default=None,
        description="a buffered write that makes the file longer right after a write by another processor",
    )
    small_folio_read: Sourced[OperationCosts] | None = Field(
        default=None, description="a buffered read of cached data that were written 4 KiB at a time"
    )
    far_read: Sourced[OperationCosts] | None = Field(
        default=None, description="a buffered read of cached data elsewhere than where the last one ended"
    )
    after_work: Sourced[OperationCosts] | None = Field(
        default=None,
        description="a read of 4 KiB of cached data after the program has touched so many bytes of its "
        "memory; the wall time is that of this work and the read",
    )
    write_after_work: Sourced[OperationCosts] | None = Field(
        default=None, description="the same of a write of 4 KiB that makes a file longer"
    )
    large_after_work: Sourced[OperationCosts] | None = Field(
        default=None, description="`after_work` with a read of 256 KiB"
    )
    large_write_after_work: Sourced[OperationCosts] | None = Field(
        default=None, description="`write_after_work` with a write of 256 KiB"
    )
    file_copy: Sourced[OperationCosts] | None = Field(
        default=None, description="copy_file_range of data that the page cache has to the end of a file"
    )
    cold_read: Sourced[OperationCosts] | None = Field(
        default=None, description="a buffered read of data that it does not have, one after the other"
    )
    scattered_read: Sourced[OperationCosts] | None = Field(
        default=None, description="the same of data here and there, which read-ahead does not help"
    )
    direct_write: Sourced[OperationCosts] | None = Field(
        default=None, description="a direct write into a file that is long enough; absent: there is none"
    )
    direct_new_write: Sourced[OperationCosts] | None = Field(
        default=None, description="a direct write that makes the file longer, and takes blocks for it"
    )
    direct_read: Sourced[OperationCosts] | None = Field(default=None, description="a direct read")
    direct_read_in_flight: Sourced[InFlightCosts] | None = Field(
        default=None,
        description="a direct read while one thread keeps several of them in flight: the time of all over "
        "their number",
    )
    direct_write_in_flight: Sourced[InFlightCosts] | None = Field(
        default=None, description="the same of direct writes into a file that is long enough"
    )
    direct_copies: Sourced[bool] | None = Field(
        default=None, description="direct operations copy all the same, as on tmpfs"
    )
    direct_alignment: Sourced[Bytes] | None = Field(
        default=None, description="offsets and sizes of direct operations are multiples of this"
    )
    memory_alignment: Sourced[Bytes] | None = Field(
        default=None, description="addresses of buffers of direct operations are multiples of this"
    )
    sync: Sourced[Seconds] | None = Field(default=None, description="wall time of fsync after a small write")
    sync_cpu: Sourced[Seconds] | None = Field(default=None, description="processor time of the same")
    sync_work: Sourced[BytesPerSecond] | None = Field(
        default=None, description="the bytes that fsync writes in a second of its processor time"
    )
    joined_sync_work: Sourced[BytesPerSecond] | None = Field(
        default=None,
        description="the bytes that fsync waits for in a second of its processor time, where other "
        "threads sync the file at the same time",
    )
    small_folio_joined_sync_work: Sourced[BytesPerSecond] | None = Field(
        default=None,
        description="the same of a file that was written 32 KiB at a time",
    )
    close_work: Sourced[BytesPerSecond] | None = Field(
        default=None,
        description="the bytes that close writes out in a second of its processor time, where a file was "
        "truncated and written again",
    )
    truncating: Sourced[BytesPerSecond] | None = Field(
        default=None, description="the cached bytes that truncation drops in a second of processor time"
    )
    small_folio_sync_work: Sourced[BytesPerSecond] | None = Field(
        default=None, description="`sync_work` of a file that was written 4 KiB at a time"
    )
    small_folio_close_work: Sourced[BytesPerSecond] | None = Field(
        default=None, description="`close_work` of such a file"
    )
    small_folio_truncating: Sourced[BytesPerSecond] | None = Field(
        default=None, description="`truncating` of such a file"
    )
    opening: Sourced[Seconds] | None = Field(
        default=None, description="processor time of opening a file that exists, and of closing it"
    )
    creating: Sourced[Seconds] | None = Field(
        default=None, description="processor time of making a file, and of closing it"
    )
    replacing_open: Sourced[Seconds] | None = Field(
        default=None, description="processor time of an open that truncates a file of 4 KiB"
    )
    replacing_close: Sourced[Seconds] | None = Field(
        default=None,
        description="processor time of the close after it, where 4 KiB were written: many file systems then "
        "write them out",
    )
    call: Sourced[Seconds] | None = Field(
        default=None, description="a system call that does nothing, as lseek"
    )
    copying: Sourced[BytesPerSecond] | None = Field(
        default=None, description="the rate at which one core copies from buffer to buffer in the program"
    )
    write_rate: Sourced[BytesPerSecond] | None = Field(
        default=None, description="the rate at which the whole node can write to the storage"
    )
    read_rate: Sourced[BytesPerSecond] | None = Field(
        default=None, description="the rate at which the whole node can read from the storage"
    )
    interrupt_core: Sourced[Natural] | None = Field(
        default=None,
        description="the processor that takes all interrupts of the storage; the tables of operations that "
        "wait for the storage are those of threads on it",
    )
    other_core: Sourced[Seconds] | None = Field(
        default=None, description="what each such operation takes longer on another processor"
    )
    memory_stall: Sourced[Seconds] | None = Field(
        default=None,
        description="how long an access waits while the host of a virtual machine maps memory that it had "
        "unmapped; absent: there were no such accesses",
    )
    writers: Sourced[Positive] | None = Field(
        default=None, description="how many writers `writers_apart` and `writers_together` had"
    )
    writers_apart: Sourced[PositiveFloat] | None = Field(
        default=None,
        description="the rate of that many writers of 1 MiB, each on its own core, over the rate of one "
        "writer",
    )
    two_writers_apart: Sourced[PositiveFloat] | None = Field(
        default=None, description="`writers_apart` for two writers, if `writers` is more than two"
    )
    writers_together: Sourced[PositiveFloat] | None = Field(
        default=None, description="the rate of the same writers, all on one core, over the rate of one writer"
    )
    spread: Sourced[PositiveFloat] | None = Field(
        default=None,
        description="the longest over the shortest processor time of one and the same loop, at different "
        "moments of the measurement, without the worst of eight",
    )
    dirty_limit: Sourced[Bytes] | None = Field(
        default=None, description="data that buffered writes may leave unwritten before they have to wait"
    )
    read_ahead: Sourced[Bytes] | None = Field(
        default=None, description="the bytes that the kernel reads ahead"
    )
