"""The node's spool. It keeps the records of checks, each in a file, until they are collected.

A full disk or a missing folder never fails a job: the record is then lost, and one line says so.
"""

import os
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from pagelens.site.check import MOST_BYTES, Check

MOST_RECORDS = 4096  # on a node whose spool nobody collects
_SUFFIX = ".check.json"
_ABANDONED_S = 3600  # after which a half-written record is nobody's


def put(spool: Path, check: Check) -> Path:
    """Write a record as a file of its own, whole and on the disk. Raises OSError."""
    spool.mkdir(parents=True, exist_ok=True, mode=0o755)
    if sum(1 for _ in spool.glob(f"*{_SUFFIX}")) >= MOST_RECORDS:
        raise OSError(f"{spool} holds {MOST_RECORDS} records that nobody collected")
    _clear(spool)
    final = spool / f"{check.node}-{check.id}{_SUFFIX}"
    partial = final.with_name(f".{final.name}.partial")
    try:
        with partial.open("wb") as file:
            file.write(check.to_json().encode())
            file.flush()
            os.fsync(file.fileno())
        os.replace(partial, final)
    finally:
        with suppress(OSError):
            partial.unlink()  # there where something went wrong
    return final


def _clear(spool: Path) -> None:
    """Remove what a killed check left half written."""
    for partial in spool.glob(f".*{_SUFFIX}.partial"):
        with suppress(OSError):
            if time.time() - partial.stat().st_mtime > _ABANDONED_S:
                partial.unlink()


def records(spool: Path) -> Iterator[tuple[Path, bytes]]:
    """Yield the complete records below a folder. One that cannot be read is left for later."""
    for folder, _, names in os.walk(spool):
        for name in sorted(names):
            if not name.endswith(_SUFFIX) or name.startswith("."):
                continue
            path = Path(folder, name)
            with suppress(OSError):
                descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
                with open(descriptor, "rb") as file:
                    yield path, file.read(MOST_BYTES + 1)


def set_aside(path: Path) -> None:
    """Rename an invalid record, so that it is looked at only once."""
    with suppress(OSError):
        path.rename(path.with_name(f"{path.name}.invalid"))
