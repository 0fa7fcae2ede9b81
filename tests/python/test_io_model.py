"""The model of operations on files: paths, costs and other ways, against slow and obvious references."""

import dataclasses
import json
import os
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from machine_roles import PLAIN

from pagelens.cli.text.io_explain import answer, conclusion, error_line, render_explanation
from pagelens.io import busiest_folder, explain_recording, render_page, saved_by_advice
from pagelens.io.classify import classify
from pagelens.io.importers.builder import RecordingBuilder
from pagelens.io.kinds import IN_STDIO
from pagelens.io.page import _thread_names, _ticks
from pagelens.io.predict import predict, table_cost
from pagelens.io.recording import Header, Process, Recording
from pagelens.io.what_if import options
from pagelens.machine import Costs, Io, parse_machine

IO = """
[io]
file_system = { value = "ext4", source = "x" }
write = { value = [["4 KiB", "4 us", "4 us"], ["1 MiB", "256 us", "256 us"]], source = "x" }
overwrite = { value = [["4 KiB", "2 us", "2 us"], ["1 MiB", "128 us", "128 us"]], source = "x" }
read = { value = [["4 KiB", "1 us", "1 us"], ["1 MiB", "100 us", "100 us"]], source = "x" }
cold_read = { value = [["4 KiB", "2 us", "6 us"], ["1 MiB", "200 us", "900 us"]], source = "x" }
scattered_read = { value = [["4 KiB", "20 us", "120 us"], ["1 MiB", "500 us", "3 ms"]], source = "x" }
direct_write = { value = [["4 KiB", "20 us", "60 us"], ["1 MiB", "50 us", "500 us"]], source = "x" }
direct_read = { value = [["4 KiB", "20 us", "60 us"], ["1 MiB", "60 us", "600 us"]], source = "x" }
direct_alignment = { value = "512 B", source = "x" }
memory_alignment = { value = "512 B", source = "x" }
sync = { value = "6 ms", source = "x" }
sync_cpu = { value = "200 us", source = "x" }
copying = { value = "10 GB/s", source = "x" }
write_rate = { value = "400 MB/s", source = "x" }
call = { value = "1 us", source = "x" }
"""
MACHINE = parse_machine(
    f'schema = 1\nbase = "{PLAIN}"\nname = "it"\ntitle = "it"\nmode = "single"\n{IO}'.encode(), "it"
)
assert MACHINE.io is not None
PAGE = 4096


def recording_of(operations: list[dict[str, Any]], files: list[dict[str, Any]] | None = None) -> Recording:
    builder = RecordingBuilder(Header(source="recorder", command=["app"]), [])
    for number, facts in enumerate(files or [{"bytes": 0, "cached_bytes": 0}]):
        builder.file(f"/f{number}", file_system="ext4", **facts)
    for number, operation in enumerate(operations):
        given_ = {"file": 0, "start_ns": 1000 * number, "wall_ns": 500, "cpu_ns": 400, **operation}
        builder.add(given_.pop("kind"), **{"result": given_.get("size", 0), **given_})
    return builder.build()


def paths_of(operations: list[dict[str, Any]], **file: Any) -> list[str]:
    return classify(recording_of(operations, [file] if file else None))["path"].to_list()


def transfer(kind: str, offset: int, size: int = PAGE, **more: Any) -> dict[str, Any]:
    return {"kind": kind, "offset": offset, "size": size, **more}


def test_a_write_makes_a_file_longer_or_goes_over_data() -> None:
    writes = [transfer("write", at) for at in (0, PAGE, 0, PAGE, 8 * PAGE)]
    assert paths_of(writes) == ["write", "write", "overwrite", "overwrite", "write"]
    assert paths_of([transfer("write", 0)], bytes=PAGE, cached_bytes=PAGE) == ["overwrite"]


def test_a_write_after_a_read_of_the_file_goes_over_the_same_data() -> None:
    """HDF5 reads a chunk before it writes it again. Each such write counted as new data."""
    operations = [transfer(kind, at) for at in (0, PAGE) for kind in ("write", "read", "write")]
    assert paths_of(operations) == ["write", "read", "overwrite"] * 2


def test_an_open_that_truncates_makes_all_data_new() -> None:
    """HDF5 opens a file before it opens it with O_TRUNC. The file's old length remained the model's."""
    opened = {"kind": "open", "flags": os.O_RDWR, "result": 3}
    emptied = {"kind": "open", "flags": os.O_RDWR | os.O_TRUNC, "result": 4, "size": 2 * PAGE}
    writes = [transfer("write", 0), transfer("write", 0)]
    for before, wanted in (
        (opened, "overwrite"),
        (emptied, "write"),
        ({**emptied, "result": -1}, "overwrite"),
    ):
        found = paths_of([opened, before, *writes], bytes=2 * PAGE, cached_bytes=2 * PAGE)
        assert found[-2:] == [wanted, "overwrite"]


