"""Text that fits the terminal: sections, paragraphs and tables."""

import textwrap
from collections.abc import Iterable, Iterator, Sequence
from itertools import zip_longest

from pagelens.report import terminal_width

BLOCKS = " ▁▂▃▄▅▆▇█"  # bars of eighths, as high as a line


def join_sections(sections: Iterable[Iterable[str]]) -> str:
    """The sections with an empty line between them; sections without a line are left out."""
    return "\n\n".join("\n".join(lines) for lines in map(list, sections) if lines) + "\n"


def wrap(text: str, indent: str = "", hanging: str | None = None) -> list[str]:
    """The lines of a paragraph. The first begins with `indent`, the others with `hanging` (else `indent`)."""
    return textwrap.wrap(
        text,
        terminal_width(),
        initial_indent=indent,
        subsequent_indent=indent if hanging is None else hanging,
        break_on_hyphens=False,
    )


def table(
    columns: Sequence[str], rows: Iterable[Sequence[str]], widths: Sequence[int], indent: str = ""
) -> Iterator[str]:
    """A head and a line a row. A width below zero aligns its column to the right.

    A cell that is longer than its column is shortened at its end.
    """
    for cells in (columns, *rows):
        yield indent + " ".join(map(_cell, cells, widths)).rstrip()


def _cell(text: str, width: int) -> str:
    text = shorten(text, abs(width))
    return f"{text:<{width}}" if width > 0 else f"{text:>{-width}}"


def wrapped_row(cells: Sequence[str], widths: Sequence[int]) -> Iterator[str]:
    """A row of a table whose cells are wrapped into as many lines as they need."""
    parts = [textwrap.wrap(cell, width) for cell, width in zip(cells, widths, strict=True)]
    for line in zip_longest(*parts, fillvalue=""):
        yield " ".join(f"{part:<{width}}" for part, width in zip(line, widths, strict=True)).rstrip()


def shorten(text: str, width: int) -> str:
    """The text, or as much of its beginning as `width` columns hold and an ellipsis."""
    return text if len(text) <= width else text[: width - 1] + "…"


def shorten_middle(text: str, width: int) -> str:
    """The text, or its two ends: a long name has its function at the head and its variable at the tail."""
    if len(text) <= width:
        return text
    head = (width - 1) // 2
    return f"{text[:head]}…{text[head + 1 - width :]}"


def count_noun(count: int, noun: str) -> str:
    """As "1 node" or "1,024 nodes"."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"
