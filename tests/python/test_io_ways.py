"""Other ways of MPI-IO, HDF5 and cores, held to counts by hand and to MPICH itself."""

import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from test_io_model import MACHINE, PAGE, recording_of, transfer, with_tables

from pagelens.io import Recording, explain_recording, record_program
from pagelens.io.classify import classify, made_direct
from pagelens.io.kinds import CALLERS, IN_STDIO, KINDS
from pagelens.io.library_ways import HDF5_DATA, larger_chunks
from pagelens.io.option import Option, Run, speed_up
from pagelens.io.predict import predict, table_cost
from pagelens.io.what_if import LARGE, options, saved_by_advice
from pagelens.io.why_not import why_not_applied
from pagelens.machine import Io

TOGETHER, ALONE = CALLERS.index("MPI_File_write_at_all"), CALLERS.index("MPI_File_write_at")
DATASET = CALLERS.index("H5Dwrite")
PART = 8 * PAGE
KERNEL = {"sync_work": '"1 GB/s"', "writers": "2", "writers_apart": "1.6"}
PROGRAMS = Path(__file__).parents[1] / "programs"
PROGRAM = PROGRAMS / "io_mpi.c"


def found(operations: list[dict[str, Any]], io: Io, run: Run | None = None) -> dict[str, Option]:
    return {option.key: option for option in options(classify(recording_of(operations)), io, run)}


def of_ranks(caller: int, ranks: int = 4, calls: int = 3) -> list[dict[str, Any]]:
    return [
        transfer("write", (call * ranks + rank) * PART, PART, process=rank, thread=rank, caller=caller)
        for call in range(calls)
        for rank in range(ranks)
    ]


def test_two_threads_are_advised_where_more_are_slower() -> None:
    """Two writers can have what the storage takes, and more of them only stand in their way."""
    writes = [transfer("write", PAGE * n) for n in range(4)]
    way = found(writes, with_tables(writers="8", writers_apart="1.2", two_writers_apart="1.6"))["threads"]
    assert way.title == "2 threads, a core each"
    assert way.wall_s.sum() == pytest.approx(way.cost.cpu_s.sum() / 1.6)
    way = found(writes, with_tables(writers="8", writers_apart="4.0", two_writers_apart="1.6"))["threads"]
    assert way.title == "8 threads, a core each"


def test_aggregators_make_one_request_of_each_call() -> None:
    io = with_tables(writers="2", writers_apart="1.0")
    way = found(of_ranks(TOGETHER), io)["aggregators"]
    assert way.title == "1 aggregator, 1 MiB buffers"
    whole = 4 * PART  # of a call
    each = 4e-6 + (whole - PAGE) / ((1 << 20) - PAGE) * 252e-6  # by the table
    copies = 2 * 3 * whole / 10e9
    assert way.cost.cpu_s.sum() == pytest.approx(3 * each + copies)
    assert way.wall_s.sum() == pytest.approx(3 * each + copies)
    several = found(of_ranks(TOGETHER), with_tables(writers="4", writers_apart="4.0"))["aggregators"]
    assert several.title == "4 aggregators, 1 MiB buffers"
    before = found(of_ranks(TOGETHER), io)["as-it-ran"].wall_s.sum()  # as much as before, and the copies
    assert several.wall_s.sum() == pytest.approx(before + copies)
    work = '[["1 B", "1 us", "1 us"], ["64 MiB", "11 us", "111 us"]]'
    late = [{**of, "start_ns": 10**9 * n} for n, of in enumerate(of_ranks(TOGETHER))]
    later = found(late, with_tables(writers="2", writers_apart="1.0", write_after_work=work))["aggregators"]
    # Of the 12 transfers, 8 come after a pause and take 10 us longer. Requests do so as often.
    assert later.cost.cpu_s.sum() - way.cost.cpu_s.sum() == pytest.approx(3 * 10e-6 * 8 / 12)
    assert "aggregators" not in found(of_ranks(ALONE), io)
    assert "aggregators" not in found(of_ranks(TOGETHER, ranks=1), io)


