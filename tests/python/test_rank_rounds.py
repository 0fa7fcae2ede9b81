"""Ranks that meet in collective calls: in each round between two meetings the slowest rank decides."""

import functools
import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from machine_roles import TWO_SOCKETS

from pagelens.accesses.job import JobWorkload
from pagelens.accesses.rank_meetings import meetings_before, processes_of
from pagelens.accesses.rank_rounds import JobRounds, common_rounds
from pagelens.accesses.trace_recorder import TraceRecorder
from pagelens.api import explain, machine, simulate, traces

BASE = 0x7F00_0000_0000
PROGRAMS = Path(__file__).parents[1] / "programs"
ALL = 3  # ranks
Part = tuple[int, int, int]  # how many ranks meet at its end, instructions, lines


def rounds_of(parts: list[Part], phase: int = 0):
    met, instructions, lines = (np.array(column, dtype=np.uint64) for column in zip(*parts, strict=True))
    return np.full(len(parts), phase, dtype=np.uint32), met.astype(np.uint32), instructions, lines


def seconds_by_hand(ranks: list[list[Part]], a: int, b: int) -> int:
    """Let each rank go on until it meets all others, again and again."""
    left = [list(rank) for rank in ranks]
    total = 0
    while any(left):
        took = []
        for rank in left:
            spent = 0
            while rank:
                met, instructions, lines = rank.pop(0)
                spent += a * instructions + b * lines
                if met == ALL:
                    break
            took.append(spent)
        total += max(took)
    return total


COUNTS = st.integers(0, 1000)
OWN = st.lists(st.tuples(st.sampled_from([0, 2]), COUNTS, COUNTS), max_size=2)  # ranks do not meet here


@st.composite
def jobs(draw: st.DrawFn) -> list[list[Part]]:
    meetings = draw(st.integers(1, 6))
    ranks = []
    for _ in range(ALL):
        parts: list[Part] = []
        for _ in range(meetings):
            parts += [*draw(OWN), (ALL, draw(COUNTS), draw(COUNTS))]
        ranks.append([*parts, (0, draw(COUNTS), draw(COUNTS))])
    return ranks


@given(jobs(), st.integers(0, 5), st.integers(0, 5))
@settings(max_examples=60, deadline=None)
def test_the_slowest_rank_of_each_round_decides(ranks: list[list[Part]], a: int, b: int) -> None:
    rounds = common_rounds([(rounds_of(parts), [0]) for parts in ranks])
    assert (rounds.meeting, rounds.meetings) == (ALL, sum(part[0] == ALL for part in ranks[0]))
    job = JobRounds(rounds, 1, np.ones(ALL), 2 * (np.ones((1, ALL)),), np.ones(ALL, dtype=np.int64))
    load = job.load()
    mean = [sum(part[kind] for rank in ranks for part in rank) / ALL for kind in (1, 2)]
    issue, stalls = np.array([a * mean[0]]), np.array([b * mean[1]])
    if all(mean):  # otherwise what has no count takes no time in a real run
        total = seconds_by_hand(ranks, a, b)
        assert load.slowest(issue, stalls)[0] == pytest.approx(total)
        works = [sum(a * part[1] + b * part[2] for part in rank) for rank in ranks]
        assert job.waits(issue, stalls).sum(axis=1) == pytest.approx(total - np.array(works), abs=1e-6)


def test_ranks_that_come_to_other_meetings_run_freely_and_short_ones_end() -> None:
    whole = rounds_of([(2, 5, 0), (2, 5, 0), (0, 5, 0)])
    cut = rounds_of([(2, 9, 0), (0, 1, 0)])
    rounds = common_rounds([(whole, [0]), (cut, [0])])
    assert rounds.instructions.tolist() == [[5, 9], [5, 1], [5, 0]]
    in_regions = rounds_of([(2, 5, 0)], phase=0), rounds_of([(0, 5, 0)], phase=1)
    begins = tuple(np.concatenate(columns) for columns in zip(*in_regions, strict=True))
    other = tuple(np.concatenate(columns) for columns in zip(
        rounds_of([(0, 5, 0)], phase=0), rounds_of([(2, 5, 0), (0, 5, 0)], phase=1), strict=True
    ))  # fmt: skip
    assert common_rounds([(begins, [0, 1]), (begins, [0, 1])]).meetings == 1
    assert common_rounds([(begins, [0, 1]), (other, [0, 1])]).meeting == 0
    few = rounds_of([(2, 5, 0), (0, 5, 0)])  # a communicator of two, in a job of three
    assert common_rounds(3 * [(few, [0])]).meeting == 0


