"""Ranks that wait for some of the others: for messages, and in collective calls of some ranks."""

import shutil
import subprocess
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from machine_roles import TWO_SOCKETS

from pagelens.accesses.job import JobWorkload
from pagelens.accesses.rank_meetings import of_some
from pagelens.accesses.trace_recorder import TraceRecorder
from pagelens.api import explain, machine, simulate, trace, traces

BASE = 0x7F00_0000_0000
MILLION = 1_000_000
Event = tuple[str, int, bool, bool]  # place, turn, whether it comes, whether it waits
# Of the chain, the neighbours' requests, those out of order, persistent ones, MPI_Sendrecv, MPI_Improbe,
# MPI_Sendrecv_replace, those after cancelled receives, and the one before MPI_Comm_dup: tag, how often.
MESSAGES = {3: 4, 4: 1, 5: 1, 6: 2, 7: 2, 8: 1, 9: 1, 10: 1, 11: 2, 12: 1, 13: 1, 14: 1, 15: 1, 16: 1, 17: 1}
# MPI_Isendrecv, MPI_Isendrecv_replace and MPI_Send_c; many requests; a receive from one source and then one
# from any; one of nothing; those in partitions.
# The last one is of a communicator of two groups.
MESSAGES |= {18: 3, 19: 150, 20: 2, 21: 1, 22: 2, 23: 1}
# Of synchronous and long messages, those of MPI_Sendrecv too, and of those in partitions.
WAITING_SENDS = dict.fromkeys(range(13, 18), 1) | {18: 2, 20: 2, 22: 2}


def recorded(path: Path, steps: list[int | Event]) -> Path:
    """Write the trace of a rank that executes so many instructions, or meets others."""
    with TraceRecorder(path, "app") as recorder:
        recorder.access(0, BASE + 8 * np.arange(512), stores=True)
        for step in steps:
            if isinstance(step, int):
                recorder.execute(0, step)
                continue
            place, turn, comes, waits = step
            recorder.wait(0)
            recorder.meet(0, place, turn, comes=comes, waits=waits)
            recorder.execute(0, 100 * MILLION)  # as it asks again and again
            recorder.go_on(0)
    return path


def seconds(paths: list[Path], ranks: int | None = None) -> float:
    found = simulate(traces(paths), machine(TWO_SOCKETS), ["aged"], 1, ranks=ranks, progress=False)
    return float(found.placements["time_s"].sum())


def test_each_rank_of_a_pipeline_waits_for_the_one_before(tmp_path: Path) -> None:
    work = 40 * MILLION

    def pipeline(folder: str, *, matched: bool) -> list[Path]:
        (tmp_path / folder).mkdir()
        steps: list[list[int | Event]] = []
        for rank in range(3):
            received = [(f"{rank - 1} {rank}", 0, False, True)] if rank > 0 and matched else []
            steps.append([*received, work, (f"{rank} {rank + 1}", 0, True, False)])
        return [recorded(tmp_path / folder / str(rank), of_rank) for rank, of_rank in enumerate(steps)]

    in_turn, at_once = pipeline("in turn", matched=True), pipeline("at once", matched=False)
    job = traces(in_turn)
    assert job.statements[0].startswith("Ranks are taken to wait 2 times for messages and for some of ")
    assert "no regions are marked" in traces(at_once).statements[0]
    assert seconds(in_turn) == pytest.approx(3 * seconds(at_once), rel=0.01)
    few = {"policies": ["aged"], "nodes": 1, "progress": False}
    job.binding, job.crowding = ["All ranks were bound to one core."], 3.0
    explanation = explain(simulate(job, machine(TWO_SOCKETS), **few))
    assert explanation.conclusion.sentences[0] == job.binding[0]
    found = explanation.program.job
    assert found is not None
    assert [of.rank for of in found.waits] == [0, 1, 2]
    assert [of.share for of in found.waits] == pytest.approx([2 / 3] * 3, rel=0.02)
    # The first two wait for the last one at the end, and the last one waits for the second at the beginning.
    assert [of.longest_for for of in found.waits] == [2, 2, 1]
    waiting = "On average, ranks wait for each other for 67% of the time"
    assert any(sentence.startswith(waiting) for sentence in explanation.conclusion.sentences)
    # Three more ranks are copies that wait for copies, at the same time.
    assert seconds(in_turn, ranks=6) == pytest.approx(seconds(in_turn), rel=0.01)


def test_ranks_that_meet_in_pairs_wait_in_pairs(tmp_path: Path) -> None:
    """Each pair works in turn; without the pairs' meetings, all four would be equally busy."""
    few, many = MILLION, 40 * MILLION
    paths = []
    for rank in range(4):
        meeting = [(f"pair {rank // 2}", turn, True, True) for turn in range(2)]
        work = [few, many] if rank % 2 else [many, few]
        paths.append(recorded(tmp_path / str(rank), [work[0], meeting[0], work[1], meeting[1]]))
    alone = [recorded(tmp_path / f"{rank} alone", [few, many]) for rank in range(4)]
    assert seconds(paths) == pytest.approx(80 / 41 * seconds(alone), rel=0.01)


