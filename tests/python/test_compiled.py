"""Programs that were compiled for tracing: they run as alone, and their traces are those of an engine."""

import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from machine_roles import FLAT_MODE

from pagelens.accesses import compile_flags, open_trace
from pagelens.accesses.compiled import COMPILERS, is_compiled
from pagelens.accesses.trace import TraceWorkload
from pagelens.errors import UsageError

ROOT = Path(__file__).parents[2]
MIB_LINES = 1 << 14
MIB_PAGES = 256
WORDS = 1 << 17  # of 8 bytes in 1 MiB

Run = Callable[..., subprocess.CompletedProcess[str]]
Build = Callable[..., Path]

needs_clang = pytest.mark.skipif(
    not (shutil.which("clang") and shutil.which("ld.lld")), reason="no clang with lld"
)
KINDS = [pytest.param(kind, marks=[] if kind == "gcc" else [needs_clang]) for kind in COMPILERS]


@pytest.fixture(autouse=True)
def no_engine_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PAGELENS_ENGINE", raising=False)


@pytest.fixture(scope="module")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> Build:
    """Compiles a program of tests/programs for tracing, once."""
    folder = tmp_path_factory.mktemp("compiled")

    def build(name: str, kind: str = "gcc") -> Path:
        program = folder / f"{name}-{kind}"
        if not program.exists():
            command = [
                kind.removesuffix("-lto"),
                "-O1",
                "-pthread",
                f"-I{ROOT / 'hooks'}",
                *compile_flags(kind),
            ]
            subprocess.run([*command, ROOT / f"tests/programs/{name}.c", "-o", program], check=True)
        return program

    return build


def traced(run: Run, folder: Path, program: Path, *arguments: str, status: int = 0) -> TraceWorkload:
    done = run("trace", "-o", "a.trace", "--", program, *arguments)
    assert done.returncode == status, done.stderr
    workload = open_trace(folder / "a.trace")
    assert "compiled" in workload.trace.producer
    return workload


def emulated(run: Run, folder: Path, program: Path) -> TraceWorkload:
    done = run("trace", "-o", "q.trace", "--engine", "qemu", "--", program)
    assert done.returncode == 0
    return open_trace(folder / "q.trace")


def lines_of_arrays(workload: TraceWorkload, size: int) -> list[int]:
    return sorted(item.lines for item in workload.objects if item.bytes == size)


