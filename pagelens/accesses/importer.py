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


class BadRecord(Failure):
    """A record of a binary file that the format does not allow. `record` is its number, from 1 on."""

    def __init__(self, record: int, says: str) -> None:
        super().__init__(f"record {record}: {says}")
        self.record = record


class CutRecord(Exception):
    """A binary file ends within a record. `record` is its number, from 1 on."""

    def __init__(self, record: int) -> None:
        super().__init__(f"record {record} is cut short")
        self.record = record


@dataclass(frozen=True)
class Importer:
    """A format of traces.

    `read` gets the file's bytes, already decompressed, and the recorder of the new trace, which it must not
    close. It raises BadLine or BadRecord for what it cannot read, and CutRecord where a binary file ends
    within a record. Where a tool writes a folder of files, `read` is called for each file that `of_folder`
    finds there.
    """

    name: str
    title: str  # the tool that writes such files, and its options
    read: Read
    note: str = ""  # says what of the file is left out or assumed
    # Whether pages that are only read have frames, because the trace may begin in the middle of the program.
    pages_exist: bool = False
    of_folder: str = ""  # a pattern of names, such as *.trace.zip; without it, a folder is refused
