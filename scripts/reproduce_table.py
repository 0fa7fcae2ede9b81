"""Writes docs/results/reproduce.md and its figures from what `pagelens reproduce` left in directories."""

import argparse
import json
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from results import write_table

from pagelens.reproduce import DATA, FIGURES, Kind, Row, score, tally
from pagelens.reproduce.overview import KEY, overview
from pagelens.reproduce.result import row_from_json
from pagelens.reproduce.studies import study_names

COLUMNS = ("claim", "source", "published", "obtained", "kind", "holds")


@dataclass(frozen=True)
class Found:
    """One study as its directory has it."""

    data: dict[str, Any]
    rows: tuple[Row, ...]
    figures: Path
    scale: str
    seed: int


def read(directories: Sequence[Path]) -> list[Found]:
    """Returns the studies of all directories in the order of the page; a later directory replaces one."""
    found: dict[str, Found] = {}
    for directory in directories:
        run = json.loads((directory / DATA).read_text())
        for study in run["studies"]:
            rows = tuple(row_from_json(row) for row in study["rows"])
            found[study["name"]] = Found(study, rows, directory / FIGURES, run["scale"], run["seed"])
    return [found[name] for name in study_names() if name in found]


def cells(row: Row) -> tuple[str, ...]:
    """One claim a line; what has to be known of it stands in it."""
    notes = (
        f"Not compared: {row.decided_by}" if row.decided_by else "",
        row.remark,
        row.tried.in_words if row.tried else "",
    )
    return (
        row.claim + "".join(f"<br>*{note}*" for note in notes if note),
        row.source,
        row.published.text,
        row.obtained.text,
        row.kind.value,
        {True: "yes", False: "**no**", None: ""}[row.holds],
    )


def section(study: Found, output: Path) -> Iterator[str]:
    """Yields a study's document, figures and table. Its figures are copied beside the page."""
    of_study = score(study.rows)
    yield from (f"## {study.data['title']}", "")
    yield (
        f"`{study.data['name']}`: {study.data['source']}. Of {of_study.claims} predicted claims "
        f"{of_study.held} {'holds' if of_study.held == 1 else 'hold'}. {study.data['note']}"
    )
    yield ""
    for key in study.data["figures"]:
        name = f"reproduce-{key}.svg"
        shutil.copyfile(study.figures / f"{key}.svg", output.parent / name)
        yield f"![{name}]({name})"
    yield from ("", f"| {' | '.join(COLUMNS)} |", "|---" * len(COLUMNS) + "|")
    yield from (f"| {' | '.join(cells(row))} |" for row in study.rows)
    yield ""


def was_tried(study: Found) -> str:
    """Says whether the study ran with other inputs."""
    predicted = [row for row in study.rows if row.kind is Kind.PREDICTED]
    if not predicted:
        return ""
    return "yes" if all(row.tried for row in predicted) else "no"


def main() -> None:
    """Entry point."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "directory",
        type=Path,
        nargs="+",
        help="an --output of `pagelens reproduce`; its studies replace those of the ones before",
    )
    parser.add_argument("--output", type=Path, required=True, help="the page; its figures lie beside it")
    arguments = parser.parse_args()
    studies = read(arguments.directory)
    rows = [row for study in studies for row in study.rows]
    (scale,) = {study.scale for study in studies}
    (seed,) = {study.seed for study in studies}
    of_all = score(rows)
    picture = f"reproduce-{KEY}.svg"
    drawn = overview(rows)
    (arguments.output.parent / picture).write_text(drawn.svg)
    write_table(
        arguments.output,
        "Published figures, reproduced",
        "Are published figures about page placement right, and does the model give them, too? "
        "`python scripts/reproduce_table.py` wrote this page from `pagelens reproduce` at "
        f"{scale} scale, seed {seed}. "
        f"Of {of_all.claims} predicted claims **{of_all.held} hold, {of_all.failed} do not**; inputs "
        "and what is derived from them do not count ([what that means](../reproduce.md)). Studies with *yes* "
        "in the last column ran again with other seeds and at both ends of assumed ranges: a claim is "
        "undecided if it holds with some of these inputs only, or if it could not have failed. The figures "
        "in bold are of the run with the stated inputs alone, so an undecided claim counts there as it came "
        "out.",
        ("study", ">held", ">failed", ">undecided", "other inputs tried"),
        [(study.data["title"], *map(str, tally(study.rows).values()), was_tried(study)) for study in studies],
        "\n".join(
            (
                "",
                drawn.caption,
                "",
                f"![{picture}]({picture})",
                "",
                *(line for study in studies for line in section(study, arguments.output)),
            )
        ),
    )


if __name__ == "__main__":
    main()
