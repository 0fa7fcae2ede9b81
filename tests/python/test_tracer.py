"""Real programs under the tracer: they run as alone, and their traces hold what they did."""

import errno
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest
from machine_roles import CACHE_MODE, FLAT_MODE

from pagelens.accesses import trace_notes
from pagelens.accesses.job import JobWorkload
from pagelens.accesses.trace import TraceWorkload, open_trace
from pagelens.accesses.trace_result import TraceResult, keep_together, read_status
from pagelens.accesses.traced_program import TracedProgram, ran_together
from pagelens.accesses.tracer import TraceRequest, trace_program
from pagelens.accesses.unsupported import Unsupported
from pagelens.errors import Failure, Interrupted
from pagelens.frames import Node, age_node, policies
from pagelens.host.program_signals import SignalsHandedOn
from pagelens.machine import load_machine
from pagelens.replay.memory_side import replay
from pagelens.replay.physical_trace import physical_lines

pytestmark = pytest.mark.skipif(shutil.which("qemu-x86_64") is None, reason="no qemu-x86_64")

MIB_PAGES = 256
MIB_LINES = 1 << 14
WAITED = 1 << 20  # loads of tests/programs/waits.c while it waits

Run = Callable[..., subprocess.CompletedProcess[str]]


def traced(run: Run, tmp_path: Path, *arguments: str | Path, options: tuple[str, ...] = ()) -> TraceWorkload:
    """Traces a program that must end well and in a whole file."""
    done = run("trace", "-o", "app.trace", *options, "--", *arguments)
    assert done.returncode == 0, done.stderr
    workload = open_trace(tmp_path / "app.trace")
    assert workload.warnings == []
    return workload


def first_writes(workload: TraceWorkload) -> int:
    """How often a page got a frame."""
    return int(workload.survey.first_writes[:, 1].sum())


def test_a_program_runs_as_alone(pagelens: Run, built: Callable[..., Path], tmp_path: Path) -> None:
    program = built("copy")
    alone = subprocess.run([program, "2"], capture_output=True, text=True, check=False)
    done = pagelens("trace", "-o", "app.trace", "--", program, "2")
    assert (done.stdout, done.stderr, done.returncode) == (alone.stdout, alone.stderr, alone.returncode)
    assert done.returncode == 7
    workload = open_trace(tmp_path / "app.trace")
    assert workload.share_seen == 1
    arrays = [item for item in workload.objects if item.bytes == 2 << 20]
    assert sorted(item.lines for item in arrays) == pytest.approx([2 * MIB_LINES, 4 * MIB_LINES], abs=4)
    assert os.listdir(tmp_path) == ["app.trace"]


def test_an_operand_is_read_alone(pagelens: Run, built: Callable[..., Path], tmp_path: Path) -> None:
    """QEMU 7.2 reads 16 bytes for some of these. (What runs before main varies a little.)"""
    seen = []
    for instruction, kind, operands in (
        ("vaddsd", "double", "%%xmm1, %%xmm0"),
        ("vfmadd231sd", "double", "%%xmm1, %%xmm0"),
        ("vfmadd231ss", "float", "%%xmm1, %%xmm0"),
        ("cvtdq2pd", "double", "%%xmm0"),
        ("vcvtdq2pd", "double", "%%xmm0"),
    ):
        flags = (f'-DINSTRUCTION="{instruction}"', f"-DTYPE={kind}", f'-DOPERANDS="{operands}"')
        workload = traced(pagelens, tmp_path, built("scalar_operand", *flags))
        seen.append(workload.trace.summary.accesses)
    assert max(seen) - min(seen) < 1000


def test_counts_are_exact(pagelens: Run, built: Callable[..., Path], tmp_path: Path) -> None:
    """Twice the loop: the difference is that of its accesses and instructions."""
    counts = []
    for times in ("1", "2", "3"):
        done = pagelens("trace", "-o", "app.trace", "--", built("copy"), "1", times)
        assert done.returncode == 7
        summary = open_trace(tmp_path / "app.trace").trace.summary
        counts.append((summary.accesses, summary.instructions))
    (a1, i1), (a2, i2), (a3, i3) = counts
    assert a3 - a2 == a2 - a1 == pytest.approx(2 << 17, abs=8)
    assert i3 - i2 == i2 - i1
    assert (i2 - i1) % (1 << 17) < 64  # a whole number an iteration


def test_initialised_data_stay_on_small_pages(
    pagelens: Run, compile_c: Callable[[str], Path], tmp_path: Path
) -> None:
    """They are the program's file; what is not initialised (.bss) is anonymous memory."""
    program = compile_c(
        "static volatile char from_file[8 << 20] = {1}, zeroed[8 << 20];\n"
        "int main(void) { for (int i = 0; i < 8 << 20; i += 4096) from_file[i] += zeroed[i] = 1; }\n"
    )
    workload = traced(pagelens, tmp_path, program)
    machine = load_machine(CACHE_MODE)
    policy = policies["2m"]
    node = age_node(machine, seed=1, node=0)
    counters = replay(
        workload.compile(machine, policy.page_bits), machine, policy.place(machine, node), policy.page_bits,
        ranks=1, seed=1, node=0,
    )  # fmt: skip
    assert counters.huge_pages in (3, 4)  # by where the linker puts the 8 MiB


