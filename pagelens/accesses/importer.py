"""The role of an importer: it reads another tool's trace and hands its accesses to a recorder."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import BinaryIO

from pagelens.accesses.trace_recorder import TraceRecorder
from pagelens.errors import Failure

Read = Callable[[BinaryIO, TraceRecorder], None]


class BadLine(Failure):
    """A line that the format does not allow. `line` is its number, counted from 1."""

    def __init__(self, line: int, text: bytes, remedy: str = "") -> None:
        shown = text[:40].decode("ascii", "backslashreplace") + ("..." if len(text) > 40 else "")
        super().__init__(f"line {line}: cannot read '{shown}'{remedy and f'; {remedy}'}")
        self.line = line


@dataclass(frozen=True)
class Importer:
    """A format of traces.

    `read` gets the file's bytes, already decompressed, and the recorder of the new trace, which it must not
    close. It raises BadLine for a line that it cannot read.
    """

    name: str
    title: str  # the tool that writes such files, and its options
    read: Read
    note: str = ""  # what of the file is left out or assumed
