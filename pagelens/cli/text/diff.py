"""Prints a difference: the answer first, then the settings that differ, then the tables."""

from collections.abc import Callable, Iterator

from pagelens.cli.text.tables import join_sections, table, wrap
from pagelens.diff import Difference, Row, Table
from pagelens.report import shorten_objects, terminal_width
from pagelens.units import format_count, format_share, format_size, format_time

_TOP = 8  # rows of objects, which may be many
_WIDE = 72  # columns from which intervals have room

_FORMAT: dict[str, Callable[[float], str]] = {
    "s": format_time,
    "lines": format_count,
    "bytes": format_size,
    "count": format_count,
    "x": lambda value: f"{value:.2f}x",
    "rate": lambda value: f"{value:.4g}",
    "ns": lambda value: f"{value:.4g}",
    "share": format_share,
}


def render(found: Difference) -> str:
    """Return the difference as plain text."""
    return join_sections(
        [_answer(found), _settings(found), *(list(_table(found, of)) for of in found.tables)]
    )


def _answer(found: Difference) -> Iterator[str]:
    yield from wrap(" ".join(found.sentences))
    yield ""
    yield from wrap(f"A: {found.a}", hanging="   ")
    yield from wrap(f"B: {found.b}", hanging="   ")


def _settings(found: Difference) -> Iterator[str]:
    if not found.settings:
        return
    yield "These are not the same in A and B:"
    widest = max(len(setting.name) for setting in found.settings)
    name = min(max(widest, 8), terminal_width() // 3)
    value = (terminal_width() - name - 4) // 2
    rows = [(setting.name, setting.a, setting.b) for setting in found.settings]
    yield from table(("", "A", "B"), rows, (name, value, value), indent="  ")


def _table(found: Difference, of: Table) -> Iterator[str]:
    how = "counted" if of.counted else "measured" if found.kind == "measurements" else "modelled"
    yield from wrap(f"{of.title} ({how}):", hanging="  ")
    intervals = any(row.ratio_low is not None for row in of.rows)
    wide = intervals and terminal_width() >= _WIDE
    widths = [-9, -9, -7] + ([-13, -6] if wide else [])
    heads = ["A", "B", "B/A"] + (["95% interval", "p"] if wide else [])
    judged = any(_word(found, row) or row.note for row in of.rows)
    name = terminal_width() - 2 - sum(1 - width for width in widths) - (9 if judged else 0)
    shown = of.rows if not of.counted else [row for row in of.rows if row.verdict != "same"]
    if not shown:
        yield "  All are the same in A and B."
        return
    names = shorten_objects([row.name for row in shown[:_TOP]], name)
    rows = [_cells(found, of, row, wide, text) for row, text in zip(shown, names, strict=False)]
    yield from table(["", *heads, ""], rows, [name, *widths, 8], indent="  ")
    if len(shown) > _TOP:
        yield f"  {len(shown) - _TOP} more{' changed' if of.counted else ''}; --json lists them"
    if any(row.verdict == "unsure" and row.p is not None for row in of.rows):
        yield "  ~: chance may have made this difference."
    if wide and any(row.p is not None for row in shown[:_TOP]):
        yield from wrap("p: how likely chance alone makes such a difference.", indent="  ", hanging="    ")
    for note in dict.fromkeys((row.name, row.note) for row in of.rows if row.note):
        yield from wrap(f"{note[0]}: {note[1]}", indent="  ", hanging="    ")


def _cells(found: Difference, of: Table, row: Row, wide: bool, name: str) -> list[str]:
    show = _FORMAT[of.unit]
    cells = [name]
    cells += ["none" if value is None else show(value) for value in (row.a, row.b)]
    cells.append("" if row.ratio is None else f"{row.ratio:.2f}x" if row.ratio < 100 else f"{row.ratio:.0f}x")
    if wide:
        known = row.ratio_low is not None and row.ratio_high is not None
        cells.append(f"{row.ratio_low:.2f}-{row.ratio_high:.2f}" if known else "")
        cells.append("" if row.p is None else f"{row.p:.3f}" if row.p >= 0.0005 else "<.001")
    return [*cells, _word(found, row)]


def _word(found: Difference, row: Row) -> str:
    """Return what the row says of B."""
    if row.worse or row.better:
        words = ("more", "less") if found.kind == "traces" else ("slower", "faster")
        return words[0] if row.worse else words[1]
    if row.ratio_low is None:
        return ""
    return {"unsure": "~", "same": "=", "more": "small", "less": "small"}.get(row.verdict, "")
