"""Prints the findings of studies in at most 80 columns, with the score first."""

import textwrap
from collections.abc import Iterator
from itertools import zip_longest

from pagelens.report import terminal_width
from pagelens.reproduce import Findings, Kind, Reproduction, Row, Study, Verdict, score, tally

_COLUMNS = (9, 33, 17, 18)  # verdict, claim, published, obtained; a blank between two


def render_terminal(found: Reproduction) -> str:
    """Return the findings as plain text. Every line is at most 80 columns wide."""
    sections = [_head(found), *(_study(study, findings) for study, findings in found.studies)]
    return "\n\n".join("\n".join(lines) for lines in sections) + "\n"


def _head(found: Reproduction) -> Iterator[str]:
    text = (
        f"{found.score.in_words.capitalize()} ({found.scale} scale, seed {found.seed}). What machine "
        "files state (input) and what follows from it by arithmetic (derived) does not count, nor what is "
        "only shown."
    )
    yield from textwrap.wrap(text, terminal_width())
    if any(row.tried is not None for row in found.rows):
        counts = ", ".join(f"{count} {verdict}" for verdict, count in tally(found.rows).items())
        yield from textwrap.wrap(f"With other seeds and assumed inputs: {counts}.", terminal_width())


def _study(study: Study, findings: Findings) -> Iterator[str]:
    yield from textwrap.wrap(
        f"{study.name}: {study.title}: {score(findings.rows).in_words}", terminal_width()
    )
    yield from textwrap.wrap(study.source, terminal_width() - 2, initial_indent="  ", subsequent_indent="  ")
    yield from _lines("", "claim", "published", "obtained")
    for row in findings.rows:
        yield from _lines(_verdict(row), f"{row.claim} ({row.source})", row.published.text, row.obtained.text)
        indent = " " * (_COLUMNS[0] + 3)
        tried = row.tried.in_words if row.tried is not None else ""
        for text in (f"Not compared: {row.decided_by}" if row.decided_by else "", row.remark, tried):
            yield from textwrap.wrap(text, terminal_width(), initial_indent=indent, subsequent_indent=indent)


def _verdict(row: Row) -> str:
    if row.kind is Kind.PREDICTED and row.tried is not None and row.tried.verdict is Verdict.UNDECIDED:
        return Verdict.UNDECIDED.value
    if row.kind is Kind.PREDICTED:
        return "holds" if row.holds else "FAILS"
    return row.kind.value if row.holds in (None, True) else "WRONG"


def _lines(*cells: str) -> Iterator[str]:
    wrapped = [textwrap.wrap(cell, width) for cell, width in zip(cells, _COLUMNS, strict=True)]
    for parts in zip_longest(*wrapped, fillvalue=""):
        yield " ".join(f"{part:<{width}}" for part, width in zip(parts, _COLUMNS, strict=True)).rstrip()
