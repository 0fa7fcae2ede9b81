"""Resolves descriptors to files, and positions to offsets.

A raw log says where a descriptor leads when the descriptor is first used. An operation is on the file that
its descriptor led to at that time. Descriptors that `dup` made share one position, so they are followed as
one stream.
"""

import os
import stat
from collections.abc import Sequence
from typing import Any

import numpy as np
import polars as pl

from pagelens.io import kinds
from pagelens.io.completions import with_completions
from pagelens.io.kinds import KINDS
from pagelens.io.raw_log import RECORD, RawLog
from pagelens.io.recording import COLUMNS, MOST, File, Header, Process, Recording

_MOST_DESCRIPTORS = (1 << 31) - 1
_NOWHERE = -1  # the offset of operations that have none
_Stream = tuple[int, int, int, int, int, int, int]
_STREAMS = {
    "since": pl.Int64, "descriptor": pl.Int32, "stream": pl.Int64, "file": pl.Int32, "position": pl.Int64,
    "open_flags": pl.UInt32, "bytes": pl.Int64,
}  # fmt: skip
# Magic numbers of statfs(2) and linux/magic.h; Lustre and GPFS define their own.
FILE_SYSTEMS = {
    0xEF53: "ext4", 0x01021994: "tmpfs", 0x6969: "nfs", 0x794C7630: "overlay", 0x58465342: "xfs",
    0x9123683E: "btrfs", 0x0BD00BD0: "lustre", 0x47504653: "gpfs", 0x01021997: "9p", 0x65735546: "fuse",
    0x9FA0: "proc", 0x62656572: "sysfs", 0xFF534D42: "cifs", 0xFE534D42: "smb2", 0x2FC12FC1: "zfs",
    0xCA451A4E: "bcachefs", 0x00C36400: "ceph", 0x19830326: "beegfs", 0xF2F52010: "f2fs",
    0x73717368: "squashfs",
    0x27E0EB: "cgroup", 0x63677270: "cgroup2", 0x1CD1: "devpts", 0x958458F6: "hugetlbfs",
}  # fmt: skip
_TYPES = {
    stat.S_IFREG: "file", stat.S_IFDIR: "folder", stat.S_IFIFO: "pipe", stat.S_IFSOCK: "socket",
    stat.S_IFCHR: "device", stat.S_IFBLK: "device",
}  # fmt: skip


def resolve(logs: Sequence[RawLog], header: Header) -> Recording:
    """Return the recording of all processes' logs. `header` has what the logs do not say."""
    frames, files, processes = [], _Files(), []
    began = min((log.begin_ns for log in logs), default=0)
    for log in logs:
        frames.append(_resolved(log, files, began))
        processes.append(_process(log, began))
    operations = pl.concat(frames) if frames else pl.DataFrame(schema=COLUMNS)
    whole = header.model_copy(
        update={
            "files": files.found,
            "processes": processes,
            "page_bytes": os.sysconf("SC_PAGESIZE"),
            "dropped": sum(log.dropped for log in logs),
        }
    )
    return Recording(whole, operations.sort("start_ns", maintain_order=True))


class _Files:
    """The files, each once, by device, number and name."""

    def __init__(self) -> None:
        self.found: list[File] = []
        self._numbers: dict[tuple[int, int, str], int] = {}

    def number(self, record: dict[str, int], path: str, page_bytes: int = 4096) -> int:
        key = (record["address"], record["result"], path)
        if key not in self._numbers:
            self._numbers[key] = len(self.found)
            unknown = record["wall_ns"] > MOST  # pages in the cache
            self.found.append(
                File(
                    path=path,
                    type=_TYPES.get(stat.S_IFMT(record["buffers"]), "other"),  # type: ignore[arg-type]
                    file_system=FILE_SYSTEMS.get(record["cpu_ns"] & 0xFFFFFFFF, hex(record["cpu_ns"])),
                    device=record["address"],
                    inode=record["result"],
                    bytes=min(record["size"], MOST),
                    cached_bytes=None if unknown else min(record["wall_ns"] * page_bytes, MOST),
                )
            )
        return self._numbers[key]


def _process(log: RawLog, began: int) -> Process:
    records = log.records
    begin = next((i for i in log.texts if records["kind"][i] == kinds.BEGIN), None)
    end = next((i for i in log.texts if records["kind"][i] == kinds.END), None)
    rank = -1 if begin is None else int(records["result"][begin])
    return Process(
        process=log.process,
        parent=0 if begin is None else int(records["offset"][begin]),
        rank=None if rank < 0 else rank,
        program="" if begin is None else log.texts[begin],
        begin_ns=_time(log.begin_ns, began),
        end_ns=None if end is None else _time(records["start_ns"][end], began),
        cpu_ns=None if end is None else min(int(records["cpu_ns"][end]), MOST),
        minor_faults=None if end is None else min(int(records["size"][end]), MOST),
        major_faults=None if end is None else min(int(records["address"][end]), MOST),
    )


def _time(value: int, began: int) -> int:
    return max(-MOST, min(int(value) - began, MOST))