def test_several_writers_gain_what_was_measured_and_no_more() -> None:
    io = with_tables(writers="4", writers_apart="2.5")
    assert [speed_up(io, n) for n in (1, 4, 8)] == pytest.approx([1, 2.5, 2.5])
    assert speed_up(io, 2) == pytest.approx(1.25 / 0.75)
    assert speed_up(with_tables(), 4) == 1
    told = with_tables(writers="4", writers_apart="2.5", two_writers_apart="1.9")
    assert [speed_up(told, n) for n in (1, 2, 4)] == pytest.approx([1, 1.9, 2.5])


def test_larger_buffers_of_stdio_merge_its_writes_without_another_copy() -> None:
    io = with_tables()
    inside = [transfer("write", at * PAGE, flags=IN_STDIO) for at in range(256)]
    way = found(inside, io)["stdio-buffers"]
    assert way.applied_by == "--apply hints --buffer 1MiB"
    assert way.cost.cpu_s.sum() == pytest.approx(256e-6)  # one write of 1 MiB, by the table
    saved = 256 * 4e-6 - 256e-6
    assert saved_by_advice(recording_of(inside), io, None, {}, buffer=1 << 20) == pytest.approx(
        (saved, saved)
    )
    for others in (
        [transfer("write", at * PAGE) for at in range(256)],
        [{**of, "append": True} for of in inside],
        [{**of, "descriptor": 2} for of in inside],  # dd reports to stderr
        [{**of, "synchronous": True} for of in inside],
        [transfer("read", at * PAGE, flags=IN_STDIO) for at in range(256)],
    ):
        assert "stdio-buffers" not in found(others, io)


def test_threads_that_share_a_write_have_its_parts_in_flight() -> None:
    """A direct write of 1 MiB takes 500 us, 50 of them busy. Of two in flight, one ends every 450 us."""
    in_flight = '[[2, "1 MiB", "60 us", "450 us"]]'
    io = with_tables(direct_write_in_flight=in_flight)
    data = [{"bytes": 8 << 20}]
    writes = [transfer("write", 0, 4 << 20, address=4096), transfer("write", 16 << 20, 4 << 20, address=4096)]
    frame = classify(recording_of(writes, data))
    way = {option.key: option for option in options(frame, io)}["divided"]
    assert way.applied_by == "--threads 2"
    whole = predict(made_direct(frame, np.array([True, True])), io)
    parts = 2 * table_cost(io.direct_write.value, np.array([2.0 * (1 << 20)])).cpu_s[0]  # type: ignore[union-attr]
    assert way.cost.cpu_s == pytest.approx([parts * 1.2, whole.cpu_s[1]])
    assert way.wall_s == pytest.approx([4 * 450e-6, whole.cpu_s[1] + whole.wait_s[1]])
    saved = saved_by_advice(recording_of(writes, data), io, LARGE, {}, threads=2)
    now = predict(frame, io)
    assert saved is not None
    assert saved[0] == pytest.approx(now.cpu_s.sum() - way.cost.cpu_s.sum())


def test_objects_of_hdf5_at_whole_pages_are_written_whole() -> None:
    io = with_tables(unaligned_write='[["4 KiB", "7 us", "7 us"], ["1 MiB", "300 us", "300 us"]]')
    ways = found(
        [transfer("write", 512, PAGE, caller=DATASET), transfer("write", 9000, 100, caller=DATASET)], io
    )
    now, then = ways["as-it-ran"].cost.cpu_s, ways["hdf5-alignment"].cost.cpu_s
    assert now[0] - then[0] == pytest.approx(3e-6)
    assert then[1] == now[1]  # it is no whole page, and not of HDF5
    assert "hdf5-alignment" not in found([transfer("write", 512, PAGE)], io)


def test_larger_chunks_of_hdf5_are_larger_requests_without_a_copy() -> None:
    io = with_tables()
    chunks = [transfer("write", at * PAGE, PAGE, caller=DATASET) for at in range(256)]
    way = found(chunks, io)["hdf5-chunks"]
    assert way.title == "chunks of 1 MiB in HDF5"
    assert way.cost.cpu_s.sum() == pytest.approx(256e-6)
    assert "hdf5-chunks" not in found([transfer("write", at * PAGE) for at in range(256)], io)


