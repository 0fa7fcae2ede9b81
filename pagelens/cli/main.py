"""The command line: it routes to the commands, and turns our errors into one line and an exit status."""

import errno
import importlib
import io
import logging
import re
import sys
import traceback
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup

import pagelens
from pagelens.cli.help import shape_help
from pagelens.errors import PagelensError
from pagelens.files import NO_ROOM
from pagelens.interrupts import ending_at_once

FOLDER = Path(__file__).parent / "commands"
_HEAD = re.compile(r'"""`pagelens (?P<name>[a-z-]+)`: (?P<line>.*?\.)(""")?')

ORDER = ("trace", "explain", "place")  # shown first in the list of commands; the rest follow by name


def find_commands(folder: Path = FOLDER) -> dict[str, str]:
    """Return each command's name and its line in the list of commands.

    A command is a module or package of `commands/` whose docstring begins with `pagelens NAME`: and what the
    command does. The modules are not imported for that, which would take a second.
    """
    files = [*folder.glob("*.py"), *folder.glob("*/__init__.py")]
    lines = {path: _first_line(path) for path in sorted(files)}
    found = {match["name"]: match["line"] for line in lines.values() if (match := _HEAD.fullmatch(line))}
    return {name: found.pop(name) for name in ORDER if name in found} | found


def _first_line(path: Path) -> str:
    with path.open(encoding="utf-8") as file:
        return file.readline().strip()


def _module(name: str) -> str:
    return f"pagelens.cli.commands.{name.replace('-', '_')}"


class _Commands(TyperGroup):
    """The commands by name. Each is imported when it is used. The list in the help imports none."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self.commands = {name: TyperCommand(name, help=line) for name, line in find_commands().items()}
        self._listing = False

    def format_help(self, ctx: Any, formatter: Any) -> None:
        self._listing = True
        super().format_help(ctx, formatter)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        if self._listing or cmd_name not in self.commands:
            return super().get_command(ctx, cmd_name)
        with ending_at_once():
            module = importlib.import_module(_module(cmd_name))
        command = typer.main.get_command(module.app)
        command.name = cmd_name
        shape_help(command)
        return command


app = typer.Typer(
    name="pagelens",
    cls=_Commands,
    help="Find out how the physical frames under a program's pages decide its speed.",
    epilog="Begin with: pagelens explain -- ./app args",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
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
    """Return the value that was refused, if the message has only its range."""
    from pydantic import ValidationError  # what typer checks ranges with

    if not isinstance(error.__cause__, ValidationError):
        return ""
    value = error.__cause__.errors()[0]["input"]
    return "" if f"'{value}'" in error.message else f", not {value}"


def _if_library_is_old() -> str:
    """Return what to do if the sources of the native library are newer, as after `git pull`; else nothing."""
    found, root = find_spec("pagelens._core"), Path(pagelens.__file__).parents[1]
    sources = [path for folder in ("bindings", "core") for path in root.glob(f"{folder}/**/*.[ch]pp")]
    if found is None or found.origin is None or not sources:  # an installed package has no sources
        return ""
    if max(path.stat().st_mtime for path in sources) <= Path(found.origin).stat().st_mtime:
        return ""
    return f"pagelens: {found.origin} is older than its sources; run `make build/stamps/package`\n"


def _command_of(words: list[str]) -> str:
    """Return the command that words of a command line begin with, for an error that does not know it."""
    command: Any = typer.main.get_command(app)
    named = ["pagelens"]
    for word in words:
        if (command := getattr(command, "commands", {}).get(word)) is None:
            break
        named.append(word)
        if len(named) == 2:  # the list of commands has no subcommands
            command = typer.main.get_command(importlib.import_module(_module(word)).app)
    return " ".join(named)


def main() -> None:
    """Run the command that the command line names, and exit with its status."""
    for stream in (sys.stdout, sys.stderr):  # a file's name may be no text at all
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    # If no folder is writable, Matplotlib warns of its font cache, which does not concern our users.
    logging.getLogger("matplotlib").setLevel(logging.ERROR)
    try:
        status = app(standalone_mode=False)
    except PagelensError as error:
        print(f"pagelens: {error}", file=sys.stderr)
        status = error.exit_code
    except KeyboardInterrupt:  # before the command began
        status = 130
    except typer.TyperException as error:  # the command line itself is wrong
        message = (
            error.format_message().rstrip(".").replace("Value error, ", "")
        )  # empty where the help has been shown instead
        if message:
            context = getattr(error, "ctx", None)
            where = context.command_path if context else _command_of(sys.argv[1:])
            print(f"pagelens: {message}{_given(error)}; see {where} --help", file=sys.stderr)
        status = error.exit_code
    except (AttributeError, ImportError, TypeError) as error:
        if isinstance(error, ImportError) and "failed to map segment" in str(error):
            print(
                f"pagelens: {error.path} may not be executed, as its file system is mounted noexec; install "
                "pagelens into a folder elsewhere, with python3 -m venv FOLDER",
                file=sys.stderr,
            )
        else:
            traceback.print_exc()
            print(_if_library_is_old(), end="", file=sys.stderr)
        status = 1
    except OSError as error:
        if error.errno == errno.ENAMETOOLONG:
            print(f"pagelens: {error.filename}: the name is too long; give a shorter one", file=sys.stderr)
            sys.exit(2)
        if error.errno not in NO_ROOM or error.filename is not None:
            raise
        print(
            f"pagelens: output cannot be written ({error.strerror}); make room, or write it elsewhere",
            file=sys.stderr,
        )
        status = 1
    except MemoryError:  # pagelens.ensemble.simulate knows a narrower remedy
        print(
            "pagelens: this computer's memory does not suffice; take a smaller problem or a larger computer",
            file=sys.stderr,
        )
        status = 1
    sys.exit(status)
