"""What a core takes for a traced program: its dependences and its mix decide, not one constant."""

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pytest
from machine_roles import CHIPLETS, NO_L3
from numpy.typing import NDArray
from traced_program import GOLDEN, traced_c

from pagelens import _core
from pagelens.accesses.instructions import Decoder
from pagelens.accesses.sampled_code import SampledRun
from pagelens.accesses.trace import TraceWorkload, open_trace
from pagelens.machine import CoreTimes, load_machine, modelled_times
from pagelens.replay.core_model import NEAR, STREAMS, STRIDE_LINES, core_model, foreseen_lines, why_full_width

MACHINE = load_machine(CHIPLETS)
PROGRAM = """
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#define N (1u << 16)
struct line { struct line *next; char rest[56]; };
int main(void) {
    struct line *lines = aligned_alloc(4096, N * sizeof *lines), *at = lines;
    uint64_t random = 1, *table = (uint64_t *)lines, sum = 0;
    %s
    printf("%%lu\\n", (unsigned long)(sum + (uint64_t)(at - lines)));
}
"""
CHASE = """
    for (uint64_t i = 0, k = 0; i < N; ++i, k = (k + 40503) %% N) lines[k].next = &lines[(k + 40503) %% N];
    for (int i = 0; i < 1000000; ++i) at = at->next;
"""
RANDOM = """
    memset(lines, 1, N * sizeof *lines);
    for (int i = 0; i < 1000000; ++i) {
        random = random * 6364136223846793005u + 1442695040888963407u;
        sum += table[(random >> 40) %% (8 * N)];
    }
"""
UPDATES = """
    memset(lines, 1, N * sizeof *lines);
    for (int i = 0; i < 1000000; ++i) {
        random = random * 6364136223846793005u + 1442695040888963407u;
        table[(random >> 40) %% (8 * N)] ^= random;
    }
"""
LATE = """
    for (uint64_t i = 0, k = 0; i < N; ++i, k = (k + 40503) %% N) lines[k].next = &lines[(k + 40503) %% N];
    for (int i = 0; i < 12000000; ++i) sum = sum * 3 + i;
    for (int i = 0; i < 200000; ++i) at = at->next;
"""
SORTED = """
    for (int i = 0; i < 2000000; ++i) {
        random = random * 6364136223846793005u + 1442695040888963407u;
        if (random >> 63) sum ^= random * sum; else sum += i;
    }
"""


@cache
def traced(body: str) -> TraceWorkload:
    with TemporaryDirectory() as folder:
        return open_trace(traced_c(Path(folder), PROGRAM % body.replace("%%", "%")))


def times_of(body: str) -> CoreTimes:
    workload = traced(body)
    model = core_model(workload.samples, len(workload.phases), MACHINE)
    assert model is not None
    return model.times


def test_a_chase_waits_for_one_miss_at_a_time() -> None:
    overlap = times_of(CHASE).overlap[0]
    assert overlap[0].max() < 1.2  # by each density of misses


def test_a_short_chase_after_a_long_computation_is_not_missed() -> None:
    """It is 1% of the instructions and most of the time."""
    workload, core = traced(LATE), times_of(LATE)
    loads = core.past_filter[0, 2] * core.irregular[0, 2] * sum(workload.survey.instructions)
    assert loads == pytest.approx(200_000, rel=0.2)
    assert core.overlap[0, 2].max() < 1.5


def test_independent_loads_overlap() -> None:
    overlap = times_of(RANDOM).overlap[0]
    assert overlap[:, 0].min() > 8


def sample_of(lines: list[int], store: list[bool] | None = None) -> SampledRun:
    """Loads of these lines, or stores to them, each by an instruction of its own."""
    count = len(lines)
    number = np.arange(count, dtype=np.uint64)
    none = np.zeros(count, dtype=np.uint64)
    stores = np.array(store or [False] * count)
    return SampledRun(
        0, 0, 0, 20 * count, list(range(count)), number, none, stores, np.array(lines, dtype=np.uint64)
    )


