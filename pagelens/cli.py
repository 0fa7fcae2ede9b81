"""The command line: routes to the commands, and turns our errors into one line and an exit status."""

import sys

import typer

from pagelens.accesses.trace_command import EXAMPLES as TRACE_EXAMPLES
from pagelens.accesses.trace_command import trace
from pagelens.accesses.trace_info import EXAMPLES as INFO_EXAMPLES
from pagelens.accesses.trace_info import trace_info
from pagelens.errors import PagelensError
from pagelens.explain.command import EXAMPLES, explain_command

app = typer.Typer(
    name="pagelens",
    help="How the physical frames under a program's pages decide its speed.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)


@app.callback()
def _commands() -> None:
    # Keeps the name of a command even while it is the only one.
    pass


app.command(context_settings={"allow_interspersed_args": False}, epilog=TRACE_EXAMPLES)(trace)
app.command("explain", epilog=EXAMPLES)(explain_command)
app.command("trace-info", epilog=INFO_EXAMPLES)(trace_info)


def main() -> None:
    """Runs the command that the command line names, and exits with its status."""
    try:
        status = app(standalone_mode=False)
    except PagelensError as error:
        print(f"pagelens: {error}", file=sys.stderr)
        status = error.exit_code
    except typer.TyperException as error:  # the command line itself is wrong
        message = error.format_message().rstrip(".")  # empty where the help has been shown instead
        if message:
            print(f"pagelens: {message}; see pagelens --help", file=sys.stderr)
        status = error.exit_code
    sys.exit(status)
