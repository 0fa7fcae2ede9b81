"""Prints what a program takes on several machines: the answer first, then a line for each machine."""

from collections.abc import Iterator, Sequence
from pathlib import Path

from pagelens.cli.text.tables import command, join_sections, table, wrap
from pagelens.diff import Difference, Row
from pagelens.explain import LONGER_RUN, Explanation, is_too_short, other_instructions
from pagelens.report import terminal_width
from pagelens.spelling import typed
from pagelens.units import format_time

_OF_NAMES = (0, 6)  # columns of text, which begin at the left
_DROPPED = ("slow nodes", "copies", "95% interval")  # in this order where a terminal has no room
_MOST_TOLD = 3  # machines, besides the first, that have a sentence or a report's line each


def render_machines(
    explanations: Sequence[Explanation],
    differences: Sequence[Difference],
    folders: Sequence[Path],
    left_out: Sequence[str] = (),
) -> str:
    """Return the text. `differences` compares each machine but the first with the first.

    `left_out` has the machines that were named and have no explanation.
    """
    rows = [found.table("times").row(explanations[0].baseline) for found in differences]
    return join_sections(
        [_answer(explanations, rows, left_out), _table(explanations, rows), _where(explanations, folders)]
    )


def _answer(
    explanations: Sequence[Explanation], rows: Sequence[Row], left_out: Sequence[str]
) -> Iterator[str]:
    first, *others = explanations
    short = [of.machine.name for of in explanations if is_too_short(of)]
    alike = len({each.program.ranks for each in explanations}) == 1
    sentences = []
    if short:
        where = "" if len(short) == len(explanations) else f" on {', '.join(short)}"
        sentences.append(f"This run is too short{where} for page placement to matter. {LONGER_RUN}")
    told = list(zip(others, rows, strict=True))
    if len(told) > _MOST_TOLD:  # the table has the rest
        by_time = sorted(explanations, key=lambda of: of.distribution(first.baseline).median_s)
        fastest, slowest = (by_time[end].machine.name for end in (0, -1))
        sentences.append(
            f"Of {len(explanations)} machines, a median node is fastest on {fastest} and slowest on "
            f"{slowest}."
        )
        told = [of for of in told if of[0].machine.name in (fastest, slowest)]
    sentences += [
        f"On {other.machine.name}, a median node{'' if alike else f' with {_copies(other)} of the program'} "
        f"takes {row.ratio:.2f}x as long as {'' if alike else f'one with {_copies(first)} '}on "
        f"{first.machine.name} (95% interval {row.ratio_low:.2f}-{row.ratio_high:.2f})"
        + (", which may be chance." if row.verdict == "unsure" else ".")
        for other, row in told
        if row.ratio is not None
    ]
    if len(short) < len(explanations):
        sentences.append(_matters(explanations))
    sentences += other_instructions(first.program, *(each.machine for each in explanations))
    plain = f"'{first.baseline}' ({first.distribution(first.baseline).title})"
    sentences.append(
        f"Times are modelled, under {plain}"
        + (f", with {_copies(first)} on each node." if alike else ". --ranks N puts N copies on each node.")
    )
    if left_out:
        sentences.append(f"Not simulated: {', '.join(left_out)}.")
    yield from wrap(" ".join(sentences))


def _matters(explanations: Sequence[Explanation]) -> str:
    """Say on which machines page placement matters."""
    names = [of.machine.name for of in explanations if of.conclusion.placement_matters]
    if not names or len(names) == len(explanations):
        return f"Page placement matters on {'each' if names else 'none'} of these machines."
    if len(names) > _MOST_TOLD:
        return f"Page placement matters on {len(names)} of the {len(explanations)} machines."
    return f"Of these machines, page placement matters on {', '.join(names)} only."


def _copies(of: Explanation) -> str:
    return f"{of.program.ranks} {'copy' if of.program.ranks == 1 else 'copies'}"


def _table(explanations: Sequence[Explanation], rows: Sequence[Row]) -> Iterator[str]:
    heads = ("machine", "copies", "median", "slow nodes", "ratio", "95% interval", "best remedy")
    cells = [heads, *(_cells(each, row) for each, row in zip(explanations, [None, *rows], strict=True))]
    needed = [max(map(len, column)) for column in zip(*cells, strict=True)]
    shown = list(range(len(heads)))
    for column in _DROPPED:
        if sum(1 + needed[each] for each in shown) - 1 > terminal_width():
            shown.remove(heads.index(column))
    widths = [needed[each] if each in _OF_NAMES else -needed[each] for each in shown]
    widths[0] = min(widths[0], terminal_width() - sum(1 + abs(width) for width in widths[1:]))
    first, *others = ([of[each] for each in shown] for of in cells)
    yield from table(first, others, widths)
    notes = ["slow nodes: the 95th percentile."] if heads.index("slow nodes") in shown else []
    yield from wrap(" ".join([*notes, "ratio: the median over the first machine's."]))


def _cells(e: Explanation, row: Row | None) -> list[str]:
    base = e.distribution(e.baseline)
    best = next((remedy for remedy in e.remedies if remedy.verdict == "gains"), None)
    return [
        e.machine.name,
        str(e.program.ranks),
        format_time(base.median_s),
        format_time(base.p95_s),
        "1.00x" if row is None else "" if row.ratio is None else f"{row.ratio:.2f}x",
        "" if row is None or row.ratio is None else f"{row.ratio_low:.2f}-{row.ratio_high:.2f}",
        "none" if best is None else f"{best.gain_median:.2f}x {best.policy}",
    ]


def _where(explanations: Sequence[Explanation], folders: Sequence[Path]) -> Iterator[str]:
    if len(folders) > _MOST_TOLD + 1:
        yield f"Reports: {folders[0].parent / 'MACHINE' / 'report.html'}"
    else:
        for each, folder in zip(explanations, folders, strict=True):
            yield f"{each.machine.name}: {folder / 'report.html'}"
    if len(folders) > 1:
        yield "The first two, by mechanism and object:" if len(folders) > 2 else "By mechanism and object:"
        yield from command(["pagelens diff", *map(typed, folders[:2])])
