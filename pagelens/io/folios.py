"""Adds to a recording how large the folios are that the page cache holds of the files that were read."""

from __future__ import annotations

from pathlib import Path

import polars as pl

from pagelens.host.file_folios import read_folio_share
from pagelens.io.kinds import KINDS
from pagelens.io.recording import File, Recording

_LEAST_BYTES = 4 << 20  # that were read from all files together; reads of less cost little
_MOST_FILES = 200  # that are looked at, some milliseconds each: those of which most was read


def with_folios(recording: Recording) -> Recording:
    """Return the recording with the folios of files that were only read, where the system tells them.

    The program must just have ended: its files then still lie in the page cache as it found them.
    """
    reads, writes = pl.col("kind") == KINDS["read"], pl.col("kind").is_in([KINDS["write"], KINDS["copy"]])
    moved = pl.col("result").clip(0)
    read = (
        recording.regular.group_by("file")
        .agg(read=moved.filter(reads).sum(), written=moved.filter(writes).sum())
        .filter(pl.col("read") > 0, pl.col("written") == 0)
        .sort("read", descending=True)
    )
    if read["read"].sum() < _LEAST_BYTES:
        return recording
    files = list(recording.header.files)
    for number in read["file"].head(_MOST_FILES).to_list():
        files[number] = _with_share(files[number])
    return Recording(recording.header.model_copy(update={"files": files}), recording.operations)


def _with_share(file: File) -> File:
    path = Path(file.path)
    try:
        same = path.stat().st_ino == file.inode
    except (OSError, ValueError):
        same = False
    share = read_folio_share(path) if same and file.inode else None
    return file if share is None else file.model_copy(update={"folio_share": share})