def test_threads_of_openmp_wait_in_system_calls_unless_told_otherwise(
    pagelens: Run, compile_c: Callable[[str], Path]
) -> None:
    program = compile_c(
        '#include <stdio.h>\n#include <stdlib.h>\nint main(void) { puts(getenv("OMP_WAIT_POLICY")); }'
    )
    assert pagelens("trace", "-o", "app.trace", "--", program).stdout == "passive\n"
    active = {"OMP_WAIT_POLICY": "active"}
    assert pagelens("trace", "-o", "app.trace", "--", program, env=active).stdout == "active\n"


def test_static_program(pagelens: Run, built: Callable[..., Path], tmp_path: Path) -> None:
    workload = traced(pagelens, tmp_path, built("threads", "-static"))
    assert workload.threads == 5
    assert {item.name for item in workload.objects} >= {"[heap]", "[stack]"}


def test_threads(pagelens: Run, built: Callable[..., Path], tmp_path: Path) -> None:
    workload = traced(pagelens, tmp_path, built("threads"))
    assert workload.threads == 5  # at most at a time: ended threads' numbers are used again
    [arrays] = [item for item in workload.objects if item.births == 8]
    assert arrays.lines == pytest.approx(8 * MIB_LINES * 2, rel=0.05)  # filled, then read
    assert first_writes(workload) >= 8 * MIB_PAGES


def test_a_handler_and_its_program(pagelens: Run, built: Callable[..., Path], tmp_path: Path) -> None:
    workload = traced(pagelens, tmp_path, built("signals"))
    assert any("touched" in item.name and item.stored >= 10 * 1024 for item in workload.objects)


@pytest.mark.parametrize("number", [signal.SIGSEGV, signal.SIGABRT, signal.SIGTERM, signal.SIGKILL])
def test_what_a_killed_program_did_is_kept(
    pagelens: Run, built: Callable[..., Path], tmp_path: Path, number: signal.Signals
) -> None:
    done = pagelens("trace", "-o", "app.trace", "--", built("signals"), str(int(number)))
    assert done.returncode == -number
    # SIGKILL leaves no time to write the last of it.
    held = "what had been written by then" if number == signal.SIGKILL else "what it did until then"
    assert f"was killed by {number.name}; app.trace holds {held}" in done.stderr
    assert not list(tmp_path.glob("*.partial"))
    workload = open_trace(tmp_path / "app.trace")
    if number != signal.SIGKILL:
        assert first_writes(workload) >= MIB_PAGES
        assert workload.trace.summary.exit_status == 128 + number


@pytest.mark.parametrize("ended", [(), ("ended",)])
def test_waiting_for_other_processes_is_no_work(
    pagelens: Run, built: Callable[..., Path], tmp_path: Path, ended: tuple[str, ...]
) -> None:
    """Also a wait in which the program is killed counts neither as instructions nor as accesses."""
    done = pagelens("trace", "-o", "app.trace", "--", built("waits"), str(int(signal.SIGTERM)), *ended)
    assert done.returncode == -signal.SIGTERM
    workload = open_trace(tmp_path / "app.trace")
    assert workload.trace.summary.accesses < WAITED
    assert sum(workload.survey.instructions) < WAITED


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_before_the_program_begins_is_not_lost(number: signal.Signals) -> None:
    with SignalsHandedOn() as signals:
        os.kill(os.getpid(), number)
        process = subprocess.Popen(["sleep", "60"])
        signals.begin(process, begun=lambda: True)
        assert process.wait() == -number
    assert signals.seen == {number}


@pytest.mark.parametrize("begun", [False, True])
def test_ctrl_c_ends_an_emulator_that_has_not_begun_whatever_it_makes_of_it(begun: bool) -> None:
    with SignalsHandedOn() as signals:
        process = subprocess.Popen(["sleep", "60"])
        signals.begin(process, begun=lambda: begun)
        os.kill(os.getpid(), signal.SIGINT)  # here only: it does not reach the process by itself
        if begun:
            assert process.poll() is None
            process.terminate()
        assert signals.ended_early is not begun
        assert process.wait() == -(signal.SIGTERM if begun else signal.SIGKILL)


@pytest.mark.parametrize("way", ["free", "discard", "brk", "remap"])
def test_temporaries_give_their_frames_back(
    pagelens: Run, built: Callable[..., Path], tmp_path: Path, way: str
) -> None:
    workload = traced(pagelens, tmp_path, built("temporaries"), way)
    assert first_writes(workload) >= 20 * MIB_PAGES
    assert workload.survey.peak_pages < 3.5 * MIB_PAGES


@pytest.mark.parametrize(("flags", "times"), [((), 500), (("-DKEEP",), 1)])
def test_pages_given_back_by_one_thread_are_new_to_others(
    pagelens: Run, built: Callable[..., Path], tmp_path: Path, flags: tuple[str, ...], times: int
) -> None:
    workload = traced(pagelens, tmp_path, built("give_back", *flags))
    assert 4 * times <= first_writes(workload) < 4 * times + MIB_PAGES  # and the program's own


def test_non_temporal_stores_are_told_apart(
    pagelens: Run, built: Callable[..., Path], tmp_path: Path
) -> None:
    workload = traced(pagelens, tmp_path, built("stream_stores"))
    [array] = [item for item in workload.objects if item.bytes == 1 << 20]
    assert array.lines <= 2  # the headers that malloc wrote before and behind it
    assert array.stored == MIB_LINES + array.lines


