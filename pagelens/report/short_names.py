"""Shortens names to the columns that they have room for, and keeps what tells them apart."""

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

_FROM = " from "  # before the caller in an object's name


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
    """Return the names of objects that are shown together, within `width` columns.

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
