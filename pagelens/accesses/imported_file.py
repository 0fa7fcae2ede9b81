"""The file that an importer reads. It is decompressed, and the place that was reached is known."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import sys
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any, BinaryIO

from pagelens.errors import Failure

STANDARD_INPUT = "-"


def _zstd(file: BinaryIO) -> Any:
    import pyarrow

    return pyarrow.CompressedInputStream(pyarrow.PythonFile(file, "r"), "zstd")


class _ZipFile:
    """The members of a zip file, one behind the other."""

    def __init__(self, file: BinaryIO) -> None:
        if not file.seekable():
            raise OSError("a zip file cannot come through a pipe")
        self._zip = zipfile.ZipFile(file)
        self._members = iter(self._zip.infolist())
        self._member: Any = io.BytesIO()

    def read1(self, size: int) -> bytes:
        """Return some bytes. None are left at the end."""
        while not (found := self._member.read1(size)):
            if (member := next(self._members, None)) is None:
                break
            self._member = self._zip.open(member)
        return bytes(found)


_DECOMPRESSORS: dict[bytes, Callable[[BinaryIO], Any]] = {  # by how such files begin
    b"\x1f\x8b": lambda file: gzip.GzipFile(fileobj=file),
    b"\xfd7zXZ\0": lzma.LZMAFile,
    b"BZh": bz2.BZ2File,
    b"\x28\xb5\x2f\xfd": _zstd,
    b"PK\x03\x04": _ZipFile,
}
_READ_BYTES = 1 << 18
_DAMAGES = (zlib.error, lzma.LZMAError, zipfile.BadZipFile)


class ImportedFile(io.RawIOBase):
    """The bytes of a file, or of standard input for `-`. gzip, xz, bzip2, zstd and zip are decompressed.

    Compressed data that end too early count as the file's end. Raises Failure for what cannot be read.
    """

    def __init__(self, path: str) -> None:
        self.name = "standard input" if path == STANDARD_INPUT else path
        self.cut_short = False  # the compressed data ended too early
        self.total_bytes: int | None = None  # of the file as it is; None where that is not known
        self._newlines = 0
        self._last = b"\n"
        self._ended = False
        self._consumed = 0
        self._file: BinaryIO = sys.stdin.buffer
        try:
            if path != STANDARD_INPUT:
                self._file = Path(path).open("rb")  # noqa: SIM115 - `close` does it
                self.total_bytes = Path(path).stat().st_size or None  # a pipe has none
            start = self._file.peek(8)  # type: ignore[attr-defined]
        except OSError as error:
            raise Failure(f"{self.name}: {_unreadable(error)}") from None
        decompressor = next((make for magic, make in _DECOMPRESSORS.items() if start.startswith(magic)), None)
        try:
            source = self._file if decompressor is None else decompressor(self._file)
        except (OSError, zipfile.BadZipFile) as error:
            self.close()
            raise Failure(f"{self.name}: {_unreadable(error)}") from None
        # Unlike `read`, this hands over what comes before an error.
        self._read = source.read1 if hasattr(source, "read1") else source.read
        self._compressed = decompressor is not None

    @property
    def consumed_bytes(self) -> int:
        """How many bytes of the file, as it is stored, were read."""
        return self._file.tell() if self.total_bytes is not None else self._consumed

    @property
    def unfinished_line(self) -> int | None:
        """The number of the file's last line if it lacks its end. None before everything was read."""
        return self._newlines + 1 if self._ended and self._last != b"\n" else None

    def readable(self) -> bool:
        """Return True."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Read some bytes. Return 0 at the end."""
        if self.cut_short:
            return 0
        try:
            found = self._read(min(len(buffer), _READ_BYTES))
        except (EOFError, OSError, RuntimeError, *_DAMAGES) as error:
            # pyarrow raises an OSError of this text.
            cut = isinstance(error, EOFError) or str(error).startswith("Truncated")
            if not (self._compressed and cut):
                raise Failure(f"{self.name}: {_unreadable(error)}") from None
            found, self.cut_short = b"", True
        buffer[: len(found)] = found
        self._consumed += len(found)
        self._newlines += found.count(b"\n")
        self._last = found[-1:] or self._last
        self._ended = not found
        return len(found)

    def close(self) -> None:
        """Close the file. Standard input stays open."""
        if self._file is not sys.stdin.buffer:
            self._file.close()
        super().close()


def _unreadable(error: Exception) -> str:
    reason = error.strerror if isinstance(error, OSError) and error.strerror else error
    return f"cannot be read ({reason}); check the file"
