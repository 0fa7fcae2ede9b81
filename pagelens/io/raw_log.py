"""Reads the raw logs that the recorder leaves. iorecord/record.h describes them.

A log can end anywhere, because its process may have been killed. Whatever follows an incomplete record is
ignored, and so are chunks that make no sense.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from pagelens.io import kinds

MAGIC, VERSION = b"PLIOLOG\0", 1
RECORD = np.dtype(
    [
        ("kind", "u1"), ("caller", "u1"), ("cpu", "<u2"), ("thread", "<u4"), ("start_ns", "<u8"),
        ("wall_ns", "<u8"), ("cpu_ns", "<u8"), ("offset", "<i8"), ("size", "<u8"), ("result", "<i8"),
        ("address", "<u8"), ("descriptor", "<i4"), ("flags", "<u4"), ("buffers", "<u4"), ("texts", "<u4"),
    ]
)  # fmt: skip
_CHUNK = np.dtype([("magic", "S8"), ("version", "<u4"), ("process", "<u4"), ("bytes", "<u8"),
                   ("dropped", "<u8"), ("spare", "<u8", 6)])  # fmt: skip
_TEXT_AT, _TEXT_BYTES = 8, 72

Records = NDArray[np.void]


@dataclass(frozen=True)
class RawLog:
    """The records of one process, or of one program that it ran, and their texts by index."""

    process: int
    records: Records
    texts: dict[int, str]  # the texts of records of BEGIN, END and FILE, by their index
    dropped: int

    @property
    def begin_ns(self) -> int:
        """When the first record began. Records of texts have letters in place of a time."""
        times = self.records["start_ns"][self.records["kind"] != kinds.TEXT]
        return int(times.min()) if times.size else 0


def read_raw_logs(folder: Path) -> list[RawLog]:
    """Return all logs in a folder, in the order in which their programs began. Other files are ignored."""
    found = [log for path in sorted(folder.glob("*.io")) if (log := parse_raw_log(_bytes(path))) is not None]
    return sorted(found, key=lambda log: log.begin_ns)


def _bytes(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        return b""


def parse_raw_log(content: bytes) -> RawLog | None:
    """Return the log in a file's bytes, or None if nothing in it can be read."""
    parts: list[Records] = []
    process = dropped = 0
    for header, records in _chunks(content):
        if not parts:
            process, dropped = int(header["process"]), int(header["dropped"])
        parts.append(records)
    if not parts or not sum(map(len, parts)):
        return None
    together = np.concatenate(parts)
    return RawLog(process, together, _texts(together), dropped)


def _chunks(content: bytes) -> Iterator[tuple[np.void, Records]]:
    at = 0
    while at + _CHUNK.itemsize <= len(content):
        header = np.frombuffer(content, _CHUNK, 1, at)[0]
        size = int(header["bytes"])
        if bytes(header["magic"]).ljust(8, b"\0") != MAGIC or int(header["version"]) != VERSION:
            return
        if size < 2 * _CHUNK.itemsize or size > 1 << 30:
            return
        end = min(at + size, len(content))
        count = (end - at - _CHUNK.itemsize) // RECORD.itemsize
        records = np.frombuffer(content, RECORD, count, at + _CHUNK.itemsize)
        empty = np.flatnonzero(records["kind"] == 0)
        yield header, records[: empty[0] if empty.size else count]
        at += size


def _texts(records: Records) -> dict[int, str]:
    has_text = np.isin(records["kind"], (kinds.BEGIN, kinds.END, kinds.FILE))
    raw = records.view(np.uint8).reshape(len(records), RECORD.itemsize)
    found = {}
    for at in np.flatnonzero(has_text).tolist():
        last = min(at + 1 + min(int(records["texts"][at]), 64), len(records))
        lines = [raw[i, _TEXT_AT:].tobytes() for i in range(at + 1, last) if records["kind"][i] == kinds.TEXT]
        found[at] = b"".join(lines).split(b"\0")[0].decode("utf-8", "backslashreplace")
    return found
