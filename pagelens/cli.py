"""The command line: routes to the commands, and turns our errors into one line and an exit status."""

import sys
from typing import Annotated

import typer

import pagelens
from pagelens.accesses.trace_command import EXAMPLES as TRACE_EXAMPLES
from pagelens.accesses.trace_command import trace
from pagelens.accesses.trace_info import EXAMPLES as INFO_EXAMPLES
from pagelens.accesses.trace_info import trace_info
from pagelens.errors import PagelensError
from pagelens.explain.command import EXAMPLES, explain_command
from pagelens.fix.command import app as fix_app
from pagelens.lab.command import app as lab_app

app = typer.Typer(
    name="pagelens",
    help="How the physical frames under a program's pages decide its speed.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)


def _show_version(wanted: bool) -> None:
    if wanted:
        print(f"pagelens {pagelens.__version__}")
        raise typer.Exit


@app.callback()
def _commands(
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    pass


app.command(context_settings={"allow_interspersed_args": False}, epilog=TRACE_EXAMPLES)(trace)
app.command("explain", epilog=EXAMPLES)(explain_command)
app.command("trace-info", epilog=INFO_EXAMPLES)(trace_info)
app.add_typer(fix_app, name="fix")
app.add_typer(lab_app, name="lab")


def _given(error: typer.TyperException) -> str:
    """The value that was refused, where the message has only its range."""
    from pydantic import ValidationError  # what typer checks ranges with

    if not isinstance(error.__cause__, ValidationError):
        return ""
    return f", not {error.__cause__.errors()[0]['input']}"


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
            print(f"pagelens: {message}{_given(error)}; see pagelens --help", file=sys.stderr)
        status = error.exit_code
    except MemoryError:  # where no narrower remedy is known than that of pagelens.ensemble.simulate
        print(
            "pagelens: this computer's memory does not suffice; take a smaller problem or one with more",
            file=sys.stderr,
        )
        status = 1
    sys.exit(status)
