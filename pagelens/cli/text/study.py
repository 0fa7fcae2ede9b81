"""A study on a terminal: the answer first, then what each input changes."""

from collections.abc import Iterator, Sequence
from typing import Any

from pagelens.cli.text.tables import count_noun, join_sections, table, wrap
from pagelens.report import terminal_width
from pagelens.study import Effect, Index, Status, StudyResult, effects_of, indices_of, sentences, shown_answer
from pagelens.units import format_share, format_time


def render_result(found: StudyResult) -> str:
    """Render the answer in words, and a table of the inputs."""
    decided = effects_of(found)
    done = len(found.values) - found.missing
    head = f"{found.file.title}: {count_noun(len(found.values), 'point')}"
    if found.missing:
        head += f", of which {done:,} are complete"
    return join_sections(
        [
            wrap(head),
            [line for sentence in sentences(found, decided) for line in wrap(sentence)],
            _effects(found, decided) if decided else [],
            _indices(indices_of(found)),
        ]
    )


def _effects(found: StudyResult, decided: list[Effect]) -> Iterator[str]:
    rows = [
        (
            effect.name,
            format_share(effect.share),
            shown_answer(found, effect.low),
            f"at {effect.levels[effect.means.index(effect.low)]}",
            shown_answer(found, effect.high),
            f"at {effect.levels[effect.means.index(effect.high)]}",
        )
        for effect in decided
    ]
    yield from _with_whole_names(("input", "variance", "least", "", "most", ""), rows, (-9, -9, 0, -9, 0))


def _indices(indices: list[Index]) -> Iterator[str]:
    """Render the indices of Sobol', if there are any."""
    if not indices:
        return
    rows = [
        (each.name, *(f"{part[0]:.2f} ({part[1]:.2f} to {part[2]:.2f})" for part in (each.first, each.total)))
        for each in indices
    ]
    heads = ("share of the variance", "alone (95%)", "with others (95%)")
    yield from _with_whole_names(heads, rows, (-21, -21))


def _with_whole_names(
    heads: Sequence[str], rows: Sequence[Sequence[str]], widths: Sequence[int]
) -> Iterator[str]:
    """Yield a table whose first column is never cut: without room beside its figures, it stands above them.

    Columns of width 0 become as wide as their text, and share the terminal if that is too wide.
    """
    name, *needed = [max(map(len, column)) for column in zip(heads, *rows, strict=True)]
    free = terminal_width() - sum(1 + abs(width) for width in widths)
    flexible = [length for length, width in zip(needed, widths, strict=True) if not width]
    above = name + sum(flexible) > free
    most = (free - 1) // len(flexible) if above and flexible else free  # 1: the lines are indented by two
    columns = [width or min(length, most) for length, width in zip(needed, widths, strict=True)]
    if not above:
        yield from table(heads, rows, (name, *columns))
        return
    figures = table(heads[1:], [row[1:] for row in rows], columns, indent="  ")
    for first, line in zip((heads[0], *(row[0] for row in rows)), figures, strict=True):
        yield from (first, line)


def render_status(so_far: Status) -> str:
    """Say how far a study is, and what its rest will cost."""
    done = f"{so_far.complete:,} of {count_noun(so_far.points, 'point')} are complete."
    left = so_far.left_processor_s
    if so_far.complete == so_far.points or left is None:
        return done
    return f"{done} The rest takes about {_long(left)} of processor time, at the mean of those."


def _long(seconds: float) -> str:
    for unit, length in (("days", 86400), ("hours", 3600), ("minutes", 60)):
        if seconds >= 2 * length:
            return f"{seconds / length:.0f} {unit}"
    return format_time(seconds, 2)


def to_json(found: StudyResult) -> dict[str, Any]:
    """Return the result as data; docs/study.md describes it."""
    decided = effects_of(found)
    return {
        "schema": "pagelens study",
        "version": 1,
        "title": found.file.title,
        "points": len(found.values),
        "missing": found.missing,
        "answer": found.file.asked,
        "sentences": sentences(found, decided),
        "effects": [
            {"input": each.name, "share": each.share, "levels": each.levels, "means": each.means}
            for each in decided
        ],
        "indices": [
            {"input": each.name, "first": list(each.first), "total": list(each.total)}
            for each in indices_of(found)
        ],
        "rows": found.table.to_dicts(),
    }