def _resolved(log: RawLog, files: _Files, began: int) -> pl.DataFrame:
    """Return the operations of one log, with their files and offsets."""
    columns = {name: log.records[name] for name in RECORD.names or ()}
    columns["start_ns"] = np.minimum(columns["start_ns"] - np.uint64(began), MOST).astype(np.int64)
    raw = with_completions(pl.DataFrame(columns).with_row_index("place")).with_columns(
        pl.col("wall_ns", "size").clip(0, MOST).cast(pl.Int64),
        pl.col("offset").clip(-1, MOST),
        pl.col("result").clip(-MOST, MOST),
    )
    raw = raw.with_columns(cpu_ns=pl.col("cpu_ns").clip(0, MOST).cast(pl.Int64))
    operations = raw.filter(pl.col("kind").is_in(list(KINDS.values()))).sort("start_ns", maintain_order=True)
    streams = _streams(log, operations, files, began)
    return (
        _with_offsets(_on_streams(operations, streams))
        .with_columns(process=pl.lit(log.process, pl.UInt32), file=pl.col("file").fill_null(-1))
        .select(pl.col(name).cast(kind) for name, kind in COLUMNS.items())
    )


def _streams(log: RawLog, operations: pl.DataFrame, files: _Files, began: int) -> pl.DataFrame:
    """Return where each descriptor leads, and from when on.

    It leads to a stream, which has a file, a first position and flags.
    """
    rows: list[_Stream] = []
    for place in log.texts:
        if log.records["kind"][place] != kinds.FILE:
            continue
        record = {name: int(log.records[name][place]) for name in RECORD.names or ()}
        number = files.number(record, log.texts[place])
        position = record["offset"] if files.found[number].type == "file" else _NOWHERE
        rows.append(
            (_time(record["start_ns"], began), record["descriptor"], len(rows), number,
             max(_NOWHERE, min(position, MOST)), record["flags"], min(record["size"], MOST))
        )  # fmt: skip
    rows.sort()
    return pl.DataFrame([*rows, *_doubled(operations, rows)], schema=_STREAMS, orient="row").sort(
        "since", maintain_order=True
    )


def _doubled(operations: pl.DataFrame, rows: list[_Stream]) -> list[_Stream]:
    """Return where descriptors made by `dup` lead: to the streams of those that they double."""
    made: list[_Stream] = []
    doubles = operations.filter(
        (pl.col("kind") == KINDS["dup"]) & pl.col("result").is_between(0, _MOST_DESCRIPTORS)
    )
    for since, descriptor, second in doubles.select("start_ns", "descriptor", "result").iter_rows():
        leads = [row for row in (*rows, *made) if row[1] == descriptor and row[0] <= since]
        if leads:
            made.append((since, second, *max(leads)[2:]))
    return made


def _on_streams(operations: pl.DataFrame, streams: pl.DataFrame) -> pl.DataFrame:
    """Return the operations with the stream of each.

    An operation that opens a descriptor is on the stream that it opens.
    """
    keyed = operations.with_columns(
        at=pl.when(pl.col("kind") == KINDS["open"])
        .then(pl.col("start_ns") + pl.col("wall_ns"))
        .otherwise("start_ns")
    ).sort("at", maintain_order=True)
    opens = pl.col("kind") == KINDS["open"]
    keys: dict[str, Any] = {
        "left_on": "at",
        "right_on": "since",
        "by": "descriptor",
        "check_sortedness": False,
    }
    before = keyed.filter(~opens).join_asof(streams, strategy="backward", **keys)
    # Another thread may use a descriptor before the thread that used it first has described it.
    early = before.filter(pl.col("stream").is_null()).select(keyed.columns)
    after = pl.concat([keyed.filter(opens), early]).sort("at", maintain_order=True)
    after = after.join_asof(streams, strategy="forward", **keys)
    return pl.concat([before.filter(pl.col("stream").is_not_null()), after]).sort(
        "start_ns", "place", maintain_order=True
    )


def _with_offsets(operations: pl.DataFrame) -> pl.DataFrame:
    """Fill in where operations at the position of a file began, and the flags of each."""
    stream = pl.col("stream").fill_null(_NOWHERE)
    kind, result = pl.col("kind"), pl.col("result")
    moves = kind.is_in([KINDS["read"], KINDS["write"], KINDS["copy"]]) & (pl.col("offset") < 0)
    set_to = pl.when((kind == KINDS["seek"]) & (result >= 0)).then(result)
    flags = pl.when((kind == KINDS["setfl"]) & (result >= 0)).then(pl.col("flags"))
    appends = (pl.col("now_flags") & os.O_APPEND) != 0
    frame = operations.with_columns(
        moved=pl.when(moves).then(result.clip(0)).otherwise(0),
        set_to=set_to,
        now_flags=flags.forward_fill().over(stream).fill_null(pl.col("open_flags")).fill_null(0),
    ).with_columns(
        part=pl.col("set_to").is_not_null().cum_sum().over(stream),
        start=pl.col("set_to").forward_fill().over(stream).fill_null(pl.col("position")),
    )
    # An append goes to the end of the file, whatever the position was.
    start = (
        pl.when(appends & (kind == KINDS["write"]))
        .then(pl.max_horizontal("start", "bytes"))
        .otherwise("start")
    )
    at = start + (pl.col("moved").cum_sum() - pl.col("moved")).over(stream, "part")
    nowhere = pl.col("position").is_null() | (pl.col("position") < 0)
    return frame.with_columns(
        offset=pl.when(~moves).then("offset").when(nowhere).then(_NOWHERE).otherwise(at.clip(_NOWHERE, MOST)),
        direct=(pl.col("now_flags") & os.O_DIRECT) != 0,
        synchronous=(pl.col("open_flags").fill_null(0) & os.O_DSYNC) != 0,  # O_SYNC has this bit, too
        append=appends,
    )
