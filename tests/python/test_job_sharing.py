"""What the ranks of a job share: pages of files, cores, and the time of the slowest."""

from collections.abc import Callable
from pathlib import Path
from tempfile import NamedTemporaryFile

import numpy as np
import pytest
from machine_roles import CACHE_MODE, TWO_SOCKETS
from numpy.testing import assert_allclose

from pagelens.accesses.rank_binding import AS_MODELLED, Binding, binding_notes, crowding, parse_binding
from pagelens.accesses.trace import open_trace
from pagelens.accesses.trace_recorder import TraceRecorder
from pagelens.accesses.tracer import TraceRequest, trace_program
from pagelens.address.units import FRAME_BITS
from pagelens.api import machine, simulate, traces
from pagelens.explain.model import JobRecord, RemedyGain
from pagelens.explain.words import bound_in_words
from pagelens.host.process_binding import binding_in_words, read_list, write_list
from pagelens.machine import RankLoad, modelled_times

PAGES = 256  # of the file that the program maps, and of each array of inherited.c
LINES, SWEEPS = PAGES * 64, 4  # of inherited.c


@pytest.mark.parametrize("how", ["shared", "private"])
def test_processes_that_map_one_file_share_its_pages(
    built: Callable[..., Path], tmp_path: Path, how: str
) -> None:
    """One process writes what the other reads. Only a shared mapping makes it the same memory."""
    program, paths = str(built("shared_pages")), [tmp_path / "w.trace", tmp_path / "r.trace"]
    with NamedTemporaryFile(dir="/dev/shm") as file:
        for path, does in zip(paths, ["write", "read"], strict=True):
            trace_program(TraceRequest([program, file.name, how, does], str(path), accesses=0))
    model, job = machine(TWO_SOCKETS), traces(paths)
    alone = [trace.compile(model, FRAME_BITS) for trace in job.traces]
    together = job.compile(model, FRAME_BITS)
    common = sum(len(each.pages) for each in alone) - len(together.pages)
    libraries = common - (PAGES if how == "shared" else 0)
    assert 0 < libraries < PAGES  # pages of code that both read
    assert {trace.trace.bound for trace in job.traces} == {binding_in_words()}
    # A trace alone is what it was: each copy writes pages of its own.
    assert len(open_trace(paths[0]).compile(model, FRAME_BITS).pages) == len(alone[0].pages)
    assert job.traces[0].footprint_bytes >= PAGES << FRAME_BITS


def test_children_of_fork_share_what_their_parent_wrote(built: Callable[..., Path], tmp_path: Path) -> None:
    """They read it from the same frames. Memory that nobody has written is the page of zeros."""
    trace_program(TraceRequest([str(built("inherited"))], str(tmp_path / "%p.trace"), follow_exec=True))
    parent, *children = sorted(tmp_path.glob("*.trace"))
    assert len(children) == 2
    model, job = machine(TWO_SOCKETS), traces(children)
    for trace in job.traces:
        zeros = trace.survey.lines_of_zero_page
        assert SWEEPS * LINES <= zeros < 1.1 * SWEEPS * LINES
    alone = sum(len(trace.compile(model, FRAME_BITS).pages) for trace in job.traces)
    assert 2 * PAGES <= alone - len(job.compile(model, FRAME_BITS).pages) < 3 * PAGES
    # The parent has the memory that all share, too.
    with_parent = traces([parent, *children]).compile(model, FRAME_BITS)
    assert len(with_parent.pages) < alone - 2 * PAGES + len(
        open_trace(parent).compile(model, FRAME_BITS).pages
    )


def busy(path: Path, instructions: int) -> Path:
    """Write the trace of a process that executes instructions and touches one page."""
    with TraceRecorder(path, "busy") as recorder:
        recorder.allocate(0, 0x7F00_0000_0000, 4096, "page")
        recorder.access(0, 0x7F00_0000_0000 + 8 * np.arange(512), stores=True)
        recorder.execute(0, instructions)
    return path


@pytest.mark.parametrize("name", [CACHE_MODE, TWO_SOCKETS])
def test_the_slowest_rank_decides(tmp_path: Path, name: str) -> None:
    much, little = busy(tmp_path / "much", 40_000_000), busy(tmp_path / "little", 10_000_000)

    def seconds(*paths: Path, ranks: int | None = None) -> float:
        job = traces(list(paths), ranks=ranks)
        found = simulate(job, machine(name), ["aged"], 1, progress=False)
        assert found.between()[0] <= found.placements["time_s"].sum() <= found.between()[1]
        return float(found.placements["time_s"].sum())

    slowest = seconds(much, much)
    assert seconds(much, little) == pytest.approx(slowest, rel=0.01)
    assert seconds(little, little) == pytest.approx(slowest / 4, rel=0.01)
    assert seconds(little, much, ranks=3) == pytest.approx(slowest, rel=0.01)


