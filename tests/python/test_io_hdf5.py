"""Properties of HDF5 that `pagelens io run` sets: files hold the same, and chunks are transferred once."""

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from run_library import PROGRAMS
from test_io_model import recording_of, transfer, with_tables

from pagelens.cli.text.io_compare import render_comparison
from pagelens.errors import UsageError
from pagelens.io import Advice, compare, parse_property, record_program
from pagelens.io.apply import next_prime
from pagelens.io.classify import classify
from pagelens.io.hdf5_content import content_digest, is_hdf5
from pagelens.io.kinds import CALLERS
from pagelens.io.library_ways import repeated_chunks
from pagelens.io.what_if import options, saved_by_advice

h5py = pytest.importorskip("h5py")

Run = Callable[..., subprocess.CompletedProcess[str]]

PAGE = 4096
BOTH = Advice(smallest=None, hdf5=(("alignment", PAGE), ("cache", 4 << 20)))
# Rows across 256 chunks of 4 KiB, with a cache for 16 of them. HDF5 has to fetch each chunk for each row.
ACROSS = """
import h5py, numpy as np
with h5py.File("across.h5", "w", rdcc_nbytes=65536) as f:
    f["note"] = "x" * 100
    d = f.create_dataset("d", (8, 256 * 64), "f8", chunks=(8, 64))
    for i in range(8):
        d[i] = np.arange(256 * 64) + i
"""


