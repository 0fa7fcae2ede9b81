"""The help of each command fits a screen, and leaves nothing out for good."""

import re
import subprocess
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import typer
from typer._click import Context

from pagelens.cli.help import SCREEN_LINES
from pagelens.cli.main import app

Run = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture(autouse=True)
def _eighty_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")


def every_command(command: Any, name: str = "pagelens") -> Iterator[tuple[str, Any]]:
    yield name, command
    for part in getattr(command, "commands", ()):
        yield from every_command(command.get_command(None, part), f"{name} {part}")


def test_the_help_of_every_command_fits_a_screen(capsys: pytest.CaptureFixture[str]) -> None:
    lines = {}
    for name, command in [*every_command(typer.main.get_command(app))]:  # all are imported before a list is
        Context(command, info_name=name).get_help()
        lines[name] = len(capsys.readouterr().out.strip().splitlines())
    assert len(lines) > 40
    assert {name: count for name, count in lines.items() if count > SCREEN_LINES} == {}


def test_lines_of_a_help_break_where_the_terminal_ends(in_process: Run) -> None:
    assert re.search("^ interval\\. A ratio whose", in_process("diff", "--help").stdout, re.MULTILINE)


def test_a_help_that_leaves_options_out_names_the_one_that_shows_all(in_process: Run) -> None:
    short, whole = (in_process("explain", option).stdout for option in ("--help", "--help-all"))
    assert "--phase" not in short
    assert "--machine" in short
    assert "--machine" in whole
    assert "--phase" in whole
    promised = int(re.search(r"--help-all +Show all (\d+) options", short)[1])
    assert len(set(re.findall(r"^│ +(--[a-z-]+) ", whole, re.MULTILINE)) - {"--help"}) == promised


def test_a_help_that_fits_shows_all_and_names_no_other(in_process: Run) -> None:
    short, whole = (in_process("trace", option).stdout for option in ("--help", "--help-all"))
    assert "--skip" in short
    assert short.strip() == whole.strip()
