"""Jobs whose ranks were traced one by one: one node report of all traces."""

import json
import os
import re
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from subprocess import CompletedProcess
from types import SimpleNamespace
from typing import Any

import numpy as np
import polars as pl
import pytest
from machine_roles import CACHE_MODE, ONE_NODE_A_SOCKET, TWO_SOCKETS
from numpy.testing import assert_allclose
from small_program import MACHINE

from pagelens._core import EndKind, TraceEnd
from pagelens.accesses.job import JobWorkload
from pagelens.accesses.rank_traces import await_traces, begin_trace, launch_began
from pagelens.accesses.trace import TraceWorkload, open_trace
from pagelens.accesses.trace_recorder import TraceRecorder
from pagelens.accesses.trace_result import NoTrace, TraceResult
from pagelens.accesses.trace_times import first_gap
from pagelens.accesses.traced_program import TracedProgram
from pagelens.accesses.tracer import TraceRequest, trace_program
from pagelens.accesses.workload import Workload
from pagelens.api import explain, fill_node, machine, simulate, traces
from pagelens.cli import source
from pagelens.cli.commands import explain as explain_module
from pagelens.cli.several_machines import how_elsewhere, machine_names
from pagelens.cli.source import check_cores, job_or_busiest, with_room
from pagelens.errors import Failure, UsageError
from pagelens.explain.timed import time_beside
from pagelens.frames import Node
from pagelens.frames.policies import policies
from pagelens.host.mpi_rank import LaunchedRank, launched_rank
from pagelens.machine import Chosen, parse_machine
from pagelens.replay import Run as CostOfRun
from pagelens.replay import Simulation

BASE, KIB = 0x7F00_0000_0000, 1024
SWEEPS = 3
Run = Callable[..., CompletedProcess[str]]


