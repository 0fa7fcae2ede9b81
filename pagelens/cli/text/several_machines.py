"""Prints what a program takes on several machines: the answer first, then a line for each machine."""

from collections.abc import Iterator, Sequence
from pathlib import Path

from pagelens.cli.text.tables import join_sections, table, wrap
from pagelens.diff import Difference, Row
from pagelens.explain import Explanation, other_instructions
from pagelens.report import terminal_width
from pagelens.units import format_time

_WIDE = 72  # columns from which intervals have room


def render_machines(
    explanations: Sequence[Explanation], differences: Sequence[Difference], folders: Sequence[Path]
) -> str:
    """Return the text. `differences` compares each machine but the first with the first."""
    rows = [found.table("times").row(explanations[0].baseline) for found in differences]
    return join_sections(
        [_answer(explanations, rows), _table(explanations, rows), _where(explanations, folders)]
    )


def _answer(explanations: Sequence[Explanation], rows: Sequence[Row]) -> Iterator[str]:
    first, *others = explanations
    alike = len({each.program.ranks for each in explanations}) == 1
    sentences = [
        f"On {other.machine.name}, a median node{'' if alike else f' with {_copies(other)} of the program'} "
        f"takes {row.ratio:.2f}x as long as {'' if alike else f'one with {_copies(first)} '}on "
        f"{first.machine.name} (95% interval {row.ratio_low:.2f}-{row.ratio_high:.2f})"
        + (", which may be chance." if row.verdict == "unsure" else ".")
        for other, row in zip(others, rows, strict=True)
    ]
    sentences += [said for each in explanations for said in other_instructions(each.program, each.machine)]
    sentences.append(
        f"Times are modelled, under '{first.baseline}'"
        + (f", with {_copies(first)} on each node." if alike else ". --ranks N puts as many on each node.")
    )
    yield from wrap(" ".join(sentences))


def _copies(of: Explanation) -> str:
    return f"{of.program.ranks} {'copy' if of.program.ranks == 1 else 'copies'}"


def _table(explanations: Sequence[Explanation], rows: Sequence[Row]) -> Iterator[str]:
    wide = terminal_width() >= _WIDE
    heads = ["machine", "copies", "median"] + (["slow nodes"] if wide else []) + ["ratio"]
    widths = [0, -6, -9] + ([-10] if wide else []) + [-6]
    if wide:
        heads.append("95% interval")
        widths.append(-13)
    remedy = 18 if wide else 13
    widths[0] = terminal_width() - sum(1 - width for width in widths[1:]) - remedy - 1
    yield from table(
        [*heads, "best remedy"],
        [_cells(each, row, wide) for each, row in zip(explanations, [None, *rows], strict=True)],
        [*widths, remedy],
    )
    if wide:
        yield from wrap("slow nodes: the 95th percentile. ratio: the median over the first machine's.")


def _cells(e: Explanation, row: Row | None, wide: bool) -> list[str]:
    base = e.distribution(e.baseline)
    best = next((remedy for remedy in e.remedies if remedy.verdict == "gains"), None)
    cells = [e.machine.name, str(e.program.ranks), format_time(base.median_s)]
    cells += [format_time(base.p95_s)] if wide else []
    cells.append("1.00x" if row is None else f"{row.ratio:.2f}x")
    if wide:
        cells.append("" if row is None else f"{row.ratio_low:.2f}-{row.ratio_high:.2f}")
    return [*cells, "none" if best is None else f"{best.gain_median:.2f}x {best.policy}"]


def _where(explanations: Sequence[Explanation], folders: Sequence[Path]) -> Iterator[str]:
    for each, folder in zip(explanations, folders, strict=True):
        yield f"{each.machine.name}: {folder / 'report.html'}"
    yield f"pagelens diff {folders[0]} {folders[1]}  # by mechanism and object"