def test_descriptors_are_the_programs_own(pagelens: Run, built: Callable[..., Path], tmp_path: Path) -> None:
    program = built("descriptors")
    alone = subprocess.run([program], cwd=tmp_path, capture_output=True, text=True, check=True)
    done = pagelens("trace", "-o", "app.trace", "--", program)
    assert (done.stdout, done.stderr, done.returncode) == (alone.stdout, "", 0)
    workload = open_trace(tmp_path / "app.trace")
    assert workload.warnings == []
    [block] = [item for item in workload.objects if item.bytes == 16 << 20]
    assert block.lines == pytest.approx(8 * 16 * MIB_LINES, rel=0.01)


@pytest.mark.parametrize(
    "wrapper",
    [
        "exec {program} 1",
        "exec env -i nice -n 1 {program} 1",
        "timeout 600 {program} 1",
        "echo begin > begun; {program} 1",
    ],
)
def test_of_wrappers_and_what_they_run_the_busiest_is_kept(
    pagelens: Run, built: Callable[..., Path], tmp_path: Path, wrapper: str
) -> None:
    program = built("copy")
    script = tmp_path / "run.sh"
    script.write_text(f"#!/bin/sh\n{wrapper.format(program=program)}\n")
    script.chmod(0o755)
    done = pagelens("trace", "-o", "app.trace", "--", script)
    assert (done.returncode, done.stdout) == (7, "131071\n")
    assert done.stderr.startswith(
        "pagelens: app.trace is the trace of copy_gcc, which made the most accesses"
    )
    assert done.stderr.count("\n") == 1
    assert open_trace(tmp_path / "app.trace").name == "copy_gcc"
    assert [path.name for path in tmp_path.glob("*trace*")] == ["app.trace"]


@pytest.mark.parametrize(("of_worker", "said"), [(5, []), (46, ["(54%) of the 2 processes"])])
def test_accesses_of_other_processes_are_not_left_out_in_silence(
    of_worker: int, said: Sequence[str], tmp_path: Path
) -> None:
    path = tmp_path / "app.trace"
    programs = [TracedProgram(n, path, "python3", True, accesses=of) for n, of in ((1, 54), (2, of_worker))]
    result = TraceResult(path, 0, True, 54, programs=programs, kept=programs[0])
    lines = list(trace_notes.describe(result, TraceRequest(["python3"], "app.trace")))
    assert len(lines) == len(said)
    assert all(part in line for part, line in zip(said, lines, strict=True))


def processes(path: Path, *of: tuple[int, str, int, int, int | None]) -> list[TracedProgram]:
    """The programs of some processes: each with its name, its accesses, when it began and when it ended."""
    return [
        TracedProgram(number, path / f"app.{began}.trace", name, True, 0, accesses, began=began, ended=ended)
        for number, name, accesses, began, ended in of
    ]


@pytest.mark.parametrize(
    ("of", "together"),
    [
        ([(1, "app", 50, 0, 9), (2, "app", 60, 1, 5), (3, "app", 40, 2, 4), (4, "app", 5, 3, 6)], [0, 1, 2]),
        ([(1, "sh", 1, 0, 9), (2, "app", 60, 1, 2), (3, "app", 40, 3, 4)], []),  # one after the other
        ([(1, "app", 60, 0, 9), (2, "app", 40, 1, 2), (2, "tool", 40, 3, 4)], []),  # a fork that executes
        ([(1, "sh", 1, 0, 1), (1, "app", 47, 2, 9), (2, "app", 60, 3, 4)], [2, 3]),  # which the shell became
        (
            [
                (1, "sh", 1, 0, 9),
                (2, "sh", 1, 1, 2),
                (2, "app", 60, 3, 8),
                (3, "sh", 1, 4, 5),
                (3, "app", 60, 6, 7),
            ],
            [],
        ),
        # A child that executes the program anew, as multiprocessing's "spawn" does.
        ([(1, "app", 50, 0, 9), (2, "app", 40, 1, 8), (3, "app", 1, 2, 3), (3, "app", 60, 4, 7)], [0, 1, 4]),
        ([(1, "app", 60, 0, 9), (2, "app", 40, 1, None)], []),  # it still runs
        ([(1, "app", 30, 0, 9), (2, "app", 30, 1, 5), (2, "tool", 60, 5, 8)], []),  # not of the busiest
        ([(1, "app", 60, 0, 9), (2, "app", 5, 1, 8)], []),  # a helper of the process that started it
        ([(1, "app", 60, 0, 9), (2, "app", 0, 10, 12)], []),  # it did nothing, and came later
    ],
)
def test_forks_that_ran_side_by_side_are_kept_together(
    of: Sequence[tuple[int, str, int, int, int | None]], together: Sequence[int], tmp_path: Path
) -> None:
    programs = processes(tmp_path, *of)
    for program in programs:
        program.path.write_text(str(program.began))
    (tmp_path / "app.process-7.trace").touch()  # an earlier run's
    result = TraceResult(tmp_path / "app.trace", 0, programs=programs)
    keep_together(result)
    assert [program.began for program in result.together] == together
    assert result.path.exists()  # which messages name
    kept = {path.name: path.read_text() for path in tmp_path.iterdir()}
    if together:
        assert kept == {f"app.process-{number}.trace": str(began) for number, began in enumerate(together)}
        [line] = trace_notes.describe(result, TraceRequest(["app"], "app.trace"))
        its, made = (sum(p.accesses for p in each) for each in (result.together, programs))
        share = f"{its / made:.0%}"
        assert line == (
            f"{len(together)} processes of app ran side by side, and are explained as the ranks of one job; "
            f"they made {share} of all accesses of the program and its children"
        )
    else:
        assert set(kept) == {"app.trace", "app.process-7.trace"}