@given(jobs(), st.data())
@settings(max_examples=60, deadline=None)
def test_traces_of_a_part_of_the_run_lie_in_their_rounds(
    ranks: list[list[Part]], data: st.DataObject
) -> None:
    """Each trace has some of the meetings that all ranks have, and those before and behind are missing."""
    meetings = sum(part[0] == ALL for part in ranks[0])
    whole = common_rounds([(rounds_of(parts), [0]) for parts in ranks])
    of_ranks, first, last = [], [], []
    for parts in ranks:
        phase, met, instructions, lines = rounds_of(parts)
        ended = np.cumsum(met == ALL)
        numbered = met.astype(np.uint64) | np.where(met == ALL, ended - 1, 0).astype(np.uint64) << 32
        # The job's first rank has the whole run; others have at least one meeting.
        begins = data.draw(st.integers(0, meetings - 1)) if of_ranks else 0
        ends = data.draw(st.integers(begins + 1, meetings)) if of_ranks else meetings
        rounds = np.concatenate([[0], ended[:-1]])
        kept = (rounds >= begins) & (rounds <= ends)
        of_ranks.append((phase[kept], numbered[kept], instructions[kept], lines[kept]))
        first.append(begins)
        last.append(ends)
    found = common_rounds([(parts, [0]) for parts in of_ranks])
    assert (found.meeting, found.meetings, found.first, found.last) == (ALL, meetings, first, last)
    for rank in range(ALL):
        kept = slice(first[rank], last[rank] + 1)
        assert np.array_equal(found.instructions[kept, rank], whole.instructions[kept, rank])
        assert found.instructions[:, rank].sum() == whole.instructions[kept, rank].sum()


def recorded(path: Path, work: list[int], ranks: int, before: int = 0, ends: int | None = None) -> Path:
    """Write the trace of a rank that executes so many instructions between meetings, and waits in them.

    It has met the others so often `before`. If `ends` is given, it is cut after so many meetings.
    """
    with TraceRecorder(path, "app") as recorder:
        recorder.access(0, BASE + 8 * np.arange(512), stores=True)
        for number, instructions in enumerate(work):
            recorder.execute(0, instructions)
            if number == ends:
                break
            recorder.wait(0, ranks, before + number)
            recorder.execute(0, 100_000_000)  # as it asks again and again
            recorder.go_on(0)
    return path


def test_waiting_is_no_work_and_each_rank_in_turn_is_waited_for(tmp_path: Path) -> None:
    million = 1_000_000
    turns = [[40 * million, million], [million, 40 * million]]
    pair = [recorded(tmp_path / str(rank), work, 2) for rank, work in enumerate(turns)]
    alone = [recorded(tmp_path / f"{rank} alone", work, 0) for rank, work in enumerate(turns)]
    model = machine(TWO_SOCKETS)

    def seconds(paths: list[Path]) -> float:
        return float(simulate(traces(paths), model, ["aged"], 1, progress=False).placements["time_s"].sum())

    assert traces(pair).statements[0].startswith("Ranks are taken to meet in 2 collective calls of all ranks")
    assert seconds(pair) == pytest.approx(80 / 41 * seconds(alone), rel=0.01)


def test_one_collective_call_is_said_in_the_singular(tmp_path: Path) -> None:
    job = traces([recorded(tmp_path / str(rank), [1000], 2) for rank in range(2)])
    assert job.statements[0].startswith("Ranks are taken to meet in 1 collective call of all ranks")


def test_a_rank_of_which_a_part_is_missing_is_not_said_to_wait(tmp_path: Path) -> None:
    """All are equally busy. One was killed in its second round, and one was traced from its third on."""
    work = 4 * [40_000_000]
    whole = [recorded(tmp_path / str(rank), work, 3) for rank in range(3)]
    cut = recorded(tmp_path / "cut", [*work[:1], 1_000_000], 3, ends=1)
    late = recorded(tmp_path / "late", work[2:], 3, before=2)
    jobs = [traces(paths) for paths in (whole, [whole[0], cut, late])]
    assert not any("Not all ranks" in warning for warning in jobs[0].warnings)
    said = ": rank 1 ends after 1 of 4 meetings; rank 2 begins after 2 of 4 meetings. What is missing"
    assert jobs[1].warnings[0].startswith("Not all ranks")
    assert said in jobs[1].warnings[0]
    took = []
    for job in jobs:
        run = simulate(job, machine(TWO_SOCKETS), ["aged"], 1, progress=False)
        took.append(float(run.placements["time_s"].sum()))
        found = explain(run).program.job
        assert found is not None
        assert all(of.share < 0.05 for of in found.waits)
    assert took[1] == pytest.approx(took[0], rel=0.02)


def trace_two_ranks(mpirun: str, pagelens_command: Path, program: Path, folder: Path, *words: str) -> str:
    """Return what the program printed, whose traces are left in the folder."""
    crowd = ["--oversubscribe"] if "openmpi" in mpirun else []
    command = [mpirun, "-n", "2", *crowd, pagelens_command, "trace", "-o", "app.%r.trace", "--", program]
    done = subprocess.run([*command, *words], cwd=folder, capture_output=True, text=True, check=True)
    return done.stdout