def test_an_open_that_made_a_file_says_so() -> None:
    """Open MPI makes files that it never writes, and sqlite one of a name that it removed before."""
    made = {"kind": "open", "flags": os.O_RDWR | os.O_CREAT, "result": 3}
    opens = [{**made, "offset": 0}, transfer("write", 0), {**made, "offset": 0}, {**made, "offset": -1}]
    assert paths_of(opens) == ["creating", "write", "creating", "opening"]
    assert paths_of([{**made, "offset": 0}]) == ["creating"]
    assert paths_of([{**made, "flags": os.O_RDWR | os.O_TMPFILE, "offset": -1}]) == ["creating"]


def test_the_last_close_of_a_removed_file_drops_its_pages() -> None:
    """sqlite removes a file when it has opened it. Its close took 1.2 ms, and .1 us was predicted."""
    close = {"kind": "close", "size": 1 << 20, "result": 0}
    times = cpu_of([transfer("write", 0, 1 << 20), close, close], with_tables(truncating='"1 GB/s"'))
    assert times[1:] == pytest.approx([1e-6, 1e-6 + (1 << 20) / 1e9])


def test_a_write_into_a_hole_makes_new_pages() -> None:
    writes = [transfer("write", at * PAGE) for at in (8, 2, 2)]
    assert paths_of(writes) == ["write", "write", "overwrite"]


def test_what_was_written_or_read_before_is_in_the_page_cache() -> None:
    operations = [
        transfer("write", 0),
        transfer("read", 0),
        transfer("read", 100 * PAGE),
        transfer("read", 100 * PAGE),
    ]
    assert paths_of(operations, bytes=1 << 20, cached_bytes=0) == [
        "overwrite",
        "read",
        "scattered_read",
        "read",
    ]
    dropped = [transfer("read", 0), {"kind": "advise", "flags": 4}, transfer("read", 0)]
    assert paths_of(dropped, bytes=1 << 20, cached_bytes=1 << 20) == ["read", "call", "cold_read"]


def test_where_the_cache_is_unknown_the_wait_tells() -> None:
    operations = [transfer("read", 0, wall_ns=200_000), transfer("read", PAGE)]
    assert paths_of(operations, bytes=1 << 20, cached_bytes=None) == ["cold_read", "read"]


def test_waits_for_the_host_to_map_memory_are_no_error_of_the_model() -> None:
    """They were processor time, and the model was 41% too low for a dd that had 853 of them."""
    writes = [transfer("write", n * PAGE, cpu_ns=4000, wall_ns=4000) for n in range(40)]
    for n in range(0, 40, 5):
        writes[n].update(cpu_ns=134_000, wall_ns=134_000)
    found = [
        explain_recording(recording_of(writes), MACHINE.model_copy(update={"io": with_tables(**more)}))
        for more in ({}, {"memory_stall": '"120 us"'})
    ]
    assert [each.stalls for each in found] == [0, 8]
    assert found[0].error == pytest.approx(160 / (32 * 4 + 8 * 134) - 1)
    assert found[1].stalled_s == pytest.approx(8 * 130e-6)
    assert found[1].error == pytest.approx(0)
    assert found[1].wall_error == pytest.approx(0)
    assert "1.04 ms of waiting in 8 operations do not count" in error_line(found[1])
    assert "of waiting for ext4, a processor or the host." in next(conclusion(found[1]))
    assert "host" not in " ".join(answer(found[0]))


def test_larger_writes_are_no_waits_for_the_host() -> None:
    """Half of writes of 512 and of 1020 KiB were, because the larger ones took 80 us longer."""
    writes = [
        transfer("write", n << 20, pages * PAGE, cpu_ns=pages * 700, wall_ns=pages * 700)
        for n, pages in enumerate([128, 255] * 20)
    ]
    io = with_tables(memory_stall='"120 us"')
    assert explain_recording(recording_of(writes), MACHINE.model_copy(update={"io": io})).stalls == 0


@pytest.mark.parametrize(("repeats", "stalls"), [(1, 0), (2, 16)])
def test_reads_into_new_memory_are_no_waits_for_the_host(repeats: int, stalls: int) -> None:
    """In a program that read 256 MiB into new memory, 142 of 4096 reads took 94% of the time."""
    size = 1 << 16
    reads = [
        transfer("read", n * size, size, address=n % 512 * size, cpu_ns=us * 1000, wall_ns=us * 1000)
        for n, us in enumerate([150, *[10] * 31] * 16 * repeats)  # a large page has room for 32
    ]
    io = with_tables(memory_stall='"120 us"')
    recording = recording_of(reads, [{"bytes": 1 << 30, "cached_bytes": 1 << 30}])
    assert explain_recording(recording, MACHINE.model_copy(update={"io": io})).stalls == stalls


@pytest.mark.parametrize(("cpu_us", "said"), [(15, False), (210, True)])
def test_new_files_that_removed_ones_slow_down_are_said(cpu_us: int, said: bool) -> None:
    def made(number: int) -> list[dict[str, Any]]:
        opened = {
            "kind": "open",
            "flags": os.O_CREAT | os.O_RDWR,
            "cpu_ns": 1000 * cpu_us,
            "wall_ns": 1000 * cpu_us,
        }
        return [{"file": number, **opened, "result": 3}, {"file": number, **transfer("write", 0)}]

    operations = [operation for number in range(50) for operation in made(number)]
    machine = MACHINE.model_copy(update={"io": with_tables(creating='"10 us"')})
    notes = explain_recording(recording_of(operations, [{"bytes": 0}] * 50), machine).notes
    assert any("New files took 210 us each, and 10 us by the model" in note for note in notes) == said


