"""DynamoRIO as the tracer's engine: programs run as alone, and their traces are those of QEMU."""

import ctypes
import os
import signal
import struct
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from pagelens import _core
from pagelens.accesses import engine_choice, tracer
from pagelens.accesses.trace import TraceWorkload, open_trace
from pagelens.accesses.tracer import TraceRequest, trace_program

LIBRARIES = Path(_core.__file__).parent / "lib"
needs_engine = pytest.mark.skipif(
    not (LIBRARIES / "libdynamorio.so").exists(), reason="no DynamoRIO; run make engine"
)

END, BEGAN = 21, 23  # fields of a trace (docs/trace-format.md)
MIB_PAGES = 256
MIB_LINES = 1 << 14

Run = Callable[..., subprocess.CompletedProcess[str]]


def traced(
    run: Run, folder: Path, engine: str, program: Path | str, *arguments: str, options: tuple[str, ...] = ()
) -> TraceWorkload:
    done = run("trace", "-o", f"{engine}.trace", "--engine", engine, *options, "--", program, *arguments)
    assert done.returncode == 0, done.stderr
    workload = open_trace(folder / f"{engine}.trace")
    assert workload.warnings == []
    return workload


def first_writes(workload: TraceWorkload) -> int:
    return int(workload.survey.first_writes[:, 1].sum())


@needs_engine
def test_a_program_runs_as_alone(pagelens: Run, built: Callable[..., Path], tmp_path: Path) -> None:
    alone = subprocess.run([built("copy"), "2"], capture_output=True, text=True, check=False)
    done = pagelens("trace", "-o", "a.trace", "--engine", "dynamorio", "--", built("copy"), "2")
    assert (done.stdout, done.stderr, done.returncode) == (alone.stdout, alone.stderr, alone.returncode)
    workload = open_trace(tmp_path / "a.trace")
    assert workload.share_seen == 1
    arrays = [item for item in workload.objects if item.bytes == 2 << 20]
    assert sorted(item.lines for item in arrays) == pytest.approx([2 * MIB_LINES, 4 * MIB_LINES], abs=4)
    assert os.listdir(tmp_path) == ["a.trace"]


@needs_engine
def test_a_shell_runs_programs(pagelens_command: Path, tmp_path: Path) -> None:
    """It starts them by vfork, and goes on after them. A subshell forks within a fork."""
    script = "/bin/true; /bin/echo one; (/bin/echo two | /bin/cat); echo $?"
    command = [pagelens_command, "trace", "--engine", "dynamorio", "--", "sh", "-c", script]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=60)
    assert (done.stdout, done.returncode) == ("one\ntwo\n0\n", 0)


@needs_engine
def test_accesses_are_skipped_from_a_function_on(
    pagelens: Run, built: Callable[..., Path], tmp_path: Path
) -> None:
    """The function makes non-temporal stores alone."""
    counts = [
        traced(
            pagelens,
            tmp_path,
            "dynamorio",
            built("stream_stores"),
            options=("--from-function", "fill", *skip),
        ).trace.summary.accesses
        for skip in ((), ("--skip", "1000"))
    ]
    assert counts[1] == pytest.approx(counts[0] - 1000, abs=64)


@needs_engine
def test_the_engines_count_the_same(pagelens: Run, built: Callable[..., Path], tmp_path: Path) -> None:
    """One more round of a loop is compared, because what runs before main depends on the processor."""
    added = {}
    for engine in ("qemu", "dynamorio"):
        counts = []
        for times in ("1", "2"):
            done = pagelens("trace", "-o", "a.trace", "--engine", engine, "--", built("copy"), "1", times)
            assert done.returncode == 7
            summary = open_trace(tmp_path / "a.trace").trace.summary
            counts.append((summary.accesses, summary.instructions))
        (a1, i1), (a2, i2) = counts
        added[engine] = (a2 - a1, i2 - i1)
    assert added["dynamorio"] == pytest.approx(added["qemu"], abs=8)


def added_by_100_rounds(
    run: Run, folder: Path, engine: str, program: Path, *arguments: str
) -> tuple[int, int]:
    """Accesses and instructions."""
    kind, *rest = arguments
    counts = []
    for rounds in ("100", "200"):
        done = run("trace", "-o", "a.trace", "--engine", engine, "--", program, kind, rounds, *rest)
        if done.returncode == 77:
            pytest.skip("the processor has no AVX2")
        assert done.returncode == 0, done.stderr
        summary = open_trace(folder / "a.trace").trace.summary
        counts.append((summary.accesses, summary.instructions))
    (a1, i1), (a2, i2) = counts
    return a2 - a1, i2 - i1


