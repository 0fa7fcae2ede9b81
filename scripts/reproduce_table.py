"""Writes docs/results/reproduce.md and its figures from what `pagelens reproduce` left in directories."""

import argparse
import json
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from results import write_table

from pagelens.reproduce import DATA, FIGURES, Kind, Row, Verdict, score, tally
from pagelens.reproduce.overview import KEY, overview
from pagelens.reproduce.result import VERSION, row_from_json, verdict
from pagelens.reproduce.studies import study_names

COLUMNS = ("claim", "source", "published", "obtained", "verdict")


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
        if run["version"] != VERSION:
            raise SystemExit(
                f"{directory / DATA}: version {run['version']}, not {VERSION}; run `pagelens reproduce` again"
            )
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
        f"**{verdict(row)}**" if verdict(row) in (Verdict.FAILED, Verdict.UNDECIDED) else verdict(row),
    )


def section(study: Found, output: Path) -> Iterator[str]:
    """Yields a study's document, figures and table. Its figures are copied beside the page."""
    yield from (f"## {study.data['title']}", "")
    yield f"`{study.data['name']}`: {study.data['source']}. {study.data['note']}"
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


def introduction(rows: Sequence[Row], scale: str, seed: int) -> str:
    """Return what a reader has to know before the tables, the outcome first."""
    held, failed, undecided = tally(rows).values()
    stated = score(rows)
    return (
        "Are published figures about page placement right, and does the model give them, too? Of "
        f"{stated.claims} predicted claims **{held} held, {failed} failed, {undecided} are undecided**. A "
        "claim held or failed if it did so with all inputs tried, which are other seeds and both ends of "
        "assumed ranges. It is undecided if it holds with some of these inputs only, if the published "
        "figure lies between those that they give, or if no published figure could have made it fail. With "
        f"the stated inputs alone {stated.held} hold and {stated.failed} do not. `python "
        "scripts/reproduce_table.py` wrote this page from `pagelens reproduce --ranges` at "
        f"{scale} scale, seed {seed}.\n\n"
        "Each row puts a published figure beside the one that comes out here. Only figures that come out "
        "of a simulation are predicted claims, and their verdict is held, failed or undecided. Other rows "
        "do not count: a machine file states an *input*, a *derived* figure follows from inputs by "
        "arithmetic, and a figure is only *shown* if an input that nobody has published decides it, or if "
        "no figure was published. The *power* of a claim is the share of plausible published figures with "
        "which it would have failed ([more](../reproduce.md))."
    )


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
    if len({(study.scale, study.seed) for study in studies}) > 1:
        parser.error("the directories are of different scales or seeds; give those of one scale and seed")
    picture = f"reproduce-{KEY}.svg"
    drawn = overview(rows)
    (arguments.output.parent / picture).write_text(drawn.svg)
    write_table(
        arguments.output,
        "Published figures, reproduced",
        introduction(rows, studies[0].scale, studies[0].seed),
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
