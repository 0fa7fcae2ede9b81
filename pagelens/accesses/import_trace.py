"""Turns another tool's trace into a trace file."""

from __future__ import annotations

import io
import os
from collections.abc import Callable
from pathlib import Path, PurePath

from pagelens.accesses.imported_file import STANDARD_INPUT, ImportedFile
from pagelens.accesses.importer import BadLine, BadRecord, CutRecord, Importer
from pagelens.accesses.trace_recorder import TraceRecorder
from pagelens.errors import Failure, Interrupted, UsageError

Report = Callable[[int, int | None], None]  # bytes of the file that were read, and all if known


class _Reported(io.BufferedReader):
    """A file that reports how far it was read, at each batch."""

    def __init__(self, file: ImportedFile, report: Report) -> None:
        super().__init__(file, 1 << 18)
        self._imported, self._report = file, report

    def read(self, size: int | None = -1, /) -> bytes:
        """Report the progress, and read as any binary file does."""
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
    """Write the trace `output` from the file or folder `path`, or from standard input for `-`.

    `program` is the name of the program in the trace; by default it is the file's name. A file that ends too
    early is imported up to its end, and the trace says so. Raises Failure for text that is not of the format,
    with the file and the line, and for a file without accesses. In both cases no trace is left.
    """
    name = program or PurePath(path).name.partition(".")[0] or "imported"
    with TraceRecorder(
        output,
        name,
        producer=f"pagelens trace-import {importer.name}",
        any_tlb=any_tlb,
        pages_exist=importer.pages_exist,
    ) as recorder:
        try:
            for each in _files(importer, path):
                _read_file(importer, each, recorder, report)
        except KeyboardInterrupt:
            raise Interrupted("interrupted while importing; no trace was written") from None
        if recorder.accesses == 0:
            raise Failure(f"{_shown(path)}: it holds no accesses of the format {importer.name}")


def _files(importer: Importer, path: str) -> list[str]:
    """Return the files of a folder that the format's tool has written, else the path itself."""
    if not importer.of_folder or not Path(path).is_dir():
        return [path]
    found = sorted(str(each) for each in Path(path).rglob(importer.of_folder) if each.is_file())
    if not found:
        raise Failure(f"{path}: no file in it is named {importer.of_folder}; name the folder of the trace")
    return found


def _read_file(importer: Importer, path: str, recorder: TraceRecorder, report: Report) -> None:
    before = recorder.accesses
    with ImportedFile(path) as file:
        try:
            importer.read(_Reported(file, report), recorder)
        except BadLine as error:
            if error.line != file.unfinished_line:
                raise Failure(f"{file.name}: {error}") from None
            recorder.warn(f"{file.name}: line {error.line} is cut short; imported up to there")
        except CutRecord as error:
            recorder.warn(f"{file.name}: {error}; imported up to there")
        except (BadRecord, UsageError) as error:  # or a value that cannot be recorded
            raise Failure(f"{file.name}: {error}") from None
        if file.cut_short:
            if recorder.accesses == before:
                raise Failure(f"{file.name}: its compressed data end too early")
            recorder.warn(f"{file.name}: its compressed data end too early; imported up to there")


def _shown(path: str) -> str:
    return "standard input" if path == STANDARD_INPUT else path