@needs_engine
@pytest.mark.parametrize("kind", ["gather", "compare", "scan"])
def test_the_engines_count_the_same_of_irregular_instructions(
    pagelens: Run, built: Callable[..., Path], tmp_path: Path, kind: str
) -> None:
    """The accesses of these instructions do not follow from registers."""
    qemu, dynamorio = (
        added_by_100_rounds(pagelens, tmp_path, engine, built("irregular"), kind)
        for engine in ("qemu", "dynamorio")
    )
    assert dynamorio == pytest.approx(qemu, abs=8)


@needs_engine
def test_a_block_of_many_instructions(pagelens: Run, built: Callable[..., Path], tmp_path: Path) -> None:
    """The block has 1200, and as many accesses, beside the loop. (QEMU counts one on two pages twice.)"""
    counts = added_by_100_rounds(pagelens, tmp_path, "dynamorio", built("irregular"), "long_block")
    assert all(120_000 < count <= 120_800 for count in counts)


@needs_engine
def test_masks_hide_elements(pagelens: Run, built: Callable[..., Path], tmp_path: Path) -> None:
    """A load and a store of two of four elements each. (QEMU counts those that are left out, too.)"""
    some, none = (
        added_by_100_rounds(pagelens, tmp_path, "dynamorio", built("irregular"), "masked", *nothing)
        for nothing in ((), ("nothing",))
    )
    assert some[0] - none[0] == pytest.approx(400, abs=8)


@needs_engine
@pytest.mark.parametrize("kind", ["bit", "dwords", "doubles", "narrow"])
def test_masked_elements_and_bits_are_stored_where_they_lie(
    pagelens: Run, built: Callable[..., Path], tmp_path: Path, kind: str
) -> None:
    pages = []
    for arguments in ((kind,), ("none",)):
        done = pagelens(
            "trace", "-o", "a.trace", "--engine", "dynamorio", "--", built("masked_pages"), *arguments
        )
        if done.returncode == 77:
            pytest.skip("the processor lacks AVX2 or AVX-512")
        pages.append(first_writes(open_trace(tmp_path / "a.trace")))
    assert pages[0] == pages[1] + 1


WIDE = {  # accesses that the mask lets through, a round (tests/programs/wide.c)
    "moves": 5 + 5,
    "byte_moves": 14,
    "whole": 8 + 8,
    "compress": 5,
    "byte_compress": 14,
    "word_compress": 5,
    "expand": 5,
    "byte_expand": 14,
    "byte_sums": 14,
    "word_sums": 5,
    "dot_products": 5,
    "scalars": 2,
    "broadcast": 1,
    "groups": 2 + 4,
    "beyond": 0,
    "permute": 0,
    "narrow": 5,
    "gather": 5,
    "scatter": 5,
    "repeated": 5,
    # Bytes of x87, SSE, AVX, mask registers, upper halves of ZMM0-15, ZMM16-31 (Intel SDM 1, 13.4-13.5).
    "save": (160 + 256 + 256 + 64 + 512 + 1024) // 8,
    "save_used": (64 + 1024) // 8,  # with the header
    "restore_used": (64 + 1024) // 8,
}
NEWER = {  # as above (tests/programs/newer.c)
    # Elements that the mask lets through, of vectors, of one for all, of scalars, and of those of 4 bytes.
    "halves": 5 + 1 + 1 + 1 + 5 + 5 + 5,
    "tiles": 3 * 8 * 32 // 8,
}


def added_by_rounds(program: Path, folder: Path, kind: str) -> tuple[float, str]:
    """Return the accesses of a round, beside those with nothing in the masks, and what was printed.

    The processes also differ by how long their arguments are.
    """
    accesses, printed = [], []
    for nothing in ((), ("nothing",)):
        output = folder / "printed"
        with output.open("w") as file:
            command = [str(program), kind, "100", *nothing]
            request = TraceRequest(
                command, str(folder / "a.trace"), accesses=0, engine="dynamorio", stdout=file.fileno()
            )
            result = trace_program(request)
        if result.exit_status == 77:
            pytest.skip("the processor lacks these instructions")
        assert result.exit_status == 0
        accesses.append(result.accesses)
        printed.append(output.read_text())
    return (accesses[0] - accesses[1]) / 100, printed[0]