@pytest.mark.parametrize("kind", KINDS)
def test_a_program_runs_as_alone_and_has_its_objects(
    pagelens: Run, compiled: Build, tmp_path: Path, kind: str
) -> None:
    program = compiled("copy", kind)
    assert is_compiled(program)
    alone = subprocess.run([program, "2"], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert not list(tmp_path.iterdir())
    done = pagelens("trace", "-o", "a.trace", "--", program, "2")
    assert (done.stdout, done.stderr, done.returncode) == (alone.stdout, "", alone.returncode)
    assert [path.name for path in tmp_path.iterdir()] == ["a.trace"]
    workload = open_trace(tmp_path / "a.trace")
    assert workload.share_seen == 1
    assert lines_of_arrays(workload, 2 << 20) == pytest.approx([2 * MIB_LINES, 4 * MIB_LINES], abs=4)
    names = {item.name for item in workload.objects if item.bytes == 2 << 20}
    assert names == {"main (copy.c:8)", "main (copy.c:9)"}


@pytest.mark.parametrize("kind", KINDS)
def test_each_word_of_a_loop_counts_once(pagelens: Run, compiled: Build, tmp_path: Path, kind: str) -> None:
    """The source says how many there are: a load and a store of each word."""
    counts = [
        traced(pagelens, tmp_path, compiled("copy", kind), "1", times, status=7).trace.summary.accesses
        for times in ("1", "5")
    ]
    if kind == "clang-lto":  # copies that nobody reads are left out
        assert (counts[1] - counts[0]) % (2 * WORDS) == 0
    else:
        assert counts[1] - counts[0] == 4 * 2 * WORDS


def test_a_trace_is_that_of_an_emulated_program(
    pagelens: Run, built: Build, compiled: Build, tmp_path: Path
) -> None:
    """Objects, their lines, and the pages that the program touches first, but for those of libc."""
    own = traced(pagelens, tmp_path, compiled("threads"))
    other = emulated(pagelens, tmp_path, built("threads"))
    arrays = [
        {(item.name, item.bytes): item.lines for item in workload.objects if item.bytes > 1 << 20}
        for workload in (own, other)
    ]
    assert arrays[0] == pytest.approx(arrays[1], rel=1e-3)  # libc writes at the ends of its blocks
    assert own.trace.summary.accesses < other.trace.summary.accesses
    assert own.trace.summary.accesses > 0.95 * other.trace.summary.accesses


def test_pages_that_are_given_back_are_new(
    pagelens: Run, built: Build, compiled: Build, tmp_path: Path
) -> None:
    """The allocator of libc maps and unmaps large blocks by itself."""
    own = traced(pagelens, tmp_path, compiled("temporaries"))
    other = emulated(pagelens, tmp_path, built("temporaries"))
    pages = [int(workload.survey.first_writes[:, 1].sum()) for workload in (own, other)]
    assert pages[0] > 20 * MIB_PAGES
    assert pages[0] == pytest.approx(pages[1], abs=40)


@pytest.mark.parametrize("kind", KINDS)
def test_copies_structures_and_atomics_count(
    pagelens: Run, compiled: Build, tmp_path: Path, kind: str
) -> None:
    """Libc copies, fills and compares by code that was not compiled for tracing."""
    program = compiled("compiled", kind)
    alone = subprocess.run([program, "3"], capture_output=True, text=True, check=False)
    counts = []
    for rounds in ("1", "3"):
        done = pagelens("trace", "-o", "a.trace", "--", program, rounds)
        assert done.returncode == 3, done.stderr
        counts.append(open_trace(tmp_path / "a.trace").trace.summary.accesses)
    assert done.stdout == alone.stdout
    lines, structures = 1024, 63 * 2 * 25
    # Two copies and a comparison of 8 words a line read and write it; an atomic sum writes a word a line.
    round_at_least = 2 * 2 * 8 * (lines - 1) + lines + structures
    assert counts[1] - counts[0] >= 2 * round_at_least
    assert counts[1] - counts[0] <= 2 * (round_at_least + 2 * 8 * lines + 200)


def test_atomics_of_two_words(pagelens: Run, compiled: Build, tmp_path: Path) -> None:
    """Clang makes calls of libatomic of them unless it is told of a newer processor."""
    assert subprocess.run([compiled("pairs")], check=False).returncode == 0
    traced(pagelens, tmp_path, compiled("pairs"))


def test_regions_budgets_and_skipped_accesses(pagelens: Run, compiled: Build, tmp_path: Path) -> None:
    program = compiled("regions")
    whole = traced(pagelens, tmp_path, program)
    assert whole.phases == ["(outside regions)", "fill"]
    counts = {}
    for option, value in {"--region": "fill", "--accesses": "100000", "--skip": "300000"}.items():
        assert pagelens("trace", "-o", "b.trace", option, value, "--", program).returncode == 0
        part = open_trace(tmp_path / "b.trace")
        counts[option] = part.trace.summary.accesses
        assert part.share_seen == pytest.approx(counts[option] / whole.trace.summary.accesses, rel=0.01)
    assert counts["--region"] == pytest.approx(whole.trace.summary.accesses / 2, rel=0.01)
    assert counts["--accesses"] == pytest.approx(100_000, rel=0.05)
    assert counts["--skip"] == pytest.approx(whole.trace.summary.accesses - 300_000, rel=0.01)


def test_a_child_is_left_alone_or_followed(pagelens: Run, compiled: Build, tmp_path: Path) -> None:
    done = pagelens("trace", "--no-follow-exec", "-o", "a.trace", "--", compiled("one_fork"))
    assert done.returncode == 4
    assert "a fork of the program" in done.stderr
    done = pagelens("trace", "--follow-exec", "-o", "%p.trace", "--", compiled("one_fork"))
    assert (done.returncode, done.stderr) == (4, "")
    traces = sorted(tmp_path.glob("[0-9]*.trace"))
    assert len(traces) == 2
    for path in (*traces, tmp_path / "a.trace"):
        assert lines_of_arrays(open_trace(path), 1 << 20) == pytest.approx([MIB_LINES], abs=4)


def test_threads_are_cancelled_where_they_would_be_alone(
    pagelens: Run, compiled: Build, tmp_path: Path
) -> None:
    """A thread that makes accesses faster than they are written waits for the writer."""
    assert subprocess.run([compiled("cancel")], check=False).returncode == 0
    traced(pagelens, tmp_path, compiled("cancel"))


def test_what_operator_new_allocates_has_its_name(pagelens: Run, tmp_path: Path) -> None:
    words = 1 << 17
    code = f"volatile double* a = new double[{words}]; for (int i = 0; i < {words}; ++i) a[i] = 1;"
    (tmp_path / "vector.cpp").write_text(f"int main() {{ {code} }}")
    command = ["g++", "-O1", *compile_flags("gcc"), "vector.cpp", "-o", "vector"]
    subprocess.run(command, check=True, cwd=tmp_path)
    workload = traced(pagelens, tmp_path, tmp_path / "vector")
    assert [item.name for item in workload.objects if item.bytes == 8 * words] == ["main (vector.cpp:1)"]


def test_a_block_is_freed_after_an_error_of_dlsym(pagelens: Run, compiled: Build, tmp_path: Path) -> None:
    """dlsym frees the text of an error that nobody asked for, when it is called again."""
    traced(pagelens, tmp_path, compiled("pending_error"))


@pytest.mark.skipif(not shutil.which("mpicc.mpich"), reason="no MPICH")
def test_ranks_of_mpich(pagelens_command: Path, tmp_path: Path) -> None:
    source = ROOT / "tests/programs/mpi_sum.c"
    subprocess.run(["mpicc.mpich", "-O1", *compile_flags("gcc"), source, "-o", tmp_path / "sum"], check=True)
    command = ["mpirun.mpich", "-n", "2", pagelens_command, "trace", "-o", "%r.trace", "--", "./sum"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=60)
    assert (done.returncode, done.stdout) == (0, "1\n"), done.stderr
    for rank in "01":
        workload = open_trace(tmp_path / f"{rank}.trace")
        assert "compiled" in workload.trace.producer
        assert lines_of_arrays(workload, 1 << 20) == pytest.approx([MIB_LINES], abs=4)


def test_a_quick_exit_ends_the_trace(pagelens: Run, compiled: Build, tmp_path: Path) -> None:
    workload = traced(pagelens, tmp_path, compiled("quick_exit"), status=5)
    assert workload.trace.summary.exit_status == 5
    assert workload.trace.summary.accesses == pytest.approx(2 << 20, rel=0.01)  # also those of its handler


def test_the_writer_does_not_wait_for_an_allocator_that_waits_for_it(
    pagelens: Run, compiled: Build, tmp_path: Path
) -> None:
    """A handler of a signal may interrupt libc's allocator, too; this program's touches 64 MiB."""
    workload = traced(pagelens, tmp_path, compiled("own_malloc"))
    assert workload.trace.summary.accesses >= 2 << 20


def test_a_script_starts_the_program(pagelens: Run, compiled: Build, tmp_path: Path) -> None:
    script = tmp_path / "run.sh"
    script.write_text(f"#!/bin/sh\n{compiled('copy')} 1\n{compiled('copy')} 2\nexit 0\n")
    script.chmod(0o755)
    done = pagelens("trace", "--engine", "compiled", "-o", "a.trace", "--", script)
    assert (done.returncode, done.stdout.count("\n")) == (0, 2)
    assert lines_of_arrays(open_trace(tmp_path / "a.trace"), 2 << 20) == pytest.approx(
        [2 * MIB_LINES, 4 * MIB_LINES], abs=4
    )


@pytest.mark.parametrize("command", ["trace", "explain", f"place --machine {FLAT_MODE}"])
def test_a_program_that_was_not_compiled_for_it_is_refused(command: str, pagelens: Run) -> None:
    done = pagelens(*command.split(), "--engine", "compiled", "-o", "out", "--", "/bin/true")
    assert done.returncode == 1
    assert "was not compiled for tracing; compile it with the flags" in done.stderr


def test_a_program_that_was_compiled_for_it_tells_of_no_calls(pagelens: Run, compiled: Build) -> None:
    done = pagelens("trace", "--from-function", "main", "-o", "a.trace", "--", compiled("regions"))
    assert done.returncode == 2
    assert "--region" in done.stderr


def test_the_flags_are_printed(pagelens: Run) -> None:
    assert pagelens("compile-flags").stdout.split() == compile_flags("gcc")
    with pytest.raises(UsageError, match="gcc, clang, clang-lto"):
        compile_flags("tcc")
