"""The library of `pagelens io run`: programs and files are as without it, and large writes are direct."""

import ctypes
import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import product
from pathlib import Path

import polars as pl
import pytest
from preloaded import programs_as_they_come
from run_library import PROGRAMS, build

from pagelens.cli.text.io_compare import render_comparison
from pagelens.errors import Failure, UsageError
from pagelens.host import all_but, named_processors
from pagelens.host.native_files import native_file
from pagelens.io import apply, open_recording
from pagelens.io.apply import Advice, Compared, compare, parse_hint, written_files
from pagelens.io.importers.builder import RecordingBuilder
from pagelens.io.kinds import KINDS
from pagelens.io.recording import Header
from pagelens.measure.files import read_file_system

Run = Callable[..., subprocess.CompletedProcess[str]]

SMALLEST = 1 << 20
DIRECT = Advice(SMALLEST)
DIVIDED = Advice(SMALLEST, threads=4)
CACHESTAT = 451
# The order of records, and so the bytes of the file, may differ from run to run.
ANY_ORDER = ("handler", "forked", "threads", "jumped")
ALIKE = (
    "plain", "append", "synchronous", "two", "mapped", "killed", "limited", "limit_within", "locks",
    "memory_ends", "reused", "daemon_like", "taken", "stream", "cancelled", "exec_locks", "leased",
    "lock_race", "destructor", "sandboxed", "spawned", "copied", "unnamed", "resized", "renumbered",
)  # fmt: skip

OVER_DATA = (
    "over", "over_memory_ends", "over_memory_gap", "over_handler", "over_threads", "over_killed",
)  # fmt: skip


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("program") / "io_apply"
    return build(PROGRAMS / "io_apply.c", made, "-w", "-pthread", "-rdynamic")


def run(program: Path, folder: Path, way: str, applied: bool, advice: Advice = DIRECT) -> tuple[int, str]:
    folder.mkdir(exist_ok=True)
    environment = advice.environment(os.environ) if applied else dict(os.environ)
    done = subprocess.run(
        [program, folder, way], env=environment, capture_output=True, text=True, timeout=60, check=False
    )
    return done.returncode, done.stdout + done.stderr


