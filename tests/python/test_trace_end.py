"""Why a trace has only a part of its run: the trace says it, and so do trace-info and explain."""

import errno
import json
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from traced_program import GOLDEN

from pagelens._core import EndKind
from pagelens.accesses import open_trace
from pagelens.accesses.trace_end import end_in_words, end_of_killed, state_end
from pagelens.host.memory_kills import FullMemory, memory_kills
from pagelens.host.system import System

Run = Callable[..., subprocess.CompletedProcess[str]]


def info(pagelens: Run, trace: str = "app.trace") -> tuple[str, dict[str, object]]:
    text = " ".join(pagelens("trace-info", trace).stdout.split())
    return text, json.loads(pagelens("trace-info", "--json", trace).stdout)


def test_a_budget_is_named_with_what_to_type(pagelens: Run, built: Callable[..., Path]) -> None:
    pagelens("trace", "-o", "app.trace", "--accesses", "300000", "--", built("copy"), "2")
    text, stated = info(pagelens)
    assert "the budget of 300,000 accesses was used up; --accesses N sets it" in text
    assert stated["ended_by"] == "budget"
    explained = pagelens("explain", "--nodes", "2", "app.trace").stdout
    words = " ".join(explained.split())
    assert "what follows is about that part. The budget of 300,000 accesses was used up" in words
    assert "full disk" not in words


def test_a_file_that_cannot_grow_is_named(
    pagelens: Run, pagelens_command: Path, built: Callable[..., Path], tmp_path: Path
) -> None:
    command = f"ulimit -f 300; exec {pagelens_command} trace -o app.trace -- {built('sweeps')}"
    subprocess.run(["bash", "-c", command], cwd=tmp_path, capture_output=True, check=True)
    end = open_trace(tmp_path / "app.trace").trace.end
    assert (end.kind, end.detail) == (EndKind.file, errno.EFBIG)
    assert "could not grow (File too large); raise the limit" in info(pagelens)[0]


def test_a_chosen_part_is_named(pagelens: Run, built: Callable[..., Path], tmp_path: Path) -> None:
    pagelens("trace", "-o", "app.trace", "--skip", "100000", "--", built("copy"), "2")
    workload = open_trace(tmp_path / "app.trace")
    assert workload.cut_by == "--skip 100000 chose this part."
    text, stated = info(pagelens)
    assert (stated["ended_by"], stated["chosen"]) == ("program", "--skip 100000")
    assert "chosen by --skip 100000" in text


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_a_signal_is_named(
    pagelens: Run, built: Callable[..., Path], tmp_path: Path, number: signal.Signals
) -> None:
    """SIGKILL leaves no time for it, so pagelens says it after the program."""
    pagelens("trace", "-o", "app.trace", "--", built("signals"), str(int(number)))
    workload = open_trace(tmp_path / "app.trace")
    assert (workload.trace.end.kind, workload.trace.end.detail) == (EndKind.signal, number)
    [warning] = workload.warnings
    assert f"{number.name} ended the program, as " in warning
    assert ("is not complete" in warning) == (number == signal.SIGKILL)
    assert f"{number.name} ended the program" in info(pagelens)[0]


def test_a_signal_that_the_program_handles_does_not_end_it(
    pagelens: Run, compile_c: Callable[[str], Path], tmp_path: Path
) -> None:
    program = compile_c(
        "#include <signal.h>\nstatic void on(int n) { (void)n; }\n"
        "int main(void) { signal(SIGTERM, on); raise(SIGTERM); return 143; }"
    )
    pagelens("trace", "-o", "app.trace", "--", program)
    trace = open_trace(tmp_path / "app.trace").trace
    assert (trace.end.kind, trace.summary.exit_status) == (EndKind.program, 143)


@pytest.mark.parametrize(
    ("full", "number", "said"),
    [
        (FullMemory.YES, signal.SIGKILL, "the kernel ended the program because memory was full"),
        (
            FullMemory.PROBABLY,
            signal.SIGKILL,
            "probably the kernel ended the program because memory was full",
        ),
        (FullMemory.NO, signal.SIGKILL, "SIGKILL ended the program"),
        (FullMemory.YES, signal.SIGTERM, "SIGTERM ended the program"),
        (FullMemory.NO, 0, "a signal ended the program"),
    ],
)
def test_full_memory_is_named_where_the_kernel_killed_for_it(
    full: FullMemory, number: int, said: str
) -> None:
    assert end_in_words(end_of_killed(number, full)).startswith(said)


@pytest.mark.parametrize(
    ("cgroup", "file", "before", "after", "found"),
    [
        ("0::/job\n", "job/memory.events", "oom 0\noom_kill 2\n", "oom 1\noom_kill 3\n", FullMemory.YES),
        ("0::/job\n", "job/memory.events", "oom_kill 2\n", "oom_kill 2\n", FullMemory.NO),
        ("4:memory:/a:b\n0::/", "memory/a:b/memory.oom_control", "oom_kill 0", "oom_kill 1", FullMemory.YES),
        ("0::/\n", "other/memory.events", "oom_kill 0", "oom_kill 1", FullMemory.PROBABLY),
        ("damaged\n", "other/memory.events", "oom_kill 0", "oom_kill 0", FullMemory.PROBABLY),
        ("0::/job\n", "job/memory.events", "oom_kill 0", "oom_kill", FullMemory.PROBABLY),  # cut short
    ],
)
def test_a_kill_for_memory_is_sure_where_the_cgroup_counted_it(
    tmp_path: Path, cgroup: str, file: str, before: str, after: str, found: FullMemory
) -> None:
    """The machine's count moves in each case."""
    counts = []
    (tmp_path / "proc/self").mkdir(parents=True)
    (tmp_path / "proc/self/cgroup").write_text(cgroup)
    counter = tmp_path / "sys/fs/cgroup" / file
    counter.parent.mkdir(parents=True)
    for text, kills in ((before, 7), (after, 8)):
        (tmp_path / "proc/vmstat").write_text(f"nr_free_pages 1\noom_kill {kills}\n")
        counter.write_text(text)
        counts.append(memory_kills(System(tmp_path)))
    assert counts[1].since(counts[0]) == found


def test_a_trace_of_an_older_version_says_that_it_does_not_know(pagelens: Run) -> None:
    text, stated = info(pagelens, str(GOLDEN))
    assert stated["ended_by"] is None
    assert "the trace does not say what ended it" in text


def test_nothing_is_stated_of_a_whole_trace(
    pagelens: Run, built: Callable[..., Path], tmp_path: Path
) -> None:
    pagelens("trace", "-o", "app.trace", "--", built("copy"), "1")
    before = (tmp_path / "app.trace").read_bytes()
    state_end(tmp_path / "app.trace", end_of_killed(signal.SIGKILL, FullMemory.NO))
    assert (tmp_path / "app.trace").read_bytes() == before
    assert open_trace(tmp_path / "app.trace").cut_by == ""
