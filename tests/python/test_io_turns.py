"""What the model says of threads that write or sync one file at the same time."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from test_io_model import MACHINE, PAGE, recording_of, transfer, with_tables

from pagelens.io import explain_recording
from pagelens.io.classify import classify
from pagelens.io.predict import predict
from pagelens.io.turns import left_of_others, waited_for, waits_of_threads

assert MACHINE.io is not None
US = 1000


def of_rank(rank: int, begin_us: float, took_us: float, **operation: Any) -> dict[str, Any]:
    return {"process": rank, "thread": rank, "start_ns": int(begin_us * US), "wall_ns": int(took_us * US),
            **operation}  # fmt: skip


def test_a_write_goes_round_until_another_ranks_write_has_ended() -> None:
    """Open MPI's ranks took 29 us for writes that met another one, and 14 us for others."""
    written = [
        of_rank(1, 0, 10, **transfer("write", 0)),
        of_rank(2, 5, 15, **transfer("write", PAGE)),  # half of the first was left
        of_rank(3, 8, 22, **transfer("write", 2 * PAGE)),  # 12 of the 15 us of the second
        of_rank(1, 40, 10, **transfer("write", 3 * PAGE)),
    ]
    cpu_us = predict(classify(recording_of(written)), MACHINE.io).cpu_s * 1e6
    assert cpu_us == pytest.approx([4, 4 + 0.5 * 4, 4 + 12 / 15 * 6, 4])


def test_a_write_takes_longer_after_one_of_another_processor() -> None:
    """The ranks of both MPI libraries took a fifth longer for their writes than one thread does."""
    io = with_tables(shared_write='[["4 KiB", "7 us", "7 us"], ["1 MiB", "300 us", "300 us"]]')
    operations = [
        of_rank(1, 0, 1, **transfer("write", 0)),
        of_rank(2, 10, 1, cpu=1, **transfer("write", PAGE)),
        of_rank(1, 20, 1, cpu=1, **transfer("write", 2 * PAGE)),
        of_rank(1, 30, 1, cpu=1, **transfer("read", 0)),
        of_rank(1, 40, 1, file=1, **transfer("write", 0)),
        of_rank(2, 50, 1, **transfer("write", 3 * PAGE)),
        of_rank(1, 60, 1, cpu=1, **transfer("write", 0)),  # over data
    ]
    frame = classify(recording_of(operations, [{"bytes": 0}] * 2))
    assert predict(frame, io).cpu_s * 1e6 == pytest.approx([4, 7, 4, 1, 4, 7, 2])


@pytest.mark.parametrize(
    ("second", "why"),
    [
        (of_rank(1, 5, 15), "the same thread"),
        (of_rank(2, 5, 15, file=1), "another file"),
        (of_rank(2, 10, 15), "begins as the first ends"),
        (of_rank(2, 5, 4), "ends before the first"),
    ],
)
def test_who_meets_nobody_does_not_wait(second: dict[str, Any], why: str) -> None:
    operations = [
        of_rank(1, 0, 10, **transfer("write", 0)),
        {**transfer("write", PAGE), **second},
        of_rank(9, 50, 1, **transfer("write", 2 * PAGE)),
    ]
    frame = classify(recording_of(operations, [{"bytes": 0}] * 2))
    assert predict(frame, MACHINE.io).cpu_s[1] == pytest.approx(4e-6), why


def test_threads_wait_for_each_other_by_writes_and_by_fsyncs() -> None:
    operations = [
        of_rank(1, 0, 10, **transfer("write", 0)),
        of_rank(2, 4, 15, **transfer("write", PAGE)),  # 6 us of the first were left
        of_rank(1, 30, 10, **transfer("write", 2 * PAGE)),
        of_rank(2, 37, 9, **transfer("write", 3 * PAGE)),  # 3 us
        of_rank(1, 100, 40, kind="sync"),
        of_rank(3, 120, 5, kind="sync"),  # ends before the first one
        of_rank(2, 200, 10, **transfer("write", 4 * PAGE)),
    ]
    waits = waits_of_threads(classify(recording_of(operations)))
    assert waits.rows() == [(2, 2, 1, 1, 2, 9 * US), (3, 3, 1, 1, 1, 5 * US)]


def test_an_fsync_joins_the_one_that_writes_out() -> None:
    io = with_tables(joined_sync_work='"1 GB/s"', small_folio_joined_sync_work='"100 MB/s"')
    operations = [
        of_rank(1, 0, 10, **transfer("write", 0, 1 << 20)),
        of_rank(1, 100, 4000, kind="sync"),
        of_rank(2, 1100, 3500, kind="sync"),  # three quarters of the first are left, and it ends later
        of_rank(3, 9000, 500, kind="sync"),
    ]
    frame = classify(recording_of(operations))
    now, alone = predict(frame, io), predict(frame, MACHINE.io)
    more = now.cpu_s - alone.cpu_s
    assert more == pytest.approx([0, 0, 0.75 * (1 << 20) / 1e9, 0])
    assert now.wait_s[2] == pytest.approx(0.75 * now.wait_s[1])
    assert alone.wait_s[2:] == pytest.approx([0, 0])
    for size, rate in ((PAGE, 1e8), (32 << 10, 1e8), (1 << 20, 1e9)):
        pieces = [of_rank(1, 0, 10, **transfer("write", at, size)) for at in range(0, 1 << 20, size)]
        frame = classify(recording_of([*pieces, *operations[1:]]))
        more = predict(frame, io).cpu_s - predict(frame, MACHINE.io).cpu_s
        assert more[-2] == pytest.approx(0.75 * (1 << 20) / rate)
    notes = explain_recording(recording_of(operations), MACHINE).notes
    assert any(note.startswith("1 of 3 calls of fsync began during another thread's") for note in notes)
    notes = explain_recording(recording_of(operations[:2]), MACHINE).notes
    assert not any("fsync" in note for note in notes)


OPERATIONS = st.lists(
    st.tuples(st.integers(0, 60), st.integers(0, 20), st.integers(0, 2), st.integers(0, 1), st.booleans()),
    max_size=25,
)


@given(OPERATIONS, st.booleans())
def test_it_finds_what_a_look_at_every_pair_finds(
    drawn: list[tuple[int, int, int, int, bool]], in_order: bool
) -> None:
    drawn = sorted(drawn, key=lambda each: each[0])
    operations = [
        of_rank(rank, begin, took, file=file, **transfer("write", 0)) for begin, took, rank, file, _ in drawn
    ]
    frame = classify(recording_of(operations, [{"bytes": 0}] * 2))
    holding = np.asarray([each[4] for each in drawn], np.bool_)
    every = np.ones(len(drawn), np.bool_)
    place, left = waited_for(frame, every, holding, in_order)
    of_others = left_of_others(frame, every, 3.0 * holding)
    for at, (begin, took, rank, file, _) in enumerate(drawn):
        ends = [
            (drawn[other][0] + drawn[other][1], -other)
            for other in range(at)
            if drawn[other][2] != rank and drawn[other][3] == file and holding[other]
            and drawn[other][0] + drawn[other][1] > begin
            and not (in_order and drawn[other][0] + drawn[other][1] > begin + took)
        ]  # fmt: skip
        if not in_order:
            still = sum(3.0 * (end - begin) / drawn[-other][1] for end, other in ends)
            assert of_others[at] == pytest.approx(still)
        if not ends:
            assert (place[at], left[at]) == (-1, 0)
            continue
        end, other = max(ends)
        assert place[at] == -other
        assert left[at] == pytest.approx((end - begin) / drawn[-other][1])
        assert 0 < left[at] <= 1
