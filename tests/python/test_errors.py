"""Errors reach the user as one line and an exit status, never as a traceback."""

import importlib
import os
import subprocess
import sys
from pathlib import Path

import pytest
from typer.main import get_command

import pagelens
from pagelens import __version__, _core
from pagelens.cli import main as cli
from pagelens.errors import Failure, UsageError


@pytest.mark.parametrize(
    ("error", "status", "says"),
    [
        (UsageError("machine 'knl' is unknown"), 2, "machine 'knl' is unknown"),
        (Failure("no disk space"), 1, "no disk space"),
        (MemoryError("std::bad_alloc"), 1, "this computer's memory does not suffice; take a smaller problem"),
    ],
)
def test_one_line_and_the_status(
    error: Exception,
    status: int,
    says: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def fail(standalone_mode: bool) -> None:
        raise error

    monkeypatch.setattr(cli, "app", fail)
    monkeypatch.setattr(sys, "argv", ["pagelens"])
    with pytest.raises(SystemExit) as exit_info:
        cli.main()
    assert exit_info.value.code == status
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"pagelens: {says}")


@pytest.mark.parametrize(("later", "said"), [(1, True), (-1, False)])
def test_a_native_library_older_than_its_sources_is_named_with_the_remedy(
    later: int,
    said: bool,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
) -> None:
    """After `git pull` without a build, the library does not know what its callers ask for."""

    def fail(standalone_mode: bool) -> None:
        raise TypeError("__init__(): incompatible function arguments")

    source = tmp_path / "core" / "machine.cpp"
    source.parent.mkdir()
    source.touch()
    built = Path(_core.__file__).stat().st_mtime
    os.utime(source, (built + later, built + later))
    monkeypatch.setattr(pagelens, "__file__", str(tmp_path / "pagelens" / "__init__.py"))
    monkeypatch.setattr(cli, "app", fail)
    with pytest.raises(SystemExit, match="1"):
        cli.main()
    assert ("older than its sources; run `make build/stamps/package`\n" in capsys.readouterr().err) == said


def test_objects_that_live_as_long_as_the_process_are_no_word_to_the_user() -> None:
    """An error's traceback may keep them: nanobind would call each a leak."""
    code = (
        "import ctypes; from pagelens import _core; "
        "ctypes.pythonapi.Py_IncRef(ctypes.py_object(_core.CancelFlag()))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr) == ("", "")


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["explian"], "No such command 'explian'"),
        (["explain", "--nodes", "0"], "'--nodes': Input should be greater than or equal to 1, not 0"),
        (["explain", "--nods", "3"], "--nods"),
        (["trace"], "PROGRAM"),
        (["compile-flags", "rust"], "'COMPILER': 'rust' is not one of 'gcc', 'clang', 'clang-lto'; see"),
    ],
)
def test_a_wrong_command_line_is_one_line(
    arguments: list[str], says: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["pagelens", *arguments])
    with pytest.raises(SystemExit) as exit_info:
        cli.main()
    assert exit_info.value.code == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("pagelens: ")
    assert says in line


def imports_of(statements: str) -> set[str]:
    """The modules that a fresh interpreter has after these statements."""
    code = f"import sys\n{statements}\nprint(*sys.modules, file=sys.stderr)"
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    return set(done.stderr.split())


HELP = """
import pagelens.cli.main
sys.argv = ["pagelens", "--help"]
try:
    pagelens.cli.main.main()
except SystemExit:
    pass
"""


def test_commands_wait_for_what_they_need_alone() -> None:
    """All modules together take a second to import."""
    figures, tables, checks = {"matplotlib", "jinja2"}, {"numpy", "polars"}, {"pydantic"}
    slow = figures | {"scipy.optimize", "scipy.stats"}
    assert not imports_of(HELP) & (figures | tables | checks)
    assert not imports_of("import pagelens.cli.commands.trace") & (figures | tables | checks)
    explaining = imports_of("import pagelens.cli.commands.explain")
    assert explaining > tables | checks
    assert not explaining & slow  # only the report needs figures


@pytest.mark.parametrize("name", cli.find_commands())
def test_the_list_of_commands_says_what_they_say(name: str) -> None:
    command = get_command(importlib.import_module(f"pagelens.cli.commands.{name.replace('-', '_')}").app)
    assert (command.help or "").splitlines()[0] == cli.find_commands()[name]


def test_a_command_is_a_file_that_says_its_name(tmp_path: Path) -> None:
    (tmp_path / "count_lines.py").write_text('"""`pagelens count-lines`: Count them."""\nraise SystemExit\n')
    (tmp_path / "part.py").write_text('"""A part of a command."""\n')
    assert cli.find_commands(tmp_path) == {"count-lines": "Count them."}


def test_the_version_is_shown(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(sys, "argv", ["pagelens", "--version"])
    with pytest.raises(SystemExit) as exit_info:
        cli.main()
    assert not exit_info.value.code
    assert capsys.readouterr().out == f"pagelens {__version__}\n"
