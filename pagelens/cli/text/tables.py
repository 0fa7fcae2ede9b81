"""Text that fits the terminal: sections, paragraphs and tables."""

import re
import textwrap
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence

from pagelens.report import terminal_width

_FROM = " from "  # before the caller in an object's name


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
    are shown, because these tell it from others. A function without a line keeps its offset instead of its
    file, as in `solve+0x2d from main+0x35`.
    """
    if len(name) <= width:
        return name
    calls = [call for part in name.split(_FROM) if (call := _call(part)) is not None]
    if not calls:
        return shorten_middle(name, width)
    (first, where, module), (last, from_where, _) = calls[0], calls[-1]
    room = width - len(f"{where}{_FROM}{from_where}")
    if len(calls) > 1 and room >= 12:
        first = shorten(first, max(room // 2, room - len(last)))
        return f"{first}{where}{_FROM}{shorten(last, room - len(first))}{from_where}"
    room = width - len(where)
    if room > len(first) + 3:  # for some letters of the file
        return shorten(f"{first}{where}{module}", width)
    return f"{shorten_middle(first, room)}{where}" if room >= 4 else shorten_middle(name, width)


def shorten_objects(names: Sequence[str], width: int) -> list[str]:
    """Return the names of a table's objects within `width` columns.

    Names that would look alike begin where they differ: `from main+0x35`.
    """
    shown = {name: shorten_object(name, width) for name in names}
    rest = {name: name.split(_FROM) for name in shown}
    while alike := [name for of in _groups(shown) for name in of if len(rest[name]) > 1]:
        for name in alike:
            del rest[name][0]
            shown[name] = f"{_FROM[1:]}{shorten_object(_FROM.join(rest[name]), width - len(_FROM) + 1)}"
    return [shown[name] for name in names]


def _groups(shown: Mapping[str, str]) -> Iterable[list[str]]:
    """Return the names that are shown alike."""
    found = defaultdict(list)
    for name, text in shown.items():
        found[text].append(name)
    return (names for names in found.values() if len(names) > 1)


def _call(part: str) -> tuple[str, str, str] | None:
    """Return a function, the place of its call, and its file if that is no part of the place.

    Return None if the function is not known.
    """
    line = re.fullmatch(r"(.*)( \([^()]*:\d+\)(?: #\d+)?)()", part)
    offset = re.fullmatch(r"(.*)(\+0x[0-9a-f]+(?: #\d+)?)((?: \([^()]*\))?)", part)
    found = line or offset
    return None if found is None else (found[1], found[2], found[3])


def count_noun(count: int, noun: str) -> str:
    """Return text such as "1 node" or "1,024 nodes"."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"
