"""The command line: routes to the commands, and turns our errors into one line and an exit status."""

import importlib
import sys
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup

import pagelens
from pagelens.errors import PagelensError
from pagelens.interrupts import ending_at_once

# The module of each command, which has it as `app`, and its line in the list of commands. Modules are
# imported when they are needed: with what they import they take a second.
COMMANDS = {
    "trace": (
        "pagelens.cli.commands.trace",
        "Trace a program: which lines of memory it moves, by object, thread and phase.",
    ),
    "explain": (
        "pagelens.cli.commands.explain",
        "Say how fast a program runs over page placements, what costs the slow ones, and what remedies gain.",
    ),
    "place": (
        "pagelens.cli.commands.place",
        "Decide which objects of a program lie in fast memory, and write a plan that puts them there.",
    ),
    "trace-info": (
        "pagelens.cli.commands.trace_info",
        "Show what a trace holds: footprint, lines, objects, pages.",
    ),
    "trace-export": (
        "pagelens.cli.commands.trace_export",
        "Write the physical lines of a trace as text for DRAMsim3 or Ramulator.",
    ),
    "machines": (
        "pagelens.cli.commands.machines",
        "The machines that are modelled: list, show, check, detect.",
    ),
    "conflicts": (
        "pagelens.cli.commands.conflicts",
        "Say which lines of a set of pages conflict in snoop filter and caches, and which pages to swap.",
    ),
    "audit": (
        "pagelens.cli.commands.audit",
        "Say how fit a node's memory is for the next job's placement, and what would make it fitter.",
    ),
    "reproduce": (
        "pagelens.cli.commands.reproduce",
        "Hold the model to published figures: published beside obtained, and whether they agree.",
    ),
    "run": (
        "pagelens.cli.commands.run",
        "Run a program with its large blocks on huge pages, spread, or on frames that do not conflict.",
    ),
    "measure": (
        "pagelens.cli.commands.measure",
        "Measure this machine: each trial has a page map of its own, and the result is a distribution.",
    ),
    "fix": ("pagelens.cli.commands.fix", "Put free frames in a better order, without a module."),
    "lab": ("pagelens.cli.commands.lab", "Programs in guests of a real kernel with a history."),
}


class _Commands(TyperGroup):
    """The commands by name; each is imported when it is asked for, but for the list in the help."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self.commands = {name: TyperCommand(name, help=line) for name, (_, line) in COMMANDS.items()}
        self._listing = False

    def format_help(self, ctx: Any, formatter: Any) -> None:
        self._listing = True
        super().format_help(ctx, formatter)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        if self._listing or cmd_name not in COMMANDS:
            return super().get_command(ctx, cmd_name)
        with ending_at_once():
            module = importlib.import_module(COMMANDS[cmd_name][0])
        command = typer.main.get_command(module.app)
        command.name = cmd_name
        return command


app = typer.Typer(
    name="pagelens",
    cls=_Commands,
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
    except KeyboardInterrupt:  # before the command began
        status = 130
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