def test_a_rank_that_others_still_wait_for_has_ended_early(tmp_path: Path) -> None:
    once, twice = ([("0 1", turn, True, False) for turn in range(times)] for times in (1, 2))
    waits = recorded(tmp_path / "waits", [("0 1", 0, False, True), MILLION, ("0 1", 1, False, True)])
    cut, whole = (traces([recorded(tmp_path / str(len(of)), [*of]), waits]) for of in (once, twice))
    assert "same part of the run: rank 0 ends while others still wait for it." in cut.warnings[0]
    assert whole.warnings == cut.warnings[1:]


def test_a_rank_that_never_sends_what_another_one_waits_for_has_ended_early(tmp_path: Path) -> None:
    """The budget of rank 0 is used up before its first send, so only the message's place names it."""
    quiet = recorded(tmp_path / "0", [MILLION])
    waits = recorded(tmp_path / "1", [("a 0 1 3", 0, False, True), MILLION])
    of_others = recorded(tmp_path / "other nodes", [("a 8 9 3", 0, False, True), MILLION])
    job, elsewhere = traces([quiet, waits]), traces([quiet, of_others])
    assert "run: rank 0 ends before it sends what others wait for, or begins after that." in job.warnings[0]
    # Rank 9 of the job has another number here, and so has the rank that it waits for.
    assert job.warnings[1:] == elsewhere.warnings


def test_a_rank_whose_trace_begins_late_may_have_sent_before(tmp_path: Path) -> None:
    """The traces begin after some accesses (--skip). Rank 0 had sent what rank 1 waits for in its trace."""
    waits = recorded(tmp_path / "waits", [("a 0 1 3", 0, False, True), MILLION])
    whole, late = (recorded(tmp_path / str(turn), [("a 0 1 4", turn, True, False)]) for turn in (0, 1))
    from_whole, from_late = (traces([path, waits]) for path in (whole, late))
    assert "rank 0 ends before it sends what others wait for, or begins after that" in from_whole.warnings[0]
    assert from_late.warnings == from_whole.warnings[1:]


@pytest.mark.long
def test_messages_of_programs_that_a_rank_starts_are_said_to_be_left_out(
    built: Callable[..., Path], pagelens_command: Path, tmp_path: Path
) -> None:
    """Under Open MPI: Debian's MPICH starts no programs."""
    mpirun, compiler = shutil.which("mpirun.openmpi"), shutil.which("mpicc.openmpi")
    if mpirun is None or compiler is None:
        pytest.skip("no Open MPI")
    words = [pagelens_command, "trace", "-o", "app.trace", "--", built("mpi_spawn", compiler=compiler)]
    subprocess.run(
        [mpirun, "-n", "1", "--oversubscribe", *words], cwd=tmp_path, capture_output=True, check=True
    )
    found = [text for text in trace(tmp_path / "app.trace").warnings if "MPI_Comm_spawn" in text]
    assert len(found) == 1


def events(job: JobWorkload) -> list[list[Event]]:
    found = []
    for traced in job.traces:
        names, meetings = dict(traced.trace.places), traced.survey.rounds[1]
        of_trace = []
        for value in meetings[of_some(meetings)].tolist():
            place, turn = names[value & 0xFFFF_FFFF], value >> 32 & (1 << 28) - 1
            of_trace.append((place, turn, bool(value >> 61 & 1), bool(value >> 62 & 1)))
        found.append(of_trace)
    return found


@pytest.mark.long
@pytest.mark.parametrize("module", ["mpi", "mpi_f08"])
@pytest.mark.parametrize("launcher", ["mpich", "openmpi"])
def test_what_ranks_in_fortran_wait_for_is_recorded(
    pagelens_command: Path, tmp_path: Path, launcher: str, module: str
) -> None:
    mpirun, compiler = shutil.which(f"mpirun.{launcher}"), shutil.which(f"mpif90.{launcher}")
    if mpirun is None or compiler is None:
        pytest.skip(f"no {launcher}")
    program = tmp_path / "waits"
    types = ["-DNEW_TYPES"] if module == "mpi_f08" else []
    source = Path(__file__).parents[1] / "programs" / "mpi_waits.f90"
    subprocess.run([compiler, "-O1", "-cpp", f"-DMODULE={module}", *types, source, "-o", program], check=True)
    crowd = ["--oversubscribe"] if launcher == "openmpi" else []
    words = [pagelens_command, "trace", "-o", "app.%r.trace", "--", program]
    subprocess.run([mpirun, "-n", "2", *crowd, *words], cwd=tmp_path, capture_output=True, check=True)
    job = traces([tmp_path / f"app.{rank}.trace" for rank in range(2)])
    assert isinstance(job, JobWorkload)
    for rank, of_rank in enumerate(events(job)):
        waited = Counter(" ".join(place.split()[1:]) for place, _, _, waits in of_rank if waits)
        # Both wait in both sends and their receives, for the neighbour, for MPI_Win_start and for
        # MPI_Win_wait, and meet at the fence, where the window is freed, and four times about a file.
        other = 1 - rank
        alone = [f"{other} -1 -3", f"{other} {rank} -4", f"{other} {rank} -5"]
        assert waited == Counter(["0 1 13", "0 1 14", *alone, *["-1 -1 -1"] * 6])


