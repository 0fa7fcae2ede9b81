"""What every command has in common: its help, its usage errors, and where it writes."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from machine_roles import CACHE_MODE, INCLUSIVE_L3
from traced_program import GOLDEN

from pagelens.errors import Failure
from pagelens.machine import HERE
from pagelens.output_directory import LOCK, claim_directory

Run = Callable[..., subprocess.CompletedProcess[str]]


@pytest.mark.parametrize("command", [(), ("explain",), ("machines", "detect"), ("measure", "stream")])
def test_h_shows_the_help(command: tuple[str, ...], in_process: Run) -> None:
    short, long = (in_process(*command, option) for option in ("-h", "--help"))
    assert short.returncode == 0
    assert short.stdout == long.stdout != ""


@pytest.mark.parametrize(
    ("words", "named"),
    [
        (["explain", "--nope"], "pagelens explain --help"),
        (["explain", "--machine"], "pagelens explain --help"),
        (["machines", "detect", "--output"], "pagelens machines detect --help"),
        (["explain", "--quiet=2", "a.trace"], "pagelens explain --help"),
        (["measure", "stream", "--trials", "many"], "pagelens measure stream --help"),
        (["machines", "shw"], "pagelens machines --help"),
    ],
)
def test_a_usage_error_names_the_help_of_its_command(words: list[str], named: str, in_process: Run) -> None:
    done = in_process(*words)
    assert done.returncode == 2
    assert done.stderr.strip().endswith(f"see {named}")
    assert len(done.stderr.splitlines()) == 1


def test_machines_list_is_what_machines_alone_prints(in_process: Run) -> None:
    for options in ((), ("--json",)):
        alone, named = in_process("machines", *options), in_process("machines", "list", *options)
        assert alone.returncode == named.returncode == 0
        assert alone.stdout == named.stdout != ""


def test_an_export_to_minus_is_on_standard_output(tmp_path: Path, pagelens: Run) -> None:
    file = tmp_path / "lines"
    words = ("trace-export", GOLDEN, "--lines", "500", "-o")
    in_file, printed = pagelens(*words, file), pagelens(*words, "-")
    assert in_file.returncode == printed.returncode == 0
    assert printed.stdout == file.read_text() != ""
    assert "standard output" in printed.stderr


@pytest.mark.parametrize("words", [("machines", "show"), ("trace-export", GOLDEN, "-o", "-", "--machine")])
def test_this_machine_has_a_name_like_others(words: tuple[str, ...], in_process: Run) -> None:
    done = in_process(*words, HERE)
    assert (done.returncode, done.stdout != "") == (0, True), done.stderr


def test_a_full_file_system_at_the_lock_is_one_line(tmp_path: Path) -> None:
    (tmp_path / LOCK).symlink_to("/dev/full")
    with pytest.raises(Failure, match=r"--output: cannot write to .*has room"), claim_directory(tmp_path):
        pass


@pytest.mark.parametrize("words", [("machines",), ("--help",), ("trace-info", str(GOLDEN))])
def test_a_full_disk_beneath_standard_output_is_one_line(words: tuple[str, ...]) -> None:
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "pagelens", *words],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    assert done.returncode == 1
    assert done.stderr.count("\n") == 1
    assert "No space left on device" in done.stderr


def test_matplotlibs_cache_is_no_warning_of_ours() -> None:
    program = """
import sys
from pagelens.cli.main import main
sys.argv = ["pagelens", "--version"]
try:
    main()
except SystemExit:
    import matplotlib.font_manager
"""
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "HOME": "/proc/none", "MPLCONFIGDIR": "/proc/none"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert "atplotlib" not in done.stderr


@pytest.mark.parametrize("words", [("trace-info",), ("trace-info", "--json"), ("explain", "--nodes", "1")])
def test_a_trace_may_have_a_name_that_is_no_text(
    words: tuple[str, ...], tmp_path: Path, pagelens: Run
) -> None:
    odd = os.fsencode(tmp_path) + b"/odd\xff.trace"
    Path(os.fsdecode(odd)).write_bytes(GOLDEN.read_bytes())
    own = ["--machine", INCLUSIVE_L3, "--policies", "aged", "-o", tmp_path] if words[0] == "explain" else []
    done = pagelens(words[0], os.fsdecode(odd), *words[1:], *own)
    assert done.returncode == 0, done.stderr
    if words[0] == "explain":
        assert "odd\\xff" in (tmp_path / "report.html").read_text(encoding="utf-8")
    else:
        assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("words", "completed"),
    [
        ("pagelens di", {"diff"}),
        ("pagelens explain --machine cori-knl-c", {CACHE_MODE}),
        ("pagelens explain --policies aged,shu", {"aged,shuffled"}),
        ("pagelens place --workload stream-t", {"stream-triad"}),
    ],
)
def test_a_shell_completes_names(words: str, completed: set[str], pagelens: Run) -> None:
    asked = {"_PAGELENS_COMPLETE": "complete_bash", "COMP_WORDS": words, "COMP_CWORD": str(words.count(" "))}
    done = pagelens(env=asked)
    assert set(done.stdout.split()) == completed


@pytest.mark.parametrize("words", [("diff", "a" * 300, "b"), ("trace", "-o", "a" * 300, "--", "/bin/true")])
def test_a_name_that_no_file_can_have_is_one_line_and_status_2(
    in_process: Callable[..., subprocess.CompletedProcess[str]], words: tuple[str, ...]
) -> None:
    done = in_process(*words)
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert "aaa: the name is too long; give a shorter one" in done.stderr