def check_turns(folder: Path) -> None:
    """Each of two ranks works in turn, as much as the other, while the other waits."""
    job = traces([folder / f"app.{rank}.trace" for rank in range(2)])
    assert isinstance(job, JobWorkload)
    assert job.statements[0].startswith("Ranks are taken to meet in 16 collective calls of all ranks")
    _, met, executed, _ = zip(*(trace.survey.rounds for trace in job.traces), strict=True)
    turns = np.stack(executed)[:, 1:16].astype(float)  # but for the first, which has what comes before
    assert np.all(processes_of(np.stack(met)[:, :16]) == 2)
    assert meetings_before(met[0][:16]).tolist() == list(range(16))
    works = turns.max(axis=0)
    assert works == pytest.approx(np.full(15, works[0]), rel=0.01)
    assert np.all(turns.min(axis=0) < 0.01 * works)  # the other one executes nothing while it waits
    assert turns.argmax(axis=0).tolist() == [1, 0] * 7 + [1]


def found(*names: str) -> list[str]:
    paths = [shutil.which(name) for name in names]
    if None in paths:
        pytest.skip(f"no {' or no '.join(names)}")
    return [path for path in paths if path is not None]


@pytest.fixture(scope="module")
def turns(
    built: Callable[..., Path], pagelens_command: Path, tmp_path_factory: pytest.TempPathFactory
) -> Callable[[str], Path]:
    """Traces the program whose ranks take turns, once for each launcher, and returns the traces' folder."""

    @functools.cache
    def trace(launcher: str) -> Path:
        mpirun, compiler = found(f"mpirun.{launcher}", f"mpicc.{launcher}")
        folder = tmp_path_factory.mktemp("turns")
        program = built("mpi_turns", compiler=compiler)
        assert trace_two_ranks(mpirun, pagelens_command, program, folder).count("\n") == 1
        assert sorted(os.listdir(folder)) == ["app.0.trace", "app.1.trace"]
        return folder

    return trace


@pytest.mark.parametrize("launcher", ["mpich", pytest.param("openmpi", marks=pytest.mark.long)])
def test_ranks_meet_in_collectives(turns: Callable[[str], Path], launcher: str) -> None:
    check_turns(turns(launcher))


@pytest.mark.long
@pytest.mark.parametrize("module", ["mpi", "mpi_f08"])
@pytest.mark.parametrize("launcher", ["mpich", "openmpi"])
def test_ranks_in_fortran_meet_in_collectives(
    pagelens_command: Path, tmp_path: Path, launcher: str, module: str
) -> None:
    mpirun, compiler = found(f"mpirun.{launcher}", f"mpif90.{launcher}")
    source, program = PROGRAMS / "mpi_turns.f90", tmp_path / "turns"
    subprocess.run([compiler, "-O1", "-cpp", f"-DMODULE={module}", source, "-o", program], check=True)
    trace_two_ranks(mpirun, pagelens_command, program, tmp_path)
    check_turns(tmp_path)


def test_ranks_do_not_work_while_they_wait_for_a_communicator_or_a_window(
    built: Callable[..., Path], pagelens_command: Path, tmp_path: Path, turns: Callable[[str], Path]
) -> None:
    mpirun, compiler = found("mpirun.mpich", "mpicc.mpich")
    program = built("mpi_turns", compiler=compiler)
    trace_two_ranks(mpirun, pagelens_command, program, tmp_path, "common")
    executed = []
    for folder in (turns("mpich"), tmp_path):
        job = traces([folder / f"app.{rank}.trace" for rank in range(2)])
        assert isinstance(job, JobWorkload)
        executed.append([int(trace.survey.rounds[2].sum()) for trace in job.traces])
    first, last = np.subtract(executed[1], executed[0])
    assert last > 10_000_000
    assert first < 0.05 * last


def test_a_program_that_leaves_a_call_works_on(pagelens_command: Path, tmp_path: Path) -> None:
    """A function that MPI calls may leave the call by longjmp()."""
    source, library, program = PROGRAMS / "left_call.c", tmp_path / "libleft.so", tmp_path / "left"
    subprocess.run(["gcc", "-O1", "-DLIBRARY", "-shared", "-fPIC", "-o", library, source], check=True)
    subprocess.run(["gcc", "-O1", "-o", program, source, library], check=True)
    executed = []
    for way in ("return", "leave"):
        words = ["trace", "-o", f"{way}.trace", "--", program, way]
        subprocess.run([pagelens_command, *words], cwd=tmp_path, capture_output=True, check=True)
        job = traces([tmp_path / f"{way}.trace"])
        executed.append(job.traces[0].survey.rounds[2].astype(float))
    assert executed[0].sum() > 2 * 4_000_000 * 3
    assert executed[1].sum() == pytest.approx(executed[0].sum(), rel=0.02)
    assert executed[1].max() == pytest.approx(executed[0].max(), rel=0.02)  # between the two calls