@pytest.mark.parametrize("launcher", ["mpich", pytest.param("openmpi", marks=pytest.mark.long)])
def test_what_ranks_wait_for_is_recorded(
    built: Callable[..., Path], pagelens_command: Path, tmp_path: Path, launcher: str
) -> None:
    ranks = 4
    mpirun, compiler = shutil.which(f"mpirun.{launcher}"), shutil.which(f"mpicc.{launcher}")
    if mpirun is None or compiler is None:
        pytest.skip(f"no {launcher}")
    crowd = ["--oversubscribe"] if launcher == "openmpi" else []
    words = [pagelens_command, "trace", "-o", "app.%r.trace", "--", built("mpi_waits", compiler=compiler)]
    subprocess.run([mpirun, "-n", str(ranks), *crowd, *words], cwd=tmp_path, capture_output=True, check=True)
    job = traces([tmp_path / f"app.{rank}.trace" for rank in range(ranks)])
    assert isinstance(job, JobWorkload)
    found = events(job)
    came = [{(place, turn) for place, turn, comes, _ in of_rank if comes} for of_rank in found]
    for rank, of_rank in enumerate(found):
        others = set().union(*(of for other, of in enumerate(came) if other != rank))
        waited = [(place, turn) for place, turn, _, waits in of_rank if waits]
        assert others.issuperset(waited), "nobody comes to what this rank waits for"
        messages, sends = Counter[int](), Counter[int]()
        for place, _ in waited:
            sender, receiver, tag = (int(word) for word in place.split()[1:])
            if receiver == rank and tag > 0:
                messages[tag] += 1
                following, before = (rank + 1) % ranks, (rank + ranks - 1) % ranks
                assert sender == {4: following, 23: rank ^ 1}.get(tag, before)
            elif tag > 0:
                sends[tag] += 1
                assert (sender, receiver) == (rank, (rank + 1) % ranks)
        some = {3: rank > 0, 12: rank == 1, **dict.fromkeys((18, 21, 22), launcher == "mpich")}
        assert messages == {tag: count for tag, count in MESSAGES.items() if some.get(tag, True)}
        assert sends == {tag: count for tag, count in WAITING_SENDS.items() if some.get(tag, True)}
        assert [turn for place, turn in waited if place.endswith(" 6")] == [1, 0]
        assert [turn for place, turn in waited if place.endswith(" 11")] == [0, 1]
    # Both pairs meet twice in two communicators, one of each waits for the other one in MPI_Reduce, three
    # wait for a broadcast, all for MPI_Ibarrier, and three for the rank before them in MPI_Scan.
    of_pairs = [{place.split()[0] for place, *_ in found[rank]} for rank in range(ranks)]
    # All have the communicators of all ranks, of the neighbours and of two groups, the window, the file and
    # five persistent calls in common, and those of MPICH the messages in partitions.
    common = 12 if launcher == "mpich" else 11
    assert [len(of_pairs[0] & of_pairs[rank]) for rank in range(ranks)] == [common + 2] * 2 + [common] * 2
    # Of the three fences, all meet at the second, and all meet where the window is freed. They also meet in
    # six calls about the file, and those of Open MPI in MPI_File_sync. Of the persistent calls, all meet in
    # one, three wait for a broadcast, and rank 2 waits for a reduction, all twice. Rank 2 then gathers.
    in_files = 6 if launcher == "mpich" else 7
    collective = [in_files + others for others in (6 + 4, 6 + 2, 6 + 4 + 3, 7 + 4)]
    for rank, of_rank in enumerate(found):
        following, before = (rank + 1) % ranks, (rank + ranks - 1) % ranks
        waited = [([int(word) for word in place.split()[1:]], turn) for place, turn, _, w in of_rank if w]
        waited_for = Counter((places[0], places[2]) for places, _ in waited if places[2] < -2)
        # Both neighbours of the ring, then the one before; twice those of another ring; MPI_Win_start, then
        # MPI_Win_wait; the group of the even ranks or the odd ones.
        of_ring = {(before, -3): 2 + 2, (following, -3): 1 + 2}
        assert waited_for == {**of_ring, (following, -4): 1, (before, -5): 1, (1 - rank % 2, -6): 1}
        assert sum(places[2] == -1 for places, _ in waited) == collective[rank]
        # For each rank before it, in five scans, of which the last two are one that is started twice.
        scans = [0, 2, 1, 0, 1] if rank == 3 else [0, 1, 2, 0, 1]
        for other in range(ranks):
            turns = [turn for places, turn in waited if places == [other, -1, -2]]
            assert turns == (scans if other < rank else [])
