"""`pagelens site`: Keep a cluster's nodes fit: sort before jobs, watch, compare and mend."""

import typer

from pagelens.cli.commands.site import fleet, job

EXAMPLES = """Examples:

  pagelens site check

  pagelens site status

  pagelens site act --dry-run
"""

app = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    epilog=EXAMPLES,
    help="Keep a cluster's nodes fit: sort before jobs, watch, compare and mend.",
)


@app.callback()
def _site() -> None:
    pass


job.add_to(app)
fleet.add_to(app)