def test_a_core_for_the_kernel_pays_if_its_work_delays_a_program_that_keeps_all_busy() -> None:
    io = with_tables(**KERNEL)
    writes = [transfer("write", at << 20, 1 << 20) for at in range(4)]
    kernel = (4 << 20) / 1e9  # seconds of writing back

    def loss(busy: float, cores: int) -> float:
        return found(writes, io, Run(1.0, busy, cores))["kernel-core"].other_s

    assert loss(3.0, 4) == 0  # a core is free already
    assert loss(4.0, 4) == pytest.approx(1 / 3 - kernel / 4)
    assert loss(64.0, 64) == pytest.approx(1 / 63 - kernel / 64)
    assert "kernel-core" not in found(writes, io, Run(1.0, 0, 4))
    assert "kernel-core" not in found([transfer("read", 0)], io, Run(1.0, 4, 4))


def test_a_way_that_delays_the_rest_of_the_program_loses() -> None:
    recording = recording_of([transfer("write", at << 20, 1 << 20) for at in range(4)])
    process = {"process": 0, "cpu_ns": 1_590_000_000, "end_ns": 10**8}
    header = recording.header.model_copy(
        update={
            "elapsed_ns": 10**8,
            "processes": [type(recording.header).model_validate(
                {"source": "recorder", "processes": [process]}).processes[0]],
        }
    )  # fmt: skip
    machine = MACHINE.model_copy(update={"io": with_tables(**KERNEL)})
    ways = explain_recording(Recording(header, recording.operations), machine).ways
    (way,) = [way for way in ways if way.key == "kernel-core"]
    cores = machine.cores.count.value
    assert way.verdict == "loses"
    assert way.gain == pytest.approx((4 << 20) / 1e9 / cores / 0.1 - (15.9 / (cores - 1) - 1))


def test_each_way_is_applied_or_says_why_not() -> None:
    io = with_tables(**KERNEL, interrupt_core="1", other_core='"10 us"')
    chunks = [transfer("write", at % 4 * PAGE, PAGE, caller=DATASET) for at in range(256)]
    direct = [transfer("write", at * PAGE, direct=True, cpu=0) for at in range(30)]
    syncs = [{"kind": "sync"}] * 20
    large = [transfer("write", at << 20, 1 << 20) for at in range(4)]
    scattered = [transfer("read", at << 20) for at in (9, 4, 7, 1)]
    keys = set()
    for operations in (chunks, direct, [*large, *syncs], scattered, of_ranks(TOGETHER)):
        ways = list(found(operations, io, Run(1.0, 2.0, 2)).values())
        keys |= {way.key for way in ways}
        for way in ways[1:]:
            assert bool(way.applied_by) != bool(why_not_applied(way.key)), way.key
    assert {"aggregators", "hdf5-cache", "interrupt-core", "kernel-core", "large-direct", "threads"} < keys


def test_one_thread_can_go_where_the_interrupts_come() -> None:
    io = with_tables(interrupt_core="1", other_core='"10 us"')
    writes = [transfer("write", at * PAGE, direct=True, cpu=0) for at in range(3)]
    ways = found(writes, io)
    saved = ways["as-it-ran"].cost.cpu_s.sum() - ways["interrupt-core"].cost.cpu_s.sum()
    assert saved == pytest.approx(30e-6)
    assert ways["interrupt-core"].applied_by == "--apply hints --cores 1"
    saved_by_it = saved_by_advice(recording_of(writes), io, None, {}, (1,))
    assert saved_by_it == pytest.approx((saved, saved))
    assert saved_by_advice(recording_of(writes), io, None, {}, (0, 1)) is None
    assert "interrupt-core" not in found([{**of, "cpu": 1} for of in writes], io)
    assert "interrupt-core" not in found([{**of, "thread": n} for n, of in enumerate(writes)], io)


