"""Recordings: the file, raw logs, and offsets from positions; damaged ones are an error of one line."""

import io
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pagelens.errors import UsageError
from pagelens.io.importers.strace import read_strace
from pagelens.io.kinds import BEGIN, FILE, KINDS, NAMES, TEXT
from pagelens.io.raw_log import MAGIC, RECORD, parse_raw_log
from pagelens.io.recording import COLUMNS, File, Header, Recording, parse_recording, read_recording
from pagelens.io.resolve import resolve

O_APPEND = 0o2000


def raw_log(records: list[dict[str, Any]], process: int = 7) -> bytes:
    """A log of one chunk, as the recorder writes it; `path` becomes a text behind its record."""
    rows = []
    for record in records:
        row = np.zeros(1, RECORD)
        text = str(record.pop("path", "")).encode()
        for name, value in record.items():
            row[name] = value
        row["texts"] = -(-len(text) // 72)
        rows.append(row.tobytes())
        head = np.uint16(TEXT).tobytes() + bytes(2) + np.uint32(1).tobytes()
        rows += [head + text[at : at + 72].ljust(72, b"\0") for at in range(0, len(text), 72)]
    size = 80 * (len(rows) + 3)
    header = MAGIC + np.array([1, process], "<u4").tobytes() + np.array([size, 2], "<u8").tobytes()
    return (header.ljust(80, b"\0") + b"".join(rows)).ljust(size, b"\0")


def a_log() -> bytes:
    begin = {"kind": BEGIN, "start_ns": 1000, "offset": 1, "result": -1, "path": "/bin/app"}
    file = {"kind": FILE, "start_ns": 1010, "descriptor": 3, "size": 500, "buffers": 0o100644, "result": 5,
            "path": "/data/" + "x" * 100}  # fmt: skip
    return raw_log(
        [
            begin,
            file,
            {
                "kind": 8,
                "start_ns": 1020,
                "wall_ns": 5,
                "offset": -1,
                "size": 9,
                "result": 9,
                "descriptor": 3,
            },
            {
                "kind": 7,
                "start_ns": 1030,
                "wall_ns": 5,
                "offset": -1,
                "size": 9,
                "result": -5,
                "descriptor": 3,
            },
        ]
    )


def a_recording() -> Recording:
    log = parse_raw_log(a_log())
    assert log is not None
    return resolve([log], Header(source="recorder", command=["app"]))


def written(recording: Recording, tmp_path: Path) -> bytes:
    recording.write(tmp_path / "a.plio")
    return (tmp_path / "a.plio").read_bytes()


def test_a_log_becomes_a_recording() -> None:
    recording = a_recording()
    assert recording.header.files == [File(path="/data/" + "x" * 100, bytes=500, inode=5, file_system="0x0",
                                           cached_bytes=0)]  # fmt: skip
    assert recording.header.processes[0].program == "/bin/app"
    assert recording.header.dropped == 2
    assert recording.operations.select("start_ns", "offset", "result").rows() == [(20, 0, 9), (30, 9, -5)]


def test_a_file_gives_back_what_was_written(tmp_path: Path) -> None:
    recording = a_recording()
    again = parse_recording(written(recording, tmp_path), "it")
    assert again.header == recording.header
    assert again.operations.equals(recording.operations)


# Moves of one stream or two, as kind, amount and which of the two descriptors.
MOVES = st.lists(
    st.tuples(st.sampled_from(["read", "write", "pread", "seek", "dup", "reopen"]), st.integers(0, 1000),
              st.integers(3, 5)),
    max_size=40,
)  # fmt: skip


@given(MOVES)
@settings(max_examples=60, deadline=None)
def test_offsets_are_those_of_a_slow_walk(moves: list[tuple[str, int, int]]) -> None:
    now, records, wanted = 1000, [], []
    streams: dict[int, list[int]] = {}

    def describe(descriptor: int, position: int) -> None:
        nonlocal now
        now += 10
        streams[descriptor] = [position]
        records.append(
            {"kind": FILE, "start_ns": now, "descriptor": descriptor, "offset": position, "size": 5000,
             "buffers": 0o100644, "result": 1, "path": "/f"}
        )  # fmt: skip

    for kind, amount, descriptor in moves:
        if descriptor not in streams or kind == "reopen":
            describe(descriptor, amount)
        now += 10
        stream = streams[descriptor]
        record = {"start_ns": now, "wall_ns": 1, "descriptor": descriptor, "offset": -1, "size": amount,
                  "result": amount}  # fmt: skip
        if kind == "pread":
            records.append({**record, "kind": KINDS["read"], "offset": 77})
            wanted.append(77)
        elif kind == "seek":
            records.append({**record, "kind": KINDS["seek"], "offset": 3})
            stream[0] = amount
            wanted.append(3)
        elif kind == "dup":
            second = 3 + (descriptor - 2) % 3
            records.append({**record, "kind": KINDS["dup"], "result": second})
            streams[second] = stream
            wanted.append(-1)
        elif kind in ("read", "write"):
            records.append({**record, "kind": KINDS[kind]})
            wanted.append(stream[0])
            stream[0] += amount
    log = parse_raw_log(raw_log(records)) if records else None
    if log is not None:
        assert resolve([log], Header(source="recorder")).operations["offset"].to_list() == wanted


def mutated(content: bytes, seed: int) -> bytes:
    draw = random.Random(seed)
    changed = bytearray(content[: draw.randrange(len(content) + 1)] if draw.random() < 0.3 else content)
    for _ in range(draw.randrange(1, 12)):
        if changed:
            at = draw.randrange(len(changed))
            changed[at : at + draw.choice([1, 1, 1, 8])] = draw.randbytes(draw.choice([1, 1, 4, 8]))
    return bytes(changed)


STRACE = b"""7 1795570938.689460 openat(AT_FDCWD</x>, "/etc/passwd", O_RDONLY) = 3</etc/passwd> <0.000020>
7 1795570938.689529 dup2(3</etc/passwd>, 0</dev/null>) = 0</etc/passwd> <0.000016>
7 1795570938.689957 read(0</etc/passwd>, ""..., 64) = 64 <0.000015>
[pid 8] 1795570938.689958 pwrite64(4</tmp/a, b>, ""..., 64, 4096 <unfinished ...>
7 1795570938.690014 write(1</tmp/o>, ""..., 64) = -1 EINVAL (Invalid argument) <0.000547>
[pid 8] 1795570938.690015 <... pwrite64 resumed>) = 64 <0.000100>
7 1795570938.690848 writev(2</tmp/o>, [{iov_base=""..., iov_len=4}], 1) = 4 <0.000032>
+++ exited with 1 +++
"""


def read_raw(content: bytes) -> None:
    log = parse_raw_log(content)
    if log is not None:
        resolve([log], Header(source="recorder"))


@pytest.mark.parametrize("form", ["raw", "file", "strace"])
@given(st.integers(0, 2**32))
@settings(max_examples=50, deadline=None)
def test_damage_is_an_error_of_one_line(form: str, seed: int) -> None:
    contents: dict[str, tuple[Callable[[], bytes], Callable[[bytes], object]]] = {
        "raw": (a_log, read_raw),
        "file": (lambda: WRITTEN, lambda content: parse_recording(content, "it")),
        "strace": (lambda: STRACE, lambda content: read_strace(io.BytesIO(content), Header(source="strace"))),
    }
    make, read = contents[form]
    said = ""
    try:
        read(mutated(make(), seed))
    except UsageError as error:
        said = str(error)
    assert "\n" not in said


def test_a_part_of_a_log_has_what_was_whole() -> None:
    log = parse_raw_log(a_log()[: 80 * 6 + 40])
    assert log is not None
    assert log.records["kind"].tolist() == [BEGIN, TEXT, FILE, TEXT, TEXT]


def test_strace_calls_that_were_interrupted_are_one() -> None:
    recording = read_strace(io.BytesIO(STRACE), Header(source="strace"))
    rows = recording.operations.select("kind", "offset", "size", "result", "wall_ns").rows()
    assert [(NAMES[row[0]], *row[1:]) for row in rows] == [
        ("open", -1, 0, 3, 20000),
        ("dup", -1, 0, 0, 16000),
        ("read", 0, 64, 64, 15000),
        ("write", 4096, 64, 64, 100000),
        ("write", 0, 64, -1, 547000),
        ("write", 0, 4, 4, 32000),
    ]
    assert [file.path for file in recording.header.files] == ["/etc/passwd", "/tmp/o", "/tmp/a, b"]


def test_numbers_that_no_process_or_descriptor_has_are_left_out() -> None:
    """Fuzzing found these: 9999999999 fits into no column, and Python does not take 0000001 for a number."""
    bad = b"""9999999999 1.0 fsync(3</a>) = 0 <0.000016>
7 1.1 fsync(9999999999</a>) = 0 <0.000016>
7 1.2 fsync(3</a>) = 0000001 <0.000016>
7 1.3 fsync(3</a>) = 0 <0.000016>
"""
    recording = read_strace(io.BytesIO(bad), Header(source="strace"))
    assert recording.operations["process"].to_list() == [7]
    log = parse_raw_log(raw_log([{"kind": KINDS["dup"], "start_ns": 5, "result": 1 << 40}]))
    assert log is not None
    assert resolve([log], Header(source="recorder")).operations.height == 1


def test_the_letters_of_a_path_are_no_time() -> None:
    """A path of 73 letters leaves one letter for its second record."""
    records = [
        {"kind": FILE, "start_ns": 5000, "descriptor": 3, "buffers": 0o100644, "path": "/" + "x" * 72},
        {"kind": KINDS["read"], "start_ns": 6000, "descriptor": 3, "offset": -1},
    ]
    log = parse_raw_log(raw_log(records))
    assert log is not None
    assert resolve([log], Header(source="recorder")).operations["start_ns"].to_list() == [1000]


def test_damaged_metadata_of_columns_do_no_harm(tmp_path: Path) -> None:
    """Fuzzing found that Polars panics over metadata that are no text."""
    recording = a_recording()
    table = recording.operations.to_arrow()
    fields = [field.with_metadata({b"\xff": b"\xfe"}) for field in table.schema]
    header = {b"pagelens.io": recording.header.model_dump_json().encode()}
    pq.write_table(table.cast(pa.schema(fields, header)), tmp_path / "it.plio")
    assert parse_recording((tmp_path / "it.plio").read_bytes(), "it").operations.equals(recording.operations)


def test_recordings_without_the_column_of_callers_are_read(tmp_path: Path) -> None:
    recording = a_recording()
    table = recording.operations.drop("caller").to_arrow()
    header = {b"pagelens.io": recording.header.model_dump_json().encode()}
    pq.write_table(table.cast(table.schema.with_metadata(header)), tmp_path / "old.plio")
    assert parse_recording((tmp_path / "old.plio").read_bytes(), "it").operations.equals(recording.operations)


@pytest.mark.parametrize("content", [b"", b"PK\3\4 no recording", b"PAR1PAR1"])
def test_other_files_are_refused(content: bytes) -> None:
    with pytest.raises(UsageError, match="not a recording"):
        parse_recording(content, "it")
    with pytest.raises(UsageError, match="no call on a file"):
        read_strace(io.BytesIO(content), Header(source="strace"))


def test_parquet_of_others_and_of_later_versions_is_refused(tmp_path: Path) -> None:
    frame = pl.DataFrame(schema=COLUMNS)
    frame.write_parquet(tmp_path / "other.parquet")
    with pytest.raises(UsageError, match="no recording"):
        parse_recording((tmp_path / "other.parquet").read_bytes(), "it")
    recording = a_recording()
    later = Recording(recording.header.model_copy(update={"version": 2}), recording.operations)
    with pytest.raises(UsageError, match="version 2"):
        parse_recording(written(later, tmp_path), "it")


def _written() -> bytes:
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        return written(a_recording(), Path(folder))


WRITTEN = _written()


def test_a_device_without_end_is_no_recording() -> None:
    with pytest.raises(UsageError, match="/dev/zero is a device"):
        read_recording(Path("/dev/zero"))