@pytest.mark.parametrize("name", [CACHE_MODE, TWO_SOCKETS])
def test_ranks_that_are_alike_take_the_time_of_one(name: str) -> None:
    model, generator = machine(name), np.random.default_rng(1)
    names = ("instructions", "msc_reads", "msc_writes", "msc_misses", "msc_read_misses", "ddr_reads",
             "ddr_writes", "dram_reads", "dram_writes", "l3_hits", "core_forwards", "stlb_hits", "walks",
             "walker_loads", "l2_accesses", "l2_misses")  # fmt: skip
    counts = {name: np.sort(generator.uniform(1e6, 1e8, 3)) for name in names}
    counts["l2_misses"] = counts["l2_accesses"] / 2
    shares = 3 * [np.ones(1)]
    alike = RankLoad(*(3 * [np.ones((1, 4))] for _ in range(2)), shares)
    uneven = RankLoad(*(3 * [np.tile([0.5, 1.5], (1, 2))] for _ in range(2)), shares)
    one = modelled_times(model, counts, 4)
    same, slower = (modelled_times(model, counts, 4, ranks=ranks) for ranks in (alike, uneven))
    assert_allclose(same.time_s, one.time_s, rtol=1e-12)
    assert_allclose(slower.resources["issue"], 1.5 * one.resources["issue"])
    assert_allclose(slower.resources["latency"], 1.5 * one.resources["latency"])
    assert np.all(slower.time_s <= 1.5 * one.time_s)


def binding(cpus: str, threads: tuple[int, ...] = (100,), nodes: str = "0") -> Binding:
    found = parse_binding(f"{cpus} 0-7 {nodes} 0-1", threads)
    assert found is not None
    return found


def test_a_launcher_that_lets_ranks_share_cores_is_told() -> None:
    both = "0-1"
    assert binding_notes([binding("0", nodes=both), binding("1", nodes=both)]) == [AS_MODELLED]
    assert crowding([binding("0", nodes=both), binding("1", nodes=both)]) == 1
    [note] = binding_notes([binding("0-7", nodes=both), *2 * [binding("2", nodes=both)]])
    assert note.startswith("When the ranks were traced, 2 working threads could run on CPU 2 only, so they ")
    assert "takes some 2 times as long" in note
    assert crowding(3 * [binding("2")]) == 3
    assert crowding([*3 * [binding("2")], None]) == 1
    [note] = binding_notes(9 * [binding("0-7", nodes=both)])
    assert "9 working threads could run on CPU 0-7 only" in note
    crowd = 2 * [binding("2", (100, 9), both)]
    assert "2 working threads could" in binding_notes(crowd)[0]
    # A helper of the MPI library does little, so it takes no core.
    assert binding_notes([binding("0", (100, 8), both), binding("1", (99, 1), both)]) == [AS_MODELLED]
    [note] = binding_notes([binding("0-3"), binding("0-3", (100, 100, 100))])
    assert note.startswith("When the ranks were traced, all were bound to NUMA node 0 of 0-1.")
    assert binding_notes([binding("0"), None]) == []
    assert parse_binding("", [1]) is None
    assert parse_binding("0 x 0 0", [1]) is None


def test_what_it_costs_to_bind_all_ranks_to_one_node_is_told() -> None:
    [note] = binding_notes([binding("0-3"), binding("0-3")])
    job = JobRecord(traced_ranks=2, spreads=[], statements=[], binding=[note])
    close = RemedyGain.model_construct(policy="close", gain_median=0.8)
    cost = "Under `close`, the job takes 1.25x as long as spread over all nodes (modelled)."
    assert bound_in_words(job, [close]) == ([note, cost], True)
    assert bound_in_words(job, []) == ([note], False)
    as_fast = close.model_copy(update={"gain_median": 1.0})
    assert bound_in_words(job, [as_fast])[1] is False
    elsewhere = job.model_copy(update={"binding": []})
    assert bound_in_words(elsewhere, [close]) == ([], False)


def test_a_binding_is_written_as_the_kernel_writes_lists(tmp_path: Path) -> None:
    for path, text in {
        "sys/devices/system/cpu/online": "0-7\n",
        "sys/devices/system/node/node0/cpulist": "0-3\n",
        "sys/devices/system/node/node1/cpulist": "4-7\n",
        "sys/devices/system/node/node2/cpulist": "\n",  # memory alone
    }.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text)
    assert binding_in_words(tmp_path, {0, 1, 3}) == "0-1,3 0-7 0 0-1"
    assert binding_in_words(tmp_path, {3, 4, 99}) == "3-4 0-7 0-1 0-1"
    assert binding_in_words(tmp_path / "nowhere", {0}) == ""
    assert read_list("0-3,8") == {0, 1, 2, 3, 8}
    assert read_list("3-") == read_list("-1") == read_list("0-99999999999") == set()
    assert write_list({8, 0, 1}) == "0-1,8"
