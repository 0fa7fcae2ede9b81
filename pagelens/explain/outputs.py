"""The files of an explanation: the report, the data, and the tables it was made from."""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TextIO

from pagelens.ensemble.result import TABLES, Ensemble
from pagelens.errors import Failure
from pagelens.explain.model import Explanation
from pagelens.files import write_whole

LOCK = ".lock"  # holds the number of the process that writes to the directory


@contextmanager
def claim_directory(path: Path) -> Iterator[Path]:
    """Creates the output directory and holds its lock: of two runs into it at once, the second fails.

    The lock goes with the process, however that ends; a directory made here in which nothing was written
    goes too. Raises Failure.
    """
    made = [each for each in (path, *path.parents) if not each.exists()]
    try:
        path.mkdir(parents=True, exist_ok=True)
        lock = (path / LOCK).open("a+")
    except OSError as error:
        raise Failure(
            f"--output: cannot create {path} ({error.strerror}); name a writable directory"
        ) from error
    with lock:
        _lock(lock, path)
        try:
            yield path
        finally:
            if made and [each.name for each in path.iterdir()] == [LOCK]:
                (path / LOCK).unlink()
                for each in made:
                    with suppress(OSError):  # somebody else's files are in it
                        each.rmdir()


def _lock(lock: TextIO, path: Path) -> None:
    """Takes the lock and leaves this process's number in it."""
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        lock.seek(0)
        holder = lock.read().strip() or "another"
        raise Failure(
            f"--output: process {holder} is writing to {path}; wait for its end or name another directory"
        ) from None
    except OSError:
        return  # a file system without locks
    lock.truncate(0)
    lock.write(f"{os.getpid()}\n")
    lock.flush()


def write_outputs(explanation: Explanation, ensemble: Ensemble, directory: Path) -> Path:
    """Writes report.html, explanation.json and a Parquet file a table; returns the report's path.

    Each file is whole or as it was before. Raises Failure where they cannot be written.
    """
    from pagelens.explain.html import render_html  # takes a second: only who needs the report waits for it

    for name in TABLES:
        write_whole(directory / f"{name}.parquet", ensemble.tables[name].write_parquet)
    data = explanation.model_dump_json(indent=1)
    write_whole(directory / "explanation.json", lambda path: path.write_text(data + "\n"))
    report = directory / "report.html"
    html = render_html(explanation)
    write_whole(report, lambda path: path.write_text(html))
    return report
