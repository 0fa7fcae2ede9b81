"""Sampled runs: windows of the program are traced, and all else is that of the whole run."""

import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from pagelens import _core
from pagelens.accesses.trace import TraceWorkload, open_trace
from pagelens.accesses.trace_result import TraceResult
from pagelens.accesses.tracer import TraceRequest, trace_program
from pagelens.errors import Failure, UsageError
from pagelens.machine import load_machine
from pagelens.replay.whole_node import moved_lines, scales_of

pytestmark = pytest.mark.skipif(
    not (Path(_core.__file__).parent / "lib/libdynamorio.so").exists(), reason="no DynamoRIO; run make engine"
)

Built = Callable[..., Path]
SHARE = 0.2


@dataclass(frozen=True)
class Traced:
    """A traced program, and its workload."""

    result: TraceResult
    workload: TraceWorkload


def trace(folder: Path, command: list[str], sample: float | None, engine: str = "dynamorio") -> Traced:
    path = folder / f"{Path(command[0]).name}-{sample}.trace"
    request = TraceRequest(
        command,
        str(path),
        accesses=0,
        engine=engine,
        sample=sample,
        window=400_000,
        stdout=subprocess.DEVNULL,
    )
    return Traced(trace_program(request), open_trace(path))


@pytest.fixture(scope="module")
def both(built: Built, tmp_path_factory: pytest.TempPathFactory) -> tuple[Traced, Traced]:
    """The same program, traced whole and in windows."""
    folder, command = tmp_path_factory.mktemp("sampled"), [str(built("windows"))]
    return trace(folder, command, None), trace(folder, command, SHARE)


def test_a_share_is_traced_and_the_instructions_are_all_counted(both: tuple[Traced, Traced]) -> None:
    whole, sampled = both
    assert sampled.result.share_seen == pytest.approx(SHARE, abs=0.05)
    assert sampled.result.total_instructions == pytest.approx(whole.result.total_instructions, rel=1e-3)
    assert sampled.workload.share_seen == 1  # the windows stand for all of it
    assert whole.workload.warnings == []
    assert "in windows (--sample)" in sampled.workload.warnings[0]


def test_regions_have_their_instructions_and_lines(both: tuple[Traced, Traced]) -> None:
    """Instructions are counted. Lines are those of the windows, times what these stand for."""
    machine = load_machine("skx-8160")
    programs = [traced.workload.lines_in_order(machine) for traced in both]
    whole, sampled = (program.instructions for program in programs)
    assert sampled == pytest.approx(whole, rel=0.01, abs=2000)
    assert [len(program.scales) for program in programs] == [0, 3]
    assert scales_of(programs[0]).tolist() == [1, 1, 1]
    assert (scales_of(programs[1])[1:] > 2).all()
    (lines, cleared), (scaled, also_cleared) = (
        (moved[1:, :2].sum(axis=1), moved[:, 2].sum()) for moved in (moved_lines(p, 1) for p in programs)
    )
    assert scaled == pytest.approx(lines, rel=0.25)
    assert also_cleared == pytest.approx(cleared, rel=0.02)


def test_pages_and_blocks_are_those_of_the_whole_run(both: tuple[Traced, Traced]) -> None:
    """Pages are seen that were first written between windows, also those that were gone before the next."""
    whole, sampled = (traced.workload for traced in both)
    assert sampled.footprint_bytes == pytest.approx(whole.footprint_bytes, rel=0.03)
    written = [int(workload.survey.first_writes[:, 1].sum()) for workload in (whole, sampled)]
    assert written[1] == pytest.approx(written[0], rel=0.03)
    of_sites = [
        {item.site: item.births for item in workload.objects if item.births and item.site}
        for workload in (whole, sampled)
    ]
    assert of_sites[0] == of_sites[1]


def test_a_program_of_several_threads_is_refused(built: Built, tmp_path: Path) -> None:
    with pytest.raises(Failure, match="has several threads"):
        trace(tmp_path, [str(built("threads"))], SHARE)


def test_registers_are_the_programs_own_after_a_fault(built: Built, tmp_path: Path) -> None:
    request = TraceRequest(
        [str(built("faults"))], str(tmp_path / "a.trace"), sample=0.5, window=20_000, engine="dynamorio"
    )
    assert trace_program(request).exit_status == 0


def test_a_timeline_needs_every_line(both: tuple[Traced, Traced]) -> None:
    path = both[1].workload.path
    with pytest.raises(UsageError, match="was traced in windows"):
        open_trace(path, cut_of=lambda _: pytest.fail("it is refused before"))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"sample": 1.5}, "above 0 and up to 100%"),
        ({"sample": 0.1, "region": "solve"}, "cannot stand beside --region"),
        ({"sample": 0.1, "engine": "qemu"}, "needs --engine dynamorio"),
    ],
)
def test_what_cannot_be_sampled_is_refused(tmp_path: Path, changes: dict[str, object], message: str) -> None:
    request = TraceRequest(["/bin/true"], str(tmp_path / "a.trace"), **changes)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match=message):
        trace_program(request)


def test_scales_leave_page_clearing_alone(both: tuple[Traced, Traced]) -> None:
    program = both[1].workload.lines_in_order(load_machine("skx-8160"))
    plain = np.asarray(_core.moved_by_phase(program), dtype=np.float64)
    moved = moved_lines(program, 2)
    assert moved[:, 2] == pytest.approx(2 * plain[:, 2])
    assert moved[1:, 0] == pytest.approx(2 * plain[1:, 0] * scales_of(program)[1:])