@pytest.fixture
def across(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The words that run ACROSS in the test's own folder, which is the working one."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "across.py").write_text(ACROSS)
    return [sys.executable, "across.py"]


def test_a_comparison_compares_what_files_of_hdf5_hold(
    across: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    subprocess.run(across, check=True)
    plain, files = Path("across.h5").read_bytes(), [tmp_path / "across.h5"]
    done = compare(across, BOTH, 1, files)  # the last run is with the advice
    assert (done.files, done.hdf5, done.unequal, done.unsteady) == (1, 1, (), ())
    assert Path("across.h5").read_bytes() != plain
    with h5py.File("across.h5") as file:
        assert file["d"].id.get_chunk_info(0).byte_offset % PAGE == 0
        assert file["d"].id.get_chunk_info(255).byte_offset % PAGE == 0
    monkeypatch.setattr("pagelens.io.apply.can_compare", lambda: False)
    with pytest.raises(UsageError, match="install pagelens with its extra"):
        compare(across, BOTH, 1, files)


def test_a_cache_for_all_chunks_makes_the_requests_that_were_predicted(across: list[str]) -> None:
    frame = classify(record_program(across, "plain.plio").recording)
    repeated, need = repeated_chunks(frame)
    assert need == 1 << 20
    left = chunks(frame.filter(pl.Series(~repeated)))
    assert chunks(frame) > 5 * left
    run = [sys.executable, "-m", "pagelens", "io", "run", "--apply", "hints", "--hdf5", "cache=1MiB", "--"]
    cached = classify(record_program([*run, *across], "cached.plio").recording)
    assert left == chunks(cached)
    assert 256 <= left < 260  # each is written once, and none is read; some other data are as large
    io = with_tables()
    recording = record_program(across, "plain.plio").recording
    assert saved_by_advice(recording, io, None, {"cache": 1 << 20}) is not None
    assert saved_by_advice(recording, io, None, {"cache": 1 << 19}) is None  # too small for all chunks


def chunks(frame: pl.DataFrame) -> int:
    """Return the number of buffered writes of that size, and of reads by HDF5."""
    writes = pl.col("path").is_in(["write", "overwrite"])
    return frame.filter(pl.col("bytes") == PAGE, writes | (pl.col("caller") > 0)).height


def test_only_chunks_that_come_again_before_a_data_set_is_opened_are_spared() -> None:
    write, read, opens = (CALLERS.index(name) for name in ("H5Dwrite", "H5Dread", "H5Dopen2"))
    operations = [
        transfer("write", 0, caller=write),  # not the last one
        transfer("read", 0, caller=write),  # the chunk was written before
        transfer("write", PAGE, caller=write),
        transfer("write", 0, caller=write),
        transfer("read", 2 * PAGE, 512, caller=opens),
        transfer("read", 0, caller=read),  # opened anew
        transfer("read", 0, caller=read),
        transfer("read", 0),  # by a function without a name
        transfer("read", 3 * PAGE),  # this is no chunk
        transfer("read", 3 * PAGE),
    ]
    frame = classify(recording_of(operations, [{"bytes": 1 << 20}]))
    repeated, need = repeated_chunks(frame)
    assert repeated.tolist() == [True, True, False, False, False, False, True, True, False, False]
    assert need == 1 << 20
    way = next(way for way in options(frame, with_tables()) if way.key == "hdf5-cache")
    assert np.flatnonzero(way.cost.cpu_s == 0).tolist() == [0, 1, 6, 7]
    assert way.applied_by == "--apply hints --hdf5 cache=1MiB"


@pytest.mark.parametrize("kind", ["mpich", "openmpi"])
def test_parallel_files_hold_the_same(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if not (shutil.which(f"h5pcc.{kind}") and shutil.which(f"mpirun.{kind}")):
        pytest.skip(f"needs libhdf5-{kind}-dev")
    monkeypatch.chdir(tmp_path)
    subprocess.run([f"h5pcc.{kind}", "-shlib", "-o", "io_hdf5", PROGRAMS / "io_hdf5.c"], check=True)
    more = ["--oversubscribe", "--allow-run-as-root"] if kind == "openmpi" else []
    offsets, digests = [], []
    for environment in (dict(os.environ), BOTH.environment(os.environ)):
        subprocess.run([f"mpirun.{kind}", *more, "-n", "2", "./io_hdf5", "file"], check=True, env=environment)
        with h5py.File("file") as file:
            offsets.append(file["rows"].id.get_offset() % PAGE)
        digests.append(content_digest(Path("file")))
    assert offsets[0] != 0
    assert offsets[1] == 0
    assert digests[0] == digests[1]


POINT = np.dtype({"names": ["a", "b"], "formats": ["i1", "f8"], "offsets": [0, 8], "itemsize": 16})


def write_everything(path: Path, **access: Any) -> None:
    """Write a file with objects of each kind. `access` places them elsewhere."""
    with h5py.File(path, "w", **access) as f:
        f.attrs["title"], f.attrs["n"] = "a file", np.arange(3)
        f["group/numbers"] = np.arange(1000.0)
        f.create_dataset("packed", data=np.arange(5000), chunks=(100,), compression="gzip")
        f["words"] = ["one", "three"]
        f["points"] = np.zeros(3, POINT)
        f["link"], f["hard"] = h5py.SoftLink("/packed"), f["group/numbers"]
        f["group/up"] = f["group"]  # a circle
        f["to"] = np.array([f["packed"].ref, f["group"].ref], dtype=h5py.ref_dtype)
        f["part"] = np.array([f["packed"].regionref[3:9]], dtype=h5py.regionref_dtype)
        f["ragged"] = np.array([np.arange(2), np.arange(4)], dtype=object).astype(h5py.vlen_dtype("i8"))
        f["one"], f["none"] = 3, h5py.Empty("f4")
        f["type"] = np.dtype("i4")


def test_where_objects_lie_does_not_matter(tmp_path: Path) -> None:
    write_everything(tmp_path / "a")
    write_everything(tmp_path / "b", alignment_threshold=64, alignment_interval=512, libver="earliest")
    assert (tmp_path / "a").stat().st_size != (tmp_path / "b").stat().st_size
    assert content_digest(tmp_path / "a") == content_digest(tmp_path / "b")


CHANGES: dict[str, Callable[[Any], Any]] = {
    "a value": lambda f: f["group/numbers"].__setitem__(999, 7),
    "a value in a chunk": lambda f: f["packed"].__setitem__(4999, 7),
    "a word": lambda f: f["words"].__setitem__(1, "tree"),
    "a field": lambda f: f["points"].__setitem__((1, "b"), 1.0),
    "an attribute": lambda f: f.attrs.__setitem__("n", np.arange(4)),
    "the type of an attribute": lambda f: f.attrs.__setitem__("n", np.arange(3, dtype="i2")),
    "an object more": lambda f: f.__setitem__("more", 1),
    "where a link leads": lambda f: (f.__delitem__("link"), f.__setitem__("link", h5py.SoftLink("/words"))),
    "where a reference leads": lambda f: f["to"].__setitem__(0, f["words"].ref),
    "the part that a reference means": lambda f: f["part"].__setitem__(0, f["packed"].regionref[3:10]),
    "a ragged row": lambda f: f["ragged"].__setitem__(0, np.arange(3)),
    "a single value": lambda f: f["one"].__setitem__((), 4),
    "a copy for a second name": lambda f: (f.__delitem__("hard"), f.__setitem__("hard", np.arange(1000.0))),
}


@pytest.mark.parametrize("change", CHANGES)
def test_every_change_of_a_file_is_found(change: str, tmp_path: Path) -> None:
    path = tmp_path / "a"
    write_everything(path)
    before = content_digest(path)
    with h5py.File(path, "a") as file:
        CHANGES[change](file)
    assert content_digest(path) != before


def test_where_a_ragged_row_ends_counts(tmp_path: Path) -> None:
    for name, rows in (("a", ([1, 2], [3])), ("b", ([1], [2, 3]))):
        with h5py.File(tmp_path / name, "w") as file:
            data = file.create_dataset("rows", 2, h5py.vlen_dtype("i4"))
            for number, row in enumerate(rows):
                data[number] = row
    assert content_digest(tmp_path / "a") != content_digest(tmp_path / "b")


@pytest.mark.parametrize("name", [b"when", b"caf\xe9"])
def test_what_h5py_cannot_express_cannot_be_read(name: bytes, tmp_path: Path) -> None:
    with h5py.File(tmp_path / "a", "w") as file:
        kind = h5py.h5t.UNIX_D32LE if name == b"when" else h5py.h5t.STD_I32LE
        h5py.h5d.create(file.id, name, kind, h5py.h5s.create_simple((4,)))
        file["text"] = 1
    with pytest.raises(OSError, match="HDF5 cannot read it"):
        content_digest(tmp_path / "a")


def test_files_that_cannot_be_read_do_not_count_as_equal(
    across: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    subprocess.run(across, check=True)

    def without_filter(path: Path) -> str:
        raise OSError(f"Can't open {path.name} (required filter 'zfp' is not registered)")

    monkeypatch.setattr("pagelens.io.apply.content_digest", without_filter)
    done = compare(across, BOTH, 1, [tmp_path / "across.h5"])
    assert (done.hdf5, done.unequal, done.unsteady) == (0, (), ())
    assert done.unread == (str(tmp_path / "across.h5"),)
    said = " ".join(render_comparison(done, None, BOTH, 1))
    assert "Of 1 file that the program wrote, 0 have" in said
    assert "could not be read" in said


def test_damaged_and_other_files(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "a", "w", userblock_size=1024) as file:
        file["x"] = np.arange(100000)
    assert is_hdf5(tmp_path / "a")
    data = (tmp_path / "a").read_bytes()
    (tmp_path / "cut").write_bytes(data[: len(data) // 2])
    (tmp_path / "other").write_bytes(b"x" * 5000)
    assert not is_hdf5(tmp_path / "other")
    assert not is_hdf5(tmp_path / "missing")
    with pytest.raises(OSError, match=r"\w"):
        content_digest(tmp_path / "cut")
    before = content_digest(tmp_path / "a")
    with (tmp_path / "a").open("r+b") as file:
        file.write(b"x")
    assert content_digest(tmp_path / "a") != before


def test_properties_out_of_range_are_refused(in_process: Run) -> None:
    assert parse_property("cache=64MiB") == ("cache", 64 << 20)
    refused = {
        "cache": "is not a size",
        "chunks=4KiB": "alignment=SIZE or",
        "cache=4KiB": "1 MiB to 1 GiB",
        "alignment=1B": "2 B to 1 GiB",
        "alignment=2GiB": "2 B to 1 GiB",
    }
    for text, why in refused.items():
        with pytest.raises(UsageError, match=why):
            parse_property(text)
    assert [next_prime(n) for n in (1, 8, 65536)] == [2, 11, 65537]
    done = in_process("io", "run", "--apply", "hints", "--hdf5", "cache=1B", "--", "true")
    assert done.returncode == 2
    assert "--hdf5 cache=1B: 1 MiB to 1 GiB" in done.stderr