@pytest.mark.parametrize(("streams", "known"), [(12, 200 - 12), (STREAMS, 200 - STREAMS), (STREAMS + 8, 200)])
def test_as_many_streams_as_hardware_follows_are_regular(streams: int, known: int) -> None:
    """They are regular from the beginning of a sample, although a stream's first line follows nothing."""
    found = foreseen_lines(sample_of([1000 * (n % streams) + n // streams for n in range(200)]))
    assert found.irregular.sum() == (0 if streams <= STREAMS else 200)
    assert found.known.sum() == known


def test_lines_without_neighbours_are_irregular_however_short_the_sample() -> None:
    found = foreseen_lines(sample_of([997 * n * n for n in range(1, 20)]))
    assert found.irregular.all()
    assert found.known.all()


def test_a_line_that_is_used_twice_is_no_stream() -> None:
    found = foreseen_lines(sample_of([997 * n * n for n in range(1, 20) for _ in range(2)]))
    assert found.irregular.tolist() == [True, False] * 19


def test_a_line_that_is_loaded_and_stored_to_is_asked_for_once() -> None:
    lines = [997 * n * n for n in range(1, 20)]
    found = foreseen_lines(sample_of([line for line in lines for _ in range(2)], [False, True] * 19))
    assert found.asks.tolist() == [True, False] * 19
    assert found.irregular.tolist() == [True, False] * 19
    assert not found.irregular_stores.any()


def test_updates_at_random_wait_for_as_many_lines_as_loads_do() -> None:
    """A share of half would make each line's wait half as long."""
    updates, loads = times_of(UPDATES), times_of(RANDOM)
    assert updates.irregular[0, 2] == pytest.approx(loads.irregular[0, 2], abs=0.1)
    assert updates.past_filter[0, 2] == pytest.approx(loads.past_filter[0, 2], rel=0.3)


def test_stores_at_random_keep_the_miss_buffers_busy() -> None:
    """By hand: a million lines of memory, one after the other, over the buffers of the L1."""
    found = foreseen_lines(sample_of([997 * n * n for n in range(1, 20)], [True] * 19))
    assert found.irregular_stores.all()
    assert not found.irregular.any()
    core = replace(times_of(RANDOM), irregular=np.zeros((1, 3)), irregular_stores=np.ones((1, 3)))
    one = replace(core, cycles=np.zeros(1), load_cycles=np.zeros(1))
    none = np.zeros(1)
    counts = dict.fromkeys(("l3_hits", "core_forwards", "stlb_hits", "walks", "walker_loads"), none)
    counts |= {"instructions": np.array([1e9]), "dram_reads": np.array([1e6]), "dram_writes": none}
    assert MACHINE.pipeline is not None
    times = modelled_times(MACHINE, {**counts, "dram_time_s": none}, 1, core=one)
    alone = 1e6 * MACHINE.ddr.latency.value
    assert times.time_s[0] == pytest.approx(alone / MACHINE.pipeline.load_misses.value)


def test_lines_of_a_string_operation_are_foreseen() -> None:
    """By hand: the samples show no more than 1000 accesses, all of them irregular, of a million lines."""
    core = replace(times_of(RANDOM), irregular=np.ones((1, 3)), irregular_stores=np.zeros((1, 3)))
    core = replace(core, past_filter=np.ones((1, 3)), overlap=np.ones_like(core.overlap))
    instructions, lines, seconds = np.array([1e3]), {"memory": np.array([1e6])}, {"memory": np.ones(1)}
    assert core.stalls(instructions, lines, seconds) == pytest.approx([1e-3])
    assert core.in_buffers(instructions, lines, seconds) == pytest.approx([1e-3])
    assert core.foreseen_lines("memory", instructions, lines["memory"]) == pytest.approx([1e6 - 1e3])


def test_a_branch_on_random_data_is_not_foreseen() -> None:
    wrong = {body: float(times_of(body).mispredicted[0]) for body in (SORTED, RANDOM)}
    assert wrong[SORTED] > 0.02
    assert wrong[RANDOM] < 0.002
    assert times_of(SORTED).cycles[0] > 1 / MACHINE.cores.instructions_per_cycle.value


def test_a_stall_costs_its_latency_over_what_overlaps() -> None:
    workload, core = traced(CHASE), times_of(CHASE)
    instructions = np.array([float(sum(workload.survey.instructions))])
    reads = np.array([1e6])
    none = np.zeros(1)
    counts = {"instructions": instructions, "dram_reads": reads, "dram_writes": none}
    counts |= dict.fromkeys(("l3_hits", "core_forwards", "stlb_hits", "walks", "walker_loads"), none)
    counts["dram_time_s"] = none
    with_samples = modelled_times(MACHINE, counts, 1, core=core).time_s[0]
    at_full_width = modelled_times(MACHINE, counts, 1).time_s[0]
    alone = 1e6 * MACHINE.ddr.latency.value
    assert with_samples == pytest.approx(alone * core.irregular[0, 2], rel=0.15)
    assert with_samples > 4 * at_full_width


def test_a_core_with_another_value_is_followed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every run of an ensemble asks for the same few, and to follow one takes as long as a replay."""
    workload = traced(SORTED)
    model = core_model(workload.samples, len(workload.phases), MACHINE)
    assert model is not None
    assert MACHINE.pipeline is not None
    width = MACHINE.cores.instructions_per_cycle
    narrow = width.model_copy(update={"value": 1.0})
    changed = MACHINE.model_copy(
        update={"cores": MACHINE.cores.model_copy(update={"instructions_per_cycle": narrow})}
    )
    first = model.on(changed)
    assert first.cycles[0] > 1.2 * model.times.cycles[0]
    monkeypatch.setattr(_core, "pipeline_cycles", None)
    assert model.on(changed).cycles.tolist() == first.cycles.tolist()


def test_no_sample_is_followed_twice_with_the_same_misses(monkeypatch: pytest.MonkeyPatch) -> None:
    """A phase has samples that stand for the whole run, too."""
    workload = traced(SORTED)
    follow, followed = _core.pipeline_cycles, []

    def noted(code: _core.Code, blocks: list[int], *rest: Any) -> float:
        *_, slow_block, slow_instruction, slow_cycles, _shape = rest
        misses = (slow_block.tobytes(), slow_instruction.tobytes(), slow_cycles.tobytes())
        followed.append((id(blocks), *misses))
        return follow(code, blocks, *rest)

    monkeypatch.setattr(_core, "pipeline_cycles", noted)
    assert core_model(workload.samples, len(workload.phases), MACHINE) is not None
    assert len(set(followed)) == len(followed) > 0


def test_a_trace_without_samples_has_the_constants() -> None:
    workload = open_trace(GOLDEN)
    assert workload.samples is None
    assert core_model(workload.samples, len(workload.phases), MACHINE) is None
    assert "no samples of instructions" in why_full_width(workload, MACHINE)[0]


def test_what_keeps_the_constants_is_said() -> None:
    assert why_full_width(traced(CHASE), MACHINE) == []
    assert "no [pipeline]" in why_full_width(traced(CHASE), load_machine(NO_L3))[0]


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("488b00", {"load": 1, "base": 1, "result0": 1}),  # mov rax, [rax]
        ("4883c308", {"operation": 1, "origin": 2, "constant": 8}),  # add rbx, 8
        ("c5fb1107", {"store": 2, "base": 6, "source0": 17, "result0": 0}),  # vmovsd [rdi], xmm0
        ("c4e2f1b8c2", {"operation": 10, "source0": 17, "result0": 17}),  # vfmadd231pd xmm0, xmm1, xmm2
        ("31c0", {"operation": 0, "source0": 0, "origin": 127}),  # xor eax, eax: 0, whatever it was
        ("488b4508", {"load": 1, "result0": 1, "origin": 126}),  # mov rax, [rbp+8]: what is there
        ("48894508", {"store": 1, "origin": 1}),  # mov [rbp+8], rax: what rax holds
        ("4883eb80", {"origin": 2, "constant": 128}),  # sub rbx, -128
        ("48f7f1", {"operation": 6, "slots": 2}),  # div rcx
        ("66480f6ec0", {"operation": 20, "source0": 1, "result0": 17}),  # movq xmm0, rax
        ("f20f10c1", {"operation": 0}),  # movsd xmm0, xmm1
        ("0f44c1", {"operation": 2}),  # cmove eax, ecx
        ("ffe0", {"branch": 2, "source0": 1}),  # jmp rax
    ],
)
def test_instructions_are_decoded(code: str, expected: dict[str, int]) -> None:
    columns = [
        "operation",
        "slots",
        "load",
        "store",
        "branch",
        "base",
        "index",
        "source0",
        "source1",
        "source2",
        "source3",
        "result0",
        "result1",
        "result2",
        "origin",
        "constant",
        "displacement",
        "scale",
    ]
    (row,) = Decoder().decode(bytes.fromhex(code), 0x1000)
    found = dict(zip(columns, row, strict=True))
    assert {name: found[name] for name in expected} == expected


def test_an_instruction_that_occurs_again_has_the_displacement_of_its_own_address() -> None:
    load, push = bytes.fromhex("488b0510000000"), bytes.fromhex("ff3510000000")  # [rip + 16]
    decoder = Decoder()
    for address in (0x1000, 0x5000):
        rows = decoder.decode(load + load + push, address)
        assert [row[16] for row in rows] == [address + 7 + 16, address + 14 + 16, -8]


def streams_slowly(
    lines: Sequence[int], places: Sequence[tuple[int, int]]
) -> tuple[NDArray[np.bool_], NDArray[np.bool_], NDArray[np.bool_], NDArray[np.bool_]]:
    """What each access does: whether it follows another, moves on, finds the table full, repeats."""
    follows, moves, full, again = (np.zeros(len(lines), dtype=bool) for _ in range(4))
    nearest_first = sorted(range(-NEAR, NEAR + 1), key=abs)
    streams: OrderedDict[int, bool] = OrderedDict()  # where each is, the latest last; whether it has moved
    last: dict[tuple[int, int], tuple[int, int]] = {}  # by instruction: its last line, and the step to it
    for number, (line, place) in enumerate(zip(lines, places, strict=True)):
        full[number] = len(streams) == STREAMS
        before, step = last.get(place, (line, 0))
        last[place] = (line, line - before)
        strides = step == line - before and 0 < abs(step) <= STRIDE_LINES
        again[number] = line in streams
        near = next((line + by for by in nearest_first if line + by in streams), None)
        moved = near is not None and (streams.pop(near) or near != line)
        if near is None and len(streams) == STREAMS:
            streams.popitem(last=False)
        streams[line] = moved
        follows[number], moves[number] = near is not None or strides, moved or strides
    return follows, moves, full, again


def test_streams_are_those_of_a_slow_table() -> None:
    """Lines of loops, of pages at random, and of some that repeat, by a few instructions."""
    random = np.random.default_rng(7)
    for streams in (1, 5, STREAMS, STREAMS + 9):
        begin = random.integers(0, 1 << 40, streams)
        steps = random.integers(-STRIDE_LINES - 2, STRIDE_LINES + 3, streams)
        which = random.integers(0, streams, 600)
        done = np.array([(which[:n] == of).sum() for n, of in enumerate(which)])
        lines = (begin[which] + steps[which] * done + random.integers(-1, 2, 600)).astype(np.uint64)
        places = random.integers(0, 6, 600).astype(np.uint64)
        found = _core.stream_uses(lines, places, STREAMS, NEAR, STRIDE_LINES)
        slow = streams_slowly(lines.tolist(), [(0, place) for place in places.tolist()])
        for flag, wanted in zip((1, 2, 4, 8), slow, strict=True):
            assert np.array_equal(found & flag > 0, wanted)
