"""`pagelens reproduce`: Hold the model to published figures: published beside obtained, and whether they agree."""

import json
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

from typer import Argument, Option, Typer

from pagelens import _core
from pagelens.cli.reproduce_progress import Begin, progress_bar
from pagelens.cli.text.reproduce import render_terminal
from pagelens.errors import Interrupted
from pagelens.files import write_whole
from pagelens.interrupts import ctrl_c_sets
from pagelens.output_directory import claim_directory
from pagelens.report.drawing import Drawing
from pagelens.reproduce.result import Reproduction
from pagelens.reproduce.studies import MODULES, find_study
from pagelens.reproduce.study import Study
from pagelens.reproduce.work import Scale, Work

PAGE, DATA, FIGURES = "reproduce.html", "reproduce.json", "figures"

EXAMPLES = """Examples:

  pagelens reproduce --quick

  pagelens reproduce snoop-filter red-storm --output out

  pagelens reproduce --json > reproduce.json
"""

Names = Annotated[
    list[str] | None,
    Argument(metavar="NAME", help=f"Studies; without any, all: {', '.join(MODULES)}."),
]
Quick = Annotated[bool, Option("--quick", help="Fewer nodes and points, the same claims.")]
Seed = Annotated[int, Option(min=0, max=2**63 - 1, metavar="N", help="Decides every random draw.")]
Output = Annotated[Path, Option("--output", "-o", metavar="DIR", help=f"For {PAGE}, {DATA} and {FIGURES}/.")]
Json = Annotated[bool, Option("--json", help="Print the rows as JSON (docs/reproduce.md).")]
Quiet = Annotated[bool, Option("--quiet", "-q", help="Write the files, print nothing but errors.")]

app = Typer(add_completion=False)


@app.command(epilog=EXAMPLES)
def reproduce_command(
    names: Names = None,
    quick: Quick = False,
    seed: Seed = 1,
    output: Output = Path("pagelens-out/reproduce"),
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Hold the model to published figures: published beside obtained, and whether they agree."""
    chosen = [find_study(name) for name in dict.fromkeys(names or MODULES)]
    command = shlex.join(["pagelens", *sys.argv[1:]])
    with claim_directory(output) as directory, progress_bar(len(chosen), quiet) as begin:
        found = run_studies(chosen, Scale.QUICK if quick else Scale.FULL, seed, directory, begin, command)
    if as_json:
        print(json.dumps(found.to_json(), indent=1))
    elif not quiet:
        print(render_terminal(found))
        print(f"Page: {directory / PAGE}")


def run_studies(
    studies: Sequence[Study], scale: Scale, seed: int, directory: Path, begin: Begin, command: str
) -> Reproduction:
    """Runs one after the other, and writes the page after each. Raises Interrupted on Ctrl-C."""
    found = Reproduction(scale, seed, command, missing=tuple(study.name for study in studies))
    cancel = _core.CancelFlag()
    with ctrl_c_sets(cancel):
        for study in studies:
            work = Work(scale, seed, directory / study.name, begin(study.name), cancel)
            try:
                findings = study.run(work)
            except (Interrupted, _core.Cancelled):
                raise _interrupted(found, directory) from None
            found = found.with_findings(study, findings)
            _write(found, directory)
            if cancel and found.missing:
                raise _interrupted(found, directory)
    return found


def _interrupted(found: Reproduction, directory: Path) -> Interrupted:
    done, wanted = len(found.studies), len(found.studies) + len(found.missing)
    kept = f"; their page is {directory / PAGE}" if done else ""
    return Interrupted(f"stopped with {done} of {wanted} studies complete{kept}")


def _write(found: Reproduction, directory: Path) -> None:
    from pagelens.reproduce.page import render_page  # takes a moment to import, nothing waits for it before

    data: Any = json.dumps(found.to_json(), indent=1) + "\n"
    write_whole(directory / DATA, lambda path: path.write_text(data))
    page = render_page(found)
    write_whole(directory / PAGE, lambda path: path.write_text(page))
    figures = directory / FIGURES
    figures.mkdir(exist_ok=True)
    for figure in found.studies[-1][1].figures:  # of the studies before they are there
        _write_figure(figures / f"{figure.key}.svg", figure)


def _write_figure(final: Path, figure: Drawing) -> None:
    write_whole(final, lambda path: path.write_text(figure.svg))