def bytes_of(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


@pytest.mark.parametrize("way", ALIKE)
def test_a_program_sees_and_leaves_the_same(way: str, program: Path, tmp_path: Path) -> None:
    plain, direct = tmp_path / "plain", tmp_path / "direct"
    assert run(program, direct, way, applied=True) == run(program, plain, way, applied=False)
    assert bytes_of(direct) == bytes_of(plain)


@pytest.mark.parametrize("way", OVER_DATA)
def test_writes_that_threads_share_are_as_whole_ones(way: str, program: Path, tmp_path: Path) -> None:
    plain, divided = tmp_path / "plain", tmp_path / "divided"
    told = run(program, divided, way, applied=True, advice=DIVIDED)
    assert told == run(program, plain, way, applied=False)
    assert bytes_of(divided) == bytes_of(plain)


def test_only_large_direct_writes_within_a_file_are_shared(program: Path, tmp_path: Path) -> None:
    """`over` makes four of them, of 9 MiB for four threads and of 2 MiB for two; one begins within a page."""
    words = ["strace", "-f", "-o", tmp_path / "calls", "-e", "trace=clone,clone3", program, tmp_path, "over"]
    environment = DIVIDED.environment(os.environ)
    try:
        subprocess.run(words, env=environment, check=True, capture_output=True)
    except FileNotFoundError:
        pytest.skip("no strace here")
    file_system = read_file_system(tmp_path)
    if not file_system.direct or file_system.direct_copies:
        pytest.skip("no direct operations here")
    calls = (tmp_path / "calls").read_text()
    assert calls.count("clone(") == 3 + 3 + 1


@pytest.mark.parametrize("way", ANY_ORDER)
def test_records_of_handlers_children_and_threads_stay_whole(way: str, program: Path, tmp_path: Path) -> None:
    status, told = run(program, tmp_path, way, applied=True)
    assert status == 0
    assert told.endswith("small ones all 1, rest 0, at the end 1\n")


def cached_pages(path: Path) -> int | None:
    """The pages of a file in the page cache by cachestat(2); None where the kernel has no such call."""
    whole, counts = (ctypes.c_uint64 * 2)(0, 0), (ctypes.c_uint64 * 5)()
    with path.open("rb") as file:
        status = ctypes.CDLL(None).syscall(CACHESTAT, file.fileno(), whole, counts, 0)
    return None if status != 0 else counts[0]


@pytest.mark.parametrize(("way", "direct"), [("killed", True), ("plain", True), ("append", False)])
def test_only_what_is_safe_is_direct(way: str, direct: bool, program: Path, tmp_path: Path) -> None:
    if not read_file_system(tmp_path).direct or read_file_system(tmp_path).direct_copies:
        pytest.skip("no direct operations here")
    run(program, tmp_path, way, applied=True)
    cached = cached_pages(tmp_path / "file")
    if cached is None:
        pytest.skip("no cachestat here")
    bytes_ = (tmp_path / "file").stat().st_size
    # Parts of `plain` are not aligned, and its holes were never read.
    assert (cached * 4096 < 0.5 * bytes_) == direct


@pytest.mark.parametrize("magic", ["0x9123683e", "0xca451a4e", "0x2fc12fc1", "0x794c7630"])
def test_a_file_system_with_checksums_is_left_alone(
    magic: str, program: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A buffer that changes during a direct write would get a wrong checksum there."""
    monkeypatch.setenv("MAGIC", magic)
    assert run(program, tmp_path, "killed", applied=True)[0] == -9
    cached = cached_pages(tmp_path / "file")
    if cached is None:
        pytest.skip("no cachestat here")
    assert cached * 4096 == (tmp_path / "file").stat().st_size


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 32 MiB of its own, in the file `image` beside it."""
    image, folder = tmp_path / "image", tmp_path / "disk"
    folder.mkdir()
    with image.open("wb") as file:
        file.truncate(32 << 20)
    made = subprocess.run(["mkfs.ext4", "-q", "-F", image], capture_output=True, check=False)
    mounted = made.returncode == 0 and subprocess.run(
        ["mount", "-o", "loop", image, folder], capture_output=True, check=False
    )
    if not mounted or mounted.returncode != 0:
        pytest.skip("needs root, mkfs.ext4 and a loop device")
    yield folder
    subprocess.run(["umount", folder], check=True)


def test_a_full_disk_is_an_error_and_what_was_written_is_there(program: Path, small_disk: Path) -> None:
    wanted = "errno 28, the file has what was written: 1, the position 1\n"
    for way, applied in product(("fill", "fill_at_once"), (False, True)):
        assert run(program, small_disk, way, applied) == (0, wanted)
        assert set((small_disk / "file").read_bytes()) == {ord("f")}


@pytest.mark.parametrize("applied", [False, True])
def test_what_was_synced_survives_a_crash(applied: bool, program: Path, small_disk: Path) -> None:
    """A copy of the disk, as it is when the program has ended, is what a crash leaves at that moment."""
    assert run(program, small_disk, "plain", applied)[0] == 0
    copy, after = small_disk.parent / "copy", small_disk.parent / "after"
    shutil.copyfile(small_disk.parent / "image", copy)
    after.mkdir()
    subprocess.run(["mount", "-o", "loop", copy, after], check=True)  # this replays the journal
    try:
        assert (after / "file").read_bytes() == (small_disk / "file").read_bytes()
        assert (after / "file").stat().st_size == 26 << 20
    finally:
        subprocess.run(["umount", after], check=True)


def test_data_are_in_the_file_before_fsync_returns(program: Path, tmp_path: Path) -> None:
    """The order of system calls: each write is over before the program goes on, and so before fsync."""
    log = tmp_path / "calls"
    words = ["strace", "-f", "-o", log, "-e", "trace=pwrite64,write,fsync"]
    library = f"LD_PRELOAD={native_file('libpagelens_io_apply.so')}"
    environment = {**os.environ, "PAGELENS_IO_DIRECT": str(SMALLEST)}
    try:
        subprocess.run([*words, "-E", library, program, tmp_path, "plain"], env=environment, check=True,
                       capture_output=True)  # fmt: skip
    except FileNotFoundError:
        pytest.skip("no strace here")
    calls = [line.split(" ", 1)[1].strip() for line in log.read_text().splitlines()]
    moved = [
        int(line.rsplit("= ", 1)[1]) for line in calls if line.startswith(("pwrite64(", "write(1", "write(3"))
    ]
    last_data = max(n for n, line in enumerate(calls) if line.startswith("pwrite64("))
    sync = next(n for n, line in enumerate(calls) if line.startswith("fsync("))
    assert last_data < sync
    assert sum(moved) >= 9 << 20  # by second descriptors, which have high numbers
    direct = [line for line in calls if line.startswith("pwrite64(") and not line.startswith("pwrite64(3,")]
    assert all(int(line.rsplit(", ", 1)[1].split(")")[0]) % 4096 == 0 for line in direct)
    assert not any("unfinished" in line for line in calls)


@programs_as_they_come
def test_programs_do_the_same(command: list[str]) -> None:
    environment = DIRECT.environment(os.environ)
    alone = subprocess.run(command, capture_output=True, check=False)
    with_it = subprocess.run(command, env=environment, capture_output=True, check=False)
    assert (with_it.returncode, with_it.stdout, with_it.stderr) == (
        alone.returncode, alone.stdout, alone.stderr,
    )  # fmt: skip


def test_a_comparison_finds_files_that_differ(
    program: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = ["sh", "-c", f"{program} {tmp_path} two >{tmp_path}/told; date +%N >{tmp_path}/time"]
    files = [tmp_path / name for name in ("file", "told", "time")]
    subprocess.run(words, check=True)
    found = compare(words, DIRECT, 1, files)
    assert (found.files, found.unequal, found.unsteady) == (3, (), (str(tmp_path / "time"),))
    assert min(found.plain_wall_s, found.applied_cpu_s) > 0
    monkeypatch.setattr(apply, "_DIRECT", "WAY")
    words = ["sh", "-c", f"echo $WAY >{tmp_path}/file"]
    subprocess.run(words, check=True)
    assert compare(words, DIRECT, 1, files[:1]).unequal == (str(tmp_path / "file"),)


@pytest.mark.parametrize(
    ("cpu_s", "wall_s", "said"),
    [
        (1.0, 1.2, "takes 20% longer: do not apply it"),
        (0.5, 1.2, "takes 20% longer, though it takes 50% less processor time: do not apply it"),
        (1.0, 0.7, "takes 30% less time"),
        (0.8, 1.01, "is as fast, and takes 20% less processor time"),
        (1.0, 0.99, "it is not worth it"),
    ],
)
def test_a_comparison_ends_in_plain_words(cpu_s: float, wall_s: float, said: str) -> None:
    found = Compared(1.0, 1.0, cpu_s, wall_s, 1, 0, (), ())
    assert said in " ".join(render_comparison(found, None, DIRECT, 3))
    doubt = "some runs of the faster way took as long" in " ".join(
        render_comparison(replace(found, overlap=True), None, DIRECT, 3)
    )
    assert doubt == (abs(wall_s - 1) > 0.05)


def test_the_model_saves_no_more_than_the_program_took() -> None:
    """It said 975 ms of 870: the model counted waits for the storage that there were not."""
    found = Compared(0.242, 0.87, 0.129, 0.903, 1, 0, (), ())
    lines = list(render_comparison(found, (0.232, 0.975), DIRECT, 3))
    assert any(line.split()[-4:] == ["232", "ms", "870", "ms"] for line in lines)


def test_the_files_of_a_comparison_are_those_that_were_written(tmp_path: Path) -> None:
    builder = RecordingBuilder(Header(source="recorder", command=["app"]), [])
    for number, name in enumerate(("read", "written", "gone")):
        builder.file(str(tmp_path / name), file_system="ext4")
        builder.add("read" if name == "read" else "write", file=number, size=5, result=5)
    for name in ("read", "written"):
        (tmp_path / name).touch()
    assert written_files(builder.build()) == [tmp_path / "written"]
    ways = {
        "copied": ("copy", {"result": 5}),
        "queued": ("queued_write", {"result": 5}),
        "cut": ("truncate", {"result": 0}),
        "mapped": ("mmap", {"result": 4096, "flags": 1, "buffers": 3}),
        "read-mapped": ("mmap", {"result": 4096, "flags": 1, "buffers": 1}),
        "private": ("mmap", {"result": 4096, "flags": 2, "buffers": 3}),
        "refused": ("mmap", {"result": -13, "flags": 1, "buffers": 3}),
    }
    for number, (name, (kind, columns)) in enumerate(ways.items(), 3):
        (tmp_path / name).touch()
        builder.file(str(tmp_path / name), file_system="ext4")
        builder.add(kind, file=number, **columns)
    expected = [tmp_path / name for name in ("copied", "cut", "mapped", "queued", "written")]
    assert written_files(builder.build()) == expected
    assert isinstance(builder.build().operations, pl.DataFrame)


def test_hints_reach_romio_by_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(apply, "measured_file", lambda: tmp_path / "cache" / "this-machine.toml")
    own = tmp_path / "own"
    own.write_text("cb_nodes 2\nromio_cb_write enable\n\n")
    hints = tuple(map(parse_hint, ("cb_buffer_size=64MiB", "cb_nodes=4")))
    environment = Advice(None, hints).environment({"ROMIO_HINTS": str(own), "HOME": "/"})
    assert environment.keys() == {"ROMIO_HINTS", "HOME"}
    told = Path(environment["ROMIO_HINTS"]).read_text()
    assert told == "romio_cb_write enable\ncb_buffer_size 67108864\ncb_nodes 4\n"
    assert Advice(None).environment({"HOME": "/"}) == {"HOME": "/"}
    with pytest.raises(Failure, match="set ROMIO_HINTS"):
        Advice(None, hints).environment({"ROMIO_HINTS": str(tmp_path / "missing")})
    for bad in ("cb_nodes", "cb nodes=1", "=1", "cb_buffer_size=many", "x=a b"):
        with pytest.raises(UsageError, match="--hint"):
            parse_hint(bad)


def test_mpich_writes_as_the_hints_say(tmp_path: Path) -> None:
    """Without collective buffering each rank writes its own parts, and they are smaller."""
    program = tmp_path / "io_mpi"
    source = PROGRAMS / "io_mpi.c"
    if not (shutil.which("mpicc.mpich") and shutil.which("mpirun.mpich")):
        pytest.skip("needs MPICH")
    subprocess.run(["mpicc.mpich", "-o", program, source], check=True)
    sizes = []
    for how in ("enable", "disable"):
        (tmp_path / how).mkdir()
        words = [
            "pagelens", "io", "run", "--apply", "hints", "--hint", f"romio_cb_write={how}", "--", "pagelens",
            "io", "record", "-o", str(tmp_path / how / "it.plio"), "--", "mpirun.mpich", "-n", "2",
            str(program), str(tmp_path / how / "file"),
        ]  # fmt: skip
        subprocess.run(words, check=True, capture_output=True, timeout=60)
        recording = open_recording(tmp_path / how / "it.plio")
        paths = [Path(file.path) for file in recording.header.files]
        on_file = pl.col("file") == paths.index(tmp_path / how / "file")
        writes = recording.regular.filter(on_file, pl.col("kind") == KINDS["write"])
        sizes.append(writes["result"].max())
    assert sizes == [64 << 10, 32 << 10]
    assert (tmp_path / "enable/file").read_bytes() == (tmp_path / "disable/file").read_bytes()


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="one processor cannot be left")
def test_processors_are_left_to_the_kernel(pagelens: Run, tmp_path: Path) -> None:
    cores = len(os.sched_getaffinity(0))
    words = ["io", "run", "--apply", "hints", "--leave-cores", "1"]
    assert pagelens(*words, "--", "nproc").stdout == f"{cores - 1}\n"
    compare(["sh", "-c", f"nproc >>{tmp_path}/told"], Advice(None, (), tuple(all_but(1))), 1, [])
    assert (tmp_path / "told").read_text() == f"{cores}\n{cores - 1}\n"
    assert len(os.sched_getaffinity(0)) == cores
    bad = pagelens("io", "run", "--leave-cores", str(cores), "--", "true")
    assert bad.returncode == 2
    assert f"0 to {cores - 1}" in bad.stderr


def test_a_program_runs_on_the_processors_that_are_named(
    pagelens: Run, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    last = max(os.sched_getaffinity(0))
    words = ["io", "run", "--apply", "hints", "--cores"]
    told = pagelens(*words, str(last), "--", "grep", "Cpus_allowed_list", "/proc/self/status")
    assert told.stdout.split() == ["Cpus_allowed_list:", str(last)]
    for bad, why in (("1-", "such as 0-3,8"), ("3-2", "such as 0-3,8"), ("99999", "this process may run on")):
        with pytest.raises(UsageError, match=why):
            named_processors(bad, "--cores")


def test_the_command_becomes_the_program(pagelens: Run) -> None:
    words = ["io", "run", "--", "sh", "-c", "echo $PAGELENS_IO_DIRECT; exit 3"]
    done = pagelens(*words)
    assert (done.returncode, done.stdout, done.stderr) == (3, f"{SMALLEST}\n", "")
    bad = pagelens("io", "run", "--request", "1KiB", "--", "true")
    assert bad.returncode == 2
    assert "64 KiB to 1 GiB" in bad.stderr
