"""Ctrl-C in every phase leaves whole files and no processes."""

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from machine_roles import CACHE_MODE, FLAT_MODE
from traced_program import GOLDEN

from pagelens import _core
from pagelens.accesses.trace import TraceWorkload, open_trace
from pagelens.accesses.workload import Cut
from pagelens.interrupts import ctrl_c_sets, result_of
from pagelens.machine import load_machine


def members(session: int) -> list[str]:
    """The names of the processes of a session that still run."""
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            name, rest = stat.read_text().split(" (", 1)[1].rsplit(") ", 1)
        except (FileNotFoundError, ProcessLookupError):
            continue
        state, _parent, _group, its_session = rest.split()[:4]
        if int(its_session) == session and state != "Z":
            found.append(name)
    return found


def emulator_runs(session: int, _: Path) -> bool:
    return any(name.startswith("qemu") for name in members(session))


def trace_grows(_: int, folder: Path) -> bool:
    try:
        return any(path.stat().st_size > 50_000 for path in folder.glob("**/*.trace.partial"))
    except FileNotFoundError:  # the trace got its final name meanwhile
        return False


def nodes_are_simulated(_: int, folder: Path) -> bool:
    return any(folder.glob("**/nodes/*"))


def report_is_next(_: int, folder: Path) -> bool:
    try:
        return len(list(folder.glob("**/nodes/**/*.parquet"))) >= 6
    except FileNotFoundError:  # a shard got its final name meanwhile
        return False


Moment = Callable[[int, Path], bool]
CASES = [
    ("trace", emulator_runs),
    ("trace", trace_grows),
    ("explain", emulator_runs),
    ("explain", nodes_are_simulated),
    ("explain", report_is_next),
]


