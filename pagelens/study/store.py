"""The points that are done, on disk: a Parquet file each, named by its key and its checksum."""

import hashlib
import io
import os
import re
from contextlib import suppress
from pathlib import Path

import polars as pl

from pagelens.errors import Failure

_NAME = re.compile(r"(?P<key>[0-9a-f]{16})-(?P<checksum>[0-9a-f]{16})\.parquet")


class PointStore:
    """DIR/points/KEY-CHECKSUM.parquet, whole or absent.

    Any number of processes may write at a time, the same point too: equal rows give equal bytes, hence the
    same file. A file whose bytes do not have the checksum of its name does not count, and goes.
    """

    def __init__(self, directory: Path) -> None:
        self.directory = directory / "points"
        self._found: dict[str, Path] = {}
        try:
            self.directory.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise _cannot_write(self.directory, error) from error
        self.damaged: list[str] = []  # names of files that were removed
        self.look()

    def look(self) -> None:
        """Take in what others have written since."""
        known = {path.name for path in self._found.values()}
        for entry in sorted(os.scandir(self.directory), key=lambda each: each.name):
            name = _NAME.fullmatch(entry.name)
            if name is None or entry.name in known:
                continue
            path = Path(entry.path)
            try:
                content = path.read_bytes()
            except OSError:  # another process has removed it, or it cannot be read: its point is missing
                continue
            if _checksum(content) == name["checksum"]:
                self._found.setdefault(name["key"], path)
            else:
                self.damaged.append(path.name)
                with suppress(OSError):  # a folder that is somebody else's can be looked at, too
                    path.unlink()

    def __contains__(self, key: str) -> bool:
        return key in self._found

    def write(self, key: str, rows: pl.DataFrame) -> None:
        """Keep the rows of a point. Raises Failure where they cannot be written."""
        content = io.BytesIO()
        rows.write_parquet(content, statistics=False)
        data = content.getvalue()
        final = self.directory / f"{key}-{_checksum(data)}.parquet"
        partial = final.with_name(f".{final.name}.{os.uname().nodename}-{os.getpid()}.partial")
        try:
            partial.write_bytes(data)
            os.replace(partial, final)
        except OSError as error:
            if not final.exists():  # another process has written it, and swept up
                raise _cannot_write(final, error) from error
        finally:
            partial.unlink(missing_ok=True)
        self._found[key] = final

    def read(self, key: str) -> pl.DataFrame:
        """Return the rows of a point that is there."""
        return pl.read_parquet(self._found[key])

    def sweep(self) -> None:
        """Remove what writers that were killed have left; nobody may be writing."""
        for left_over in self.directory.glob(".*.partial"):
            left_over.unlink(missing_ok=True)


def _checksum(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:16]


def _cannot_write(path: Path, error: Exception) -> Failure:
    return Failure(f"--output: cannot write {path} ({error}); name a writable directory with free space")
