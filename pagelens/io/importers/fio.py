"""Reads fio's I/O logs (`--write_iolog`), versions 2 and 3. They list operations without their times."""

from __future__ import annotations

from typing import IO

from pagelens.errors import UsageError
from pagelens.io.importers.builder import RecordingBuilder
from pagelens.io.recording import Header, Recording

_UNKNOWN = ["start_ns", "wall_ns", "cpu_ns", "address", "cpu", "result"]
_LONGEST_LINE = 1 << 16
_VERSIONS = {"fio version 2 iolog": 0, "fio version 3 iolog": 1}  # how many words stand before the name
_KINDS = {
    "read": "read",
    "write": "write",
    "sync": "sync",
    "datasync": "datasync",
    "open": "open",
    "close": "close",
}
_OTHERS = ("add", "wait", "trim", "sync_file_range")


def read_fio(stream: IO[bytes], header: Header) -> Recording:
    """Return the recording of a log. Raises UsageError for any other file."""
    first = stream.readline(_LONGEST_LINE).decode("utf-8", "backslashreplace").strip()
    if first not in _VERSIONS:
        raise UsageError(
            "fio log: its first line is not 'fio version 2 iolog' or 3; fio --write_iolog makes one"
        )
    skipped = _VERSIONS[first]
    builder = RecordingBuilder(header.model_copy(update={"source": "fio"}), _UNKNOWN)
    number = 1
    while line := stream.readline(_LONGEST_LINE):
        number += 1
        words = line.decode("utf-8", "backslashreplace").split()[skipped:]
        if not words:
            continue
        try:
            _take(builder, words, number)
        except (ValueError, IndexError):
            raise UsageError(
                f"fio log: line {number} is not 'file action offset length'; the log is damaged"
            ) from None
    return builder.build()


def _take(builder: RecordingBuilder, words: list[str], number: int) -> None:
    name, action = words[0], words[1]
    if action in _OTHERS:
        return
    kind = _KINDS.get(action)
    if kind is None:
        raise ValueError
    common = {"file": builder.file(name), "start_ns": number}
    if kind in ("read", "write"):
        offset, size = int(words[2]), int(words[3])
        if offset < 0 or size < 0:
            raise ValueError
        builder.add(kind, offset=offset, size=size, result=size, **common)
    else:
        builder.add(kind, **common)
