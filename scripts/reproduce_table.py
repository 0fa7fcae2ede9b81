"""Writes docs/results/reproduce.md and its figures from what `pagelens reproduce` left in a directory."""

import argparse
import json
import shutil
from pathlib import Path
from typing import Any

from results import write_table

COLUMNS = ("claim", "source", "published", "obtained", "kind", "holds")


def rows(study: dict[str, Any]) -> list[tuple[str, ...]]:
    """One claim a line; what has to be known of it stands in it."""
    return [
        (
            row["claim"]
            + (f"<br>*Not compared: {row['decided_by']}*" if row["decided_by"] else "")
            + (f"<br>*{row['remark']}*" if row["remark"] else ""),
            row["source"],
            row["published"]["text"],
            row["obtained"]["text"],
            row["kind"],
            {True: "yes", False: "**no**", None: ""}[row["holds"]],
        )
        for row in study["rows"]
    ]


def section(study: dict[str, Any], figures: list[str]) -> list[str]:
    """Returns a study's document, table and figures."""
    score = study["score"]
    return [
        f"## {study['title']}",
        "",
        f"`{study['name']}`: {study['source']}. Of {score['held'] + score['failed']} predicted claims "
        f"{score['held']} hold. {study['note']}",
        "",
        *(f"![{name}]({name})" for name in figures),
        "",
        f"| {' | '.join(COLUMNS)} |",
        "|---" * len(COLUMNS) + "|",
        *(f"| {' | '.join(cells)} |" for cells in rows(study)),
        "",
    ]


def main() -> None:
    """Entry point."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("directory", type=Path, help="--output of `pagelens reproduce`")
    parser.add_argument("--output", type=Path, required=True, help="the page; its figures lie beside it")
    arguments = parser.parse_args()
    found = json.loads((arguments.directory / "reproduce.json").read_text())
    score = found["score"]
    after = [""]
    for study in found["studies"]:
        pictures = []
        for key in study["figures"]:
            name = f"reproduce-{key}.svg"
            shutil.copyfile(arguments.directory / "figures" / f"{key}.svg", arguments.output.parent / name)
            pictures.append(name)
        after += section(study, pictures)
    write_table(
        arguments.output,
        "Published figures, reproduced",
        f"Written by `python scripts/reproduce_table.py` from `pagelens reproduce` at {found['scale']} "
        f"scale, seed {found['seed']}. Of {score['held'] + score['failed']} predicted claims "
        f"**{score['held']} hold, {score['failed']} do not**; inputs and what is derived from them do not "
        "count ([what that means](../reproduce.md)).",
        ("study", ">predicted claims", ">hold", ">do not"),
        [
            (
                study["title"],
                str(sum(study["score"].values())),
                str(study["score"]["held"]),
                str(study["score"]["failed"]),
            )
            for study in found["studies"]
        ],
        "\n".join(after),
    )


if __name__ == "__main__":
    main()