@pytest.mark.parametrize(
    ("cpu_us", "stall", "span_ms", "said"),
    [(13, True, 1, True), (13, False, 1, False), (11, True, 1, False), (13, True, 20, False)],
)
def test_writes_for_which_a_host_may_have_given_memory_are_said(
    cpu_us: int, stall: bool, span_ms: int, said: bool
) -> None:
    """All writes of sqlite took 12 us once, and 84 ms together instead of 14. 0.2 of 20 ms are nothing."""
    writes = [transfer("write", n * PAGE, cpu_ns=1000 * cpu_us, wall_ns=1000 * cpu_us) for n in range(20)]
    writes[-1]["start_ns"] = 1_000_000 * span_ms
    io = with_tables(memory_stall='"120 us"') if stall else with_tables()
    notes = explain_recording(recording_of(writes), MACHINE.model_copy(update={"io": io})).notes
    assert any("may have had to give memory" in note for note in notes) == said


def test_sequences_that_are_read_in_turn_are_read_ahead() -> None:
    """The kernel sees that the pages before a read are in the page cache."""
    far = 1000 * PAGE
    turns = [transfer("read", n * PAGE + start) for n in range(5) for start in (far, 5 * far)]
    alone = [transfer("read", n * PAGE) for n in (300, 301, 500, 303)]
    file = {"bytes": 1 << 30, "cached_bytes": 0}
    assert paths_of(turns, **file) == [*["scattered_read"] * 4, *["cold_read"] * 6]
    assert paths_of(alone, **file) == ["scattered_read", "cold_read", "scattered_read", "scattered_read"]
    # fadvise(RANDOM) ends that, and so it does for reads that follow each other. fio says so.
    for reads in (turns, alone):
        said = paths_of([{"kind": "advise", "flags": 1}, *reads], **file)
        assert said == ["call", *["scattered_read"] * len(reads)]
    assert paths_of([{"kind": "advise", "flags": 0}, *turns], **file)[5:] == ["cold_read"] * 6
    # What was written directly is not in the page cache.
    written = [transfer("write", n * PAGE + far, direct=True) for n in range(20)]
    again = [transfer("read", n * PAGE + start) for n in range(3) for start in (far + 10 * PAGE, 5 * far)]
    assert paths_of([*written, *again], **file)[20:] == [*["scattered_read"] * 4, *["cold_read"] * 2]


