"""`pagelens lab`: Run programs on real kernels, in guests whose memory has a history."""

import typer

from pagelens.cli.commands.lab import compare, io, run, validate

EXAMPLES = """Examples:

  pagelens lab run --memory 4GiB --cache 512MiB --history "age(jobs=3); zonesort; run" -- ./app

  pagelens lab compare -- ./app args

  pagelens lab validate
"""

app = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    epilog=EXAMPLES,
    help="Run programs on real kernels, in guests whose memory has a history.",
)

for command in (run, validate, io, compare):
    app.add_typer(command.commands)
