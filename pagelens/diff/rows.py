"""Makes the rows of a difference, from two samples or two counts."""

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from pagelens.diff.chance import Change
from pagelens.diff.model import Row, Verdict


def sampled_rows(
    changes: Mapping[str, Change], are_sure: Sequence[bool], threshold: float, more_is_worse: bool = True
) -> list[Row]:
    """Return one row for each change of a sampled quantile."""
    return [
        _sampled(name, found, is_sure, threshold, more_is_worse)
        for (name, found), is_sure in zip(changes.items(), are_sure, strict=True)
    ]


def _sampled(name: str, found: Change, is_sure: bool, threshold: float, more_is_worse: bool) -> Row:
    verdict: Verdict = "unsure"
    if found.ratio is None:
        verdict = "same" if found.a == found.b else "unsure"
        return Row(name=name, a=found.a, b=found.b, ratio=None, verdict=verdict, note="zero has no ratio")
    if is_sure:
        verdict = "more" if found.ratio > 1 else "less"
    elif found.a == found.b:
        verdict = "same"
    matters = is_sure and beyond(found.ratio, threshold)
    worse = (found.ratio > 1) == more_is_worse
    return Row(
        name=name,
        a=found.a,
        b=found.b,
        ratio=found.ratio,
        ratio_low=found.low,
        ratio_high=found.high,
        p=found.p,
        verdict=verdict,
        worse=matters and worse,
        better=matters and not worse,
        note="too few values to tell" if found.p is None else "",
    )


def counted_row(
    name: str,
    a: float | None,
    b: float | None,
    threshold: float = 0.0,
    more_is_worse: bool | None = None,
    note: str = "",
) -> Row:
    """Return the row of two exact figures. It has a verdict on speed only if `more_is_worse` is given."""
    if a is None or b is None:
        return Row(name=name, a=a, b=b, ratio=None, verdict="only A" if b is None else "only B", note=note)
    ratio = b / a if a else None
    verdict: Verdict = "same" if a == b else "more" if b > a else "less"
    matters = more_is_worse is not None and a != b and (ratio is None or beyond(ratio, threshold))
    worse = (b > a) == more_is_worse
    return Row(
        name=name,
        a=a,
        b=b,
        ratio=ratio,
        verdict=verdict,
        worse=matters and worse,
        better=matters and not worse,
        note=note,
    )


def beyond(ratio: float, threshold: float) -> bool:
    """Return whether a change is larger than the threshold, up or down."""
    return ratio <= 0 or max(ratio, 1 / ratio) > 1 + threshold


def object_rows(a: Mapping[str, float], b: Mapping[str, float]) -> list[Row]:
    """Return one row for each object, with the largest changes first."""
    same = same_objects(a, b)
    rows = [counted_row(name, count, b.get(same.get(name, ""))) for name, count in a.items()]
    found = set(same.values())
    rows += [counted_row(name, None, count) for name, count in b.items() if name not in found]
    return sorted((row for row in rows if row.a or row.b), key=lambda r: -abs((r.b or 0) - (r.a or 0)))


def same_objects(a: Iterable[str], b: Iterable[str]) -> Mapping[str, str]:
    """Return the name of the same object in B, by its name in A.

    An edit of the program moves lines: `solve (cg.c:120)` may become `solve (cg.c:123)`. Names without an
    equal are therefore compared without line numbers, and match if exactly one object of each side is left.
    """
    names_a, names_b = list(dict.fromkeys(a)), list(dict.fromkeys(b))
    found = {name: name for name in names_a if name in set(names_b)}
    left_a = [name for name in names_a if name not in found]
    left_b = [name for name in names_b if name not in found]
    times_a, times_b = (Counter(map(_without_lines, names)) for names in (left_a, left_b))
    by_place = {_without_lines(name): name for name in left_b}
    for name in left_a:
        place = _without_lines(name)
        if times_a[place] == times_b[place] == 1:
            found[name] = by_place[place]
    return found


def _without_lines(name: str) -> str:
    """Return the name without line numbers and without offsets in functions."""
    return re.sub(r":\d+\)|\+0x[0-9a-f]+", ")", name)
