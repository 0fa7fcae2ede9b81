"""A queue of requests and a thread that writes, held to times by hand and to a slow simulation."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from test_io_model import PAGE, recording_of, transfer, with_tables

from pagelens.io.classify import classify
from pagelens.io.option import Option, Run
from pagelens.io.scratch_steps import replayable
from pagelens.io.what_if import options
from pagelens.machine import Io

FREE = Run(1.0, 1.0, 2)  # one of two cores is busy
LONG = {"bytes": 1 << 30, "cached_bytes": 0}
COPY = PAGE / 10e9 * 1e6  # us


def disk(**more: str) -> Io:
    return with_tables(**{"read_rate": f'"{PAGE * 100_000} B/s"', **more})


def found(operations: list[dict[str, Any]], io: Io, run: Run | None = None) -> dict[str, Option]:
    files = [LONG] * (1 + max(of.get("file", 0) for of in operations))
    return {option.key: option for option in options(classify(recording_of(operations, files)), io, run)}


def waits(operations: list[dict[str, Any]]) -> list[float]:
    """Return the waits in us of operations of 4 KiB that take 20 us and wait 40 us, with a deep queue."""
    ways = found(operations, disk())
    assert np.array_equal(ways["as-it-ran"].cost.cpu_s, ways["queue-depth"].cost.cpu_s, equal_nan=True)
    return [round(1e6 * float(wait)) for wait in np.nan_to_num(ways["queue-depth"].cost.wait_s)]


def test_requests_in_flight_end_one_after_the_other() -> None:
    reads = [transfer("read", at * PAGE, direct=True) for at in range(5)]
    way = found(reads, disk())["queue-depth"]
    # Each takes 60 us. With all in flight, one ends every 20 us, when the processor is free. The last waits.
    assert way.title == "8 direct requests in flight"
    assert way.cost.wait_s * 1e6 == pytest.approx([0, 0, 0, 0, 40])
    large = [transfer("read", at << 20, 1 << 20, direct=True) for at in range(5)]
    node = found(large, disk(read_rate='"3.4952533 GB/s"'))["queue-depth"]  # 300 us, where one takes 600 us
    assert node.title == "2 direct requests in flight"
    assert node.cost.wait_s * 1e6 == pytest.approx([240, 240, 240, 240, 540])


IN_FLIGHT = '[[2, "4 KiB", "20 us", "45 us"], [8, "4 KiB", "15 us", "30 us"], [8, "1 MiB", "100 us", "1 ms"]]'


def test_what_was_measured_in_flight_is_what_it_takes() -> None:
    """One alone takes 20 us and waits 40 us. The rate of the node, which is lower, is measured with it."""
    reads = [transfer("read", at * PAGE, direct=True) for at in range(20)]
    way = found(reads, disk(direct_read_in_flight=IN_FLIGHT, read_rate='"4 KB/s"'))["queue-depth"]
    assert way.title == "8 direct requests in flight"  # 32 are as good, and no better
    assert way.cost.cpu_s * 1e6 == pytest.approx([15] * 19 + [20])
    assert way.cost.wait_s * 1e6 == pytest.approx([15] * 19 + [40])
    assert "must take" not in way.effort
    # A sequence of five has five in flight, which lies half way between 2 and 8.
    few = found(reads[:5], disk(direct_read_in_flight=IN_FLIGHT))["queue-depth"]
    assert few.cost.cpu_s * 1e6 == pytest.approx([17.5] * 4 + [20])
    assert few.wall_s * 1e6 == pytest.approx([37.5] * 4 + [60])
    # Writes have no table here.
    writes = found([transfer("write", at * PAGE, direct=True) for at in range(5)],
                   disk(direct_read_in_flight=IN_FLIGHT))["queue-depth"]  # fmt: skip
    assert writes.cost.cpu_s * 1e6 == pytest.approx([20] * 5)
    # With 8 in flight, requests of 4 KiB keep half of their time, and those of 1 MiB (600 us) a quarter.
    two = IN_FLIGHT.replace('"1 ms"', '"150 us"')
    large = [transfer("read", at << 20, 1 << 20, direct=True) for at in range(20)]
    assert found(large, disk(direct_read_in_flight=two))["queue-depth"].wall_s[0] * 1e6 == pytest.approx(150)
    middle = (PAGE + (1 << 20)) // 2
    between = [transfer("read", at * middle, middle, direct=True) for at in range(20)]
    ways = found(between, disk(direct_read_in_flight=two))
    share = ways["queue-depth"].wall_s[0] / ways["as-it-ran"].wall_s[0]
    assert share == pytest.approx((0.5 + 0.25) / 2)


def test_a_replay_keeps_those_requests_in_flight() -> None:
    operations = [
        *(transfer("write", at * PAGE, direct=True) for at in (7, 3)),
        {"kind": "sync"},
        *(transfer("read", at * PAGE, direct=True) for at in (0, 1, 9)),
        transfer("read", 0),
    ]
    transfers, _ = replayable(recording_of(operations, [LONG]))
    assert transfers["flight"].to_list() == [1, 2, 0, 1, 2, 0, 0]


def test_only_requests_that_do_not_need_each_other_are_in_flight_together() -> None:
    def direct(kind: str, at: int, **more: Any) -> dict[str, Any]:
        return transfer(kind, at * PAGE, direct=True, **more)

    sync = {"kind": "sync"}
    assert waits([direct("read", 0), direct("read", 1), direct("read", 9)]) == [0, 40, 40]
    assert waits([direct("read", 0), direct("write", 1), direct("read", 1), direct("read", 2)]) == [
        40, 40, 0, 40,
    ]  # fmt: skip
    assert waits([direct("write", 7), direct("write", 3), direct("write", 5)]) == [0, 0, 40]
    assert waits([direct("write", 7), direct("write", 3), sync, direct("write", 5)])[3] == 40
    # What the model does not know can stand between two operations, too.
    cut = {"kind": "truncate", "size": 1 << 30}
    assert waits([direct("write", 7), direct("write", 3), cut, direct("write", 5)]) == [0, 40, 0, 40]
    for alone in (
        [direct("write", 3), direct("write", 3)],  # one over the other
        [direct("write", 3, synchronous=True), direct("write", 5, synchronous=True)],
        [direct("write", 3), direct("write", 5, thread=1)],
        [direct("write", 1 << 20), direct("write", (1 << 20) + 1)],  # they make the file longer
        [transfer("read", 0), transfer("read", PAGE)],
    ):
        assert "queue-depth" not in found(alone, disk())


def microseconds(ways: dict[str, Option]) -> list[float]:
    return [1e6 * float(wall) for wall in ways["writer-thread"].wall_s]


def test_a_thread_writes_while_the_program_goes_on() -> None:
    """A direct write takes 20 us and waits 40 us."""
    io = disk()
    writes = [
        {"start_ns": 1000 * start, **transfer("write", at * PAGE, direct=True)}
        for at, start in enumerate((0, 10))
    ]
    close = {"kind": "close", "result": 0, "start_ns": 50_000}
    ways = found([*writes, close], io, FREE)
    # Recorded calls take .5 us, so 9.5 and 39.5 us pass between them. Meanwhile the thread works, and also
    # during the second copy. The close, which takes 1 us, waits for the rest of the 120 us.
    assert microseconds(ways) == pytest.approx([COPY, COPY, 1 + 120 - 9.5 - COPY - 39.5])
    assert "8 KiB" in ways["writer-thread"].effort
    later = {**close, "start_ns": 1_000_000}
    assert microseconds(found([*writes, later], io, FREE)) == pytest.approx([COPY, COPY, 1])
    # Without a free core, only the waiting moves to the thread: 80 us, while the second write takes 20 us.
    busy = found([*writes, close], io, Run(1.0, 2.0, 2))
    stays = 20 + COPY
    assert microseconds(busy) == pytest.approx([stays, stays, 1 + 80 - 9.5 - stays - 39.5])
    assert "no core is known to be free" in busy["writer-thread"].effort
    # At its end, the program waits for what is left.
    assert microseconds(found(writes, io, FREE)) == pytest.approx([COPY, COPY + 120 - 9.5 - COPY])


def test_files_that_others_use_and_synchronous_writes_stay() -> None:
    for stays in (
        [transfer("write", 0, direct=True), transfer("read", 0, thread=1)],
        [transfer("write", 0, direct=True, synchronous=True)],
        [transfer("read", 0)],
    ):
        assert "writer-thread" not in found(stays, disk(), FREE)
    assert "writer-thread" not in found([transfer("write", 0)], disk())  # nothing waits


KINDS_ = st.sampled_from(["write", "read", "close", "seek"])


@given(st.lists(st.tuples(KINDS_, st.integers(0, 1), st.integers(0, 1), st.integers(0, 200)), min_size=1))
@settings(max_examples=40, deadline=None)
def test_the_queue_of_a_thread_is_like_one_that_is_followed_step_by_step(
    drawn: list[tuple[str, int, int, int]],
) -> None:
    io = disk()
    operations: list[dict[str, Any]] = []
    now = {0: 0, 1: 0}
    for kind, file, thread, gap in drawn:
        now[thread] += 1000 * gap
        one = transfer(kind, 0) if kind in ("read", "write") else {"kind": kind, "result": 0}
        operations.append(
            {
                **one,
                "file": 2 * thread + file,
                "thread": thread,
                "start_ns": now[thread],
                "wall_ns": 0,
                "direct": True,
            }
        )
    order = sorted(range(len(operations)), key=lambda n: operations[n]["start_ns"])
    operations = [operations[n] for n in order]
    ways = found(operations, io, FREE)
    if "writer-thread" not in ways:
        assert not any(of["kind"] == "write" for of in operations)
        return
    wall, copy = ways["as-it-ran"].wall_s, COPY / 1e6
    slow, last = np.zeros(len(operations)), {0: 0, 1: 0}
    left, ended = {0: 0.0, 1: 0.0}, dict[int, int]()
    written: set[int] = set()
    for n, of in enumerate(operations):
        thread = of["thread"]
        left[thread] = max(left[thread] - (of["start_ns"] - last[thread]) / 1e9, 0)
        last[thread], ended[thread] = of["start_ns"], n
        if of["kind"] == "write":
            slow[n] = copy
            left[thread] = max(left[thread] - copy, 0) + wall[n]
            written.add(of["file"])
        elif of["kind"] != "seek" and of["file"] in written:
            slow[n] = wall[n] + left[thread]
            left[thread] = 0
            written.discard(of["file"])
        else:
            slow[n] = wall[n]
            left[thread] = max(left[thread] - wall[n], 0)
    for thread, n in ended.items():
        slow[n] += left[thread]
    assert ways["writer-thread"].wall_s == pytest.approx(slow)
