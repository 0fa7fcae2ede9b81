"""A program's operations on files, in the one form that recorder and importers make and all else reads.

docs/io-format.md describes the file. It is Parquet: each row is an operation, and the metadata hold as JSON
what applies to all of them.
"""

import json
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import Any, Literal

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from pagelens.errors import UsageError
from pagelens.files import write_whole
from pagelens.io.kinds import KINDS, QUEUED

VERSION = 1
SUFFIX = ".plio"
_KEY = b"pagelens.io"
_LONGEST_HEADER = 256 << 20  # bytes; a program that opens a million files has 200 MB

# The columns, in the order of the file. Offsets and results are below 0 if there is none, or for an error.
COLUMNS: dict[str, Any] = {
    "start_ns": pl.Int64,
    "wall_ns": pl.Int64,
    "cpu_ns": pl.Int64,
    "process": pl.UInt32,
    "thread": pl.UInt32,
    "kind": pl.UInt8,
    "file": pl.Int32,
    "descriptor": pl.Int32,
    "offset": pl.Int64,
    "size": pl.Int64,
    "result": pl.Int64,
    "address": pl.UInt64,
    "flags": pl.UInt32,
    "direct": pl.Boolean,
    "synchronous": pl.Boolean,
    "append": pl.Boolean,
    "cpu": pl.UInt16,
    "buffers": pl.UInt32,
    "caller": pl.UInt8,
}
MOST = 1 << 62  # of a time, a size or an offset: sums of a few stay numbers


class _Record(BaseModel):
    model_config = ConfigDict(extra="ignore", frozen=True, strict=True)


class File(_Record):
    """A file that was open, or a pipe, a terminal or the like."""

    path: str
    type: Literal["file", "folder", "pipe", "socket", "device", "other"] = "file"
    file_system: str = ""  # ext4, tmpfs, lustre, ...
    device: int = Field(default=0, ge=0)
    inode: int = 0
    bytes: int = Field(default=0, ge=0, le=MOST)  # when it was first seen
    cached_bytes: int | None = Field(
        default=None, ge=0, le=MOST
    )  # of these, in the page cache; None: unknown
    folio_share: float | None = Field(
        default=None, ge=0, le=1
    )  # folios over cached pages after the run; None: unknown


class Process(_Record):
    """One of the programs that ran."""

    process: int = Field(ge=0)
    parent: int = 0
    rank: int | None = None
    program: str = ""
    begin_ns: int = Field(default=0, ge=-MOST, le=MOST)
    end_ns: int | None = Field(default=None, ge=-MOST, le=MOST)  # None: it was killed, or ran another program
    cpu_ns: int | None = Field(default=None, ge=0, le=MOST)
    minor_faults: int | None = Field(default=None, ge=0, le=MOST)  # page faults of all its memory
    major_faults: int | None = Field(default=None, ge=0, le=MOST)  # those that waited for a disk


class Header(_Record):
    """What applies to all operations."""

    version: Literal[1] = 1
    source: str  # recorder, strace, darshan, fio
    command: list[str] = []
    folder: str = ""  # the folder in which it ran
    page_bytes: int = Field(default=4096, ge=512, le=1 << 30)
    elapsed_ns: int | None = Field(default=None, ge=0, le=MOST)  # the wall time of the whole run
    dropped: int = Field(default=0, ge=0)  # operations that are missing for want of room
    unknown: list[str] = []  # columns that the source cannot tell
    files: list[File] = []
    processes: list[Process] = []
    notes: list[str] = []


@dataclass(frozen=True)
class Recording:
    """Operations in the order in which they began. Times count from the begin of the first process."""

    header: Header
    operations: pl.DataFrame

    def knows(self, column: str) -> bool:
        """Return whether the source could tell this column."""
        return column not in self.header.unknown

    @property
    def regular_files(self) -> list[int]:
        """The numbers of the files that are no pipes, terminals and the like."""
        return [number for number, file in enumerate(self.header.files) if file.type == "file"]

    @property
    def regular(self) -> pl.DataFrame:
        """The operations on files, without those on pipes, terminals and the like."""
        return self.operations.filter(pl.col("file").is_in(self.regular_files))

    def write(self, path: Path) -> None:
        """Write the file. Raises Failure."""
        table = self.operations.select(*COLUMNS).to_arrow()
        schema = table.schema.with_metadata({_KEY: self.header.model_dump_json().encode()})
        content = BytesIO()
        pq.write_table(table.cast(schema), content, compression="zstd")
        write_whole(path, lambda partial: partial.write_bytes(content.getbuffer()))


