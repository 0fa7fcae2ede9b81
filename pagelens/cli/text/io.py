"""Prints recordings of operations on files in at most 80 columns."""

from collections.abc import Iterator
from pathlib import Path

from pagelens.cli.text.tables import count_noun, table
from pagelens.io import Facts, Recording, describe
from pagelens.report import shorten_middle
from pagelens.units import format_size, format_time

_KINDS = ("operation", "count", "bytes", "median", "wall", "processor", "failed")
_KIND_WIDTHS = (12, -9, -9, -9, -9, -9, -7)
_CALLERS = ("called in", "operations", "bytes", "wall", "processor")
_CALLER_WIDTHS = (30, -11, -10, -10, -10)
_FILES = ("file", "reads", "bytes", "writes", "bytes", "wall")
_FILE_WIDTHS = (34, -7, -8, -7, -8, -9)


def summary(recording: Recording, path: Path) -> Iterator[str]:
    """Yield one line that says what was recorded."""
    facts = describe(recording)
    moved = sum(kind.bytes for kind in facts.kinds)
    yield (
        f"{path} holds {count_noun(facts.operations, 'operation')} on {count_noun(facts.files, 'file')} "
        f"({format_size(moved)}); `pagelens io explain {path}` says what they cost"
    )


def info_lines(facts: Facts) -> Iterator[str]:
    """Yield all that `pagelens io info` prints."""
    elapsed = "" if facts.elapsed_s is None else f" in {format_time(facts.elapsed_s)}"
    yield (
        f"{count_noun(facts.operations, 'operation')} by {count_noun(facts.processes, 'program')}, "
        f"{count_noun(facts.threads, 'thread')}{elapsed}, recorded by {facts.source}"
    )
    if facts.dropped:
        yield f"{facts.dropped:,} operations are missing: there was no room for them"
    if facts.unknown:
        yield f"{facts.source} does not tell: {', '.join(facts.unknown)}"
    yield ""
    yield from table(
        _KINDS,
        [
            (k.kind, f"{k.count:,}", format_size(k.bytes), format_size(k.median_bytes), format_time(k.wall_s),
             "" if "cpu_ns" in facts.unknown else format_time(k.cpu_s), f"{k.failed:,}" if k.failed else "")
            for k in facts.kinds
        ],
        _KIND_WIDTHS,
    )  # fmt: skip
    if facts.callers:
        yield ""
        yield from caller_lines(facts)
    if facts.largest:
        yield ""
        yield from table(
            _FILES,
            [
                (shorten_middle(f.path, 34), f"{f.reads:,}", format_size(f.read_bytes), f"{f.writes:,}",
                 format_size(f.written_bytes), format_time(f.wall_s))
                for f in facts.largest
            ],
            _FILE_WIDTHS,
        )  # fmt: skip


def caller_lines(facts: Facts) -> Iterator[str]:
    """Yield a table of the functions of MPI-IO and HDF5 in which operations were made."""
    yield from table(
        _CALLERS,
        [
            (c.caller or "none of MPI-IO and HDF5", f"{c.count:,}", format_size(c.bytes),
             format_time(c.wall_s), "" if "cpu_ns" in facts.unknown else format_time(c.cpu_s))
            for c in facts.callers
        ],
        _CALLER_WIDTHS,
    )  # fmt: skip
