"""Logs of Darshan, strace and fio as recordings, and their replay on scratch files."""

import os
import random
import stat
import subprocess
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

import polars as pl
import pytest

from pagelens.errors import UsageError
from pagelens.io import import_log, replayable
from pagelens.io.importers.builder import RecordingBuilder
from pagelens.io.kinds import NAMES
from pagelens.io.recording import Header
from pagelens.measure.files import replay, variants, ways
from pagelens.measure.files.ways import Variant, _operations

Run = Callable[..., subprocess.CompletedProcess[str]]

FIO = b"""fio version 2 iolog
/data/a add
/data/a open
/data/a write 0 4096
/data/a write 4096 4096
/data/a sync 0 0
/data/b open
/data/b read 8192 100
/data/a close
"""


def write(path: Path, content: bytes) -> Path:
    path.write_bytes(content)
    return path


def test_a_log_of_fio_has_its_operations(tmp_path: Path) -> None:
    recording = import_log(write(tmp_path / "log", FIO))
    rows = recording.operations.select("kind", "file", "offset", "size").rows()
    assert [(NAMES[row[0]], *row[1:]) for row in rows] == [
        ("open", 0, -1, 0),
        ("write", 0, 0, 4096),
        ("write", 0, 4096, 4096),
        ("sync", 0, -1, 0),
        ("open", 1, -1, 0),
        ("read", 1, 8192, 100),
        ("close", 0, -1, 0),
    ]
    third = FIO.replace(b"version 2", b"version 3").replace(b"\n/data", b"\n17 /data")
    again = import_log(write(tmp_path / "third", third))
    assert (
        again.operations.select("kind", "offset").rows()
        == recording.operations.select("kind", "offset").rows()
    )


@pytest.mark.parametrize("line", [b"/data/a frob 1 2", b"/data/a write 0", b"/data/a write -1 5", b"/data/a"])
def test_a_line_of_fio_that_makes_no_sense_is_named(line: bytes, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="line 10"):
        import_log(write(tmp_path / "log", FIO + line + b"\n"))


def sample(name: str) -> Path:
    found = find_spec("darshan")
    assert found is not None
    assert found.origin is not None
    return Path(found.origin).parent / name


def test_darshan_traces_have_operations_and_counters_have_none() -> None:
    recording = import_log(sample("tests/input/sample-dxt-simple.darshan"))
    assert recording.header.source == "darshan"
    assert [Path(file.path).name for file in recording.header.files] == ["test.out_cid-0-3400.sm", "test.out"]
    rows = recording.operations.filter(pl.col("file") == 0).select("kind", "offset", "size").rows()
    assert [(NAMES[row[0]], *row[1:]) for row in rows] == [("write", 0, 40)]
    with pytest.raises(UsageError, match="DXT_ENABLE_IO_TRACE"):
        import_log(sample("tests/input/noposix.darshan"))


def test_damaged_darshan_logs_are_refused(tmp_path: Path) -> None:
    whole = sample("tests/input/sample-dxt-simple.darshan").read_bytes()
    draw = random.Random(1)
    changed = bytearray(whole)
    for _ in range(40):
        changed[draw.randrange(len(changed))] = draw.randrange(256)
    for content in (whole[:500], bytes(changed)):
        with pytest.raises(UsageError, match=r"pydarshan cannot read it|DXT_ENABLE"):
            import_log(write(tmp_path / "x.darshan", content))


def test_merging_keeps_every_byte_and_moves_none_across_a_sync(tmp_path: Path) -> None:
    lines = [b"fio version 2 iolog"]
    lines += [b"/a write %d 1000" % (1000 * n) for n in range(10)]
    lines += [b"/a sync 0 0"]
    lines += [b"/a write %d 1000" % (1000 * n) for n in range(10, 15)]
    transfers, _ = replayable(import_log(write(tmp_path / "log", b"\n".join(lines) + b"\n")))
    merged = _operations(transfers, Variant("merged", 4000))
    assert merged.kinds.tolist() == [1, 1, 1, 2, 1, 1]
    assert merged.bytes.tolist() == [4000, 4000, 2000, 0, 4000, 1000]
    assert merged.offsets.tolist() == [0, 4000, 8000, 0, 10000, 14000]


def test_a_replay_makes_the_operations_of_each_way_and_leaves_nothing(tmp_path: Path) -> None:
    transfers, lengths = replayable(import_log(write(tmp_path / "log", FIO)))
    (folder := tmp_path / "scratch").mkdir()
    done = replay(transfers, lengths, folder, variants(1 << 20, direct=True), rounds=1)
    assert [way.operations for way in done] == [4, 3, 3]
    assert all(0 < way.cpu_s <= way.wall_s for way in done)
    assert list(folder.iterdir()) == []


def test_the_commands_import_and_replay(tmp_path: Path, pagelens: Run) -> None:
    write(tmp_path / "log", FIO)
    for words in (["import", "log"], ["replay", "log.plio", ".", "--rounds", "1"]):
        done = pagelens("io", *words)
        assert done.returncode == 0, done.stderr
        assert max(map(len, done.stdout.splitlines())) <= 130
    assert "as recorded" in done.stdout
    bad = pagelens("io", "replay", "log.plio", "nowhere")
    assert (bad.returncode, bad.stderr.count("\n")) == (2, 1)


def test_what_was_direct_is_replayed_as_direct(tmp_path: Path) -> None:
    builder = RecordingBuilder(Header(source="recorder"), [])
    file = builder.file("/a")
    for number, direct in enumerate((True, False)):
        builder.add(
            "write", file=file, start_ns=number, offset=4096 * number, size=4096, result=4096, direct=direct
        )
    transfers, lengths = replayable(builder.build())
    assert _operations(transfers, Variant("as recorded")).direct.tolist() == [True, False]
    assert _operations(transfers, Variant("direct", 8192, True)).direct.all()
    (done,) = replay(transfers, lengths, tmp_path, [Variant("as recorded")], rounds=1)
    assert done.operations == 2


def test_a_direct_replay_finds_no_pages_in_the_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    forgotten: list[int] = []
    monkeypatch.setattr(ways, "forget", forgotten.append)
    transfers, _ = replayable(import_log(write(tmp_path / "log", FIO)))
    cached = [(8192, True), (8292, True)]
    replay(transfers, cached, tmp_path, [Variant("as recorded")], rounds=1)
    assert not forgotten
    replay(transfers, cached, tmp_path, [Variant("direct", 4096, True)], rounds=1)
    assert len(forgotten) == 1  # only of the other file there is too little for a request


def test_each_way_begins_when_the_journal_of_the_last_one_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else new blocks took four times as long to find as the transfers took."""
    synced: list[bool] = []
    monkeypatch.setattr(os, "fsync", lambda file: synced.append(stat.S_ISDIR(os.fstat(file).st_mode)))
    transfers, lengths = replayable(import_log(write(tmp_path / "log", FIO)))
    replay(transfers, lengths, tmp_path, variants(1 << 20, direct=False), rounds=3)
    assert synced.count(True) == 6