def test_a_launcher_that_is_traced_itself_is_told_how_to_report_all_ranks(tmp_path: Path) -> None:
    programs = processes(
        tmp_path, (1, "/bin/mpirun.openmpi", 1, 0, 9), (2, "app", 60, 2, 7), (3, "app", 39, 4, 8)
    )
    result = TraceResult(tmp_path / "app.trace", 0, programs=programs, kept=programs[1])
    [line] = trace_notes.describe(result, TraceRequest(["mpirun"], "app.trace"))
    assert "of one rank of app, which made the most accesses (60%)" in line
    assert "mpirun.openmpi ... pagelens explain -- ./app" in line


@pytest.mark.parametrize(
    ("made", "together"),
    [
        ([(1, 80), (8, 81)], [2, 3]),  # it waits while the others run
        ([(1, 10), (8, 81)], [0, 2, 3]),  # it works beside them
        (
            [(1, 80), (5, 81)],
            [0, 2, 3],
        ),  # one child ended before the others, and nothing is known of the rest
        ([], [0, 2, 3]),
    ],
)
def test_a_process_that_waits_for_those_that_it_started_is_no_rank(
    made: list[tuple[int, int]], together: Sequence[int], tmp_path: Path
) -> None:
    programs = processes(tmp_path, (1, "app", 90, 0, 9), (2, "app", 60, 2, 6), (3, "app", 60, 3, 7))
    programs[0].made = made
    found = ran_together(programs)
    assert [program.began for program in found] == together
    result = TraceResult(programs[1].path, 0, programs=programs, kept=programs[1], together=found)
    [line] = trace_notes.describe(result, TraceRequest(["app"], "app.trace"))
    assert ("did little meanwhile, and is left out" in line) == (0 not in together)


def test_a_process_that_only_starts_others_is_no_rank_whoever_started_it(tmp_path: Path) -> None:
    """A pool within a pool, or multiprocessing's server of forks."""
    programs = processes(
        tmp_path,
        (1, "app", 30, 0, 99),
        (2, "app", 30, 10, 90),
        (3, "app", 60, 20, 80),
        (4, "app", 60, 30, 70),
        (5, "app", 60, 40, 60),
    )
    programs[0].made, programs[1].made = [(9, 28), (91, 30)], [(19, 29), (81, 29)]
    for program, parent in zip(programs[1:], (1, 2, 2, 1), strict=True):
        program.parent = parent
    found = ran_together(programs)
    assert [program.process for program in found] == [3, 4, 5]
    result = TraceResult(programs[2].path, 0, programs=programs, kept=programs[2], together=found)
    [line] = trace_notes.describe(result, TraceRequest(["app"], "app.trace"))
    assert "; 2 processes that started others did little meanwhile, and are left out" in line


def test_a_killed_process_is_a_rank_until_then(compile_c: Callable[[str], Path], tmp_path: Path) -> None:
    program = compile_c("""
        #include <signal.h>
        #include <stdlib.h>
        #include <sys/wait.h>
        #include <unistd.h>
        static void sweep(void) {
            enum { n = 1 << 20 };
            volatile long* const block = malloc(n * sizeof *block);
            for (int i = 0; i < 3 * n; ++i) block[i % n] += i;
        }
        int main(void) {
            int all_begun[2];
            if (pipe(all_begun)) return 1;
            for (int i = 0; i < 3; ++i) {
                if (fork()) continue;
                if (read(all_begun[0], &(char){0}, 1) != 1) _exit(1);
                sweep();
                if (i == 1) raise(SIGKILL);
                sweep();
                _exit(0);
            }
            if (write(all_begun[1], "all", 3) != 3) return 1;
            while (wait(0) > 0) {}
        }
    """)
    request = TraceRequest([str(program)], str(tmp_path / "app.trace"), keep_together=True)
    result = trace_program(request)
    assert [program.was_killed for program in result.together] == [False, True, False]
    [line] = trace_notes.describe(result, request)
    until = r"; rank 1 was killed by SIGKILL after \d.* of tracing, and its accesses end there"
    assert re.search(f"{until}$", line)
    job = JobWorkload([open_trace(program.path) for program in result.together])
    assert job.warnings[0].startswith(
        "Not all ranks were traced over the same part of the run: rank 1 was killed by SIGKILL after "
    )


def test_programs_with_the_rights_of_others_are_not_traced(
    pagelens: Run, built: Callable[..., Path], tmp_path: Path
) -> None:
    other = tmp_path / "other"
    shutil.copy(built("copy"), other)
    other.chmod(0o4755)
    done = pagelens("trace", "--", built("processes"), other, "1")
    assert f"not traced: {other} (process" in done.stderr


def test_children_are_named(pagelens: Run, built: Callable[..., Path]) -> None:
    done = pagelens("trace", "--no-follow-exec", "--", built("processes"), "/bin/echo", "hello")
    assert done.stdout == "hello\n0\n"
    assert "not traced: /bin/echo (process" in done.stderr
    assert "--follow-exec" in done.stderr
    assert done.stderr.count("\n") == 1


