"""What is known of a replay while it is under way: how far it is, and that it stops when it is asked to."""

import threading
from concurrent.futures import Future
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from machine_roles import CACHE_MODE, SNOOP_FILTER

from pagelens import _core
from pagelens.accesses.declared import declared
from pagelens.accesses.declared.workload import DeclaredWorkload
from pagelens.accesses.trace import TraceWorkload, open_trace
from pagelens.accesses.trace_recorder import TraceRecorder
from pagelens.address.units import FRAME_BITS
from pagelens.ensemble.pieces import Piece
from pagelens.ensemble.result import Tables
from pagelens.ensemble.run import run_pieces
from pagelens.ensemble.shards import ShardStore
from pagelens.frames import Node, policies
from pagelens.machine import load_machine
from pagelens.replay import Placement, Simulation
from pagelens.replay.translation import Translations

MEBIBYTE = 1 << 20
MACHINES = (CACHE_MODE, SNOOP_FILTER)


def placed(name: str) -> tuple[Simulation, Placement]:
    """A small program on a machine."""
    simulation = Simulation(declared("cg", 8 * MEBIBYTE, 2), load_machine(name), ranks=1)
    return simulation, simulation.place(policies["contiguous"], Node(simulation.machine, 1, 0))


@pytest.mark.parametrize("name", MACHINES)
def test_a_replay_says_how_far_it_is(name: str) -> None:
    simulation, placement = placed(name)
    flag = _core.CancelFlag()
    piece = flag.piece()
    simulation.run(placement, cancel=piece)
    assert 0.5 < piece.share <= 1
    assert flag.share == 0  # which is of the whole work


@pytest.mark.parametrize("name", MACHINES)
def test_a_piece_stops_with_the_whole(name: str) -> None:
    simulation, placement = placed(name)
    flag = _core.CancelFlag()
    piece = flag.piece()
    flag.set()
    assert piece
    with pytest.raises(_core.Cancelled):
        simulation.run(placement, cancel=piece)
    simulation.run(placement)  # nothing of it is left


@pytest.mark.parametrize("name", MACHINES)
def test_what_a_replay_compiles_stops_with_it(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    given: list[_core.CancelFlag] = []
    compiled = DeclaredWorkload._compile

    def compile_with(*arguments: Any) -> _core.Program:
        given.append(arguments[-1])
        return compiled(*arguments)

    monkeypatch.setattr(DeclaredWorkload, "_compile", compile_with)
    simulation, placement = placed(name)
    flag = _core.CancelFlag()
    simulation.attribute(placement, cancel=flag)
    assert given
    assert all(each is flag for each in given)


def test_a_compilation_stops_and_may_begin_anew(tmp_path: Path) -> None:
    with TraceRecorder(tmp_path / "a.trace", "app") as recorder:
        recorder.access(0, (0x7F00_0000_0000 + 64 * np.arange(1 << 16)).astype(np.uint64), stores=True)
    workload, machine = open_trace(tmp_path / "a.trace"), load_machine(SNOOP_FILTER)
    flag = _core.CancelFlag()
    flag.set()
    with pytest.raises(_core.Cancelled):
        workload.compile(machine, FRAME_BITS, cancel=flag)
    with pytest.raises(_core.Cancelled):
        workload.lines_in_order(machine, cancel=flag)
    assert len(workload.compile(machine, FRAME_BITS).pages) == 1024


def test_translation_that_was_cancelled_is_counted_anew() -> None:
    found = Translations(declared("cg", 8 * MEBIBYTE, 2), load_machine(CACHE_MODE), 1)
    cancelled = _core.CancelFlag()
    cancelled.set()
    with pytest.raises(_core.Cancelled):
        found.counts(12, cancel=cancelled)
    assert found.counts(12)["walks"].sum() > 0


def test_a_count_that_another_run_stops_is_counted_anew() -> None:
    found = Translations(declared("cg", 8 * MEBIBYTE, 2), load_machine(CACHE_MODE), 1)
    of_other: Future[Any] = Future()
    found._made[12, 0] = of_other
    stop = threading.Timer(0.1, of_other.set_exception, [_core.Cancelled("replay cancelled")])
    stop.start()
    assert found.counts(12)["walks"].sum() > 0
    stop.join()


def test_progress_moves_within_a_piece(tmp_path: Path) -> None:
    simulation, placement = placed(CACHE_MODE)
    moved = threading.Event()
    seen: list[float] = []

    def replayed(_: Piece, cancel: _core.CancelFlag) -> Tables:
        simulation.run(placement, cancel=cancel)
        assert moved.wait(60)
        return Tables.of()

    def progress(done: float, total: int) -> None:
        assert total == 1
        seen.append(done)
        if 0 < done < 1:
            moved.set()

    run_pieces([Piece(False, 0, 0)], replayed, ShardStore(tmp_path, "key"), progress=progress)
    assert seen[0] == 0
    assert seen[-1] == 1
    assert seen == sorted(seen)


def test_how_much_of_a_trace_is_read_is_told_while_it_is_surveyed() -> None:
    walk, told = Future[_core.Survey](), list[tuple[float, int]]()
    opened = TraceWorkload.__new__(TraceWorkload)
    opened._cancel = SimpleNamespace(share=0.25)  # type: ignore[assignment]
    survey = object()

    def progress(done: float, total: int) -> None:
        told.append((done, total))
        walk.set_result(survey)  # type: ignore[arg-type]

    assert opened._result(walk, progress) is survey  # type: ignore[comparison-overlap]
    assert told == [(0.25, 1)]
