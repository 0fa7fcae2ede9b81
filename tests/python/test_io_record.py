"""The recorder of `pagelens io record`: what it sees, and that programs do not notice it."""

import os
import re
import resource
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest
from preloaded import programs_as_they_come
from run_library import PROGRAMS, build

from pagelens.host.native_files import native_file
from pagelens.io import Recording, open_recording, record_program
from pagelens.io.kinds import IN_STDIO, KINDS, NAMES
from pagelens.io.raw_log import read_raw_logs

Run = Callable[..., subprocess.CompletedProcess[str]]

CALLS = [
    ("open", 0, 0, 3),  # makes the file
    ("write", 0, 1000, 1000),
    ("write", 5000, 10, 10),
    ("write", 1000, 150, 150),
    ("seek", 500, 0, 500),
    ("read", 500, 200, 200),
    ("dup", -1, 0, 4),
    ("read", 700, 300, 300),
    ("read", 1000, 8192, 4010),
    ("read", 5010, 8192, 0),
    ("sync", -1, 0, 0),
    ("advise", 0, 0, 0),
    ("truncate", -1, 100, 0),
    ("mmap", 0, 4096, None),
    ("close", -1, 0, 0),
    ("close", -1, 0, 0),
    ("open", -1, 0, 3),
    ("write", 100, 7, 7),
    ("write", 107, 9, 9),
    ("close", -1, 0, 0),
]


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("program")
    return build(PROGRAMS / "io_calls.c", folder / "io_calls", "-w")


def record(program: Path, folder: Path, what: str) -> Recording:
    return record_program([str(program), str(folder), what], str(folder / "it.plio")).recording


def on(recording: Recording, name: str) -> pl.DataFrame:
    """The operations on the files of that name."""
    numbers = [n for n, file in enumerate(recording.header.files) if Path(file.path).name == name]
    return recording.operations.filter(pl.col("file").is_in(numbers))


def shown(frame: pl.DataFrame) -> list[tuple[str, int, int, int | None]]:
    rows = frame.select("kind", "offset", "size", "result").iter_rows()
    return [
        (NAMES[k], offset, size, None if NAMES[k] == "mmap" else result) for k, offset, size, result in rows
    ]


def test_calls_have_their_files_offsets_sizes_and_results(program: Path, tmp_path: Path) -> None:
    assert shown(on(record(program, tmp_path, "calls"), "calls")) == CALLS


def test_an_open_by_stdio_says_that_it_made_the_file(program: Path, tmp_path: Path) -> None:
    recording = record(program, tmp_path, "streams")
    found = on(recording, "appended").filter(pl.col("kind") == KINDS["open"])
    assert found["offset"].to_list() == [0, -1]
    assert (found["flags"] & os.O_CREAT != 0).all()
    failed = recording.operations.filter((pl.col("kind") == KINDS["open"]) & (pl.col("result") < 0))
    assert failed["offset"].to_list() == [-1]


def test_a_close_says_what_goes_with_a_removed_file(program: Path, tmp_path: Path) -> None:
    found = on(record(program, tmp_path, "removed"), "removed").filter(pl.col("kind") == KINDS["close"])
    assert found["size"].to_list() == [0, 100]


def test_a_static_program_is_recorded_by_strace(tmp_path: Path) -> None:
    static = build(PROGRAMS / "io_calls.c", tmp_path / "static", "-w", "-static")
    recorded = record_program([str(static), str(tmp_path), "calls"], str(tmp_path / "it.plio"))
    assert any("strace" in note for note in recorded.notes)
    # strace is not asked for mmap, and does not say where a file that is appended to ends.
    wanted = [call for call in CALLS if call[0] != "mmap"]
    found = shown(on(recorded.recording, "calls"))
    assert [(k, s, r) for k, _, s, r in found] == [(k, s, r) for k, _, s, r in wanted]
    assert [call[1] for call in found[1:13]] == [call[1] for call in wanted[1:13]]


def test_a_static_program_may_use_no_file(tmp_path: Path) -> None:
    """Its empty trace was refused, and its exit status was lost."""
    source = tmp_path / "idle.c"
    source.write_text("int main(void) { return 3; }\n")
    recorded = record_program([str(build(source, tmp_path / "idle", "-static"))], str(tmp_path / "it.plio"))
    assert (recorded.exit_status, recorded.recording.operations.height) == (3, 0)


