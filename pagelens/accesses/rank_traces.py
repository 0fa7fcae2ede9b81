"""The traces of the ranks of one MPI job on a node. Each rank writes its own, and one of them reads all."""

import fcntl
import os
import socket
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from pagelens.accesses.trace_result import partial_of
from pagelens.host.mpi_rank import LaunchedRank
from pagelens.host.system import System
from pagelens.output_directory import cannot_create

PATIENCE_S = 60.0  # for a trace to come, or to grow
_POLL_S = 0.2
_STARTED = 20  # the place of a process's start in its state, from field 3 on
_GRAIN_S = 0.05  # of the kernel's clocks, which count jiffies


def path_of_rank(directory: Path, name: str, on_node: int) -> Path:
    """Return where a rank's trace goes. Nodes may share the directory, so the node's name is part of it."""
    return directory / f"{name}.{socket.gethostname().split('.')[0]}.{on_node}.trace"


@contextmanager
def begin_trace(directory: Path, name: str, rank: LaunchedRank) -> Iterator[Path]:
    """Yield where this rank's trace goes. What an earlier job left there is removed.

    While the context is entered, `await_traces` waits for the trace, even if it does not grow. Raises Failure
    if the directory takes no files.
    """
    path = path_of_rank(directory, name, rank.on_node)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.unlink(missing_ok=True)
        lock = _lock_of(path).open("w")
    except OSError as error:
        raise cannot_create(directory, error) from error
    with lock:
        with suppress(OSError):  # a file system without locks
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        try:
            yield path
        finally:
            _lock_of(path).unlink(missing_ok=True)


def launch_began(directory: Path, root: Path = Path("/")) -> float:
    """Return when this job was launched, by the clock of the file system that holds the directory.

    The launcher is taken to be this process's parent. What is older was not written by a rank of this job. If
    the parent's age is not known, everything may have been. Raises Failure if the directory takes no files.
    """
    system = System(root)
    fields = system.text(f"/proc/{os.getppid()}/stat").rpartition(")")[2].split()  # proc(5), from field 3 on
    up = system.text("/proc/uptime").split()
    if len(fields) < _STARTED or not up:
        return 0.0
    age_s = float(up[0]) - int(fields[_STARTED - 1]) / os.sysconf("SC_CLK_TCK")
    try:
        with tempfile.NamedTemporaryFile(dir=directory) as file:
            now = os.fstat(file.fileno()).st_mtime
    except OSError as error:
        raise cannot_create(directory, error) from error
    return now - age_s - _GRAIN_S


def await_traces(
    paths: Sequence[Path],
    since: float = 0.0,
    patience_s: float = PATIENCE_S,
    sleep: Callable[[float], None] = time.sleep,
    tell: Callable[[list[int]], object] = lambda numbers: None,
) -> list[Path]:
    """Return the traces that are whole, as soon as all are, or once no more will come.

    A trace that is older than `since` is of an earlier job, whose rank of that number did not fail.
    A rank that failed leaves no trace. So no more is waited if for `patience_s` no byte came to any trace,
    and no rank whose trace is missing runs any more. If some of them run, `tell` gets their numbers, once.
    """
    waited, before, told = 0.0, _sizes(paths), False
    while not all(_is_new(path, since) for path in paths):
        if waited >= patience_s:
            running = [number for number, path in enumerate(paths) if _is_in_work(path)]
            if not running:
                break
            if not told:
                tell(running)
            waited, told = 0.0, True
        sleep(_POLL_S)
        waited += _POLL_S
        if (now := _sizes(paths)) != before:
            waited, before = 0.0, now
    return [path for path in paths if _is_new(path, since)]


def _is_new(path: Path, since: float) -> bool:
    try:
        return path.stat().st_mtime >= since
    except OSError:
        return False


def _lock_of(path: Path) -> Path:
    return path.with_name(path.name + ".lock")


def _is_in_work(path: Path) -> bool:
    """Return whether a process is within `begin_trace` of this trace."""
    try:
        with _lock_of(path).open() as lock:
            fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        pass
    return False


def _sizes(paths: Sequence[Path]) -> list[int]:
    """Return the bytes of each trace, also of one that is being written; -1 if there is none."""
    sizes = []
    for path in paths:
        known = [size for each in (path, partial_of(path)) if (size := _size(each)) is not None]
        sizes.append(max(known, default=-1))
    return sizes


def _size(path: Path) -> int | None:
    try:
        return path.stat().st_size
    except OSError:
        return None
