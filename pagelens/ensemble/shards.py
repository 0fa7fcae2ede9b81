"""Keeps results on disk: a directory of Parquet files for each piece, which is complete or absent.

A rerun simulates what is missing.
"""

import hashlib
import json
import os
import re
import shutil
from collections.abc import Mapping
from io import BytesIO
from pathlib import Path

import polars as pl

from pagelens.ensemble.pieces import Piece
from pagelens.ensemble.result import TABLES, Tables
from pagelens.errors import Failure
from pagelens.files import NO_ROOM


def key_of(parts: Mapping[str, object]) -> str:
    """Return a hash of all that decides a piece's rows. Equal keys mean equal results.

    `parts` must be JSON values.
    """
    text = json.dumps(parts, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


class ShardStore:
    """The shards of one ensemble: ROOT/KEY/00017-2/{placements,objects,...}.parquet.

    Tables without rows have no file.
    """

    def __init__(self, root: Path, key: str) -> None:
        self.directory = root / key
        self._read: dict[Piece, Tables] = {}  # what has been written or read since
        try:
            self.directory.mkdir(parents=True, exist_ok=True)
            for left_over in self.directory.glob("*.partial"):
                shutil.rmtree(left_over)
            self.complete = {piece for entry in self.directory.iterdir() if (piece := _piece(entry.name))}
        except OSError as error:
            raise _cannot_write(self.directory, error) from error

    def write(self, piece: Piece, tables: Tables) -> None:
        """Write a shard beside its name and rename it, so that it is complete under its name.

        A shard for which the disk has no room is kept in memory alone: the answer does not depend on it.
        """
        final = self.directory / piece.name
        partial = final.with_suffix(".partial")
        try:
            partial.mkdir()
            for name in TABLES:
                if tables[name].height:
                    content = BytesIO()  # Polars' own errors of writing a file are no OSErrors
                    tables[name].write_parquet(content, statistics=False)
                    (partial / f"{name}.parquet").write_bytes(content.getbuffer())
            os.rename(partial, final)
        except OSError as error:
            if error.errno not in NO_ROOM:
                raise _cannot_write(final, error) from error
        finally:
            shutil.rmtree(partial, ignore_errors=True)
        self._read[piece] = tables
        self.complete.add(piece)

    def read(self, piece: Piece) -> Tables:
        """Return the rows of one complete piece."""
        if piece not in self._read:
            shard = self.directory / piece.name
            try:
                self._read[piece] = Tables(
                    **{name: _read(shard / f"{name}.parquet", name) for name in TABLES}
                )
            except (OSError, pl.exceptions.PolarsError, ValueError) as error:
                raise Failure(
                    f"{shard}: unreadable ({error}); delete this directory and run again"
                ) from error
        return self._read[piece]


def _read(path: Path, name: str) -> pl.DataFrame:
    return pl.read_parquet(path) if path.exists() else TABLES[name].to_frame()


def _piece(name: str) -> Piece | None:
    """Return the piece that a shard's name stands for, or None for another file."""
    found = re.fullmatch(r"(\d+)-(\d+)(-attributed)?", name)
    return Piece(found[3] is not None, int(found[1]), int(found[2])) if found else None


def _cannot_write(path: Path, error: Exception) -> Failure:
    return Failure(f"--output: cannot write {path} ({error}); name a writable directory with free space")