def without_queues(operations: pl.DataFrame) -> pl.DataFrame:
    """Return the operations with wall times in which a thread was busy: queued ones take none of their own.

    Their wall time is the time from handing over to the end, while the thread does other things.
    """
    queued = pl.col("kind").is_in(QUEUED)
    return operations.with_columns(wall_ns=pl.when(queued).then(0).otherwise("wall_ns"))


def read_recording(path: Path) -> Recording:
    """Read a file. Raises UsageError if it is damaged, or is no recording."""
    try:
        if path.is_char_device():  # it may never end
            raise UsageError(f"recording: {path} is a device; name a {SUFFIX} file")
        content = path.read_bytes()
    except OSError as error:
        raise UsageError(f"recording: cannot read {path} ({error.strerror}); name a {SUFFIX} file") from None
    return parse_recording(content, str(path))


def parse_recording(content: bytes, where: str) -> Recording:
    """Return the recording in a file's bytes. `where` names the file in errors."""
    try:
        table = pq.read_table(pa.BufferReader(content), use_threads=False)
    except (pa.ArrowException, OSError, ValueError, MemoryError):
        raise UsageError(
            f"{where}: not a recording, or a part of one; `pagelens io record` makes them, and "
            "`pagelens io import` takes logs of other tools"
        ) from None
    raw = (table.schema.metadata or {}).get(_KEY)
    if raw is None or len(raw) > _LONGEST_HEADER:
        raise UsageError(f"{where}: Parquet, but no recording of `pagelens io record`; name another file")
    return Recording(_header(raw, where), _checked(table, where))


def _header(raw: bytes, where: str) -> Header:
    try:
        stated = json.loads(raw)
        version = stated.get("version") if isinstance(stated, dict) else None
        if isinstance(version, int) and version > VERSION:
            raise UsageError(f"{where}: version {version} of the format; this pagelens reads up to {VERSION}")
        return Header.model_validate(stated)
    except (ValidationError, ValueError, RecursionError):
        raise UsageError(f"{where}: its header is damaged; record the program again") from None


def _checked(table: pa.Table, where: str) -> pl.DataFrame:
    try:
        frame = pl.DataFrame(pl.from_arrow(_plain(table))).select(
            pl.col(name).cast(kind, strict=True) for name, kind in COLUMNS.items()
        )
        bad = frame.null_count().sum_horizontal().sum() or frame.select(_impossible()).item()
    except (pl.exceptions.PolarsError, ValueError, OverflowError):
        bad = True
    if bad:
        raise UsageError(f"{where}: its operations are damaged; record the program again")
    return frame


def _plain(table: pa.Table) -> pa.Table:
    """Return the columns that are known, all of plain numbers. Raises ValueError if one is missing.

    Damaged names, types and metadata must not reach Polars, which panics over some of them. The first
    recordings have no column `caller`.
    """
    if "caller" not in table.column_names:
        table = table.append_column("caller", pa.nulls(table.num_rows, pa.uint8()).fill_null(0))
    if missing := COLUMNS.keys() - set(table.column_names):
        raise ValueError(missing)
    columns = table.select(list(COLUMNS))
    if not all(pa.types.is_integer(kind) or pa.types.is_boolean(kind) for kind in columns.schema.types):
        raise ValueError
    return pa.Table.from_arrays(columns.columns, names=list(COLUMNS))


def _impossible() -> pl.Expr:
    """Return whether any operation has impossible values."""
    times = pl.any_horizontal(
        *(~pl.col(name).is_between(0, MOST) for name in ("wall_ns", "cpu_ns", "size")),
        ~pl.col("start_ns").is_between(-MOST, MOST),
        ~pl.col("offset").is_between(-1, MOST),
        ~pl.col("result").is_between(-MOST, MOST),
        ~pl.col("kind").is_in(list(KINDS.values())),
        pl.col("file") < -1,
    )
    return times.any()
