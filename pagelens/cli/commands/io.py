"""`pagelens io`: Find out what a program's reads and writes cost, and what would make them faster."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from pagelens.cli.options import Json
from pagelens.progress import progress_bar

EXAMPLES = """Examples:

  pagelens io explain -- ./app args

  pagelens io record -o app.plio -- ./app args

  mpirun -n 4 pagelens io record -o app.%r.plio -- ./app args
"""

app = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    epilog=EXAMPLES,
    help="Find out what a program's reads and writes cost, and what would make them faster.",
)

_PROGRAM = {"allow_interspersed_args": False}
Command = Annotated[
    list[str], typer.Argument(metavar="-- PROGRAM [ARGUMENT]...", help="The program, and its arguments.")
]
Log = Annotated[Path, typer.Argument(metavar="RECORDING", help="A file that `pagelens io record` wrote.")]


@app.command(context_settings=_PROGRAM, epilog="Example: pagelens io record -o app.plio -- ./app args")
def record(
    command: Command,
    output: Annotated[
        str,
        typer.Option(
            "--output",
            "-o",
            metavar="FILE",
            help="The recording to write; %r is the MPI rank, %p the process. By default PROGRAM.plio.",
        ),
    ] = "",
) -> None:
    """Record a program's operations on files, at less than a microsecond each.

    The program keeps its output, its exit status and its working directory.
    """
    from pagelens.cli.text.io import summary
    from pagelens.host import end_like
    from pagelens.io import record_program

    with progress_bar(what="recording") as bar:
        recorded = record_program(command, output, bar.recorded)
    for line in (*recorded.notes, *summary(recorded.recording, recorded.path)):
        print(f"pagelens: {line}", file=sys.stderr)
    raise typer.Exit(end_like(recorded.exit_status))


@app.command(epilog="Example: pagelens io info app.plio")
def info(recording: Log, as_json: Json = False) -> None:
    """Print what a recording holds: its files, its operations and their sizes."""
    import json

    from pagelens.cli.text.io import info_lines
    from pagelens.io import describe, open_recording

    facts = describe(open_recording(recording))
    typer.echo(json.dumps(facts.to_json(), indent=1) if as_json else "\n".join(info_lines(facts)))
