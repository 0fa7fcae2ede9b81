"""Turns another tool's trace into a trace file."""

from __future__ import annotations

import io
import os
from collections.abc import Callable
from pathlib import PurePath

from pagelens.accesses.imported_file import ImportedFile
from pagelens.accesses.importer import BadLine, Importer
from pagelens.accesses.trace_recorder import TraceRecorder
from pagelens.errors import Failure, Interrupted, UsageError

Report = Callable[[int, int | None], None]  # bytes of the file that were read, and all if known


class _Reported(io.BufferedReader):
    """Tells how far a file was read, at each batch."""

    def __init__(self, file: ImportedFile, report: Report) -> None:
        super().__init__(file, 1 << 18)
        self._imported, self._report = file, report

    def read(self, size: int | None = -1, /) -> bytes:
        """As of any binary file."""
        self._report(self._imported.consumed_bytes, self._imported.total_bytes)
        return super().read(size)


def import_file(
    importer: Importer,
    path: str,
    output: str | os.PathLike[str],
    *,
    program: str | None = None,
    any_tlb: bool = False,
    report: Report = lambda done, total: None,
) -> None:
    """Writes the trace `output` from the file `path`, or from standard input for `-`.

    `program` is its name in the trace; without one it is the file's. What ends too early is imported up to
    there, and the trace says so. Raises Failure, which names the file and the line, for what is not of the
    format and for a file without accesses; no trace is left then.
    """
    name = program or PurePath(path).name.partition(".")[0] or "imported"
    with (
        ImportedFile(path) as file,
        TraceRecorder(
            output, name, producer=f"pagelens trace-import {importer.name}", any_tlb=any_tlb
        ) as recorder,
    ):
        try:
            importer.read(_Reported(file, report), recorder)
        except BadLine as error:
            if error.line != file.unfinished_line:
                raise Failure(f"{file.name}: {error}") from None
            recorder.warn(f"{file.name}: line {error.line} is cut short; imported up to there")
        except UsageError as error:  # a value that cannot be recorded
            raise Failure(f"{file.name}: {error}") from None
        except KeyboardInterrupt:
            raise Interrupted("interrupted while importing; no trace was written") from None
        if recorder.accesses == 0:
            cut = "its compressed data end too early" if file.cut_short else ""
            raise Failure(f"{file.name}: {cut or f'it holds no accesses of the format {importer.name}'}")
        if file.cut_short:
            recorder.warn(f"{file.name}: its compressed data end too early; imported up to there")
