"""Chooses the importer of another tool's log by the beginning of the file."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from pagelens.errors import UsageError
from pagelens.io.importers.darshan import read_darshan
from pagelens.io.importers.fio import read_fio
from pagelens.io.importers.strace import read_strace
from pagelens.io.recording import Header, Recording

FORMATS = ("darshan", "fio", "strace")
_BEGIN_BYTES = 4096


def import_log(path: Path, form: str | None = None) -> Recording:
    """Return the recording of a log. Raises UsageError for unreadable and for unknown files."""
    try:
        with path.open("rb") as file:
            begin = file.read(_BEGIN_BYTES)
    except OSError as error:
        raise UsageError(f"log: cannot read {path} ({error.strerror}); name a readable file") from None
    form = form or _form_of(begin, path)
    if form == "darshan":
        return read_darshan(path)
    read: Callable[..., Recording] = read_fio if form == "fio" else read_strace
    with path.open("rb") as file:
        return read(file, Header(source=form))


def _form_of(begin: bytes, path: Path) -> str:
    if path.suffix == ".darshan":
        return "darshan"
    return "fio" if begin.startswith(b"fio version") else "strace"
