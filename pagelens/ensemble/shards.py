"""Results on disk: a directory of Parquet files a node, whole or absent; a rerun does what is missing."""

import hashlib
import json
import os
import shutil
from collections.abc import Mapping
from pathlib import Path

import polars as pl

from pagelens.ensemble.result import TABLES, Tables
from pagelens.errors import Failure


def key_of(parts: Mapping[str, object]) -> str:
    """Hash of all that decides a node's rows; equal keys mean equal results. `parts` must be JSON values."""
    text = json.dumps(parts, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


class ShardStore:
    """The shards of one ensemble: ROOT/KEY/00017/{placements,objects,...}.parquet."""

    def __init__(self, root: Path, key: str) -> None:
        self.directory = root / key
        try:
            self.directory.mkdir(parents=True, exist_ok=True)
            for left_over in self.directory.glob("*.partial"):
                shutil.rmtree(left_over)
        except OSError as error:
            raise _cannot_write(self.directory, error) from error

    def complete(self) -> set[int]:
        """Nodes whose shards are there."""
        return {int(entry.name) for entry in self.directory.iterdir() if entry.name.isdecimal()}

    def write(self, node: int, tables: Tables) -> None:
        """Writes the node's shard beside its name and renames it: under its name it is always whole."""
        final = self.directory / f"{node:05d}"
        partial = final.with_suffix(".partial")
        try:
            partial.mkdir()
            for name in TABLES:
                tables[name].write_parquet(partial / f"{name}.parquet", statistics=False)
            os.rename(partial, final)
        except (OSError, pl.exceptions.PolarsError) as error:
            raise _cannot_write(final, error) from error
        finally:
            shutil.rmtree(partial, ignore_errors=True)

    def read(self, node: int) -> Tables:
        """The rows of one complete node."""
        shard = self.directory / f"{node:05d}"
        try:
            return Tables(**{name: pl.read_parquet(shard / f"{name}.parquet") for name in TABLES})
        except (OSError, pl.exceptions.PolarsError, ValueError) as error:
            raise Failure(f"{shard}: unreadable ({error}); delete this directory and run again") from error


def _cannot_write(path: Path, error: Exception) -> Failure:
    return Failure(f"--output: cannot write {path} ({error}); name a writable directory with free space")