@needs_engine
@pytest.mark.parametrize("kind", WIDE)
def test_accesses_of_avx512(built: Callable[..., Path], tmp_path: Path, kind: str) -> None:
    added, _ = added_by_rounds(built("wide"), tmp_path, kind)
    assert added == pytest.approx(WIDE[kind], abs=0.8)


@needs_engine
@pytest.mark.parametrize("kind", NEWER)
def test_instructions_that_dynamorio_does_not_know(
    built: Callable[..., Path], tmp_path: Path, kind: str
) -> None:
    added, printed = added_by_rounds(built("newer"), tmp_path, kind)
    alone = subprocess.run([built("newer"), kind, "100"], capture_output=True, text=True, check=True)
    assert printed == alone.stdout
    assert added == pytest.approx(NEWER[kind], abs=0.8)


def content(trace: Path) -> tuple[list[tuple[bytes, bytes]], bytes]:
    """Return the chunks of events (frame and payload), and the fields of all other chunks, without times.

    The threads of the tracer may differ in where these fields lie between the chunks.
    """
    zstd = ctypes.CDLL("libzstd.so.1")
    zstd.ZSTD_decompress.restype = ctypes.c_size_t
    data, at = trace.read_bytes(), 12
    events, others = [], b""
    while at < len(data):
        kind, _, size, compressed = struct.unpack_from("<4I", data, at + 4)
        frame, at = data[at : at + 32], at + 32
        payload = ctypes.create_string_buffer(size)
        done = zstd.ZSTD_decompress(
            payload, ctypes.c_size_t(size), data[at : at + compressed], ctypes.c_size_t(compressed)
        )
        assert done == size
        at += compressed
        if kind == 5:
            events.append((frame[4:], payload.raw))
        else:
            others += without_times(payload.raw)
    return events, others


def without_times(fields: bytes) -> bytes:
    """Return the fields of a chunk without when the recording began and ended (docs/trace-format.md)."""
    kept, at = b"", 0
    while at < len(fields):
        tag, begin, body = fields[at], at, at + 2
        assert tag < 128
        size, shift = fields[at + 1] & 127, 7
        while fields[body - 1] >= 128:
            size, shift, body = size | (fields[body] & 127) << shift, shift + 7, body + 1
        at = body + size
        if tag == END:
            last = at - 1  # the last number is the time
            while fields[last - 1] >= 128:
                last -= 1
            kept += fields[body:last]
        elif tag != BEGAN:
            kept += fields[begin:at]
    return kept


def trace_by_code(
    monkeypatch: pytest.MonkeyPatch,
    command: list[str],
    output: Path,
    *,
    budget: int = 0,
    code_after: int,
    loops: int,
) -> None:
    """Trace a program whose blocks have code of their own after so many executions (0: never)."""
    options = tracer._tracer_options
    own = {"code_after": f"{code_after:010}", "loops": loops}
    with open(os.devnull, "w") as nowhere, monkeypatch.context() as patch:
        patch.setattr(tracer, "_tracer_options", lambda *given: options(*given) | own)
        request = TraceRequest(
            command, str(output), accesses=budget, engine="dynamorio", stdout=nowhere.fileno()
        )
        trace_program(request)


@needs_engine
@pytest.mark.parametrize(
    ("name", "arguments", "budget", "code_after"),
    [
        ("strings", ("reps",), 0, 1),
        ("strings", ("loop",), 0, 1),
        ("stream_stores", (), 0, 1),
        ("irregular", ("long_block", "300"), 0, 1),
        ("recursion", (), 0, 1),
        ("copy", ("2",), 300_000, 1),
        ("loops", ("2",), 0, 1),
        ("loops", ("2",), 0, 1 << 30),
        ("loops", ("2",), 97_000, 1),  # up to the middle of `gather`
        ("loops", ("2",), 364_000, 1000),  # up to the middle of the last loop
    ],
)
def test_code_of_blocks_and_loops_leave_the_trace_as_it_is(
    built: Callable[..., Path],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    arguments: tuple[str, ...],
    budget: int,
    code_after: int,
) -> None:
    """Blocks have code of their own from some execution on, or none ever has and none is a loop."""
    command, output = [str(built(name)), *arguments], tmp_path / "a.trace"
    contents = []
    for after, loops in ((0, 0), (code_after, 1)):
        trace_by_code(monkeypatch, command, output, budget=budget, code_after=after, loops=loops)
        contents.append(content(output))
    assert contents[0][0]
    assert contents[1] == contents[0]


