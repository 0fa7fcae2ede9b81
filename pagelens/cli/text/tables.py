"""Text that fits the terminal: sections, paragraphs and tables."""

import textwrap
from collections.abc import Iterable, Iterator, Sequence

from pagelens.report import shorten, terminal_width


def join_sections(sections: Iterable[Iterable[str]]) -> str:
    """Return the sections with an empty line between them. Sections without a line are left out."""
    return "\n\n".join("\n".join(lines) for lines in map(list, sections) if lines) + "\n"


def wrap(text: str, indent: str = "", hanging: str | None = None) -> list[str]:
    """Return the lines of a paragraph. The first begins with `indent`, the others with `hanging` if given."""
    return textwrap.wrap(
        text,
        terminal_width(),
        initial_indent=indent,
        subsequent_indent=indent if hanging is None else hanging,
        break_on_hyphens=False,
    )


def command(words: Sequence[str]) -> Iterator[str]:
    """Yield a command for a shell. If a line has no room for it, each word has its own."""
    whole = f"  {' '.join(words)}"
    yield whole if len(whole) <= terminal_width() else "  " + " \\\n    ".join(words)


def table(
    columns: Sequence[str], rows: Iterable[Sequence[str]], widths: Sequence[int], indent: str = ""
) -> Iterator[str]:
    """Yield a head, and a line for each row. A width below zero aligns its column to the right.

    A cell that is longer than its column is shortened at its end.
    """
    for cells in (columns, *rows):
        yield indent + " ".join(map(_cell, cells, widths)).rstrip()


def _cell(text: str, width: int) -> str:
    text = shorten(text, abs(width))
    return f"{text:<{width}}" if width > 0 else f"{text:>{-width}}"


def count_noun(count: int, noun: str) -> str:
    """Return text such as "1 node" or "1,024 nodes"."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"
