"""Says what a recording does not tell of its program, one line for each thing."""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from pagelens.io.kinds import KINDS, QUEUED
from pagelens.io.recording import Recording
from pagelens.units import format_size, format_time

_RING = "anon_inode:[io_uring]"  # how /proc names a descriptor of io_uring


def gaps(recording: Recording) -> Iterator[str]:
    """Yield one line for each kind of operation that is missing, or of which only a part is known."""
    header, operations = recording.header, recording.operations
    if not operations.height:
        yield "no operation on a file was seen; a program without libc's functions needs strace"
    if header.dropped:
        yield f"{header.dropped:,} operations are missing: the disk was full, or a limit reached"
    queued = operations.filter(pl.col("kind").is_in(QUEUED))
    if queued.height:
        yield _queued(queued)
    elif any(file.path == _RING for file in header.files):
        yield "the program uses io_uring by system calls of its own; these operations are not seen"
    yield from _mapped(recording)


def _queued(queued: pl.DataFrame) -> str:
    """Return what became of operations in queues. Those with a wall time were seen to end."""
    ended = queued.filter(pl.col("wall_ns") > 0)
    text = f"{queued.height:,} operations went through libaio or io_uring; "
    if ended.height:
        median, failed = ended["wall_ns"].median(), ended.filter(pl.col("result") < 0).height
        assert isinstance(median, float)
        text += f"{ended.height:,} were seen to end, after {format_time(median / 1e9)} in the median"
        text += f", {failed:,} with an error; " if failed else "; "
    else:
        text += "what became of them is not known; "
    return text + "the model knows only what handing over and waiting took"


def _mapped(recording: Recording) -> Iterator[str]:
    maps = recording.regular.filter((pl.col("kind") == KINDS["mmap"]) & (pl.col("result") >= 0))
    if not maps.height:
        return
    counted = [p for p in recording.header.processes if p.major_faults is not None]
    minor, major = sum(p.minor_faults or 0 for p in counted), sum(p.major_faults or 0 for p in counted)
    files = maps["file"].n_unique()
    yield (
        f"{format_size(int(maps['size'].sum()))} of {files:,} file{'' if files == 1 else 's'} were mapped; "
        "reads and writes of mapped memory are not seen"
        + (f" ({minor:,} page faults of all memory, {major:,} of them waited for a disk)" if counted else "")
    )