def test_a_forked_child_does_not_write_into_its_parents_trace(
    pagelens: Run, built: Callable[..., Path], tmp_path: Path
) -> None:
    alone = ("--no-follow-exec",)
    assert first_writes(traced(pagelens, tmp_path, built("processes"), options=alone)) < MIB_PAGES


def test_a_fork_that_does_the_work_is_what_is_kept(
    pagelens: Run, built: Callable[..., Path], tmp_path: Path
) -> None:
    done = pagelens("trace", "-o", "app.trace", "--", built("one_fork"), *"12345678")
    assert done.returncode == 4
    assert "of the 2 processes" in done.stderr
    assert open_trace(tmp_path / "app.trace").trace.summary.accesses > 9 * (1 << 17)
    assert [path.name for path in tmp_path.glob("*trace*")] == ["app.trace"]


def test_follow_exec_through_a_script(pagelens: Run, built: Callable[..., Path], tmp_path: Path) -> None:
    script = tmp_path / "wrapper"
    script.write_text(f"#!/bin/sh\necho from $0\n{built('copy')} 1 | cat\nexec {built('processes')}\n")
    script.chmod(0o755)
    done = pagelens("trace", "--follow-exec", "-o", "app.trace", "--", script)
    assert done.returncode == 0, done.stderr
    assert done.stdout == f"from {script}\n131071\n5\n"
    assert done.stderr == ""
    names = {open_trace(file).name for file in tmp_path.glob("app*.trace")}
    assert names >= {"copy_gcc", "cat", "processes_gcc"}
    assert not list(tmp_path.glob("*.partial"))


def test_programs_that_one_process_executes_have_a_trace_each(
    pagelens: Run, built: Callable[..., Path], tmp_path: Path
) -> None:
    """A shell that becomes a program: exec keeps the process id."""
    command = f"exec {built('copy')} 1"
    done = pagelens("trace", "--follow-exec", "-o", "app.%p.trace", "--", "/bin/sh", "-c", command)
    assert (done.returncode, done.stdout, done.stderr) == (7, "131071\n", "")
    first, second = sorted(tmp_path.glob("*.trace"), key=lambda path: len(path.name))
    assert second.name == first.name.replace(".trace", "-2.trace")
    assert open_trace(first).name in ("sh", "dash", "bash")
    assert open_trace(second).name == "copy_gcc"


def test_children_that_are_killed_leave_whole_files(
    pagelens: Run, built: Callable[..., Path], tmp_path: Path
) -> None:
    script = f"{built('signals')} 9; exit 3"
    done = pagelens("trace", "--follow-exec", "-o", "app.trace", "--", "/bin/sh", "-c", script)
    assert done.returncode == 3
    assert not list(tmp_path.glob("*.partial"))
    assert "signals_gcc" in {open_trace(file).name for file in tmp_path.glob("*.trace")}


