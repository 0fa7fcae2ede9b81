"""What programs do through libraries: MPI-IO, HDF5, libaio, liburing and mapped files."""

import errno
import re
import shutil
import subprocess
from pathlib import Path

import polars as pl
import pytest
from run_library import PROGRAMS

from pagelens.cli.text.io import info_lines
from pagelens.io import Recording, describe, gaps, record_program
from pagelens.io.kinds import CALLERS, DONE, KINDS, NAMES, QUEUED

ROOT = Path(__file__).parents[2]
PLUGIN = """
int H5Dwrite(long, long, long, long, long, const void*);
int run(int file, long at) { return H5Dwrite(file, 0, 0, at, 0, 0) == 8; }
int run_last(int file, long at) { return H5Dwrite(file, 0, 0, at, 0, 0); } /* a tail call */
"""
# Each plug-in is linked with a copy of the library, which nobody else sees.
PLUGINS = """
#include <dlfcn.h>
#include <fcntl.h>
int main(void) {
    int file = open("file", O_RDWR | O_CREAT | O_TRUNC, 0600);
    void* library = dlopen("./plugin_a.so", RTLD_NOW | RTLD_LOCAL);
    int (*a)(int, long) = dlsym(library, "run"), (*last)(int, long) = dlsym(library, "run_last");
    if (!a(file, 0) || !last(file, 16)) return 1;
    int (*b)(int, long) = dlsym(dlopen("./plugin_b.so", RTLD_NOW | RTLD_LOCAL), "run");
    return !b(file, 8);
}
"""
# Its reference to the function leads to the recorder, which must find the way back.
RING_PLUGIN = """
struct io_uring { void* others[24]; unsigned flags; };
int io_uring_submit(struct io_uring* ring);
int run(void) {
    unsigned mask = 0;
    struct io_uring ring = {{0, 0, &mask}};
    return io_uring_submit(&ring);
}
#ifdef AFTER /* the function lies elsewhere, and run() where it is in the other plug-in */
int other(void) { return 0; }
#endif
int io_uring_submit(struct io_uring* ring) { return ANSWER; }
"""
# The second plug-in gets the addresses of the first one, which is gone.
RING_PLUGINS = """
#include <dlfcn.h>
int main(void) {
    void* first = dlopen("./ring_first.so", RTLD_NOW | RTLD_LOCAL);
    int (*run)(void) = dlsym(first, "run"), (*again)(void);
    if (run() != 7 || run() != 7) return 1;
    dlclose(first);
    again = dlsym(dlopen("./ring_second.so", RTLD_NOW | RTLD_LOCAL), "run");
    if (again != run) return 2; /* the test shows nothing */
    return again() == 8 ? 0 : 3;
}
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A program that is linked with one copy of the libraries, and plug-ins with copies of their own."""
    made = tmp_path_factory.mktemp("libraries")
    (made / "plugin.c").write_text(PLUGIN)
    (made / "plugins.c").write_text(PLUGINS)

    def compiled(name: str, *words: str | Path) -> None:
        subprocess.run(["gcc", "-O2", "-w", "-o", made / name, *words], check=True)

    shared = ("-shared", "-fPIC")
    for letter in "mab":
        compiled(f"lib{letter}.so", *shared, PROGRAMS / "io_library.c", f"-DLETTER='{letter}'")
    for letter in "ab":
        compiled(
            f"plugin_{letter}.so",
            *shared,
            made / "plugin.c",
            f"-L{made}",
            f"-l{letter}",
            "-Wl,-rpath,$ORIGIN",
        )
    link = (f"-L{made}", "-lm_", "-Wl,-rpath,$ORIGIN")
    (made / "libm.so").rename(made / "libm_.so")
    compiled("io_libraries", PROGRAMS / "io_libraries.c", *link)
    compiled("io_plugins", made / "plugins.c")
    return made


def record(folder: Path, program: str, way: str, monkeypatch: pytest.MonkeyPatch) -> tuple[Recording, str]:
    monkeypatch.chdir(folder)
    recorded = record_program([f"./{program}", way], str(folder / "it.plio"))
    assert recorded.exit_status == 0
    return recorded.recording, "\n".join(gaps(recorded.recording))


def writes(recording: Recording) -> list[tuple[str, int]]:
    on = [n for n, file in enumerate(recording.header.files) if Path(file.path).name == "file"]
    frame = recording.operations.filter(pl.col("file").is_in(on), pl.col("kind") == KINDS["write"])
    return [(CALLERS[caller], size) for caller, size in frame.select("caller", "size").rows()]


