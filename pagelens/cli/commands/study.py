"""`pagelens study`: Simulate many machines, programs and policies, and say what matters most."""

import json
import re
import sys
from pathlib import Path
from typing import Annotated

from typer import Argument, Option, Typer

from pagelens.cli.options import RARE, Json, Output, Quiet
from pagelens.cli.text.study import render_result, render_status, to_json
from pagelens.errors import Interrupted, UsageError
from pagelens.spelling import typed_command
from pagelens.study import StudyResult, default_folder, study, study_part, study_so_far

EXAMPLES = """Examples:

  pagelens study ways.toml

  pagelens study ways.toml --status

  pagelens study ways.toml --on slurm

docs/study.md has an example of the file, and explains every key.
"""


File = Annotated[Path, Argument(metavar="FILE.toml", help="The study (docs/study.md).")]
ShowStatus = Annotated[
    bool, Option("--status", help="Say how far the study is and what is left; simulate nothing.")
]
Report = Annotated[
    bool, Option("--report", help="Write the report of the points that are done; simulate nothing.")
]
Where = Annotated[
    str,
    Option(
        "--on",
        metavar="WHERE",
        help="Simulate on threads, slurm (a job array), or dask:SCHEDULER (its address or file).",
    ),
]
Chunk = Annotated[
    int | None,
    Option(
        min=1,
        metavar="N",
        help="How many points a task of a cluster simulates; by default a hundredth of all.",
        show_default=False,
        rich_help_panel=RARE,
    ),
]
PointsOption = Annotated[
    str | None,
    Option(
        "--points",
        metavar="A-B",
        help="Simulate only points A to B, for a cluster's job; such jobs can run side by side.",
        show_default=False,
        rich_help_panel=RARE,
    ),
]

app = Typer(add_completion=False)


@app.command(epilog=EXAMPLES)
def study_command(
    file: File,
    status: ShowStatus = False,
    report: Report = False,
    on: Where = "threads",
    chunk: Chunk = None,
    points: PointsOption = None,
    output: Output = None,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Simulate many machines, programs and policies, and say what matters most.

    A study that was stopped goes on where it was when the same command runs again.
    """
    given = {"--status": status, "--report": report, "--points": points is not None}
    chosen = [name for name, is_given in given.items() if is_given]
    if len(chosen) > 1:
        raise UsageError(f"{chosen[0]}: cannot stand beside {chosen[1]}; leave one out")
    directory = output or default_folder(file)
    if points is not None:
        study_part(file, directory, _range(points), progress=not quiet)
        return
    if status:
        _, so_far = study_so_far(file, directory, write=False)  # the study may be running
        print(json.dumps(vars(so_far)) if as_json else render_status(so_far))
        return
    stopped = None
    if report:
        found, _ = study_so_far(file, directory)
    else:
        try:
            found = study(file, directory, on=on, chunk=chunk, progress=not quiet)
        except Interrupted as error:
            if error.partial is None:
                raise
            found, stopped = error.partial, error
    _show(found, as_json, quiet)
    if stopped is not None:
        raise stopped


def _show(found: StudyResult, as_json: bool, quiet: bool) -> None:
    from pagelens.study import write_report  # brings Matplotlib, which no task of a cluster needs

    command = typed_command(["pagelens", *(word for word in sys.argv[1:] if word != "--report")])
    page = write_report(found, command)
    if as_json:
        print(json.dumps(to_json(found), indent=1))
    elif not quiet:
        print(render_result(found))
        print(f"Report: {page}")


def _range(text: str) -> range:
    found = re.fullmatch(r"(\d{1,9})-(\d{1,9})", text)
    if found is None or int(found[1]) > int(found[2]):
        raise UsageError(f"--points: '{text}': write the first and the last point, from 0 on, as 0-9")
    return range(int(found[1]), int(found[2]) + 1)