@pytest.mark.parametrize(("command", "moment"), CASES)
def test_ctrl_c(command: str, moment: Moment, pagelens_command: Path, examples: Path, tmp_path: Path) -> None:
    words = {
        "trace": ["-o", "out.trace", "--", examples / "cg", "40"],
        "explain": [
            "--machine",
            CACHE_MODE,
            "-o",
            "out",
            "--nodes",
            "8",
            "--",
            examples / "triad",
            "4",
            "2000" if moment is emulator_runs else "2",  # runs until it is interrupted, or ends soon
        ],
    }[command]
    process = subprocess.Popen(
        [pagelens_command, command, *words],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    while process.poll() is None and not moment(process.pid, tmp_path):
        time.sleep(0.01)
    os.killpg(process.pid, signal.SIGINT)  # as a terminal does: to all of them
    _, said = process.communicate()

    assert process.returncode != 0, "the run was over before the interrupt"
    assert "Traceback" not in said
    assert members(process.pid) == []
    assert not list(tmp_path.glob("**/*.partial"))
    for trace in tmp_path.glob("**/*.trace"):
        info = subprocess.run([pagelens_command, "trace-info", trace], capture_output=True, check=False)
        assert info.returncode == 0
    for report in tmp_path.glob("**/report.html"):
        assert report.read_text().rstrip().endswith("</html>")


def test_ctrl_c_while_a_trace_is_named_ends_the_walk_through_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Another thread walks through it, and only the flag can tell that thread."""
    begun, ended = threading.Event(), list[BaseException]()

    def interrupted(*_: object) -> None:
        assert begun.wait(60)
        raise KeyboardInterrupt

    def survey(workload: TraceWorkload, *arguments: Any) -> object:
        begun.set()
        for _ in range(10_000):  # until Ctrl-C was noticed
            if workload._cancel:
                break
            time.sleep(0.001)
        try:
            return walk(workload, *arguments)
        except BaseException as error:
            ended.append(error)
            raise

    walk = TraceWorkload._survey
    monkeypatch.setattr(TraceWorkload, "_survey", survey)
    monkeypatch.setattr("pagelens.accesses.trace._Names", interrupted)
    with pytest.raises(KeyboardInterrupt):
        open_trace(GOLDEN, lambda _: Cut(load_machine(FLAT_MODE), 20))
    assert [type(error) for error in ended] == [_core.Cancelled]


@pytest.mark.parametrize("imported", ["os", "polars"])  # which has a handler of its own
def test_ctrl_c_during_imports_ends_the_process_silently(imported: str) -> None:
    program = f"""
import os, signal
from pagelens.interrupts import ending_at_once
with ending_at_once():
    import {imported}
    os.kill(os.getpid(), signal.SIGINT)
    for _ in range(1000): pass
print("went on")
"""
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stdout, ended.stderr) == (-signal.SIGINT, "", "")


@pytest.mark.parametrize(
    "imported", ["importlib.metadata", "pagelens.cli.main", "typer", "pagelens.cli.commands.explain"]
)
def test_ctrl_c_while_the_command_line_starts_ends_it_silently(imported: str) -> None:
    ended = run_command_line(f"""
class Interrupt:
    def find_spec(self, name, *_):
        if name == {imported!r}:
            os.kill(os.getpid(), signal.SIGINT)
sys.modules.pop({imported!r}, None)
sys.meta_path.insert(0, Interrupt())
""")
    assert ended.returncode in (-signal.SIGINT, 130)  # by the signal, or in the command
    assert ended.stdout + ended.stderr == ""


def test_ctrl_c_as_soon_as_the_command_imports_anything_ends_it_silently(
    pagelens_command: Path, tmp_path: Path
) -> None:
    package = tmp_path / "pagelens"  # in place of the one that is installed, which -S hides
    package.mkdir()
    (package / "__init__.py").write_text("import os, signal\nos.kill(os.getpid(), signal.SIGINT)\n")
    ended = subprocess.run(
        [sys.executable, "-S", pagelens_command],
        env={**os.environ, "PYTHONPATH": str(tmp_path)}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert (ended.returncode, ended.stdout, ended.stderr) == (-signal.SIGINT, "", "")


def test_ctrl_c_just_after_the_fork_that_starts_a_guest_is_not_lost() -> None:
    """Python loses a KeyboardInterrupt in what its modules run after a fork."""
    program = """
import os, signal
from pagelens.lab.guest import Guest
os.register_at_fork(after_in_parent=lambda: signal.raise_signal(signal.SIGINT))
guest = Guest(memory="256MiB")
try:
    with guest:
        print("went on")
except KeyboardInterrupt:
    print("interrupted", os.path.exists(f"/proc/{guest.pid}"))
"""
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert (ended.stdout, ended.stderr) == ("interrupted False\n", "")


def test_ctrl_c_while_the_interpreter_ends_is_silent() -> None:
    ended = run_command_line("import atexit; atexit.register(os.kill, os.getpid(), signal.SIGINT)")
    assert (ended.returncode, ended.stderr) == (-signal.SIGINT, "")
    assert "Examples" in ended.stdout


def run_command_line(before: str) -> subprocess.CompletedProcess[str]:
    """`pagelens explain --help`, after `before` has been executed in the same interpreter."""
    program = f"""
import os, runpy, signal, sys
{before}
sys.argv = ["pagelens", "explain", "--help"]
runpy.run_module("pagelens", run_name="__main__")
"""
    return subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)


@pytest.mark.parametrize(
    ("command", "status", "said"), [("trace", 5, ""), ("explain", 130, "interrupted while tracing")]
)
def test_ctrl_c_of_a_program_that_ends_in_its_own_way(
    command: str, status: int, said: str, pagelens_command: Path, tmp_path: Path
) -> None:
    """It gets its signal and runs on to its end; its trace is whole; `explain` goes no further."""
    program = tmp_path / "interrupted"
    source = Path(__file__).parent.parent / "programs" / "interrupted.c"
    subprocess.run(["gcc", "-O1", source, "-o", program], check=True)
    with subprocess.Popen(
        [pagelens_command, command, "-o", {"trace": "app.trace", "explain": "out"}[command], "--", program],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        os.killpg(process.pid, signal.SIGINT)
        printed, told = process.communicate()
    assert (process.returncode, printed) == (status, "in order\n")
    assert (said in told, told.count("\n")) == (True, bool(said))
    assert members(process.pid) == []
    [trace] = tmp_path.glob("**/*.trace")
    assert open_trace(trace).warnings == []
    assert not list(tmp_path.glob("**/*.partial"))


def test_a_signal_that_does_not_wake_the_waiting_thread_is_handled() -> None:
    came = threading.Event()

    def work() -> bool:
        time.sleep(0.3)  # until the main thread waits, which this signal does not interrupt
        signal.pthread_kill(threading.get_ident(), signal.SIGINT)
        return came.wait(60)

    with ctrl_c_sets(came), ThreadPoolExecutor(1) as thread:
        assert result_of(thread.submit(work))