@needs_engine
def test_iterations_of_loops_over_shared_lines_are_all_recorded(
    built: Callable[..., Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The strip does not hide such lines, so no iteration is left out that stays in its line."""
    output = tmp_path / "a.trace"
    trace_by_code(monkeypatch, [str(built("handed_over"))], output, code_after=1, loops=1)
    frames = [struct.unpack_from("<5I", frame) for frame, _ in content(output)[0]]
    events = sum(count for _, thread, _, _, count in frames if thread == 1)
    assert events == pytest.approx(8 * 512 * 2, rel=0.05)  # loads and stores


@needs_engine
def test_threads_may_come_and_go(pagelens: Run, built: Callable[..., Path]) -> None:
    """Each of them gives its memory back to the heap that it came from."""
    command = [built("threads"), "16"]
    alone = subprocess.run(command, capture_output=True, text=True, check=True)
    done = pagelens("trace", "--engine", "dynamorio", "--accesses", "100000", "--", *command)
    assert (done.stdout, done.returncode) == (alone.stdout, 0), done.stderr


@needs_engine
def test_registers_are_the_programs_own_after_a_fault(pagelens: Run, built: Callable[..., Path]) -> None:
    done = pagelens("trace", "--engine", "dynamorio", "--", built("faults"))
    assert (done.stdout, done.returncode) == ("done\n", 0)


def test_qemu_runs_the_program_where_the_engine_is_missing(
    in_process: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine_choice, "has_dynamorio", lambda: False)
    monkeypatch.setenv("PAGELENS_ENGINE", "dynamorio")
    done = in_process("trace", "-o", "a.trace", "--", "/bin/true")
    assert (done.returncode, done.stderr.count("\n")) == (0, 1)
    assert "no DynamoRIO, so QEMU ran the program; make engine" in done.stderr
    assert "QEMU" in open_trace(tmp_path / "a.trace").trace.producer


@pytest.mark.parametrize(("built", "engine"), [(True, "DynamoRIO"), (False, "QEMU")])
def test_dynamorio_is_the_engine_where_it_was_built(
    monkeypatch: pytest.MonkeyPatch, built: bool, engine: str
) -> None:
    monkeypatch.delenv("PAGELENS_ENGINE")
    monkeypatch.setattr(engine_choice, "has_dynamorio", lambda: built)
    monkeypatch.setattr(engine_choice, "find_dynamorio", lambda: "DynamoRIO")
    monkeypatch.setattr(engine_choice, "find_emulator", lambda: "QEMU")
    assert engine_choice.choose_engine(None, Path("/bin/true")) == (engine, None)
    assert engine_choice.choose_engine("qemu", Path("/bin/true")) == ("QEMU", None)


@needs_engine
def test_the_environment_is_the_programs_own(pagelens: Run) -> None:
    done = pagelens("trace", "--engine", "dynamorio", "--", "/usr/bin/env")
    assert "PATH=" in done.stdout
    assert "DYNAMORIO" not in done.stdout
    assert "PAGELENS_TRACER" not in done.stdout


@needs_engine
@pytest.mark.parametrize("flags", [(), ("-static",)])
def test_threads(pagelens: Run, built: Callable[..., Path], tmp_path: Path, flags: tuple[str, ...]) -> None:
    workload = traced(pagelens, tmp_path, "dynamorio", built("threads", *flags))
    assert workload.threads == 5
    assert first_writes(workload) >= 8 * MIB_PAGES


@needs_engine
@pytest.mark.parametrize("way", ["free", "discard", "brk", "remap"])
def test_temporaries_give_their_frames_back(
    pagelens: Run, built: Callable[..., Path], tmp_path: Path, way: str
) -> None:
    workload = traced(pagelens, tmp_path, "dynamorio", built("temporaries"), way)
    assert first_writes(workload) >= 20 * MIB_PAGES
    assert workload.survey.peak_pages < 3.5 * MIB_PAGES


@needs_engine
@pytest.mark.parametrize("number", [signal.SIGSEGV, signal.SIGTERM])
def test_what_a_killed_program_did_is_kept(
    pagelens: Run, built: Callable[..., Path], tmp_path: Path, number: signal.Signals
) -> None:
    done = pagelens(
        "trace", "-o", "a.trace", "--engine", "dynamorio", "--", built("signals"), str(int(number))
    )
    assert done.returncode == -number
    workload = open_trace(tmp_path / "a.trace")
    assert first_writes(workload) >= MIB_PAGES
    assert workload.trace.summary.exit_status == 128 + number


@needs_engine
@pytest.mark.parametrize("which", [(), ("another",), ("young",), ("many",), ("none",)])
def test_the_last_threads_exit_is_the_programs(
    pagelens: Run, built: Callable[..., Path], tmp_path: Path, which: tuple[str, ...]
) -> None:
    """The writer's thread is one of the process, too. Without care one run in six ends with 0."""
    done = pagelens("trace", "-o", "a.trace", "--engine", "dynamorio", "--", built("last_exit"), *which)
    assert done.returncode == 7
    assert open_trace(tmp_path / "a.trace").trace.summary.exit_status == 7


@needs_engine
@pytest.mark.parametrize("how", ["sent", "pending", "worker"])
def test_a_thread_that_ends_takes_no_signal_with_it(
    pagelens: Run, built: Callable[..., Path], how: str
) -> None:
    """It could take those that come while it ends, and those that DynamoRIO has not delivered yet."""
    done = pagelens("trace", "--no-follow-exec", "--engine", "dynamorio", "--", built("last_signal"), how)
    assert (done.stdout, done.returncode) == ("20\n", 0)


@needs_engine
@pytest.mark.parametrize("work", ["accesses", "scans"])
def test_signals_end_loops_without_system_calls(pagelens: Run, built: Callable[..., Path], work: str) -> None:
    """Most of them come while the thread works through its records, or through what a scan has read."""
    done = pagelens("trace", "--engine", "dynamorio", "--", built("alarms"), work)
    assert (done.stdout, done.returncode) == ("20 alarms\n", 0)


@needs_engine
def test_a_forked_child_does_not_write_into_its_parents_trace(
    pagelens: Run, built: Callable[..., Path], tmp_path: Path
) -> None:
    workload = traced(pagelens, tmp_path, "dynamorio", built("processes"), options=("--no-follow-exec",))
    assert first_writes(workload) < MIB_PAGES


@needs_engine
def test_children_of_a_program_of_threads_run(
    pagelens: Run, built: Callable[..., Path], tmp_path: Path
) -> None:
    """They lack the threads that may hold a lock of the tracer."""
    program = built("forks_beside_threads")
    done = pagelens("trace", "--engine", "dynamorio", "--accesses", "20000000", "--", program)
    assert (done.stdout, done.returncode) == ("5\n", 0)


@needs_engine
def test_threads_that_are_cancelled_before_they_run_end(pagelens: Run, built: Callable[..., Path]) -> None:
    """The client's libc has a copy of the cancellation, and must not act on it."""
    done = pagelens("trace", "--engine", "dynamorio", "--", built("cancel", "-DAT_ONCE"))
    assert (done.stderr, done.returncode) == ("", 0)


@needs_engine
def test_non_temporal_stores_are_told_apart(
    pagelens: Run, built: Callable[..., Path], tmp_path: Path
) -> None:
    workload = traced(pagelens, tmp_path, "dynamorio", built("stream_stores"))
    [array] = [item for item in workload.objects if item.bytes == 1 << 20]
    assert array.lines <= 2
    assert array.stored == MIB_LINES + array.lines


def test_an_engine_that_does_not_exist_is_named(pagelens: Run) -> None:
    done = pagelens("trace", "--", "/bin/true", env={"PAGELENS_ENGINE": "valgrind"})
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert (
        "PAGELENS_ENGINE valgrind: there is no such engine; choose one of compiled, dynamorio, qemu"
        in done.stderr
    )


@needs_engine
def test_registers_of_avx512_keep_their_values_from_the_first_use(
    pagelens: Run, built: Callable[..., Path]
) -> None:
    """DynamoRIO saves them as soon as a program uses one. It once took zmm0-31 and masks alone for such."""
    program = built("upper_registers", "-mavx512vl", "-nostdlib", "-static")
    if subprocess.run([program], check=False).returncode == 77:
        pytest.skip("the processor lacks AVX-512")
    done = pagelens("trace", "-o", "a.trace", "--engine", "dynamorio", "--", program)
    assert done.returncode == 0, done.stderr
