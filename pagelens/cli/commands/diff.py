"""`pagelens diff`: Say what changed between two explanations, measurements or traces, beyond chance."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated

from typer import Argument, Exit, Option, Typer, echo

from pagelens.api import diff
from pagelens.cli.options import Json
from pagelens.cli.text.diff import render
from pagelens.diff import Difference
from pagelens.units import parse_share

SLOWER = 3  # the exit status, as of `pagelens audit` where it finds something

EXAMPLES = """Examples:

  pagelens explain -o before -- ./app-1.0

  pagelens explain -o after -- ./app-1.1

  pagelens diff before after

  pagelens diff --fail-on never --json before after | jq .sentences
"""


class FailOn(StrEnum):
    """What makes the exit status 3."""

    slower = "slower"
    different = "different"
    never = "never"


app = Typer(add_completion=False)


@app.command("diff", epilog=EXAMPLES)
def diff_command(
    a: Annotated[
        Path, Argument(metavar="A", help="A folder that explain or measure wrote, its JSON file, or a trace.")
    ],
    b: Annotated[Path, Argument(metavar="B", help="Another of the same kind.")],
    threshold: Annotated[
        str, Option("--threshold", metavar="SHARE", help="Smaller changes are neither worse nor better.")
    ] = "2%",
    fail_on: Annotated[
        FailOn, Option("--fail-on", help="Exit with status 3 if B is surely slower, or if it differs at all.")
    ] = FailOn.slower,
    json: Json = False,
) -> None:
    """Say what changed between two explanations, measurements or traces, beyond chance.

    The figures of A and B stand side by side, with the ratio B / A and its 95% interval.
    A ratio whose interval holds 1 may be chance, and counts as no difference.
    """
    found = diff(a, b, threshold=parse_share(threshold, "--threshold"))
    echo(found.model_dump_json(indent=1) if json else render(found), nl=json)
    raise Exit(SLOWER if _fails(found, fail_on) else 0)


def _fails(found: Difference, fail_on: FailOn) -> bool:
    return {
        FailOn.slower: found.slower,
        FailOn.different: found.different,
        FailOn.never: False,
    }[fail_on]
