"""Prints the time of operations on files in at most 80 columns."""

from collections.abc import Iterator, Sequence
from pathlib import Path

from pagelens.cli.text.tables import table, wrap
from pagelens.machine import Costs, Io
from pagelens.units import format_binary_size, format_rate, format_time

_KINDS = {
    "write": "write", "overwrite": "overwrite", "read": "read", "cold_read": "cold",
    "scattered_read": "scattered", "direct_write": "direct wr", "direct_read": "direct rd",
}  # fmt: skip
_WIDTH = 9


def render_io(io: Io, folder: Path, notes: Sequence[str]) -> Iterator[str]:
    """Yield two tables, of processor time and wall time, and the single values."""
    yield from wrap(f"{io.file_system.value} at {folder}: what one operation takes (measured)")
    tables = {
        title: value.value for kind, title in _KINDS.items() if (value := getattr(io, kind, None)) is not None
    }
    for what, index in (("processor", 1), ("wall", 2)):
        yield ""
        yield from _table(what, tables, index)
    yield ""
    yield from wrap(
        "write: the file grows; overwrite, read: the page cache has the data; cold: it has not; scattered: "
        "it has not, and reads are in no order; direct wr, direct rd: past the page cache."
    )
    yield from wrap(_singles(io))
    for note in notes:
        yield from wrap(note)


def _table(what: str, tables: dict[str, Costs], index: int) -> Iterator[str]:
    sizes = sorted({size for costs in tables.values() for size in costs.sizes})
    rows = []
    for size in sizes:
        cells = [format_binary_size(size)]
        for costs in tables.values():
            time = costs[index][costs.sizes.index(size)] if size in costs.sizes else None
            cells.append("" if time is None else format_time(time))
        rows.append(cells)
    yield from table([what, *tables], rows, [9, *[-_WIDTH] * len(tables)])


def _singles(io: Io) -> str:
    parts = []
    if io.sync:
        parts.append(f"fsync takes {format_time(io.sync.value)}")
    if io.opening and io.creating:
        parts.append(
            f"opening a file {format_time(io.opening.value)}, making one {format_time(io.creating.value)}"
        )
    if io.write_rate:
        parts.append(f"the storage is written at {format_rate(io.write_rate.value)}")
    if io.read_rate:
        parts.append(f"it is read at {format_rate(io.read_rate.value)}")
    if io.writers and io.writers_apart and io.writers_together:
        parts.append(
            f"{io.writers.value} writers write {io.writers_apart.value:.2g} times what one does, and on one "
            f"core {io.writers_together.value:.2g} times"
        )
    if io.spread:
        parts.append(f"the same loop took up to {io.spread.value:.2g} times as long at another moment")
    if io.memory_stall:
        parts.append(
            "the host of this virtual machine unmaps memory that was left alone, and an access to it then "
            f"waits {format_time(io.memory_stall.value)}"
        )
    if io.direct_write is None:
        parts.append("there are no direct operations")
    elif io.direct_copies and io.direct_copies.value:
        parts.append("direct operations copy all the same, because the files are in memory")
    elif io.direct_alignment:
        parts.append(f"direct operations are multiples of {format_binary_size(io.direct_alignment.value)}")
    text = "; ".join(parts)
    return text[:1].upper() + text[1:] + "."