def test_operations_name_the_outermost_function(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    recording, _ = record(folder, "io_libraries", "linked", monkeypatch)
    assert writes(recording) == [("H5Dwrite", 8), ("MPI_File_write_at", 4), ("", 3)]
    assert (folder / "file").read_bytes() == b"m" * 12 + b"own"
    shown = "\n".join(info_lines(describe(recording)))
    assert re.search(r"H5Dwrite +1 +8 B", shown)
    assert max(map(len, shown.splitlines())) <= 80


def test_each_caller_gets_the_copy_that_it_was_linked_with(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recording, _ = record(folder, "io_plugins", "copies", monkeypatch)
    assert writes(recording) == [("H5Dwrite", 8)] * 3
    assert (folder / "file").read_bytes() == b"a" * 8 + b"b" * 8 + b"a" * 8


def test_queued_operations_are_seen_counted_and_said(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    recording, notes = record(folder, "io_libraries", "queues", monkeypatch)
    wanted = ("queued_read", "queued_write", "queued_sync", "submit")
    rows = recording.operations.select("kind", "offset", "size", "result", "buffers").rows()
    assert [(NAMES[kind], *rest) for kind, *rest in rows if NAMES[kind] in wanted] == [
        ("submit", -1, 2, 2, 1),
        ("queued_write", 0, 4096, 4096, 1),
        ("queued_write", 4096, 128, 128, 2),
        ("submit", -1, 2, 1, 1),
        ("queued_write", 0, 4096, 4096, 1),  # the second one was refused
        ("submit", -1, 1, -errno.EBADF, 1),
        ("queued_read", 5, 10, 10, 1),
        ("queued_write", 8192, 8192, 8192, 1),
        ("queued_sync", 0, 0, 0, 1),
        ("submit", -1, 3, 3, 1),
    ]
    assert "6 operations went through libaio or io_uring" in notes
    assert (folder / "file").stat().st_size == 16384


def test_results_of_queued_operations_are_recorded(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    recording, notes = record(folder, "io_libraries", "results", monkeypatch)
    queued = recording.operations.filter(pl.col("kind").is_in(QUEUED))
    rows = [
        (size, result, wall > 0) for size, result, wall in queued.select("size", "result", "wall_ns").rows()
    ]
    assert rows[:66] == [(10, 10, True)] * 66  # the 67th was refused
    assert rows[66:72] == [
        (4096, 60, True),  # the file ends there
        (100, 100, False),  # two operations with one key: nobody knows which of them ended first
        (101, 101, False),
        (102, -errno.EBADF, True),
        (103, 103, True),
        (104, 104, True),
    ]
    # Five more have ended before anybody looks, and the ring has room for four.
    assert [known for _, _, known in rows[72:]] == [False, True, True, True, True]
    assert re.search(
        r"77 operations .* 74 were seen to end, after \d.* in the median, 1 with an error", notes
    )
    # Threads do other things while their operations are in a queue.
    assert [of.wall_s for of in describe(recording).kinds if of.kind == "queued_read"] == [0.0]


def test_a_function_that_was_left_by_a_jump_names_no_more(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recording, _ = record(folder, "io_libraries", "jump", monkeypatch)
    assert writes(recording) == [("MPI_File_set_size", 2), ("", 3)]


def test_large_entries_of_a_ring_are_read_as_such(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    recording, _ = record(folder, "io_libraries", "large", monkeypatch)
    kinds = [NAMES[kind] for kind in recording.operations["kind"]]
    assert [kind for kind in kinds if kind.startswith("queued")] == ["queued_write", "queued_sync"]


def test_a_plug_in_with_liburing_of_its_own_gets_that_one(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shared = ("-shared", "-fPIC", "-fno-toplevel-reorder")
    for name, text, words in (
        ("ring_first.so", RING_PLUGIN, (*shared, "-DANSWER=7")),
        ("ring_second.so", RING_PLUGIN, (*shared, "-DANSWER=8", "-DAFTER")),
        ("io_rings", RING_PLUGINS, ()),
    ):
        (folder / "code.c").write_text(text)
        subprocess.run(["gcc", "-O2", "-w", "-o", folder / name, folder / "code.c", *words], check=True)
    record(folder, "io_rings", "own", monkeypatch)


def test_mapped_files_are_said(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    recording, notes = record(folder, "io_libraries", "mapped", monkeypatch)
    assert "1.05 MB of 1 file were mapped" in notes
    faults = re.search(r"\(([\d,]+) page faults", notes)
    assert faults is not None
    assert int(faults[1].replace(",", "")) >= 16
    assert recording.header.processes[0].major_faults is not None


def test_parallel_hdf5_is_recorded_with_its_functions(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not (shutil.which("h5pcc.openmpi") and shutil.which("mpirun.openmpi")):
        pytest.skip("needs libhdf5-openmpi-dev")
    monkeypatch.chdir(tmp_path)
    subprocess.run(["h5pcc.openmpi", "-shlib", "-o", "io_hdf5", PROGRAMS / "io_hdf5.c"], check=True)
    words = ["mpirun.openmpi", "--oversubscribe", "-n", "2", "./io_hdf5", str(tmp_path / "file")]
    recorded = record_program(words, str(tmp_path / "it.plio"))
    assert recorded.exit_status == 0  # it read what it wrote
    moved = pl.DataFrame(writes(recorded.recording), schema=["caller", "bytes"], orient="row")
    by = dict(moved.group_by("caller").agg(pl.col("bytes").sum()).iter_rows())
    assert by["H5Dwrite"] == 16 << 20
    assert {process.rank for process in recorded.recording.header.processes} >= {0, 1}


def test_the_recorder_and_the_reader_number_functions_alike() -> None:
    header = (ROOT / "iorecord/callers.h").read_text()
    assert re.findall(r"DO\((\w+)\)", header) == list(CALLERS[1:])
    record_header = (ROOT / "iorecord/record.h").read_text()
    kinds = re.findall(r"^    KIND_(\w+)", record_header, re.MULTILINE)
    short = {"DATASYNC": "datasync", "SYNC_RANGE": "sync_range"}
    names = [short.get(name, name.lower()) for name in kinds]
    assert names[5:DONE] == [NAMES[n] for n in range(5, DONE)]
    assert names[DONE:] == ["done"]