def test_a_string_operation_is_its_lines(pagelens: Run, built: Callable[..., Path], tmp_path: Path) -> None:
    """It moves as many lines, in the same order, as the same accesses one by one, in one instruction."""
    machine = load_machine(FLAT_MODE)
    summaries, lines = [], []
    for way in ("reps", "loop"):
        workload = traced(pagelens, tmp_path, built("strings"), way)
        summaries.append(workload.trace.summary)
        exported = physical_lines(workload, machine, policies["contiguous"], Node(machine, 1, 0))
        lines.append(np.concatenate(list(exported)))
    rep, loop = summaries
    field = 1 << 20
    made = field + 2 * field // 8 + field // 64  # a load of the copy may lie in two lines
    assert loop.accesses - rep.accesses == pytest.approx(made - 3 * field // 64, abs=64)
    assert loop.instructions - rep.instructions == pytest.approx(4 * field + 6 * field // 8, abs=64)
    assert np.array_equal(*lines)


def test_the_budget_is_kept_within_a_string_operation(
    pagelens: Run, built: Callable[..., Path], tmp_path: Path
) -> None:
    workload = traced(pagelens, tmp_path, built("strings"), "reps")
    budget = workload.trace.summary.accesses - 20_000
    cut = traced(pagelens, tmp_path, built("strings"), "reps", options=("--accesses", str(budget)))
    assert cut.trace.summary.accesses == pytest.approx(budget, abs=2000)


def test_the_budget_ends_the_trace_not_the_program(
    pagelens: Run, built: Callable[..., Path], tmp_path: Path
) -> None:
    done = pagelens("trace", "-o", "app.trace", "--accesses", "300000", "--", built("copy"), "2")
    assert (done.stdout, done.returncode) == ("262143\n", 7)
    workload = open_trace(tmp_path / "app.trace")
    assert workload.trace.summary.accesses == pytest.approx(300_000, rel=0.01)
    assert workload.share_seen is not None
    assert 0.4 < workload.share_seen < 0.8
    assert f"holds {workload.share_seen:.1%} of the program's instructions" in done.stderr


@pytest.mark.parametrize("loop", ["x += i;", "leaf();"])
def test_a_loop_within_one_line_keeps_to_the_budget(
    pagelens: Run, compile_c: Callable[[str], Path], tmp_path: Path, loop: str
) -> None:
    """Nothing of it leaves the tracer's first filter."""
    program = compile_c(
        "static volatile long x;\n"
        '__attribute__((noinline)) static void leaf(void) { __asm__ volatile(""); }\n'
        f"int main(void) {{ for (long i = 0; i < 2000000; i++) {{ {loop} }} leaf(); return (int)(x * 0); }}"
    )
    workload = traced(pagelens, tmp_path, program, options=("--accesses", "300000"))
    assert workload.trace.summary.accesses == pytest.approx(300_000, rel=0.01)


def test_blocks_in_pages_that_another_thread_gave_back_keep_their_name(
    pagelens: Run, built: Callable[..., Path], tmp_path: Path
) -> None:
    workload = traced(pagelens, tmp_path, built("taken_pages"))
    lines = {item.name.split(" ")[0]: item.lines for item in workload.objects}
    assert lines["take"] >= 4 * 100 * 4096  # of 256 KiB each
    assert lines.get("[mmap]", 0) < 4096


def test_pages_of_an_address_that_another_thread_moved_away_are_new(
    pagelens: Run, built: Callable[..., Path], tmp_path: Path
) -> None:
    writes = first_writes(traced(pagelens, tmp_path, built("moved_pages")))
    assert writes >= 10 * (8 + 8)  # those that were moved, and those of the other thread


@pytest.mark.parametrize("options", [("--accesses", "20000"), ("--skip", "20000", "--accesses", "50000")])
def test_a_budget_with_threads(
    pagelens: Run, built: Callable[..., Path], tmp_path: Path, options: tuple[str, ...]
) -> None:
    workload = traced(pagelens, tmp_path, built("threads"), options=options)
    assert workload.share_seen is not None
    assert workload.share_seen < 0.5


def test_from_function_of_a_library(pagelens: Run, compile_c: Callable[[str], Path], tmp_path: Path) -> None:
    program = compile_c(
        "#include <stdlib.h>\nvolatile double v[4096];\nstatic int less(const void* a, const void* b)"
        "{ return *(double*)a < *(double*)b; }\n"
        "int main(void) { for (int i = 0; i < 4096; i++) v[i] = i;"
        " qsort((void*)v, 4096, 8, less); return 0; }"
    )
    whole = traced(pagelens, tmp_path, program).trace.summary
    part = traced(pagelens, tmp_path, program, options=("--from-function", "qsort")).trace.summary
    assert 4096 * 10 < part.accesses < whole.accesses


def test_from_function(pagelens: Run, built: Callable[..., Path], tmp_path: Path) -> None:
    program = built("stream_stores")
    whole = traced(pagelens, tmp_path, program).trace.summary
    part = traced(pagelens, tmp_path, program, options=("--from-function", "fill")).trace.summary
    assert 2 << 16 <= part.accesses < whole.accesses / 1.1
    assert part.total_instructions == pytest.approx(whole.total_instructions, rel=0.01)
    after = traced(pagelens, tmp_path, program, options=("--from-function", "fill", "--skip", "1000"))
    assert after.trace.summary.accesses == pytest.approx(part.accesses - 1000, abs=64)


def test_a_region_alone_is_traced(pagelens: Run, built: Callable[..., Path], tmp_path: Path) -> None:
    program = built("regions")
    for visits in (1, 3):
        workload = traced(pagelens, tmp_path, program, str(visits), options=("--region", "fill"))
        inside, outside = (item for item in workload.objects if item.bytes == 1 << 20)
        assert inside.stored == pytest.approx(MIB_LINES * visits, abs=visits)
        assert outside.stored == 0
        summary = workload.trace.summary
        assert visits << 17 <= summary.accesses < (visits << 17) * 1.02
        assert workload.share_seen == pytest.approx(0.5, abs=0.1)
        assert workload.phases == ["(outside regions)", "fill"]


def test_a_region_that_is_never_begun_is_told(pagelens: Run, built: Callable[..., Path]) -> None:
    done = pagelens("trace", "--region", "nowhere", "--", built("regions"))
    assert done.returncode == 0
    assert "--region nowhere: the program never began it" in done.stderr
    assert done.stderr.count("\n") == 1
    refused = pagelens("explain", "--region", "nowhere", "--", built("regions"))
    assert (refused.returncode, refused.stderr.count("\n")) == (1, 1)
    assert "there is nothing to explain" in refused.stderr


def test_mpi(built: Callable[..., Path], pagelens_command: Path, tmp_path: Path) -> None:
    """Under Open MPI; test_rank_rounds.py traces ranks of MPICH."""
    mpirun, compiler = shutil.which("mpirun.openmpi"), shutil.which("mpicc.openmpi")
    if mpirun is None or compiler is None:
        pytest.skip("no openmpi")
    words = [pagelens_command, "trace", "-o", "app.%r.trace", "--", built("mpi_sum", compiler=compiler)]
    done = subprocess.run(
        [mpirun, "-n", "2", "--oversubscribe", *words],
        cwd=tmp_path, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (0, "1\n"), done.stderr
    assert sorted(os.listdir(tmp_path)) == [f"app.{rank}.trace" for rank in range(2)]
    second = open_trace(tmp_path / "app.1.trace")
    assert first_writes(second) >= MIB_PAGES
    arrays = [item for item in second.objects if "mpi_sum.c" in item.name]
    assert max(item.bytes for item in arrays) == 1 << 20


@pytest.mark.parametrize(
    "command",
    [
        ["/usr/bin/sort", __file__],
        ["xz", "--info-memory"],
        [sys.executable, "-c", "print(sorted(range(5)))"],
    ],
)
def test_programs_as_they_come(pagelens: Run, tmp_path: Path, command: list[str]) -> None:
    if shutil.which(command[0]) is None:
        pytest.skip(f"no {command[0]}")
    alone = subprocess.run(command, capture_output=True, text=True, check=True)
    done = pagelens("trace", "-o", "app.trace", "--accesses", "3000000", "--", *command)
    assert (done.stdout, done.returncode) == (alone.stdout, 0)
    assert first_writes(open_trace(tmp_path / "app.trace")) > 0


def test_avx512_is_told(pagelens: Run, compile_c: Callable[[str], Path]) -> None:
    program = compile_c('int main(void) { __asm__ volatile("vpxorq %zmm0, %zmm0, %zmm0"); return 0; }')
    done = pagelens("trace", "--engine", "qemu", "--", program)
    assert done.returncode == -signal.SIGILL
    assert "has the AVX-512 instruction 'vpxorq zmm0, zmm0, zmm0' in main (program" in done.stderr, (
        done.stderr
    )
    assert "compile it with -march=x86-64-v3\n" in done.stderr


def test_avx512_is_told_after_the_budget_too(pagelens: Run, compile_c: Callable[[str], Path]) -> None:
    program = compile_c("""
        static volatile char line[1 << 20];
        int main(void) {
            for (int i = 0; i < 1 << 20; ++i) line[i] = 1;
            __asm__ volatile("vpxorq %zmm0, %zmm0, %zmm0");
            return 0;
        }
    """)
    done = pagelens("trace", "--engine", "qemu", "--accesses", "300000", "--", program)
    assert done.returncode == -signal.SIGILL
    assert "the AVX-512 instruction 'vpxorq zmm0, zmm0, zmm0' in main" in done.stderr


def test_an_instruction_that_no_disassembler_knows_is_told_by_its_bytes() -> None:
    unknown = Unsupported.parse("401000 62ffffffff", None)
    assert str(unknown) == "the AVX-512 instruction '62 ff ff ff ff ...' in ?+0x401000"


def test_what_cannot_be_traced(pagelens: Run, tmp_path: Path) -> None:
    (tmp_path / "text").write_text("no program\n")
    (tmp_path / "text").chmod(0o755)
    (tmp_path / "plain").write_text("no program\n")
    (tmp_path / "arm").write_bytes(b"\x7fELF\x02\x01\x01" + bytes(9) + b"\x02\x00\xb7\x00" + bytes(200))
    (tmp_path / "arm").chmod(0o755)
    for arguments, told in [
        (["--", "./missing"], "there is no such file"),
        (["--", "missing-program"], "not in PATH"),
        (["--", "./plain"], "chmod +x ./plain"),
        (["--", "./text"], "neither an x86-64 program nor a script"),
        (["--", "./arm"], "AArch64"),
        (["-o", "/dev/null", "--", "/bin/true"], "not a plain file"),
        (["-o", "no/such/app.trace", "--", "/bin/true"], "there is no folder"),
        (["-o", "app.%r.trace", "--", "/bin/true"], "%r is the MPI rank"),
        (["--from-function", "nowhere", "--", "/bin/true"], "have such a function"),
        (["--region", "", "--", "/bin/true"], "a region has a name"),
        (["--region", "solve", "--skip", "5", "--", "/bin/true"], "cannot stand beside --skip"),
    ]:
        done = pagelens("trace", *arguments)
        assert (done.returncode, told in done.stderr) == (2, True), done.stderr
        assert done.stderr.count("\n") == 1
    assert sorted(os.listdir(tmp_path)) == ["arm", "plain", "text"]


def test_no_emulator(pagelens: Run, tmp_path: Path) -> None:
    done = pagelens("trace", "--engine", "qemu", "--", "/bin/true", env={"PATH": str(tmp_path)})
    assert done.returncode == 1
    assert done.stderr.count("\n") == 1
    assert "apt-get install qemu-user" in done.stderr


@pytest.mark.parametrize(
    ("content", "told"),
    [
        ("#!/bin/sh\necho qemu-x86_64 version 7.2.0\n", "is not a program that can be looked into"),
        ("\x7fELF for another machine", "does not run (Exec format error)"),
        (
            "#!/bin/sh\necho qemu-x86_64 version 6.2.0\n",
            "is 'qemu-x86_64 version 6.2.0', and QEMU 7.2 to",
        ),
        (
            "#!/bin/sh\necho qemu-x86_64 version 9.0.1\n",
            "is 'qemu-x86_64 version 9.0.1', and QEMU 7.2 to",
        ),
        ("#!/bin/sh\n", "is 'no version', and QEMU 7.2 to 8.2"),
    ],
)
def test_an_emulator_that_is_none(pagelens: Run, tmp_path: Path, content: str, told: str) -> None:
    emulator = tmp_path / "qemu-x86_64"
    emulator.write_text(content)
    emulator.chmod(0o755)
    done = pagelens("trace", "--engine", "qemu", "--", "/bin/true", env={"PATH": f"{tmp_path}:/bin"})
    assert (done.returncode, done.stderr.count("\n")) == (1, 1)
    assert told in done.stderr


@pytest.mark.parametrize(("blocks", "kept"), [(8, False), (300, True)])
def test_a_full_disk_ends_the_trace_not_the_program(
    pagelens_command: Path, built: Callable[..., Path], tmp_path: Path, blocks: int, kept: bool
) -> None:
    """A limit of a file's size stands for it. Where not even a chunk fits, there is no trace."""
    program = built("sweeps")
    # Python would leave truncated files of its own bytecode behind.
    limits = f"export PYTHONDONTWRITEBYTECODE=1; ulimit -f {blocks}"
    command = f"{limits}; exec {pagelens_command} trace -o app.trace -- {program}"
    ended = subprocess.run(["bash", "-c", command], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert "File too large" in ended.stderr
    assert "raise the limit of a file's size (ulimit -f)" in ended.stderr
    assert ended.stderr.count("\n") == 1
    assert ended.stdout == "done\n"
    assert os.listdir(tmp_path) == (["app.trace"] if kept else [])
    assert ended.returncode == (0 if kept else 1)
    if kept:
        workload = open_trace(tmp_path / "app.trace")
        assert workload.warnings == []
        assert (tmp_path / "app.trace").stat().st_size <= blocks << 10
        assert workload.share_seen is not None
        assert 0.01 < workload.share_seen < 0.9
        [share] = re.findall(r"holds ([0-9.]+)% of the program's instructions", ended.stderr)
        assert float(share) == pytest.approx(100 * workload.share_seen, abs=0.06)


@pytest.mark.parametrize("stream", ["stdout", "stderr"])
def test_messages_begin_on_a_line_of_their_own(
    pagelens_command: Path, compile_c: Callable[[str], Path], tmp_path: Path, stream: str
) -> None:
    program = compile_c(
        f'#include <stdio.h>\nint main(void) {{ fputs("unfinished", {stream}); fflush({stream}); '
        "volatile int x = 0; while (x < 100000) x++; return 0; }"
    )
    words = [pagelens_command, "trace", "-o", "app.trace", "--accesses", "50000", "--", program]
    ended = subprocess.run(
        words, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False
    )
    assert ended.stdout.startswith("unfinished\npagelens: the budget")
    apart = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, check=False)
    if stream == "stdout":
        assert (apart.stdout, apart.stderr[:9]) == ("unfinished", "pagelens:")
    else:
        assert (apart.stdout, apart.stderr[:20]) == ("", "unfinished\npagelens:")


@pytest.mark.parametrize(
    ("number", "told"),
    [
        (errno.ENOSPC, "No space left on device; free some space"),
        (errno.EDQUOT, "Disk quota exceeded; free some of your quota"),
        (errno.EIO, "Input/output error; the disk"),
        (errno.EROFS, "Read-only file system; choose another folder"),
    ],
)
def test_why_the_trace_could_not_be_written(number: int, told: str) -> None:
    with pytest.raises(Failure) as failed:
        read_status(f"7 1 begun 1 a.trace\n7 2 finished {number} 1 2 3\n", 7, TraceResult(Path("a.trace"), 0))
    assert told in str(failed.value)


def test_a_child_without_room_is_named_and_the_killed_program_keeps_its_trace(tmp_path: Path) -> None:
    (tmp_path / "a.trace.partial").touch()
    gone = 1 << 23  # no process has such a number
    begun = f"{gone} 1 begun 1 {tmp_path}/a.trace\n8 2 begun {gone} {tmp_path}/a.8.trace\n"
    full = f"{begun}8 3 finished {errno.ENOSPC} 1 2 3\n"
    with pytest.raises(Failure, match=r"a\.8\.trace: No space left"):
        read_status(full, gone, TraceResult(tmp_path / "a.trace", -9))
    assert os.listdir(tmp_path) == ["a.trace"]


def test_a_thread_of_many_executes_a_program(
    pagelens: Run, compile_c: Callable[[str], Path], tmp_path: Path
) -> None:
    """The others still run, and record, when the trace of the first program is finished."""
    program = compile_c("""
        #include <pthread.h>
        #include <stdlib.h>
        #include <unistd.h>
        static void* run(void* nothing) {
            (void)nothing;
            volatile char* block = malloc(1 << 22);
            for (unsigned i = 0;; i += 64) block[i % (1 << 22)]++;
        }
        int main(void) {
            pthread_t thread;
            for (int i = 0; i < 3; ++i) pthread_create(&thread, 0, run, 0);
            usleep(50000);
            execl("/bin/echo", "echo", "executed", (char*)0);
            return 1;
        }
    """)
    done = pagelens("trace", "--follow-exec", "-o", "app.trace", "--", program)
    assert (done.returncode, done.stdout, done.stderr) == (0, "executed\n", "")
    workload = open_trace(tmp_path / "app.trace")
    assert workload.warnings == []
    assert workload.threads == 4, workload.threads


def test_ctrl_c_while_the_trace_is_created_leaves_nothing(tmp_path: Path) -> None:
    partial = tmp_path / "a.trace.partial"
    partial.touch()
    result = TraceResult(tmp_path / "a.trace", -9, interrupted=True)
    with pytest.raises(Interrupted, match="nothing was traced"):
        read_status(f"7 1 begun 1 {tmp_path}/a.trace\n", 7, result, began=False)
    assert os.listdir(tmp_path) == []


def test_what_the_plugin_cannot_go_on_with_is_told_and_leaves_nothing(tmp_path: Path) -> None:
    partial = tmp_path / "a.trace.partial"
    partial.touch()
    status = f"7 1 begun 1 {tmp_path}/a.trace\n7 2 error this QEMU does not report what the tracer needs\n"
    with pytest.raises(Failure, match="tracing stopped: this QEMU does not"):
        read_status(status, 7, TraceResult(tmp_path / "a.trace", 1))
    assert not partial.exists()