def slow_first_touches(operations: list[tuple[str, int, int]]) -> list[float]:
    """Page by page: the share of the pages of each read that nothing has touched before."""
    seen: set[int] = set()
    shares = []
    for kind, offset, size in operations:
        pages = range(offset // PAGE, (offset + size - 1) // PAGE + 1)
        fresh = sum(page not in seen for page in pages)
        shares.append(fresh / len(pages) if kind == "read" else 0.0)
        seen.update(pages)
    return shares


@given(
    st.lists(
        st.tuples(st.sampled_from(["read", "write"]), st.integers(0, 60000), st.integers(1, 30000)),
        min_size=1,
        max_size=30,
    )
)
@settings(max_examples=50, deadline=None)
def test_first_touches_are_those_of_a_walk_by_pages(operations: list[tuple[str, int, int]]) -> None:
    made = [transfer(kind, offset, size) for kind, offset, size in operations]
    found = classify(recording_of(made, [{"bytes": 1 << 20, "cached_bytes": 0}]))["cold_share"].to_list()
    assert found == pytest.approx(slow_first_touches(operations))


@given(st.lists(st.integers(1, 1 << 26), min_size=1, max_size=20))
@settings(max_examples=50, deadline=None)
def test_costs_of_many_are_those_of_each(sizes: list[int]) -> None:
    costs = Costs((4096, 65536, 1 << 20), (1e-6, 5e-6, 80e-6), (2e-6, 8e-6, 90e-6))
    many = table_cost(costs, np.asarray(sizes, np.float64))
    for number, size in enumerate(sizes):
        each = costs.of(size)
        assert many.cpu_s[number] == pytest.approx(each.cpu_s)
        assert many.cpu_s[number] + many.wait_s[number] == pytest.approx(each.wall_s)


def test_a_sync_waits_for_what_was_written_since_the_last_one() -> None:
    megabytes = [transfer("write", at << 20, 1 << 20) for at in range(4)]
    frame = classify(recording_of([*megabytes, {"kind": "sync"}, {"kind": "sync"}]))
    cost = predict(frame, MACHINE.io)  # type: ignore[arg-type]
    assert cost.wait_s[4] + cost.cpu_s[4] == pytest.approx(6e-3 + 4 * (1 << 20) / 400e6)
    assert cost.wait_s[5] == 0


def with_tables(**tables: str) -> Io:
    text = "".join(f'{key} = {{ value = {value}, source = "x" }}\n' for key, value in tables.items())
    header = f'schema = 1\nbase = "{PLAIN}"\nname = "it"\ntitle = "it"\nmode = "single"\n'
    io = parse_machine(f"{header}{IO}{text}".encode(), "it").io
    assert io is not None
    return io


def cpu_of(operations: list[dict[str, Any]], io: Io, **file: Any) -> list[float]:
    return list(predict(classify(recording_of(operations, [file] if file else None)), io).cpu_s)


def test_writes_that_begin_or_end_within_a_page_have_a_table_of_their_own() -> None:
    io = with_tables(unaligned_write='[["512 B", "6 us", "6 us"], ["1 MiB", "300 us", "300 us"]]')
    whole, part = cpu_of([transfer("write", 0), transfer("write", PAGE, 4000)], io)
    assert whole == pytest.approx(4e-6)
    assert part > whole


def test_direct_writes_that_make_a_file_longer_have_a_table_of_their_own() -> None:
    io = with_tables(direct_new_write='[["4 KiB", "90 us", "200 us"], ["1 MiB", "150 us", "900 us"]]')
    twice = [transfer("write", 0, direct=True), transfer("write", 0, direct=True)]
    assert cpu_of(twice, io) == pytest.approx([90e-6, 20e-6])
    buffered = classify(recording_of([transfer("write", 0)]))
    (direct,) = (option for option in options(buffered, io) if option.key == "direct")
    assert direct.cost.cpu_s == pytest.approx([90e-6])


def test_waits_take_longer_where_the_interrupts_of_the_storage_do_not_come() -> None:
    io = with_tables(interrupt_core="1", other_core='"10 us"')
    direct = [transfer("write", at * PAGE, direct=True, cpu=at) for at in range(2)]
    assert cpu_of(direct, io) == pytest.approx([30e-6, 20e-6])
    reads = [transfer("read", at, cpu=0) for at in (40 * PAGE, 40 * PAGE, 90 * PAGE)]
    assert cpu_of([*reads, {**reads[2], "cpu": 1}], io, bytes=1 << 20, cached_bytes=0) == pytest.approx(
        [30e-6, 1e-6, 30e-6, 1e-6]
    )


def test_reads_of_what_was_written_in_small_pieces_meet_more_folios() -> None:
    io = with_tables(small_folio_read='[["4 KiB", "1 us", "1 us"], ["1 MiB", "250 us", "250 us"]]')
    read = transfer("read", 0, 1 << 20)
    small = [transfer("write", PAGE * n) for n in range(256)]
    assert cpu_of([*small, read], io)[-1] == pytest.approx(250e-6)
    assert cpu_of([transfer("write", 0, 1 << 20), read], io)[-1] == pytest.approx(100e-6, rel=0.01)
    # 384 KiB is no power of two: some 1 + log2(96) folios for 96 pages
    at_once = cpu_of([transfer("write", 0, 384 << 10), transfer("read", 0, 384 << 10)], io)[-1]
    plain = cpu_of([transfer("write", 0, 384 << 10), transfer("read", 0, 384 << 10)], MACHINE.io)[-1]  # type: ignore[arg-type]
    assert 1.05 * plain < at_once < 1.3 * plain


def test_a_file_of_small_folios_is_read_as_the_recording_tells() -> None:
    file: dict[str, Any] = {"bytes": 1 << 20, "cached_bytes": 1 << 20}
    read = [transfer("read", 0, 16 * PAGE)]
    assert classify(recording_of(read, [{**file, "folio_share": 1.0}]))["folio_share"].to_list() == [1.0]
    assert classify(recording_of(read, [file]))["folio_share"][0] == pytest.approx(9 / 256)  # 1 + log2(256)
    # What the program writes replaces what the cache had.
    written = [transfer("write", 0, 16 * PAGE), transfer("read", 0, 16 * PAGE)]
    file = {"bytes": 16 * PAGE, "cached_bytes": 0, "folio_share": 1.0}
    assert classify(recording_of(written, [file]))["folio_share"][1] == pytest.approx(1 / 16)


def test_a_copy_by_the_kernel_has_a_table_and_leaves_its_pages_in_the_cache() -> None:
    operations = [{"kind": "copy", "offset": 0, "size": PAGE}, transfer("read", 0)]
    assert paths_of(operations) == ["file_copy", "read"]
    frame = classify(recording_of(operations))
    assert MACHINE.io is not None
    assert np.isnan(predict(frame, MACHINE.io).cpu_s[0])
    assert predict(frame, with_tables(file_copy='[["4 KiB", "7 us", "7 us"]]')).cpu_s[0] == pytest.approx(
        7e-6
    )


def test_reads_elsewhere_and_after_work_take_longer() -> None:
    io = with_tables(
        far_read='[["4 KiB", "3 us", "3 us"], ["1 MiB", "102 us", "102 us"]]',
        after_work='[["1 B", "1 us", "1 us"], ["1 MiB", "5 us", "105 us"]]',
    )
    at = [(0, 0), (PAGE, 400), (9 * PAGE, 900), (10 * PAGE, 101_300)]
    operations = [transfer("read", where, start_ns=start, wall_ns=400) for where, start in at]
    found = cpu_of(operations, io, bytes=1 << 20, cached_bytes=1 << 20)
    gap = 100 / 100_000 * 4e-6  # of 100 ns; the last one has the whole of it
    assert found == pytest.approx([3e-6, 1e-6, 3e-6 + gap, 5e-6])
    new = [transfer("write", where, start_ns=start, wall_ns=400) for where, start in at[-2:]]
    of_writes = '[["1 B", "1 us", "1 us"], ["1 MiB", "9 us", "109 us"]]'
    last = at[-1][1] - at[-2][1] - 400  # the pause in ns
    assert cpu_of(new, with_tables(write_after_work=of_writes))[1] == pytest.approx(4e-6 + last / 1e5 * 8e-6)


def test_large_transfers_after_work_find_their_buffers_displaced() -> None:
    """h5py writes 320 kB that it has just computed. The model was 14% too low."""
    io = with_tables(
        after_work='[["1 B", "1 us", "1 us"], ["1 MiB", "5 us", "105 us"]]',
        large_after_work='[["1 B", "30 us", "30 us"], ["1 MiB", "44 us", "144 us"]]',
    )
    for size, more in ((2048, 4), (PAGE, 4), (130 << 10, 9), (256 << 10, 14), (1 << 20, 14)):
        operations = [transfer("read", 0, size, wall_ns=0), transfer("read", size, size, start_ns=100_000)]
        first, second = cpu_of(operations, io, bytes=4 << 20, cached_bytes=4 << 20)
        assert second - first == pytest.approx(more * 1e-6)


def test_truncation_drops_pages_and_close_then_writes_the_file_out() -> None:
    io = with_tables(truncating='"1 GB/s"', close_work='"2 GB/s"', opening='"1 us"', creating='"5 us"')
    opened = {"kind": "open", "flags": os.O_CREAT | os.O_TRUNC | os.O_WRONLY, "size": 1_000_000, "result": 3}
    rest = [transfer("write", 0, 1 << 20), {"kind": "close"}, {"kind": "close"}]
    found = cpu_of([opened, *rest], io)
    assert found[0] == pytest.approx(5e-6 + 1e-3)
    assert found[2:] == pytest.approx([1e-6 + (1 << 20) / 2e9, 1e-6])
    assert cpu_of([{**opened, "size": 0}, *rest], io)[2] == pytest.approx(1e-6)
    direct = {**opened, "flags": opened["flags"] | os.O_DIRECT}  # type: ignore[operator]
    assert cpu_of([direct, *rest], io)[0] == pytest.approx(5e-6)


def test_pages_in_small_folios_take_longer_to_drop_and_to_write_out() -> None:
    """After `dd bs=4k` over an old file, the model gave a third of the time of its open and its close."""
    large = {"truncating": '"4 GB/s"', "close_work": '"4 GB/s"', "sync_work": '"4 GB/s"'}
    small = {f"small_folio_{name}": '"1 GB/s"' for name in large}
    io = with_tables(**large, **small, opening='"1 us"', creating='"1 us"')
    opened = {"kind": "open", "flags": os.O_CREAT | os.O_TRUNC | os.O_WRONLY, "size": 1 << 20, "result": 3}

    def taken(size: int) -> list[float]:
        writes = [transfer("write", at, size) for at in range(0, 1 << 20, size)]
        found = cpu_of([opened, *writes, {"kind": "sync"}, {"kind": "close"}], io)
        return [found[0] - 1e-6, found[-2] - 200e-6, found[-1] - 1e-6]

    assert taken(PAGE) == pytest.approx([(1 << 20) / 1e9] * 3)
    assert taken(1 << 20) == pytest.approx([(1 << 20) * (255 / 256 / 4e9 + 1 / 256 / 1e9)] * 3)


def test_small_files_that_replace_others_cost_a_request_to_the_disk() -> None:
    """Each open and close of 400 files of 900 B took 40 us, where the model counted the bytes alone."""
    calls = {"opening": '"1 us"', "creating": '"5 us"', "truncating": '"4 GB/s"', "close_work": '"4 GB/s"'}
    io = with_tables(**calls, replacing_open='"43 us"', replacing_close='"40 us"')
    opened = {"kind": "open", "flags": os.O_CREAT | os.O_TRUNC | os.O_WRONLY, "size": 400, "result": 3}
    found = cpu_of([opened, transfer("write", 0, 400), {"kind": "close"}], io)
    assert [found[0], found[2]] == pytest.approx([43e-6 + 400 / 4e9, 40e-6 + 400 / 4e9])
    new = cpu_of([{**opened, "size": 0}, transfer("write", 0, 400), {"kind": "close"}], io)
    assert [new[0], new[2]] == pytest.approx([5e-6, 1e-6])


def test_advice_drops_what_the_page_cache_has() -> None:
    io = with_tables(truncating='"1 GB/s"')
    drop = {"kind": "advise", "flags": os.POSIX_FADV_DONTNEED}
    operations = [transfer("read", 0), drop, drop, transfer("read", 0), {**drop, "size": 1000}, drop]
    found = cpu_of(operations, io, bytes=1 << 20, cached_bytes=1 << 19)
    first = (1 << 19) + PAGE / 2  # half of the file was cached, so half of the page that was read is new
    dropped = [(found[at] - 1e-6) * 1e9 for at in (1, 2, 4, 5)]
    assert dropped == pytest.approx([first, 0, 1000, 0], abs=1e-3)


def ways(operations: list[dict[str, Any]], files: list[dict[str, Any]] | None = None) -> dict[str, Any]:
    return {way.key: way for way in explain_recording(recording_of(operations, files), MACHINE).ways}


def test_small_writes_gain_by_being_merged_and_lose_as_direct_ones() -> None:
    found = ways([transfer("write", PAGE * n, address=64) for n in range(512)])
    assert found["as-it-ran"].cpu_s == pytest.approx(512 * 4e-6)
    merged = 2 * 256e-6 + (2 << 20) / 10e9
    assert found["merge"].cpu_s == pytest.approx(merged)
    assert found["merge"].verdict == "gains"
    # Each is aligned in the file but not in memory, so that each is copied.
    assert found["direct"].cpu_s == pytest.approx(512 * 20e-6 + (2 << 20) / 10e9)
    assert found["direct"].verdict == "loses"


def test_writes_that_are_not_aligned_read_the_blocks_at_their_edges() -> None:
    aligned = ways([transfer("write", 0, PAGE)])["direct"]
    crooked = ways([transfer("write", 100, PAGE)])["direct"]
    block = 20e-6  # of a direct read of 512 B; the write has two such edges
    assert crooked.cpu_s > aligned.cpu_s + 2 * block


def test_one_sync_at_the_end_saves_the_others() -> None:
    operations = [part for n in range(5) for part in (transfer("write", n * PAGE), {"kind": "sync"})]
    found = ways(operations)["sync-once"]
    assert found.verdict == "gains"
    now = ways(operations)["as-it-ran"]
    assert found.wait_s < now.wait_s / 4
    assert now.wall_s - found.wall_s == pytest.approx(4 * 6e-3)  # what was written must still be written


def test_large_writes_made_direct_leave_fsync_nothing_to_write() -> None:
    large = [transfer("write", at << 20, 1 << 20) for at in range(4)]
    small = [transfer("write", 4 << 20, PAGE)]
    found = ways([*large, *small, {"kind": "sync"}])
    assert found["large-direct"].cpu_s == pytest.approx(4 * 50e-6 + 4e-6 + 200e-6)
    wall = 4 * 500e-6 + 4e-6 + 6e-3 + PAGE / 400e6
    assert found["large-direct"].wall_s == pytest.approx(wall)
    assert saved_by_advice(recording_of([*large, *small]), MACHINE.io, 1 << 20, {}) == pytest.approx(  # type: ignore[arg-type]
        (4 * 206e-6, 4 * -244e-6)
    )
    assert saved_by_advice(recording_of(small), MACHINE.io, 1 << 20, {}) is None  # type: ignore[arg-type]
    assert MACHINE.io is not None
    btrfs = MACHINE.io.model_copy(
        update={"file_system": MACHINE.io.file_system.model_copy(update={"value": "btrfs"})}
    )
    assert saved_by_advice(recording_of(large), btrfs, 1 << 20, {}) is None
    # `pagelens io run` leaves these alone.
    for more in ({"flags": IN_STDIO}, {"buffers": 2}, {"append": True}):
        others = [{**write, **more} for write in large]
        assert "large-direct" not in ways(others)
        assert saved_by_advice(recording_of(others), MACHINE.io, 1 << 20, {}) is None  # type: ignore[arg-type]


def test_reads_of_what_was_written_directly_are_not_cached() -> None:
    large = [transfer("write", at << 20, 1 << 20) for at in range(4)]
    read = transfer("read", 3 << 20, PAGE)
    found, without = ways([*large, read]), ways(large)
    for way in ("large-direct", "merge-direct"):
        assert found[way].wall_s - without[way].wall_s == pytest.approx(120e-6)  # a scattered read
    assert found["as-it-ran"].wall_s - without["as-it-ran"].wall_s == pytest.approx(1e-6)


def test_direct_requests_are_not_smaller_than_the_programs_own() -> None:
    """A program that wrote 4 MiB at a time was told to make direct requests of 1 MiB."""
    large = [transfer("write", at << 22, 4 << 20) for at in range(4)]
    assert ways(large)["merge-direct"].title == "direct requests of 4 MiB"
    mixed = ways([*large, *(transfer("write", (64 << 20) + at * PAGE) for at in range(64))])["merge-direct"]
    assert mixed.title == "direct requests of 256 KiB"
    of_large = 4 * (4 * 50e-6 + (4 << 20) / 10e9)  # whole, and copied
    of_small = 20e-6 + 252 / 1020 * 30e-6 + (256 << 10) / 10e9
    assert mixed.cpu_s == pytest.approx(of_large + of_small)


def test_large_writes_leave_nothing_to_gain_by_merging() -> None:
    assert "merge" not in ways([transfer("write", n << 24, 1 << 24) for n in range(4)])


def test_what_was_recorded_comes_first_and_a_warning_before_what_is_modelled() -> None:
    far = explain_recording(recording_of([transfer("write", PAGE * n) for n in range(100)]), MACHINE)
    near = dataclasses.replace(far, error=0.01, wall_error=0.01)
    assert answer(near) == [*conclusion(near), error_line(near)]
    recorded, *modelled = conclusion(far)
    assert answer(far) == [recorded, error_line(far), *modelled]
    little = dataclasses.replace(far, elapsed_s=1000 * far.elapsed_s)  # then nothing hangs on the model
    assert answer(little) == [*conclusion(little), error_line(little)]
    assert error_line(little).startswith("The model gives 900% more than")
    assert next(render_explanation(near)).startswith("Operations on files took")


def test_waits_that_are_far_off_are_a_reason_to_doubt() -> None:
    """The processor time of 100 direct reads is as the model says, and they waited ten times as long."""
    reads = [
        transfer("read", PAGE * n, direct=True, cpu_ns=20_000, wall_ns=420_000, start_ns=420_000 * n)
        for n in range(100)
    ]
    found = explain_recording(recording_of(reads, [{"bytes": 1 << 20, "cached_bytes": 0}]), MACHINE)
    assert found.error == pytest.approx(0)
    assert found.wall_error == pytest.approx(60 / 420 - 1)
    warning = answer(found)[1]
    assert warning.startswith(
        "Warning: the model gives as much as the recorded processor time (2 ms for 2 ms), and "
    )
    assert "86% less than the recorded wall time (6 ms for 42 ms)" in warning
    long = dataclasses.replace(found, elapsed_s=1000 * found.elapsed_s)  # then nothing hangs on it
    assert answer(long)[-1].startswith("The model gives as much as")
    near = dataclasses.replace(found, wall_error=0.1)
    assert not near.waits_are_far_off
    unsteady = dataclasses.replace(found, wall_error=-0.5, spread=2.1)
    assert not unsteady.waits_are_far_off  # the machine itself changes as much
    no_times = dataclasses.replace(found, error=None, wall_error=None)
    assert "has no times" in error_line(no_times)


def test_no_way_saves_more_than_the_operations_took() -> None:
    """Each fsync took 50 us, where the machine file says 6 ms."""
    kinds = [{"kind": "sync"} if n % 2 else transfer("write", n * PAGE) for n in range(200)]
    times = {"cpu_ns": 10_000, "wall_ns": 50_000}
    operations = [{**kind, **times, "start_ns": 100_000 * n} for n, kind in enumerate(kinds)]
    found = explain_recording(recording_of(operations), MACHINE)
    best = next(way for way in found.ways if way.key == "sync-once")
    assert found.ways[0].wall_s == pytest.approx(100 * 6e-3, rel=0.01)
    assert best.gain == pytest.approx(200 * 50e-6 / found.elapsed_s)
    assert best.verdict == "gains"


@pytest.mark.parametrize(("spread", "warned"), [("1.2", True), ("1.3", False)])
def test_an_error_that_the_machine_itself_makes_is_no_reason_to_doubt(spread: str, warned: bool) -> None:
    """The machine file says 4 us a write. A program whose writes took 3.2 us had the machine at its best."""
    machine = MACHINE.model_copy(update={"io": with_tables(spread=spread)})
    writes = [transfer("write", PAGE * n, cpu_ns=3200, wall_ns=3200, start_ns=3200 * n) for n in range(1000)]
    found = explain_recording(recording_of(writes), machine)
    assert found.error == pytest.approx(0.25)
    assert any(line.startswith("Warning") for line in answer(found)) == warned
    assert ("one loop took up to 1.3 times" in error_line(found)) != warned
    # Merged to 1 MiB, 1000 writes take 256 us for each 256 of them, and a copy of 10 GB/s.
    merged = 1000 * (256e-6 / 256 + PAGE / 10e9)
    best = next(way for way in found.ways if way.key == "merge")
    assert best.wall_s == pytest.approx(merged)
    factor = float(spread)
    low, high = ((1000 * 4e-6 - merged * each) / 3.2e-3 for each in (factor, 1 / factor))
    assert best.gain_range == pytest.approx((low, high))
    assert f"({100 * low:.0f}% to {min(100, 100 * high):.0f}%, as this" in list(conclusion(found))[1]


def test_the_answer_fits_80_columns_and_warns_of_a_large_error(tmp_path: Path) -> None:
    recording = recording_of([transfer("write", PAGE * n) for n in range(100)])
    found = explain_recording(recording, MACHINE)
    lines = list(render_explanation(found))
    assert max(map(len, lines)) <= 80
    wide = [replace(way, title="a" * 40, gain=-121.1, verdict="not worth it") for way in found.ways]
    shown = list(render_explanation(replace(found, ways=wide)))
    assert max(map(len, shown)) <= 80
    assert any("-12110% not worth it" in line for line in shown)
    assert error_line(found).startswith("Warning: the model gives 900% more than")
    assert any(line.startswith("Warning: the model gives 900% more than") for line in lines)
    assert json.loads(json.dumps(found.to_json()))["error"] == pytest.approx(9.0)
    page = render_page(found, recording, list(conclusion(found)))
    assert page.count("<svg") == 3
    assert "writes at the end" in page


def test_no_gain_is_shown_as_less_than_nothing_if_it_rounds_to_nothing() -> None:
    recording = recording_of([transfer("write", PAGE * n) for n in range(100)])
    found = explain_recording(recording, MACHINE)
    none = replace(found, ways=[replace(way, gain=-0.002) for way in found.ways])
    for shown in (" ".join(render_explanation(none)), render_page(none, recording, [])):
        assert "+0%" in shown
        assert "-0%" not in shown


def test_operations_that_the_table_leaves_out_are_counted() -> None:
    """The answer ended with more operations than its table had, and did not say why."""
    cut = {"kind": "truncate", "size": PAGE, "result": 0}
    operations = [transfer("write", 0), cut, transfer("write", 0, file=1)]
    recording = recording_of(operations, [{"bytes": 0, "cached_bytes": 0}, {"type": "other"}])
    said = " ".join(render_explanation(explain_recording(recording, MACHINE)))
    assert "Of 3 operations, the table of what they took leaves out 1 on pipes, terminals and devices" in said
    assert "and 1 that the model does not know" in said
    assert not explain_recording(recording_of(operations[:1]), MACHINE).notes[0].startswith("Of ")


def test_the_best_way_that_can_be_applied_is_named_beside_a_better_one() -> None:
    writes = [transfer("write", PAGE * n, flags=IN_STDIO, wall_ns=4000, cpu_ns=4000) for n in range(1000)]
    apart = [transfer("write", PAGE * 2 * n, file=1, wall_ns=4000, cpu_ns=4000) for n in range(5)]
    found = explain_recording(recording_of([*writes, *apart], [{"bytes": 0, "cached_bytes": 0}] * 2), MACHINE)
    better = replace(
        found, ways=sorted(found.ways, key=lambda way: (way.key != "as-it-ran", way.key != "merge"))
    )
    said = list(conclusion(better))
    assert "does not apply it" in said[2]
    assert said[3].startswith("It applies another way: buffers of 1 MiB in stdio. By the model, that saves")


@pytest.mark.parametrize(
    ("powers", "labels"),
    [([], []), ([12], [12]), ([4, 12], [*range(4, 13)]), ([4, 5, 25], [4, 7, 10, 13, 16, 19, 22, 25])],
)
def test_labels_of_sizes_do_not_overlap(powers: list[int], labels: list[int]) -> None:
    """With sizes of 16 B to 32 MiB, each label covered a part of the next one."""
    assert _ticks(np.asarray(powers, np.int64)) == labels


def test_threads_of_ranks_are_called_after_these() -> None:
    recording = recording_of([transfer("write", 0)])
    recording.header.processes[:] = [Process(process=7, rank=3), Process(process=8)]
    threads = pl.DataFrame({"process": [7, 7, 8, 9], "thread": [70, 71, 80, 90]})
    assert _thread_names(threads, recording) == ["rank 3", "rank 3: 71", "80", "90"]


def test_the_folder_with_most_traffic_is_measured(tmp_path: Path) -> None:
    """Open MPI maps files in /dev/shm. The addresses of these mappings counted as bytes."""
    operations = [
        {"kind": "mmap", "file": 0, "result": 0x7F0000000000, "size": PAGE},
        {"kind": "seek", "file": 0, "result": 1 << 40},
        {"file": 0, **transfer("write", 0)},
        {"file": 1, **transfer("write", 0, 4 * PAGE)},
    ]
    recording = recording_of(operations, [{"device": 1}, {"device": 2}])
    for name in ("memory", "disk"):
        (tmp_path / name).mkdir()
    files = [
        file.model_copy(update={"path": str(tmp_path / name / "f")})
        for file, name in zip(recording.header.files, ("memory", "disk"), strict=True)
    ]
    moved = dataclasses.replace(recording, header=recording.header.model_copy(update={"files": files}))
    assert busiest_folder(moved) == (tmp_path / "disk", 2)
    assert busiest_folder(recording_of([])) is None


def test_an_empty_recording_has_an_answer() -> None:
    found = explain_recording(recording_of([]), MACHINE)
    assert "cannot be checked" in "\n".join(render_explanation(found))
    assert render_page(found, recording_of([]), [])
    assert isinstance(classify(recording_of([])), pl.DataFrame)


def test_options_may_stand_behind_the_recording(tmp_path: Path) -> None:
    recording_of([transfer("write", 0), transfer("read", 0)]).write(tmp_path / "it.plio")
    words = ["pagelens", "io", "explain", "it.plio", "--machine", PLAIN, "--json"]
    done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert json.loads(done.stdout)["machine"].startswith("Cori")


def test_what_the_model_does_not_know_is_named() -> None:
    files = [{"bytes": 0, "cached_bytes": 0}, {"bytes": 100, "cached_bytes": 0}]
    recording = recording_of([transfer("write", 0), transfer("read", 0, file=1)], files)
    elsewhere = recording.header.files[1].model_copy(update={"file_system": "proc"})
    header = recording.header.model_copy(update={"files": [recording.header.files[0], elsewhere]})
    found = explain_recording(Recording(header, recording.operations), MACHINE)
    assert (found.other_paths, found.other_systems) == ([], ["proc"])
    first, second = conclusion(found)
    assert "does not know (files of proc)" in first
    assert "No other way" in second
    mostly = dataclasses.replace(found, other_s=1.0)
    assert "less than half" in list(conclusion(mostly))[1]
