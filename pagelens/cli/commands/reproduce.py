"""`pagelens reproduce`: Compare published figures with what the model gives, and say which of them hold."""

import json
import sys
from pathlib import Path
from typing import Annotated

from typer import Argument, Option, Typer

from pagelens.cli.options import Quiet, Seed
from pagelens.cli.text.reproduce import render_terminal
from pagelens.errors import UsageError
from pagelens.output_directory import claim_directory
from pagelens.progress import Bar, progress_bar
from pagelens.reproduce import (
    DATA,
    FIGURES,
    PAGE,
    Scale,
    find_study,
    run_studies,
    study_names,
    with_ranges,
)
from pagelens.spelling import typed_command

EXAMPLES = """Examples:

  pagelens reproduce --quick

  pagelens reproduce snoop-filter red-storm --output out

  pagelens reproduce --blind paper.toml    # obtain figures that nobody has looked at yet
"""

Names = Annotated[
    list[str] | None,
    Argument(metavar="NAME", help=f"The studies to run; by default all: {', '.join(study_names())}."),
]
Blind = Annotated[
    Path | None,
    Option(
        "--blind",
        metavar="FILE",
        help="Obtain figures for this file's claims before the published ones are seen (docs/reproduce.md).",
    ),
]
Quick = Annotated[bool, Option("--quick", help="Check the same claims on fewer nodes and points.")]
Ranges = Annotated[
    bool,
    Option("--ranges", help="Run each study again with other seeds and at both ends of assumed ranges."),
]
Output = Annotated[
    Path, Option("--output", "-o", metavar="DIR", help=f"The folder for {PAGE}, {DATA} and {FIGURES}/.")
]
Json = Annotated[bool, Option("--json", help="Print the claims as JSON (docs/reproduce.md).")]

app = Typer(add_completion=False)


@app.command(epilog=EXAMPLES)
def reproduce_command(
    names: Names = None,
    blind: Blind = None,
    quick: Quick = False,
    ranges: Ranges = False,
    seed: Seed = 1,
    output: Output = Path("pagelens-out/reproduce"),
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Compare published figures with what the model gives, and say which of them hold."""
    if blind is not None and names:
        raise UsageError(f"--blind: runs the claims of its file alone; leave out {' '.join(names)}")
    if blind is not None:
        from pagelens.reproduce import blind_study  # importing it takes a moment

        chosen = [blind_study(blind)]
    else:
        chosen = [find_study(name) for name in dict.fromkeys(names or study_names())]
    command = typed_command(["pagelens", *sys.argv[1:]])
    with claim_directory(output) as directory, progress_bar(quiet, "parts") as bar:

        def begin(name: str) -> Bar:
            bar.begin(f"{[study.name for study in chosen].index(name) + 1} of {len(chosen)}: {name}")
            return bar

        scale = Scale.QUICK if quick else Scale.FULL
        if ranges:
            chosen = [with_ranges(study, seed) for study in chosen]
        found = run_studies(chosen, scale, seed, directory, begin, command)
    if as_json:
        print(json.dumps(found.to_json(), indent=1))
    elif not quiet:
        print(render_terminal(found))
        print(f"Page: {directory / PAGE}")