@pytest.mark.skipif(shutil.which("mpicc.mpich") is None, reason="MPICH is not installed")
def test_mpich_makes_the_requests_that_are_priced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the hints of the way, one rank writes what each collective call has, in one request."""
    subprocess.run(["mpicc.mpich", "-O2", "-o", tmp_path / "io_mpi", PROGRAM], check=True)
    hints = tmp_path / "hints"
    hints.write_text("romio_cb_write enable\ncb_config_list *:1\ncb_buffer_size 1048576\n")
    monkeypatch.chdir(tmp_path)
    sizes = {}
    for name in ("", str(hints)):
        monkeypatch.setenv("ROMIO_HINTS", name)
        recording = record_program(["mpirun.mpich", "-n", "2", "./io_mpi", "m"], "it.plio").recording
        frame = recording.regular.filter(pl.col("kind") == KINDS["write"], pl.col("caller") == TOGETHER)
        sizes[name] = frame["size"].value_counts().rows()
        if not name:
            way = {of.key: of for of in options(classify(recording), MACHINE.io)}["aggregators"]  # type: ignore[arg-type]
    part = 32 << 10  # of a rank in a call, and there are 64 calls
    assert sizes[""] == [(part, 2 * 64)]
    assert sizes[str(hints)] == [(2 * part, 64)]
    assert "--hint romio_cb_write=enable --hint cb_config_list=*:" in way.applied_by


def test_threads_make_the_storage_no_faster() -> None:
    """8 MiB are written, 6 MiB more than may stay unwritten, at 400 MB/s."""
    writes = [transfer("write", at << 20, 1 << 20) for at in range(8)]
    io = with_tables(writers="4", writers_apart="4.0", dirty_limit='"2 MiB"')
    ways = found(writes, io)
    storage_s = (6 << 20) / 400e6
    assert ways["as-it-ran"].wall_s.sum() == pytest.approx(storage_s)
    assert ways["threads"].wall_s.sum() == pytest.approx(storage_s)
    free = found(writes, with_tables(writers="4", writers_apart="4.0"))
    assert free["threads"].wall_s.sum() == pytest.approx(free["as-it-ran"].wall_s.sum() / 4)


@pytest.mark.skipif(shutil.which("h5pcc.openmpi") is None, reason="needs libhdf5-openmpi-dev")
def test_hdf5_makes_the_requests_that_larger_chunks_are_priced_by(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A program writes and reads 4 MiB in pieces of 4 KiB, by chunks of that size and by larger ones."""
    monkeypatch.chdir(tmp_path)
    subprocess.run(["h5pcc.openmpi", "-shlib", "-o", "chunks", PROGRAMS / "io_hdf5_chunks.c"], check=True)

    def chunks(size: int) -> pl.DataFrame:
        recording = record_program(["./chunks", "file", str(size), str(2 << 20)], "it.plio").recording
        return classify(recording).filter(pl.col("caller").is_in(HDF5_DATA), pl.col("bytes") > 0)

    each = '[["1 B", "1 us", "1 us"], ["64 MiB", "1 us", "1 us"]]'  # a request of any size takes 1 us
    io = with_tables(file_copy=each)
    io = io.model_copy(update=dict.fromkeys(("write", "overwrite", "read"), io.file_copy))
    small, reads = chunks(PAGE), pl.col("kind") == KINDS["read"]
    assert small["bytes"].value_counts().rows() == [(PAGE, 2 * 1024)]
    assert small.filter(~reads)["run"].n_unique() > 1  # nodes of the index lie between the chunks
    for size in (64 << 10, 256 << 10, 1 << 20):
        way = larger_chunks(small, io, predict(small, io), (size,))
        real = chunks(size)
        assert way is not None
        assert real["bytes"].value_counts().rows() == [(size, 2 * (4 << 20) // size)]
        for kind in (reads, ~reads):
            counted = real.filter(kind).height
            cost = small.with_columns(cpu_s=pl.Series(way.cost.cpu_s)).filter(kind)["cpu_s"].sum()
            # Where two nodes lie in one gap, it could hold a chunk of 4 KiB, so a sequence ends there.
            assert -1e-9 < cost * 1e6 - counted < 1


def test_chunks_that_a_program_leaves_out_are_not_made_one() -> None:
    """A gap of a chunk or more can hold chunks, a smaller one only what HDF5 notes of them."""
    for apart, chunked in ((PAGE + 2096, True), (2 * PAGE, False)):
        chunks = [transfer("write", at * apart, PAGE, caller=DATASET) for at in range(16)]
        assert ("hdf5-chunks" in found(chunks, with_tables())) == chunked
