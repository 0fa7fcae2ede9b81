"""A copy on each NUMA node of the objects that a program only reads."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from machine_roles import TWO_SOCKETS

from pagelens.accesses.trace import TraceWorkload, open_trace
from pagelens.accesses.trace_recorder import TraceRecorder
from pagelens.accesses.workload import ObjectInfo
from pagelens.frames import Node, find_policy, parse_history
from pagelens.frames.numa_rule import NumaRule
from pagelens.machine import load_machine
from pagelens.replay import Simulation
from pagelens.replay.numa import NumaLines, replicated

MIB, BASE = 1 << 20, 0x7F00_0000_0000
MACHINE = TWO_SOCKETS
LINES = 8  # of each drawn object


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> TraceWorkload:
    """One thread writes a table and a state, both read them, and both write the state again and again."""
    path = tmp_path_factory.mktemp("replicate") / "app.trace"
    table, state = BASE, BASE + 64 * MIB
    every = 64 * np.arange(2 * MIB // 64)
    with TraceRecorder(path, "app") as recorder:
        for address, name in ((table, "table"), (state, "state")):
            recorder.allocate(0, address, 2 * MIB, name)
            recorder.access(0, address + every, stores=True)
        recorder.sync(0)
        recorder.sync(1)
        for thread in range(2):
            recorder.access(thread, table + every)
            for _ in range(4):
                recorder.access(thread, state + every, stores=True)
    return open_trace(path)


def test_what_is_only_read_is_read_nearby_and_what_is_written_stays(program: TraceWorkload) -> None:
    model = load_machine(MACHINE)
    simulation = Simulation(program, model, 1)
    node = Node(model, seed=1, node=0, history=parse_history("boot; run"))
    number = {known.name: known.index for known in program.objects}

    def run(policy: str) -> tuple[dict[str, float], float]:
        found = simulation.run(simulation.place(find_policy(policy), node))
        assert found.numa is not None
        reads = found.numa.reads.sum(axis=0)
        far = {
            name: 1 - float(np.trace(reads[of]) / reads[of].sum())
            for name, of in number.items()
            if reads[of].any()
        }
        return far, float(found.times.time_s.sum())

    before, slow = run("aged")
    assert before["table"] > 0.4
    assert before["state"] > 0.4
    after, fast = run("replicate")
    assert after["table"] == 0
    assert after["state"] == before["state"]
    assert fast < slow
    assert run("replicate:state")[0] == before  # because it is written
    assert run("replicate:table") == (after, fast)


@given(st.integers(0, 2**32 - 1), st.sampled_from([None, ("a",), ("b", "c")]))
@settings(max_examples=50, deadline=None)
def test_lines_are_those_of_a_plain_count(seed: int, chosen: tuple[str, ...] | None) -> None:
    draw = np.random.default_rng(seed)
    stored = draw.integers(0, 3 * LINES, 4).tolist()
    objects = [
        ObjectInfo(number, name, bytes=64 * LINES, stored=stored[number])
        for number, name in enumerate("kabc")
    ]
    reads = draw.integers(0, 9, (2, 4, 3, 3)).astype(float)
    writes = (draw.random((2, 4, 3, 3)) < draw.random()).astype(float)
    found = replicated(
        NumaLines(reads, writes, np.zeros((2, 2))), objects, 1, NumaRule("replicate", objects=chosen)
    )
    assert found is not None
    assert found.writes is writes
    expected = np.zeros_like(reads)
    for phase, number, asker, home in np.ndindex(*reads.shape):
        is_read_only = max(writes[:, number].sum(), stored[number]) <= 1.5 * LINES and number > 0
        moved = is_read_only and (chosen is None or objects[number].name in chosen)
        expected[phase, number, asker, asker if moved else home] += reads[phase, number, asker, home]
    assert np.array_equal(found.reads, expected)