def recorded(
    path: Path,
    kib: int,
    names: tuple[str, ...] = ("field",),
    regions: tuple[str, ...] = (),
    program: str = "app",
) -> Path:
    """Write the trace of a process that writes and reads arrays of so many KiB."""
    with TraceRecorder(path, program) as recorder:
        addresses = [BASE + number * (64 << 20) for number in range(len(names))]
        for address, name in zip(addresses, names, strict=True):
            recorder.allocate(0, address, kib * KIB, name)
        for sweep in range(SWEEPS):
            if regions:
                recorder.phase(0, regions[sweep % len(regions)])
            for address in addresses:
                recorder.access(0, address + 8 * np.arange(kib * KIB // 8), stores=sweep == 0)
    return path


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("job")
    (folder / "small.toml").write_text(MACHINE)
    recorded(folder / "app.0.trace", 4 * KIB)
    recorded(folder / "app.2.trace", 6 * KIB, ("field", "halo"))
    recorded(folder / "app.10.trace", 4 * KIB, program="solver")
    return folder


@pytest.fixture(scope="module")
def opened(folder: Path) -> list[TraceWorkload]:
    return [open_trace(folder / f"app.{rank}.trace") for rank in (0, 2, 10)]


@pytest.mark.parametrize("name", [CACHE_MODE, TWO_SOCKETS])
def test_equal_traces_are_copies(opened: list[TraceWorkload], name: str) -> None:
    """Three equal ranks cost what three copies of one of them cost."""
    model = machine(name)

    def run(workload: Workload, ranks: int) -> CostOfRun:
        simulation = Simulation(workload, model, ranks)
        return simulation.run(simulation.place(policies["aged"], Node(model, seed=1, node=0)))

    copies, job = run(opened[0], 3), run(JobWorkload(3 * opened[:1]), 1)
    for column in ("instructions", "l2_misses", "msc_reads", "msc_writes"):
        assert_allclose(job.counts[column], copies.counts[column], rtol=0.02, err_msg=column)
    assert_allclose(job.times.time_s, copies.times.time_s, rtol=0.02)
    assert_allclose(job.object_accesses, copies.object_accesses, rtol=0.02, atol=3 * 64)


def test_a_file_of_one_machine_may_have_a_comma_in_its_name(tmp_path: Path) -> None:
    path = tmp_path / "a,b.toml"
    assert machine_names(str(path), {}) == [str(tmp_path / "a"), "b.toml"]
    path.touch()
    assert machine_names(str(path), {}) == []
    many = [f"machine-{number}" for number in range(99)]  # too long for a file's name
    assert machine_names(",".join(many), {}) == many


def test_the_command_for_another_machine_names_the_traces_of_a_job(opened: list[TraceWorkload]) -> None:
    folder = opened[0].path.parent
    of_all = f"pagelens explain {folder}/*.trace", "--machine this-machine,NAME"
    assert how_elsewhere(JobWorkload(opened), None, None, None) == of_all
    of_some = "pagelens explain TRACE...", "--machine this-machine,NAME"
    assert how_elsewhere(JobWorkload(opened[:2]), None, None, None) == of_some


def test_each_rank_has_its_own_objects_and_pages(opened: list[TraceWorkload]) -> None:
    job = JobWorkload(opened)
    assert {known.name: known.ranks for known in job.objects if known.lines} == {"field": 3, "halo": 1}
    assert job.footprint_bytes == sum(trace.footprint_bytes for trace in opened)
    ensemble = simulate(job, machine(TWO_SOCKETS), ["aged"], 1, progress=False)
    lines = dict(ensemble.objects.group_by("object").agg(pl.col("accesses").sum()).iter_rows())
    # Each rank writes and reads its own arrays: 4, 6 and 4 MiB, which L3 holds afterwards.
    assert lines["field"] / lines["halo"] == pytest.approx((4 + 6 + 4) / 6, rel=0.15)


def test_a_setting_with_more_numa_nodes_has_its_own_memories_and_links(opened: list[TraceWorkload]) -> None:
    """A rank on the second socket has its memory there: on one of the NUMA nodes 4 to 7, not on node 1."""
    both = simulate(JobWorkload(opened), machine(ONE_NODE_A_SOCKET), ["aged", "aged+nps4"], 1, progress=False)
    aged, split = ({part.name for part in of.parts} for of in explain(both).numa or [])
    assert "memory of node 1" in aged
    assert split & {f"memory of node {node}" for node in range(4, 8)}


def test_ranks_fill_up_with_copies_in_turn(opened: list[TraceWorkload]) -> None:
    job, model = JobWorkload(opened), machine(TWO_SOCKETS)
    filled, copies = fill_node(job, model, 6)
    assert (filled, copies) == (job, 2)
    filled, copies = fill_node(job, model, 4)
    assert copies == 1
    assert isinstance(filled, JobWorkload)
    assert filled.processes == filled.threads == 4
    bytes_ = [trace.footprint_bytes for trace in opened]
    assert bytes_[1] != bytes_[0]
    assert filled.footprint_bytes == sum(bytes_) + bytes_[0]  # the fourth is a copy of the first
    few = {"policies": ["aged"], "nodes": 1, "progress": False}
    said = {ranks: explain(simulate(job, model, ranks=ranks, **few)).program.job for ranks in (3, 4, 6)}
    first = {ranks: of.statements[0] for ranks, of in said.items() if of is not None}
    assert first[3].startswith("Ranks are taken to run freely")
    assert first[4] == "3 ranks were traced. The other one is a copy of rank 0."
    assert first[6] == "3 ranks were traced. The other 3 are copies of them, in turn."
    assert fill_node(job, model, None) == (job, 1)
    with pytest.raises(UsageError, match="ranks: 2 is less than the 3 traces; leave some of them out"):
        fill_node(job, model, 2)
    with pytest.raises(UsageError, match="ranks: 39 ranks with 39 threads in all are more than the 36 cores"):
        fill_node(job, model, 39)


def test_regions_are_meetings_if_all_ranks_pass_them_in_one_order(tmp_path: Path) -> None:
    together = [recorded(tmp_path / f"{n}", 64, regions=("assembly", "solve")) for n in range(2)]
    apart = recorded(tmp_path / "other", 64, regions=("solve", "assembly"))
    job = traces(together)
    assert job.phases == ["(outside regions)", "assembly", "solve"]
    assert "Ranks are taken to meet where a region begins or ends" in job.statements[0]
    mixed = traces([*together, apart])
    assert mixed.phases == ["(outside regions)"]
    assert "only the whole run can be explained" in mixed.statements[0]
    found = simulate(mixed, machine(TWO_SOCKETS), ["aged"], 1, progress=False)
    whole = simulate(job, machine(TWO_SOCKETS), ["aged"], 1, progress=False)
    executed = whole.placements["instructions"].sum()
    assert found.placements["instructions"].sum() == pytest.approx(1.5 * executed)


def test_the_share_seen_is_that_of_all_ranks_instructions(built: Callable[..., Path], tmp_path: Path) -> None:
    """A short rank that was traced whole does not hide that little of a long one was."""
    program, paths = str(built("copy")), [tmp_path / "short.trace", tmp_path / "long.trace"]
    for path, megabytes, accesses in zip(paths, ("1", "8"), (0, 10_000), strict=True):
        trace_program(TraceRequest([program, megabytes], str(path), accesses=accesses))
    job = traces(paths)
    short, long = (trace.trace.summary for trace in job.traces)
    assert short is not None
    assert long is not None
    assert short.total_instructions is not None
    assert long.total_instructions is not None
    assert short.instructions == short.total_instructions < long.total_instructions
    of_all = (short.instructions + long.instructions) / (short.total_instructions + long.total_instructions)
    assert job.share_seen == pytest.approx(of_all)
    assert traces([*paths, recorded(tmp_path / "recorded", 4)]).share_seen is None


def test_different_programs_and_damaged_traces_are_said(folder: Path, tmp_path: Path) -> None:
    other = recorded(tmp_path / "other.trace", 64, program="solver")
    cut = tmp_path / "cut.trace"
    cut.write_bytes((folder / "app.0.trace").read_bytes()[:-20])
    job = traces([folder / "app.0.trace", other, cut])
    assert job.name == "app+solver"
    assert "The ranks run different programs (app: ranks 0, 2; solver: rank 1)." in job.statements
    assert any(w.startswith("rank 2: ") and "is not complete" in w for w in job.warnings)


def timed(began: int, ended: int, kind: EndKind = EndKind.program, rank: str = "") -> Any:
    return SimpleNamespace(began=began, end=TraceEnd(kind, 0, ended), rank=rank)


@pytest.mark.parametrize(
    ("traces_of", "gap"),
    [
        ([timed(1, 5), timed(5, 9)], (0, 1)),
        ([timed(5, 9), timed(1, 4)], (1, 0)),
        ([timed(1, 5), timed(4, 9)], None),
        ([timed(1, 9), timed(2, 3), timed(4, 5)], None),  # one beside each of the others
        ([timed(1, 5), timed(2, 3), timed(6, 9)], (0, 2)),
        ([timed(1, 5, EndKind.budget), timed(6, 9)], None),  # which went on
        ([timed(1, 5, rank="0"), timed(6, 9, rank="1")], None),
        ([timed(1, 5, rank="0"), timed(6, 9, rank="0")], (0, 1)),  # two jobs of one rank
        ([timed(1, 5), timed(0, 0)], None),  # of an older version
        ([timed(5, 1), timed(6, 9)], None),  # the clock was set back meanwhile
    ],
)
def test_runs_one_after_another_are_no_job(traces_of: list[Any], gap: tuple[int, int] | None) -> None:
    found = first_gap(traces_of)
    assert (found and (found.before, found.after)) == gap


def test_the_command_refuses_runs_one_after_another(
    built: Callable[..., Path], pagelens: Run, tmp_path: Path
) -> None:
    for number in range(2):
        pagelens("trace", "-o", f"app.{number}.trace", "--", built("copy"), "1")
    done = pagelens("explain", "app.1.trace", "app.0.trace", "--machine", TWO_SOCKETS)
    assert done.returncode == 2
    assert re.search(
        r"app\.0\.trace ended .*s before app\.1\.trace began, so these are no ranks", done.stderr
    )
    assert done.stderr.endswith("explain each trace alone\n")


def test_the_command_makes_one_report(folder: Path, pagelens: Run) -> None:
    paths = [folder / f"app.{rank}.trace" for rank in (0, 10, 2)]  # as a shell sorts them
    machine_file = folder / "small.toml"
    few = ("--machine", machine_file, "--nodes", "2", "--policies", "aged")
    done = pagelens("explain", *paths, *few, "--json")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    program = found["program"]
    assert (program["name"], program["ranks"], program["job"]["traced_ranks"]) == ("app+solver", 3, 3)
    *_, which, when = program["job"]["statements"]
    assert which.endswith("(app: ranks 0-1; solver: rank 2).")  # 10 after 2
    assert when.endswith("If they ran one after another, explain each trace alone.")
    assert "these 3 traces are of different programs" in done.stderr
    spread = {of["name"]: of for of in program["job"]["spreads"]}
    assert spread["resident bytes"]["most"] == pytest.approx(12 << 20, rel=0.1)
    assert {o["name"]: o["ranks"] for o in found["objects"]}["halo"] == 1
    text = pagelens("explain", *paths, *few).stdout
    flat = " ".join(text.split())
    assert "halo (1 of 3 ranks)" in flat
    assert "Ranks are taken to run freely side by side, because no regions are marked and " in flat
    assert "The traced ranks differ (least, median, most; counted): instructions" in flat
    crowded = pagelens("explain", *paths, *paths, "--machine", machine_file)
    assert crowded.returncode == 2
    assert "6 ranks with 6 threads in all are more than the 4 cores of small" in crowded.stderr
    mixed = pagelens("explain", *paths, machine_file)
    assert mixed.returncode == 2
    assert f"{machine_file} behind it is none; leave it out" in mixed.stderr


@pytest.mark.parametrize(
    ("environment", "rank"),
    [
        ({}, None),
        ({"OMPI_COMM_WORLD_RANK": "5", "OMPI_COMM_WORLD_LOCAL_RANK": "1", "OMPI_COMM_WORLD_LOCAL_SIZE": "4"},
         LaunchedRank(5, 1, 4)),
        ({"PMI_RANK": "0", "MPI_LOCALRANKID": "0", "MPI_LOCALNRANKS": "8"}, LaunchedRank(0, 0, 8)),
        ({"SLURM_PROCID": "2", "SLURM_LOCALID": "0", "SLURM_STEP_TASKS_PER_NODE": "2(x2)"},
         LaunchedRank(2, 0, 2)),
        ({"SLURM_PROCID": "0", "SLURM_LOCALID": "0", "SLURM_STEP_TASKS_PER_NODE": "1"}, None),
        ({"SLURM_PROCID": "3", "SLURM_LOCALID": "0", "SLURM_STEP_TASKS_PER_NODE": "1(x4)"},
         LaunchedRank(3, 0, 1)),
        ({"PMI_RANK": "x", "MPI_LOCALRANKID": "0", "MPI_LOCALNRANKS": "8"}, None),
        ({"PMI_RANK": "1"}, None),
    ],
)  # fmt: skip
def test_launchers_say_which_rank_this_is(environment: dict[str, str], rank: LaunchedRank | None) -> None:
    assert launched_rank(environment) == rank


def test_the_reporting_rank_waits_as_long_as_traces_grow(tmp_path: Path) -> None:
    paths = [tmp_path / f"app.{rank}.trace" for rank in range(3)]
    partial = tmp_path / "app.1.trace.partial"
    paths[0].write_text("whole")
    steps: list[Callable[[], object]] = [
        lambda: partial.write_text("a"),
        lambda: partial.write_text("ab"),
        lambda: partial.rename(paths[1]),
    ]
    waited: list[float] = []

    def sleep(seconds: float) -> None:
        waited.append(seconds)
        if len(waited) <= len(steps):
            steps[len(waited) - 1]()

    assert await_traces(paths, patience_s=1.0, sleep=sleep) == paths[:2]  # the third rank failed
    assert sum(waited[2:]) == pytest.approx(1.2, abs=0.3)
    assert await_traces(paths[:2], patience_s=0) == paths[:2]


def test_a_rank_that_still_runs_is_awaited_though_its_trace_does_not_grow(tmp_path: Path) -> None:
    other, told, waited = LaunchedRank(1, 1, 2), list[list[int]](), list[float]()
    with begin_trace(tmp_path, "app", LaunchedRank(0, 0, 2)) as own:
        own.write_text("whole")
    with begin_trace(tmp_path, "app", other) as path:

        def sleep(seconds: float) -> None:
            waited.append(seconds)
            if sum(waited) > 5:
                path.write_text("whole")

        assert await_traces([own, path], patience_s=1.0, sleep=sleep, tell=told.append) == [own, path]
    assert told == [[1]]
    with begin_trace(tmp_path, "app", other) as path:
        pass  # it failed
    assert await_traces([own, path], patience_s=1.0, sleep=lambda _: None, tell=told.append) == [own]
    assert len(told) == 1
    assert list(tmp_path.iterdir()) == [own]


def test_the_trace_of_an_earlier_job_is_not_taken(tmp_path: Path) -> None:
    """A rank that fails before it begins leaves the trace that an earlier job wrote there."""
    old, new = tmp_path / "app.0.trace", tmp_path / "app.1.trace"
    for path in (old, new):
        path.write_text("whole")
    since = launch_began(tmp_path)
    os.utime(old, (since - 1, since - 1))
    assert since < new.stat().st_mtime
    assert await_traces([old, new], since, patience_s=0) == [new]
    assert sorted(tmp_path.iterdir()) == [old, new]


def test_the_launch_is_as_old_as_the_launcher(tmp_path: Path) -> None:
    parent = tmp_path / f"proc/{os.getppid()}/stat"
    parent.parent.mkdir(parents=True)
    began = 1000 * os.sysconf("SC_CLK_TCK")
    parent.write_text(f"{os.getppid()} (a (b) c) S {'0 ' * 18}{began} 0 0\n")
    (tmp_path / "proc/uptime").write_text("5000.00 9000.00\n")
    (now := tmp_path / "now").touch()
    assert launch_began(tmp_path, tmp_path) == pytest.approx(now.stat().st_mtime - 4000, abs=60)
    assert launch_began(tmp_path, tmp_path / "nowhere") == 0


def test_ranks_are_called_by_their_numbers(
    built: Callable[..., Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The traces of some ranks keep the numbers that the launcher gave them."""
    paths = [tmp_path / f"{rank}.trace" for rank in (5, 7)]
    for rank, path in zip(("5", "7"), paths, strict=True):
        monkeypatch.setenv("PMI_RANK", rank)
        trace_program(TraceRequest([str(built("sweeps"))], str(path), accesses=10_000))
    paths[1].write_bytes(paths[1].read_bytes()[:-20])
    found = traces(paths)
    assert found.numbers == [5, 7]
    assert [warning[:7] for warning in found.warnings if "is not complete" in warning] == ["rank 7:"]
    assert found.copies_in_words(2)[0].endswith("The other 2 are copies of them, in turn.")
    assert traces([paths[0], recorded(tmp_path / "recorded", 4)]).numbers == [0, 1]


def test_helpers_of_a_library_are_told_of(tmp_path: Path) -> None:
    paths = [tmp_path / f"{rank}.trace" for rank in range(2)]
    for path, of_helper in zip(paths, (90, 110), strict=True):
        with TraceRecorder(path, "app") as recorder:
            for thread, count in enumerate((1000, of_helper)):
                recorder.access(thread, np.array([BASE]))
                recorder.execute(thread, count)
    [*_, last] = JobWorkload([open_trace(path) for path in paths]).statements
    assert last.startswith("Of the 4 threads of all ranks, 1 is a helper, such as MPI libraries start")
    assert JobWorkload([open_trace(paths[1])]).statements == []


def test_a_program_may_have_more_threads_than_cores(tmp_path: Path) -> None:
    """Helper threads share a core, so a thread that waits for as many others as there are cores has room."""
    two = machine(TWO_SOCKETS).with_values({"cores.count": 2, "numa.cores": [1, 1], "l3.shared_by": 1})

    def recorded(path: Path, of_first: int) -> TraceWorkload:
        with TraceRecorder(path, "app") as recorder:
            for thread, count in enumerate((of_first, 1000, 1000)):
                recorder.access(thread, np.array([BASE]))
                recorder.execute(thread, count)
        return open_trace(path)

    program, copies = fill_node(recorded(tmp_path / "waits.trace", 10), two, None)
    assert (program.threads, copies) == (2, 1)
    assert isinstance(program, JobWorkload)
    assert program.binding == []
    assert [words[:44] for words in program.statements] == ["Of the 3 threads of the program, 1 is a help"]
    assert how_elsewhere(program, None, None, None)[0] == f"pagelens explain {tmp_path}/waits.trace"
    simulation = Simulation(program, two, 1)
    simulation.run(simulation.place(policies["aged"], Node(two, seed=1, node=0)))
    works = recorded(tmp_path / "works.trace", 1000)
    with pytest.raises(UsageError, match="machine: 1 x 3 working threads of app are more than the 2"):
        fill_node(works, two, None)
    with pytest.raises(Failure, match="its 3 working threads share the 2 cores of this computer"):
        time_beside(["app"], works, two, 1)
    with pytest.raises(Failure, match="runs other programs besides app, which made 50% of all acc"):
        time_beside(["run.sh"], program, two, 1, share=0.5)


def test_a_helper_shares_the_core_of_its_rank_s_busiest_thread(tmp_path: Path) -> None:
    """So 36 ranks that have a helper each fit 36 cores, and take as long as without their helpers."""
    model = machine(TWO_SOCKETS)

    def job(helps: bool) -> JobWorkload:
        path = tmp_path / f"{helps}.trace"
        with TraceRecorder(path, "app") as recorder:
            recorder.allocate(helps, BASE, 64 * KIB, "field")
            recorder.access(helps, BASE + 8 * np.arange(8 * KIB), stores=True, instructions=100)
            if helps:
                recorder.access(0, np.array([BASE]))
        return JobWorkload(36 * [open_trace(path)])

    with_helpers, alone = job(True), job(False)
    assert with_helpers.threads == alone.threads == 36
    assert fill_node(with_helpers, model, None) == (with_helpers, 1)
    runs = []
    for workload in (with_helpers, alone):
        simulation = Simulation(workload, model, 1)
        runs.append(simulation.run(simulation.place(policies["aged"], Node(model, seed=1, node=0))))
    assert_allclose(runs[0].times.time_s, runs[1].times.time_s, rtol=0.01)


def test_a_job_may_have_more_threads_than_this_computer_has_cores(opened: list[TraceWorkload]) -> None:
    """A machine that the user named is not changed."""
    text = MACHINE.replace("count = { value = 4", "count = {value = 2")
    here = Chosen(parse_machine(text.encode(), "here"), text=text)
    check_cores(LaunchedRank(0, 0, 3), here)
    with pytest.raises(UsageError, match="--machine: the 3 ranks of this node are more than the 2 cores"):
        check_cores(LaunchedRank(0, 0, 3), replace(here, text=""))
    job = JobWorkload(opened)
    roomy, [said] = with_room(here.machine, job.threads)
    assert roomy.cores.count.value == 3
    assert said.startswith("This computer has 2 cores, and 3 threads are at work in all.")
    larger = here.with_cores(3)
    kept = parse_machine(larger.text.encode(), "kept")
    assert kept.cores.count.value == larger.machine.cores.count.value == 3
    assert with_room(larger.machine, job.threads) == (larger.machine, [])


def test_a_computer_of_two_sockets_gets_no_more_cores(
    opened: list[TraceWorkload], capsys: pytest.CaptureFixture[str]
) -> None:
    """Ranks are refused before they are traced. Of forks, the busiest is explained."""
    sockets = {"cores.count": 2, "numa.cores": [1, 1], "l3.shared_by": 1}
    two = machine(TWO_SOCKETS).with_values(sockets)
    with pytest.raises(UsageError, match="--machine: the 3 ranks of this node are more than the 2 cores"):
        check_cores(LaunchedRank(0, 0, 3), Chosen(two, text="here"))
    job = JobWorkload(opened)
    assert job_or_busiest(job, two, is_here=True) == (job.traces[1], two)
    assert "3 working threads in all, more than the 2 cores" in capsys.readouterr().err
    larger = two.with_values({"cores.count": 4, "numa.cores": [2, 2]})
    assert job_or_busiest(job, larger, is_here=True) == (job, larger)


def test_one_rank_reports_for_all(
    folder: Path, built: Callable[..., Path], pagelens: Run, pagelens_command: Path, tmp_path: Path
) -> None:
    """The launcher's variables decide. Ranks that do not report say nothing."""
    program = built("sweeps")
    words = ["explain", "--machine", folder / "small.toml", "--nodes", "1", "--policies", "aged", "-o", "out"]

    def environment(rank: int) -> dict[str, str]:
        return {"PMI_RANK": str(rank), "MPI_LOCALRANKID": str(rank), "MPI_LOCALNRANKS": "2"}

    other = subprocess.Popen(
        [pagelens_command, *words, "--", program], cwd=tmp_path, env={**os.environ, **environment(1)},
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    done = pagelens(*words, "--", program, env=environment(0))
    said = other.communicate()
    assert (other.returncode, done.returncode) == (0, 0), (said, done.stderr)
    assert ": 2 ranks of " in " ".join(done.stdout.split())
    assert "Report:" not in said[0]
    assert said[1] == ""
    assert len(list((tmp_path / "out").glob(f"{program.name}.*.[01].trace"))) == 2
    crowd = environment(0) | {"MPI_LOCALNRANKS": "5"}
    refused = pagelens(*words, "--", program, env=crowd)
    assert "--machine: the 5 ranks of this node are more than the 4 cores of small" in refused.stderr
    refused = pagelens(*words, "--", program, env=crowd | {"PMI_RANK": "1", "MPI_LOCALRANKID": "1"})
    assert (refused.returncode, refused.stdout, refused.stderr) == (2, "", "")  # and does not wait for rank 0
    refused = pagelens(*words, "--timed", "--", program, env=environment(0))
    assert "--timed: runs one process, not the ranks of a job" in refused.stderr


@pytest.mark.parametrize("full", [0, 1])
def test_ranks_without_room_for_their_traces_leave_the_others_to_be_explained(
    in_process: Run, folder: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, full: int
) -> None:
    """One disk is full for both ranks, and one of them had filled it."""

    def trace_one(request: TraceRequest, *_: object) -> TraceResult:
        path = Path(request.output)
        if path.name.endswith(f".{full}.trace"):
            raise NoTrace(f"trace {path}: No space left on device")
        recorded(path, 64)
        done = TracedProgram(1, path, "true", complete=True, accesses=9)
        return TraceResult(path, 0, complete=True, accesses=9, programs=[done], kept=done)

    monkeypatch.setattr(source, "trace_program", trace_one)
    monkeypatch.setattr(source, "launch_began", lambda _: 0.0)
    words = ("explain", "--machine", folder / "small.toml", "--nodes", "1", "--policies", "aged", "-o", "out")
    said = []
    for rank in (1, 0):  # the one that reports comes last, and finds all that there will be
        monkeypatch.setattr(explain_module, "launched_rank", lambda _, rank=rank: LaunchedRank(rank, rank, 2))
        done = in_process(*words, "--", shutil.which("true") or "")
        assert done.returncode == 0
        said.append(done.stderr.splitlines())
    of_full = said[0] if full else said[0] + said[1]
    assert of_full[0].startswith(f"pagelens: rank {full}: trace out/")
    assert said[1][-1] == f"pagelens: no trace came of rank {full} of this node; the others are explained"
    assert sum(map(len, said)) == 2
    assert "Report: out/report.html" in done.stdout


def test_a_rank_whose_directory_takes_no_files_says_so_in_one_line(
    in_process: Run, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The file system may be one on which the user may have no more files."""
    (folder / "file").touch()
    monkeypatch.setattr(explain_module, "launched_rank", lambda _: LaunchedRank(1, 1, 2))
    done = in_process("explain", "--machine", folder / "small.toml", "-o", folder / "file" / "out", "true")
    assert (done.returncode, done.stderr.count("\n")) == (1, 1)
    assert f"--output: cannot write to {folder}/file/out (Not a directory); name a" in done.stderr
    with pytest.raises(Failure, match="--output: cannot write to"):
        launch_began(folder / "file")


def test_a_rank_without_a_trace_goes_on_where_not_even_an_empty_file_has_room(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source._do_without(tmp_path / "missing" / "app.1.trace", LaunchedRank(1, 1, 2), NoTrace("no space"))
    assert capsys.readouterr().err == "pagelens: rank 1: no space\n"


@pytest.mark.parametrize("killed", [0, pytest.param(1, marks=pytest.mark.long)])
def test_a_rank_that_is_killed_is_said_and_left_out(
    folder: Path,
    built: Callable[..., Path],
    pagelens: Run,
    pagelens_command: Path,
    tmp_path: Path,
    killed: int,
) -> None:
    """Its trace has no accesses, because what it had not written yet is lost."""
    program = built("sweeps")
    (tmp_path / "shell").mkdir()
    shutil.copy("/bin/sh", tmp_path / "shell" / program.name)
    words = ["explain", "--machine", folder / "small.toml", "--nodes", "1", "--policies", "aged", "-o", "out"]
    kill_itself = [Path("shell") / program.name, "-c", "kill -9 $$"]

    def command(rank: int) -> list[str | Path]:
        return [*words, "--", *(kill_itself if rank == killed else [program])]

    def environment(rank: int) -> dict[str, str]:
        return {"PMI_RANK": str(rank), "MPI_LOCALRANKID": str(rank), "MPI_LOCALNRANKS": "2"}

    other = subprocess.Popen(
        [pagelens_command, *command(1)], cwd=tmp_path, env={**os.environ, **environment(1)},
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    done = pagelens(*command(0), env=environment(0))
    said = other.communicate()[1]
    assert (other.returncode, done.returncode) == (0, 0), (said, done.stderr)
    assert "was killed by SIGKILL" in (said if killed == 1 else done.stderr)
    assert (said == "") == (killed == 0)
    assert "it holds no accesses to explain" in done.stderr
    assert "the other ranks are explained" in done.stderr
    assert "Report: out/report.html" in done.stdout


@pytest.mark.long
@pytest.mark.parametrize("ranks", [2, 4, 8])
@pytest.mark.parametrize("launcher", ["openmpi", "mpich"])
def test_mpirun_explain(
    built: Callable[..., Path], pagelens_command: Path, tmp_path: Path, launcher: str, ranks: int
) -> None:
    mpirun, compiler = shutil.which(f"mpirun.{launcher}"), shutil.which(f"mpicc.{launcher}")
    if mpirun is None or compiler is None:
        pytest.skip(f"no {launcher}")
    program = built("mpi_sum", compiler=compiler)
    crowd = ["--oversubscribe"] if launcher == "openmpi" else []
    words = [pagelens_command, "explain", "--machine", TWO_SOCKETS, "--nodes", "1", "--policies", "aged"]
    done = subprocess.run(
        [mpirun, "-n", str(ranks), *crowd, *words, "-o", "out", "--json", "--", program],
        cwd=tmp_path, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)  # one report, and the program's own output elsewhere
    assert found["program"]["job"]["traced_ranks"] == found["program"]["ranks"] == ranks
    assert f"\n{sum(range(ranks))}\n" in f"\n{done.stderr}"