def test_what_stdio_reads_and_writes_is_seen(program: Path, tmp_path: Path) -> None:
    found = on(record(program, tmp_path, "streams"), "stream")
    moved = found.group_by("kind").agg(pl.col("result").clip(0).sum(), pl.col("offset").max()).sort("kind")
    by_kind = {NAMES[kind]: (bytes_, last) for kind, bytes_, last in moved.iter_rows()}
    assert by_kind["read"][0] == by_kind["write"][0] == 5000
    assert by_kind["write"][1] == 4096
    moves = found.filter(pl.col("kind").is_in([KINDS["read"], KINDS["write"]]))
    assert set(moves["flags"].to_list()) == {IN_STDIO}
    assert [NAMES[k] for k in found["kind"].to_list()].count("close") == 2


def test_each_thread_is_seen_whole(program: Path, tmp_path: Path) -> None:
    recording = record(program, tmp_path, "threads")
    for name in ("t0", "t1", "t2", "t3"):
        writes = on(recording, name).filter(pl.col("size") == 16)
        assert writes["offset"].to_list() == [16 * i for i in range(300)]
        assert writes["thread"].n_unique() == 1
    assert recording.operations["thread"].n_unique() >= 4


def test_children_have_logs_of_their_own_and_share_positions(program: Path, tmp_path: Path) -> None:
    recording = record(program, tmp_path, "children")
    writes = on(recording, "shared").filter(pl.col("size") > 0)
    assert writes["size"].to_list() == [30, 12, 5, 6]
    assert writes["process"].n_unique() == 2
    assert writes["offset"].to_list()[:2] == [0, 30]
    assert on(recording, "stream").height > 0  # what the child executed
    closes = on(recording, "shared").filter(pl.col("size") == 0, pl.col("result") == 0)
    assert closes.height == 1  # and not the one of the child of the vfork


def test_a_killed_program_leaves_all_that_it_did(program: Path, tmp_path: Path) -> None:
    recorded = record_program([str(program), str(tmp_path), "killed"], str(tmp_path / "it.plio"))
    assert recorded.exit_status == -signal.SIGKILL
    assert on(open_recording(recorded.path), "killed").height == 302


def preloaded(folder: Path) -> dict[str, str]:
    return {**os.environ, "LD_PRELOAD": str(native_file("libpagelens_io.so")), "PAGELENS_IO": str(folder)}


def test_where_there_is_no_room_operations_are_dropped_and_counted(program: Path, tmp_path: Path) -> None:
    def little() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (64 << 10, 64 << 10))

    (logs := tmp_path / "logs").mkdir()
    words = [str(program), str(tmp_path), "threads"]
    subprocess.run(words, env=preloaded(logs), check=True, preexec_fn=little)
    (log,) = read_raw_logs(logs)
    assert log.dropped > 0
    assert all((tmp_path / f"t{i}").stat().st_size == 4800 for i in range(4))


@pytest.mark.parametrize("folder", ["missing", "file"])
def test_a_program_runs_where_nothing_can_be_recorded(folder: str, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    done = subprocess.run(
        ["/bin/cat", "/etc/passwd"], env=preloaded(tmp_path / folder), capture_output=True, check=True
    )
    assert done.stdout == Path("/etc/passwd").read_bytes()
    assert done.stderr == b""


@programs_as_they_come
def test_programs_do_the_same(command: list[str], tmp_path: Path) -> None:
    alone = subprocess.run(command, capture_output=True, check=False)
    with_it = subprocess.run(command, env=preloaded(tmp_path), capture_output=True, check=False)
    assert (with_it.returncode, with_it.stdout, with_it.stderr) == (
        alone.returncode, alone.stdout, alone.stderr,
    )  # fmt: skip
    assert read_raw_logs(tmp_path)


def test_the_command_says_where_the_recording_lies(tmp_path: Path, pagelens: Run) -> None:
    words = ["io", "record", "-o", "x.plio", "--", "sh", "-c", "cat /etc/passwd >copy; exit 3"]
    done = pagelens(*words)
    assert done.returncode == 3
    assert re.search(r"x\.plio holds \d+ operations on \d+ files", done.stderr)
    assert not list(tmp_path.glob("*.raw"))
    info = pagelens("io", "info", "x.plio")
    assert max(map(len, info.stdout.splitlines())) <= 80
    assert "copy" in info.stdout
