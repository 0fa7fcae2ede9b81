"""The directory that a command writes its results to. One command has it at a time."""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TextIO

from pagelens.errors import Failure, UsageError

LOCK = ".lock"  # holds the number of the process that writes to the directory


@contextmanager
def claim_directory(path: Path) -> Iterator[Path]:
    """Create the output directory and hold its lock. Of two runs into it at once, the second one fails.

    The lock goes with the process, however that ends; a directory made here in which nothing was written goes
    too. Raises Failure, and UsageError for a name that Polars cannot write to, because it is no text.
    """
    try:
        os.fspath(path).encode()
    except UnicodeEncodeError:
        raise UsageError(f"--output {os.fspath(path)!a}: is no text in UTF-8; name another folder") from None
    made: list[Path] = []
    lock = None
    while lock is None:
        lock = _lock(path, made)
    with lock:
        try:
            yield path
        finally:
            if made and [each.name for each in path.iterdir()] == [LOCK]:
                (path / LOCK).unlink()
                for each in made:
                    with suppress(OSError):  # somebody else's files are in it
                        each.rmdir()


def _lock(path: Path, made: list[Path]) -> TextIO | None:
    """Return the directory's lock, held, with this process's number in it; None if the directory just went.

    A run that wrote nothing removes the directory that it made, and the lock. A lock file that was opened
    before then locks nobody out. `made` receives the directories that had to be made, innermost first.
    """
    try:
        made[:] = [each for each in (path, *path.parents) if each in made or not each.exists()]
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise cannot_create(path, error) from error
    try:
        lock = (path / LOCK).open("a+")
    except FileNotFoundError:
        return None
    except OSError as error:
        raise cannot_create(path, error) from error
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        lock.seek(0)
        holder = lock.read().strip() or "another"
        lock.close()
        raise Failure(
            f"--output: process {holder} is writing to {path}; wait for its end or name another directory"
        ) from None
    except OSError:
        return lock  # a file system without locks
    if not _is_at(lock, path / LOCK):
        lock.close()
        return None
    try:
        lock.truncate(0)
        lock.write(f"{os.getpid()}\n")
        lock.flush()
    except OSError as error:  # a file system that is full; the lock itself is held
        with suppress(OSError):
            lock.close()
        raise cannot_create(path, error) from error
    return lock


def cannot_create(path: Path, error: OSError) -> Failure:
    """Return what to raise for an output directory that takes no files."""
    return Failure(
        f"--output: cannot write to {path} ({error.strerror}); name a directory that is writable and has room"
    )


def _is_at(file: TextIO, path: Path) -> bool:
    """Return whether an open file still has this name."""
    try:
        return os.path.samestat(os.fstat(file.fileno()), path.stat())
    except FileNotFoundError:
        return False
