"""The help of a command. `--help` fits a screen, and `--help-all` shows every option."""

import contextlib
import inspect
import io
from functools import partial
from typing import Annotated, Any

import typer
from typer.core import TyperArgument, TyperOption

SCREEN_LINES = 50  # of 80 columns: a window of today's terminals, without its prompt


def _name_of_value(parameter: Any, ctx: Any) -> str | None:
    if isinstance(parameter, TyperArgument) or parameter.is_flag:
        return None
    return parameter.metavar or str(parameter.display_type(ctx))


# Typer's words for types, such as <bool> at a flag, say nothing to a user who types a command.
for kind in (TyperOption, TyperArgument):
    kind.display_type_rich = _name_of_value  # type: ignore[assignment,method-assign]


def shape_help(command: Any) -> None:
    """Give a command and its subcommands the help of pagelens.

    `--help` shows all options of a command if they fit a screen. Otherwise it leaves out those in a panel of
    their own, such as "Rarely needed", and names `--help-all`, which shows them.
    """
    _close_up(command)
    _flow(command)
    for one in command.params:
        if isinstance(one, TyperArgument) and one.metavar is None:
            one.metavar = str(one.name).upper()
    parts = getattr(command, "commands", {}).values()
    for part in parts:
        shape_help(part)
    if not parts:
        rare = [one for one in command.params if getattr(one, "rich_help_panel", None)]
        every = _option_for_all(sum(isinstance(one, TyperOption) for one in command.params))
        command.params.append(every)
        command.format_help = partial(_short_help, command, rare, every)


def _close_up(command: Any) -> None:
    """Leave no empty line between the examples of a command, so that its help fits a screen.

    Indented by four spaces they are a block of code in docs/cli.md, too.
    """
    lines = [line for line in (command.epilog or "").splitlines() if line.strip()]
    indented = [f"    {line.strip()}" if line.startswith(" ") else f"\n{line}\n" for line in lines]
    command.epilog = "\n".join(indented).strip("\n")


def _flow(command: Any) -> None:
    """Let the terminal break the lines of each paragraph, as Typer does it for the first one only."""
    paragraphs = inspect.cleandoc(command.help or "").split("\n\n")
    command.help = "\n\n".join(each.replace("\n", " ") for each in paragraphs)


def _option_for_all(count: int) -> Any:
    """Return `--help-all`, which is hidden until a help leaves options out."""
    only = typer.Typer(add_completion=False)

    @only.command()
    def _(
        every: Annotated[
            bool,
            typer.Option(
                "--help-all",
                is_eager=True,
                expose_value=False,
                hidden=True,
                help=f"Show all {count} options.",
                callback=_show_all,
            ),
        ] = False,
    ) -> None:
        pass

    return typer.main.get_command(only).params[0]


def _show_all(ctx: typer.Context, wanted: bool) -> None:
    if wanted and not ctx.resilient_parsing:
        _whole_help(ctx.command, ctx, ctx.make_formatter())
        ctx.exit()


def _whole_help(command: Any, ctx: Any, formatter: Any) -> None:
    """Print the help of a command with all options that are not hidden."""
    import typer.rich_utils  # brings Rich's Markdown, which only help needs

    # Errors and docs/cli.md show ranges. In the help they would take the room of the text.
    typer.rich_utils.RANGE_STRING = ""
    type(command).format_help(command, ctx, formatter)


def _short_help(command: Any, rare: list[Any], every: Any, ctx: Any, formatter: Any) -> None:
    """Print the help of a command without its rare options, unless all of it fits a screen."""
    show = partial(_whole_help, command, ctx, formatter)
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        show()
    fits = len(printed.getvalue().rstrip().splitlines()) <= SCREEN_LINES
    shown = {one: one.hidden for one in (*rare, every)}
    if not fits and rare:
        for one in rare:
            one.hidden = True
        every.hidden = False
    try:
        show()
    finally:
        for one, hidden in shown.items():
            one.hidden = hidden
