"""The recorder of traces: caches count what they would of the accesses themselves, and files are whole."""

import doctest
import os
from collections import OrderedDict
from itertools import count, takewhile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from machine_roles import CACHE_MODE

import pagelens as pl
from pagelens import _core

Moves = list[tuple[int, bool]]  # lines between a cache and the level below: number, whether written

# Pages that meet in few sets, so that lines are pushed out.
ACCESSES = st.lists(
    st.tuples(
        st.integers(0, 15).map(lambda page: 0x10_0000 + page * 0x8000),  # page
        st.integers(0, 3 * 64 + 63),  # byte
        st.sampled_from([1, 4, 8, 16, 64, 65, 300]),  # size
        st.booleans(),  # store
    ),
    min_size=1,
    max_size=300,
)


def moves_of_a_cache(accesses: list[tuple[int, int, bool]], sets: int, ways: int) -> Moves:
    """Slow and obvious: the lines that an LRU cache fetches and writes back, and those of pages cleared."""
    cache: list[OrderedDict[int, bool]] = [OrderedDict() for _ in range(sets)]
    moves: Moves = []
    written: set[int] = set()
    for address, size, store in accesses:
        for line in range(address // 64, (address + size - 1) // 64 + 1):
            if store and line // 64 not in written:
                written.add(line // 64)
                moves += [(line // 64 * 64 + i, True) for i in range(64)]
            lines = cache[line % sets]
            if line not in lines:
                moves.append((line, False))
                if len(lines) == ways:
                    victim, dirty = lines.popitem(last=False)
                    moves += [(victim, True)] if dirty else []
            lines[line] = lines.get(line, False) or store
            lines.move_to_end(line)
    return moves


def moves_of_a_trace(path: Path, sets: int, ways: int) -> Moves:
    """Returns what passes such an L1, on frames in a row."""
    options = _core.CompileOptions([(sets, ways, 1)], 16, True, _core.Padding([], 0))
    program = _core.Trace(str(path)).compile(options)
    lines = _core.PhysicalLines(
        program, _core.place_contiguously(1 << 16), l2_sets=0, l2_ways=1, l2_shared_by=1
    )
    batches = takewhile(len, (lines.next() for _ in count()))
    write = _core.PHYSICAL_WRITE
    return [(line % write // 64, line >= write) for line in np.concatenate(list(batches)).tolist()]


@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(drawn=ACCESSES, batch=st.integers(1, 50), any_tlb=st.booleans())
def test_every_cache_moves_the_lines_that_the_accesses_make_it_move(
    drawn: list[tuple[int, int, int, bool]], batch: int, any_tlb: bool, tmp_path: Path
) -> None:
    accesses = [(page + byte, size, store) for page, byte, size, store in drawn] * 2
    # What was never stored to has no frame.
    accesses = [(page, 1, True) for page in sorted({page for page, *_ in drawn})] + accesses
    path = tmp_path / "drawn.trace"
    with pl.TraceRecorder(path, "drawn", any_tlb=any_tlb) as recorder:
        for begin in range(0, len(accesses), batch):
            addresses, sizes, stores = map(list, zip(*accesses[begin : begin + batch], strict=True))
            recorder.access(0, addresses, sizes, stores, instructions=3)
    trace = _core.Trace(str(path))
    assert trace.summary is not None
    assert (trace.summary.accesses, trace.summary.instructions) == (len(accesses), 3 * len(accesses))
    for sets, ways in ((64, 8), (64, 12), (128, 8), (256, 4), (512, 2)):
        assert trace.is_exact_for((sets, ways))
        expected, found = moves_of_a_cache(accesses, sets, ways), moves_of_a_trace(path, sets, ways)
        assert len(found) == len(expected)
        # Frames go by the pages' order, and their lines keep their places.
        assert [(line % 64, write) for line, write in found] == [(line % 64, w) for line, w in expected]
        frames = {(a // 64, b // 64) for (a, _), (b, _) in zip(expected, found, strict=True)}
        assert len(frames) == len({page for page, _ in frames}) == len({frame for _, frame in frames})


def test_a_large_random_list_is_counted_as_its_accesses(tmp_path: Path) -> None:
    """Many times the recorder's buffers and the file's chunks."""
    random = np.random.default_rng(1)
    addresses = 0x4000_0000 + random.integers(0, 200, 200_000).astype(np.uint64) * 0x1040
    addresses[::2] = 0x5000_0000 + np.arange(100_000, dtype=np.uint64) * 8
    stores = random.random(200_000) < 0.3
    pages = np.unique(addresses // np.uint64(4096)) * np.uint64(4096)
    addresses[: len(pages)], stores[: len(pages)] = pages, True
    path = tmp_path / "random.trace"
    with pl.TraceRecorder(path, "random") as recorder:
        for part in range(0, 200_000, 9_999):
            recorder.access(0, addresses[part : part + 9_999], 8, stores[part : part + 9_999])
    accesses = list(zip(addresses.tolist(), [8] * 200_000, stores.tolist(), strict=True))
    expected = moves_of_a_cache(accesses, 64, 8)
    assert len(expected) > 50_000
    assert [(line % 64, w) for line, w in moves_of_a_trace(path, 64, 8)] == [
        (line % 64, w) for line, w in expected
    ]


def test_blocks_phases_and_threads_are_in_the_file(tmp_path: Path) -> None:
    path = tmp_path / "app.trace"
    with pl.TraceRecorder(path, "/bin/app", ["-n", "3"]) as recorder:
        recorder.allocate(0, 0x10000, 0x4000, "matrix")
        recorder.allocate(0, 0x20000, 0x1000, "vector")
        recorder.allocate(0, 0x30000, 0x4000, "matrix")
        recorder.phase(0, "setup")
        recorder.access(0, np.arange(0x10000, 0x14000, 64), stores=True)
        recorder.phase(0, None)
        recorder.access(7, [0x20000, 0x20040], instructions=[10, 20])
        recorder.execute(7, 5)
        recorder.free(0, 0x10000)
        recorder.warn("made for a test")
    workload = pl.trace(path)
    assert (workload.name, workload.trace.arguments) == ("app", ["-n", "3"])
    objects = {found.name: found for found in workload.objects if found.births}
    assert {name: (o.births, o.lines, o.stored) for name, o in objects.items()} == {
        "matrix": (2, 256, 256),
        "vector": (1, 2, 0),
    }
    assert objects["matrix"].bytes == 0x8000
    assert workload.phases[1:] == ["setup"]
    assert workload.threads == 2
    assert sorted(workload.survey.instructions) == [35, 256]
    assert workload.warnings == ["made for a test"]
    assert workload.trace.damage is None
    assert pl.simulate(workload, pl.machine(CACHE_MODE), ["random"], nodes=1, progress=False).nodes == 1


def test_pages_given_back_are_written_anew(tmp_path: Path) -> None:
    """The thread that gave them back writes them, and others do. Pages that lie there in part stay."""
    path = tmp_path / "app.trace"
    with pl.TraceRecorder(path, "app") as recorder:
        for thread in (0, 1):
            recorder.access(thread, [0x10000, 0x11000, 0x12000], stores=True)
        recorder.sync(0)
        recorder.unmap(0, 0x10800, 0x1800)
        recorder.sync(0)
        recorder.sync(1)
        recorder.access(1, [0x10000, 0x11000, 0x12000], stores=True)
    survey = pl.trace(path).survey
    assert survey.first_writes.tolist() == [[0x10, 3], [0x11, 1]]
    assert survey.peak_pages == 3


@pytest.mark.parametrize("ordered", [True, False])
def test_a_sync_orders_threads(ordered: bool, tmp_path: Path) -> None:
    """Without a sync they run side by side."""
    path = tmp_path / "app.trace"
    first, second = 0x100000 + np.arange(20_000) * 64, 0x4000000 + np.arange(20_000) * 64
    with pl.TraceRecorder(path, "app") as recorder:
        recorder.access(0, first, stores=True, instructions=100)
        if ordered:
            recorder.sync(0)
            recorder.sync(1)
        recorder.access(1, second, stores=True, instructions=100)
    first_writes = np.concatenate(
        [np.arange(page, page + n) for page, n in pl.trace(path).survey.first_writes]
    )
    of_second = first_writes >= 0x4000
    assert len(of_second) == 2 * 313
    assert bool(np.all(np.diff(of_second.astype(int)) >= 0)) == ordered


def test_accesses_of_waiting_are_no_work(tmp_path: Path) -> None:
    path = tmp_path / "waits.trace"
    with pl.TraceRecorder(path, "waits") as recorder:
        for waits in (False, True, False):
            if waits:
                recorder.wait(0)
            recorder.access(0, [(1 << 30) + 64 * line for line in range(8)], 8, True)
            if waits:
                recorder.go_on(0)
    summary = _core.Trace(str(path)).summary
    assert summary is not None
    assert summary.accesses == 2 * 8


def test_the_file_has_its_name_once_it_is_whole(tmp_path: Path) -> None:
    recorder = pl.TraceRecorder(tmp_path / "app.trace", "app")
    recorder.access(0, [64])
    assert os.listdir(tmp_path) == ["app.trace.partial"]
    recorder.close()
    recorder.close()
    assert os.listdir(tmp_path) == ["app.trace"]
    with pytest.raises(pl.UsageError, match="is closed"):
        recorder.access(0, [64])

    class Stopped(Exception):
        pass

    def stop() -> None:
        with pl.TraceRecorder(tmp_path / "other.trace", "app") as recorder:
            recorder.access(0, [64])
            raise Stopped

    with pytest.raises(Stopped):
        stop()
    assert os.listdir(tmp_path) == ["app.trace"]


def test_a_file_that_cannot_be_written(tmp_path: Path) -> None:
    with pytest.raises(pl.Failure, match=r"cannot write .*no-folder/app.trace \(No such file or directory\)"):
        pl.TraceRecorder(tmp_path / "no-folder" / "app.trace", "app")
    (tmp_path / "folder.trace").mkdir()
    recorder = pl.TraceRecorder(tmp_path / "folder.trace", "app")
    recorder.access(0, [64])
    with pytest.raises(pl.Failure, match=r"cannot write .*folder.trace \(Is a directory\)"):
        recorder.close()
    assert os.listdir(tmp_path) == ["folder.trace"]


@pytest.mark.parametrize(
    ("values", "says"),
    [
        ({"addresses": [[64]]}, "addresses: the array has 2 dimensions"),
        ({"addresses": [64.0]}, "addresses: float64 is not a type of whole numbers"),
        ({"addresses": [64, -1]}, "addresses: -1 is out of range"),
        ({"addresses": [1 << 57]}, "addresses: access at 0x200000000000000 of 8 bytes"),
        ({"addresses": [(1 << 57) - 7]}, "memory of a program ends at 0x200000000000000"),
        ({"sizes": 0}, "sizes: access 0 has none"),
        ({"sizes": [8, 8, 8]}, "sizes: 3 values for 2 accesses"),
        ({"sizes": 1 << 32}, "sizes: 4294967296 is out of range"),
        ({"stores": 2}, "stores: 2 is out of range"),
        ({"stores": []}, "stores: 0 values for 2 accesses"),
        ({"instructions": -1}, "instructions: -1 is out of range"),
        ({"thread": -1}, "thread: -1 is out of range"),
        ({"thread": 4096}, "thread: 4096 is not one of a trace's; give 0 to 4095"),
    ],
)
def test_what_cannot_be_recorded(values: dict[str, object], says: str, tmp_path: Path) -> None:
    """Nothing of the call is recorded."""
    with pl.TraceRecorder(tmp_path / "app.trace", "app") as recorder:
        with pytest.raises(pl.UsageError, match=says):
            recorder.access(**{"thread": 0, "addresses": [64, 128], **values})  # type: ignore[arg-type]
        assert recorder.accesses == 0
        recorder.access(0, [], sizes=[])
        recorder.access(0, [0, (1 << 57) - 8])  # the first and the last
    summary = pl.trace(tmp_path / "app.trace").trace.summary
    assert summary is not None
    assert summary.accesses == 2


def test_blocks_and_pages_that_no_program_has(tmp_path: Path) -> None:
    with pl.TraceRecorder(tmp_path / "app.trace", "app") as recorder:
        with pytest.raises(pl.UsageError, match="name: it is empty"):
            recorder.allocate(0, 64, 64, "")
        with pytest.raises(pl.UsageError, match="name: it has 5000 bytes"):
            recorder.phase(0, "x" * 5000)
        for call in (lambda: recorder.allocate(0, 1 << 57, 1, "x"), lambda: recorder.unmap(0, 0, 1 << 58)):
            with pytest.raises(pl.UsageError, match="memory of a program ends"):
                call()
        recorder.unmap(0, 0x1001, 0x1000)  # no whole page
        recorder.access(0, [64])
    assert pl.trace(tmp_path / "app.trace").warnings == []


def test_the_example_of_the_docstring_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    names = {"np": np, "trace": pl.trace, "TraceRecorder": pl.TraceRecorder}
    (found,) = doctest.DocTestFinder(recurse=False).find(pl.TraceRecorder, globs=names)
    assert doctest.DocTestRunner().run(found) == (0, 2)
