"""Traces of other simulators: binary ones are read record by record, and what is written is read again."""

import gzip
import struct
import subprocess
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from machine_roles import FLAT_MODE
from traced_program import GOLDEN

import pagelens as pl
from pagelens.accesses import binary_records
from pagelens.address.pages import parse_pages, read_pages
from pagelens.frames import Node, parse_history
from pagelens.replay import page_table, physical_lines
from pagelens.replay.physical_trace import WRITE

Run = Callable[..., subprocess.CompletedProcess[str]]
Access = tuple[int, int, int, bool, int]  # thread, address, bytes, whether it stores, instructions

ABOVE = (1 << 57) - (1 << 32)
HEADER = struct.pack("<HHQ", 25, 0, 7)
ADDRESS = st.integers(1, 1 << 16) | st.integers(1, ABOVE - 1)


class BadRecord(Exception):
    """A record that cannot be, and its number."""


def of_champsim(data: bytes) -> Iterator[Access]:
    """Slow and obvious: what each whole record of ChampSim states."""
    since = 0
    for number in range(len(data) // 64):
        _, *fields = struct.unpack("<Q8s2Q4Q", data[64 * number : 64 * number + 64])
        since += 1
        for store, addresses in ((False, fields[3:7]), (True, fields[1:3])):
            for address in filter(None, addresses):
                if address >= ABOVE:
                    raise BadRecord(number + 1)
                yield 0, address, 1, store, since
                since = 0
    yield 0, 0, 0, False, since


def of_drmemtrace(data: bytes) -> Iterator[Access]:
    """Slow and obvious: what each whole entry of drmemtrace states."""
    since: dict[int, int] = {}
    threads: dict[int, int] = {}
    thread = 0
    for number in range(len(data) // 12):
        kind, size, address = struct.unpack("<HHQ", data[12 * number : 12 * number + 12])
        if (number == 0 and kind != 25) or kind >= 50 or (kind < 2 and ABOVE <= address < 1 << 63):
            raise BadRecord(number + 1)
        if kind == 22:
            thread = threads.setdefault(address, len(threads))
        elif kind in (*range(10, 17), 31, 48, 49) or kind == 17:
            since[thread] = since.get(thread, 0) + (size if kind == 17 else 1)
        elif kind < 2 and address < 1 << 63:
            yield thread, address, max(size, 1), kind == 1, since.pop(thread, 0)
    for which, count in since.items():
        yield which, 0, 0, False, count


SLOW = {"champsim": (of_champsim, 64), "drmemtrace": (of_drmemtrace, 12)}


def recorded_slowly(form: str, accesses: list[Access], path: Path) -> bytes:
    producer = f"pagelens trace-import {form}"
    with pl.TraceRecorder(path, path.stem, producer=producer, pages_exist=True) as recorder:
        for thread, address, size, store, instructions in accesses:
            if size:
                recorder.access(thread, address, size, store, instructions)
            else:
                recorder.execute(thread, instructions)
    return path.read_bytes()


CHAMPSIM = st.builds(
    lambda stores, loads: struct.pack("<Q8s2Q4Q", 0x401000, bytes(8), *stores, *loads),
    st.tuples(*[st.just(0) | ADDRESS] * 2),
    st.tuples(*[st.just(0) | ADDRESS] * 4),
)
DRMEMTRACE = st.one_of(
    st.builds(
        lambda kind, size, a: struct.pack("<HHQ", kind, size, a),
        st.integers(0, 1),
        st.integers(0, 99),
        ADDRESS,
    ),
    st.builds(
        lambda kind: struct.pack("<HHQ", kind, 4, 0x401000), st.sampled_from([10, 16, 17, 28, 29, 31, 47, 49])
    ),
    st.builds(lambda thread: struct.pack("<HHQ", 22, 4, thread), st.integers(4711, 4713)),
    st.just(struct.pack("<HHQ", 0, 8, (1 << 64) - 64)),  # of the kernel
)


@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@pytest.mark.parametrize("form", SLOW)
@given(data=st.data())
def test_records_whole_cut_or_damaged_are_read_one_by_one(
    form: str, data: st.DataObject, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both readers make the same trace, or name the first record that is wrong."""
    slow, record_bytes = SLOW[form]
    records = data.draw(st.lists(CHAMPSIM if form == "champsim" else DRMEMTRACE, max_size=30))
    content = bytearray(b"".join([HEADER, *records] if form == "drmemtrace" else records))
    for _ in range(data.draw(st.integers(0, 2)) if content else 0):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    if data.draw(st.booleans()):
        del content[data.draw(st.integers(0, len(content))) :]
    monkeypatch.setattr(binary_records, "BATCH_RECORDS", data.draw(st.integers(1, 40)))
    (tmp_path / "app.trace").unlink(missing_ok=True)
    (tmp_path / "app.bin").write_bytes(content)

    def imported() -> pl.Workload:
        return pl.import_trace(form, tmp_path / "app.bin", tmp_path / "app.trace", progress=False)

    try:
        accesses = list(slow(bytes(content)))
    except BadRecord as error:
        with pytest.raises(pl.Failure, match=rf"app.bin: record {error}: ") as refused:
            imported()
        assert "\n" not in str(refused.value)
        assert not (tmp_path / "app.trace").exists()
        return
    if not any(size for _, _, size, _, _ in accesses):
        with pytest.raises(pl.Failure, match="holds no accesses"):
            imported()
        return
    workload = imported()
    rest = len(content) % record_bytes
    cut = f"{tmp_path}/app.bin: record {len(content) // record_bytes + 1} is cut short; imported up to there"
    filtered = "drmemtrace had filtered this trace, so counts of caches miss what it left out"
    assert [text for text in workload.warnings if text != filtered] == ([cut] if rest else [])
    if not workload.warnings:
        (tmp_path / "slow").mkdir(exist_ok=True)
        expected = recorded_slowly(form, accesses, tmp_path / "slow" / "app.trace")
        assert (tmp_path / "app.trace").read_bytes() == expected


def entries(thread: int, *addresses: int) -> bytes:
    own = [struct.pack("<HHQ", 22, 4, thread)]
    for address in addresses:
        own += [struct.pack("<HHQ", 10, 4, 0x401000), struct.pack("<HHQ", 1, 8, address)]
    return HEADER + b"".join(own)


def test_a_folder_of_drmemtrace_has_a_file_for_each_thread(tmp_path: Path) -> None:
    """Files can be zip, which drmemtrace writes in chunks, or gzip; others in the folder are left alone."""
    folder = tmp_path / "drmemtrace.app.dir"
    (folder / "trace").mkdir(parents=True)
    first, second = entries(7, 0x10000, 0x20000), entries(8, 0x10000)
    with zipfile.ZipFile(folder / "trace" / "app.7.trace.zip", "w") as packed:
        packed.writestr("chunk.0000", first[:31])
        packed.writestr("chunk.0001", first[31:])
    (folder / "trace" / "app.8.trace.gz").write_bytes(gzip.compress(second))
    (folder / "trace" / "cpu_schedule.bin").write_text("no trace")
    workload = pl.import_trace("drmemtrace", folder, tmp_path / "app.trace")
    assert workload.trace.summary is not None
    assert (workload.trace.summary.accesses, workload.trace.summary.instructions) == (3, 3)
    assert (workload.threads, workload.footprint_bytes) == (2, 2 * 4096)

    for file in (folder / "trace").glob("app.*"):
        file.unlink()
    with pytest.raises(pl.Failure, match=r"no file in it is named \*.trace\*; name the folder of the trace"):
        pl.import_trace("drmemtrace", folder, tmp_path / "none.trace")
    with pytest.raises(pl.Failure, match="Is a directory"):
        pl.import_trace("champsim", folder, tmp_path / "none.trace")


def test_what_entries_of_drmemtrace_mean(tmp_path: Path) -> None:
    """Every kind of instruction counts, and a bundle as many; an access of no size moves its line."""
    kinds = [*range(10, 17), 31, 48, 49]
    instructions = [struct.pack("<HHQ", kind, 4, 0x401000) for kind in kinds]
    others = [struct.pack("<HHQ", kind, 4, 0x401000) for kind in (2, 9, 18, 29, 30, 47)]
    filtered = struct.pack("<HHQ", 28, 9, 0x40 | 0x100)
    last = [struct.pack("<HHQ", 17, 3, 0), struct.pack("<HHQ", 0, 0, 0x1003F)]
    content = HEADER + b"".join([filtered, filtered, *instructions, *others, *last])
    (tmp_path / "app.trace.bin").write_bytes(content)
    workload = pl.import_trace("drmemtrace", tmp_path / "app.trace.bin", tmp_path / "app.trace")
    summary = workload.trace.summary
    assert summary is not None
    assert (summary.accesses, summary.instructions) == (1, len(kinds) + 3)
    assert workload.survey.lines_fetched == 1
    assert workload.warnings == [
        "drmemtrace had filtered this trace, so counts of caches miss what it left out"
    ]


def test_damaged_zip_files(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "app.trace.zip", "w", zipfile.ZIP_DEFLATED) as packed:
        packed.writestr("chunk.0000", entries(7, *range(0x10000, 0x90000, 64)))
    whole = bytearray((tmp_path / "app.trace.zip").read_bytes())
    for damaged in (whole[: len(whole) // 2], whole[:400] + bytes(300) + whole[700:]):
        (tmp_path / "app.trace.zip").write_bytes(damaged)
        with pytest.raises(pl.Failure, match=r"cannot be read \(.*\); check the file"):
            pl.import_trace("drmemtrace", tmp_path / "app.trace.zip", tmp_path / "app.trace")
        assert not (tmp_path / "app.trace").exists()


def test_pages_that_are_only_read_have_frames(tmp_path: Path) -> None:
    """ChampSim's traces begin in the middle of a program, whose pages were written long before."""
    (tmp_path / "app.bin").write_bytes(
        struct.pack("<Q8s2Q4Q", 0x401000, bytes(8), 0, 0, 0x10000, 0x20000, 0, 0)
    )
    workload = pl.import_trace("champsim", tmp_path / "app.bin", tmp_path / "app.trace")
    assert (workload.footprint_bytes, workload.share_of_zero_page) == (2 * 4096, 0)


MACHINE = pl.machine(FLAT_MODE)
POLICY = pl.policies["random"]


def node() -> Node:
    return Node(MACHINE, 1, 0, history=parse_history("boot; run"), job_bytes=1 << 20)


@pytest.mark.parametrize("form", ["dramsim3", "ramulator", "champsim"])
def test_lines_that_are_written_are_read_again(form: str, pagelens: Run, tmp_path: Path) -> None:
    words = ("--policy", "random", "--format", form, "--history", "boot; run")
    assert pagelens("trace-export", GOLDEN, *words, "-o", tmp_path / "out").returncode == 0
    workload = pl.import_trace(form, tmp_path / "out", tmp_path / "out.trace")
    lines = np.concatenate(list(physical_lines(pl.trace(GOLDEN), MACHINE, POLICY, node())))
    addresses = np.maximum(lines & ~WRITE, np.uint64(form == "champsim"))
    (tmp_path / "slow").mkdir()
    expected = tmp_path / "slow" / "out.trace"
    with pl.TraceRecorder(
        expected, "out", producer=f"pagelens trace-import {form}", pages_exist=True
    ) as recorder:
        recorder.access(0, addresses, 1, (lines & WRITE) != 0)
    assert (tmp_path / "out.trace").read_bytes() == expected.read_bytes()
    assert workload.warnings == []


def test_a_page_table_that_is_written_is_read_again(pagelens: Run, tmp_path: Path) -> None:
    """Each page of the program has the frame that its lines have."""
    words = ("--policy", "random", "--format", "v2p", "--history", "boot; run")
    done = pagelens("trace-export", GOLDEN, *words, "-o", tmp_path / "v2p.textproto")
    assert f"{len(pl.trace(GOLDEN).compile(MACHINE, 12).pages)} pages for v2p" in done.stderr
    pages, frames = page_table(pl.trace(GOLDEN), MACHINE, POLICY, node())
    found = read_pages(tmp_path / "v2p.textproto", None, "--frames")
    np.testing.assert_array_equal(found.addresses, frames.astype(np.uint64) * np.uint64(4096))
    assert set(found.sizes.tolist()) == {4096}
    assert (np.diff(pages.astype(np.int64)) > 0).all()
    lines = np.concatenate(list(physical_lines(pl.trace(GOLDEN), MACHINE, POLICY, node()))) & ~WRITE
    assert set(frames.tolist()) <= set((lines // np.uint64(4096)).tolist())
    refused = pagelens("trace-export", GOLDEN, *words, "--lines", "3", "-o", tmp_path / "x")
    assert refused.returncode == 2
    assert "--lines: has no effect on v2p" in refused.stderr


V2P = b"""# VirtualToPhysical
address_mapping_group {
  page_size: 0x200000
  address_mapping {
    virtual_address: 0x7f0000400000
    physical_address: 4194304
  }
  address_mapping {
    virtual_address: 139637976727552
    physical_address: 0x1c0000000
  }
}
"""
SAMPLES = b"""# a comment
  442 cpu/mem-loads,ldlat=30/P:     55c2bf755018        1c0034110
  442 cpu/mem-stores/P:     55c2bf756018        1c0034118
  443 page-faults:     55c2bf756018        0
  443 page-faults:     55c2bf756018        240000000
"""


def test_pages_of_other_tools() -> None:
    assert parse_pages(V2P, "v").addresses.tolist() == [0x1C0000000, 4194304]  # by virtual address
    assert parse_pages(V2P, "v").sizes.tolist() == [2 << 20] * 2
    assert parse_pages(SAMPLES, "s", "4KiB").addresses.tolist() == [0x1C0034000, 0x240000000]
    assert parse_pages(SAMPLES, "s").addresses.tolist() == [0x1C0000000, 0x240000000]


@pytest.mark.parametrize(
    ("raw", "named"),
    [
        (V2P.replace(b"0x1c0000000", b"0x1c0000xyz"), "v:10: 'physical_address: 0x1c0000xyz' is no"),
        (
            V2P.replace(b"    virtual_address: 0x7f0000400000\n", b""),
            "v:5: a physical_address has its virtual",
        ),
        (V2P.replace(b"0x200000", b"0x300000"), "v: page_size 3145728B: a power of two"),
        (V2P.replace(b"4194304", b"4198400"), "v:6: 0x401000 is no multiple of the page"),
        (
            SAMPLES + b" 443 page-faults:  55c2bf756018\n",
            "v:6: '443 page-faults:  55c2bf756018' has no physical",
        ),
        (SAMPLES + b"0x1c000000\n", "v:6: '0x1c000000' has no physical address; record with --phys-data"),
    ],
)
def test_wrong_pages_of_other_tools(raw: bytes, named: str) -> None:
    with pytest.raises(pl.UsageError, match="^" + named.replace("(", r"\(")):
        parse_pages(raw, "v")


@given(st.binary(max_size=60), st.integers(0, len(V2P)), st.sampled_from([V2P, SAMPLES]))
def test_garbage_among_pages_is_refused_in_one_line(garbage: bytes, at: int, text: bytes) -> None:
    """Whatever else comes out of it is a bug, and so is an error of two lines."""
    try:
        parse_pages(text[:at] + garbage + text[at:], "v", "4KiB")
    except pl.UsageError as error:
        refused = str(error)
    else:
        refused = ""
    assert "\n" not in refused
