"""Text that fits the terminal: sections, paragraphs and tables."""

import re
import textwrap
from collections.abc import Iterable, Iterator, Sequence

from pagelens.report import terminal_width


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


def shorten(text: str, width: int) -> str:
    """Return the text, or its beginning and an ellipsis in `width` columns."""
    return text if len(text) <= width else text[: width - 1] + "…"


def shorten_middle(text: str, width: int) -> str:
    """Return the text, or its two ends.

    A long name has its function at the head and its variable at the tail.
    """
    if len(text) <= width:
        return text
    head = (width - 1) // 2
    return f"{text[:head]}…{text[head + 1 - width :]}"


def shorten_object(name: str, width: int) -> str:
    """Return the name of an object within `width` columns: functions are shortened, files and lines kept.

    Of `solve<double> (cg.c:12) from run (m.c:3) from main (m.c:9)` the innermost and the outermost function
    are shown, because these tell it from others.
    """
    if len(name) <= width:
        return name
    calls = [re.fullmatch(r"(.*) (\([^()]*:\d+\)(?: #\d+)?)", part) for part in name.split(" from ")]
    if None in calls:
        return shorten_middle(name, width)
    ends = [(call[1], call[2]) for call in (calls[0], calls[-1]) if call is not None][: len(calls)]
    if len(ends) == 2:
        (first, where), (last, from_where) = ends
        room = width - len(f" {where} from  {from_where}")
        if room >= 12:
            first = shorten(first, max(room // 2, room - len(last)))
            return f"{first} {where} from {shorten(last, room - len(first))} {from_where}"
    function, where = ends[0]
    room = width - len(where) - 1
    return f"{shorten_middle(function, room)} {where}" if room >= 4 else shorten_middle(name, width)


def count_noun(count: int, noun: str) -> str:
    """Return text such as "1 node" or "1,024 nodes"."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"
