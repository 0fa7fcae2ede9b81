"""Lines that threads take from each other: counted in traces of real programs, and timed."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from machine_roles import CXL_NODE, SNOOP_FILTER, TWO_LARGE_SOCKETS, TWO_SOCKETS, TWO_SOCKETS_OF_CHIPLETS
from small_machine import two_nodes

import pagelens as pl
from pagelens.accesses.trace import TraceWorkload, open_trace
from pagelens.accesses.tracer import TraceRequest, trace_program
from pagelens.address.units import LINE_BYTES
from pagelens.cli.text.explain import render_terminal
from pagelens.errors import UsageError
from pagelens.explain.conclusion import _bounded, conclude
from pagelens.explain.html import render_html
from pagelens.explain.model import BoundsRecord
from pagelens.frames import Node, parse_history, policies
from pagelens.machine import Machine, load_machine, parse_machine
from pagelens.replay import Simulation
from pagelens.replay.mechanisms import NUMA_SHARED
from pagelens.replay.shared_lines import RARE, shared_lines

ROUNDS = 20_000


@pytest.fixture(scope="module")
def machine() -> Machine:
    return two_nodes()


@pytest.fixture(scope="module")
def traced(
    tmp_path_factory: pytest.TempPathFactory, built: Callable[..., Path]
) -> Callable[[int], TraceWorkload]:
    """Trace two threads whose counters lie so many bytes apart.

    On a busy machine one may be done before the other begins. Those of one line are then traced again.
    """
    folder, known = tmp_path_factory.mktemp("traces"), dict[int, TraceWorkload]()

    def trace(distance: int) -> TraceWorkload:
        if distance not in known:
            path = folder / f"{distance}.trace"
            command = [str(built("counters")), str(distance), "2", str(ROUNDS)]
            for _ in range(3):
                trace_program(TraceRequest(command, str(path), accesses=0))
                known[distance] = open_trace(path)
                if distance >= LINE_BYTES or taken(known[distance], two_nodes())[:, 5].sum() > ROUNDS:
                    break
        return known[distance]

    return trace


def taken(workload: TraceWorkload, machine: Machine) -> np.ndarray:
    return np.asarray(workload.lines_in_order(machine).taken_lines)


def test_counters_in_one_line_go_to_and_fro(traced: Callable[[int], TraceWorkload], machine: Machine) -> None:
    """Threads that count in turn take the line from each other for each load, and for each store."""
    rows = taken(traced(8), machine)
    often = rows[rows[:, 4] != RARE]
    assert len(set(often[:, 4])) == 1  # the line of both counters
    assert {(giver, taker) for _, _, giver, taker, _, _ in often.tolist()} == {(0, 1), (1, 0)}
    assert ROUNDS < often[:, 5].sum() <= 4 * ROUNDS


def test_counters_in_lines_of_their_own_stay(
    traced: Callable[[int], TraceWorkload], machine: Machine
) -> None:
    assert taken(traced(128), machine)[:, 5].sum() < ROUNDS / 100


def test_explain_names_the_object_and_what_it_costs(
    traced: Callable[[int], TraceWorkload], machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    workload = traced(8)
    ensemble = pl.simulate(
        workload, machine, ["aged", "close"], nodes=1, history="boot; run", ranks=1, progress=False
    )
    explained = pl.explain(ensemble)
    assert explained.numa is not None
    aged, close = explained.numa
    assert aged.shared[0].name.startswith("main")
    assert aged.shared[0].share > 0.9
    assert close.shared[0].name == aged.shared[0].name  # both threads run on one node, and wait less
    apart, together = explained.distributions
    assert together.median_s / apart.median_s == pytest.approx(49.9 / 116.5, rel=0.02)
    cost = explained.attributions[0]
    assert cost.part(NUMA_SHARED).seconds > 0.5 * cost.time_s
    directions = [part.busy_s for part in aged.parts if not part.name.startswith("memory")]
    assert max(directions) == pytest.approx(apart.resource("links").busy_s)
    named = f"are of `{aged.shared[0].name}`. If threads write different data"
    assert named in " ".join(explained.conclusion.sentences)
    alone = conclude(
        explained.program,
        explained.machine,
        "aged",
        explained.bounds,
        [apart],
        explained.attributions,
        (),
        (),
        (),
        numa=aged,
    )
    assert not alone.placement_matters
    assert named in " ".join(alone.sentences)
    terminal, report = " ".join(render_terminal(explained).split()), render_html(explained)
    assert "take from each other" in terminal
    assert "take these lines from each other" in report
    for text in (terminal, report):
        assert "a thread that was done before another one began shares nothing with it here" in text
    monkeypatch.setenv("COLUMNS", "50")
    assert max(map(len, render_terminal(explained).splitlines())) <= 50
    (bounded,) = _bounded(BoundsRecord(least_s=1, most_s=1.01), explained.machine, explained.program)
    assert "and every line that threads take from each other from the farthest NUMA node, the" in bounded


def test_lines_of_one_node_are_counted_where_they_have_no_price(
    traced: Callable[[int], TraceWorkload], machine: Machine
) -> None:
    assert machine.numa is not None
    numa = machine.numa.model_copy(update={"line_latencies": None})
    free = machine.model_copy(update={"numa": numa})
    workload, of_cores = traced(8), {}
    for name, of in (("priced", machine), ("free", free)):
        ensemble = pl.simulate(workload, of, ["close"], nodes=1, history="boot; run", ranks=1, progress=False)
        of_cores[name] = pl.explain(ensemble)
    (priced,), (counted,) = (of.numa or () for of in of_cores.values())
    assert priced.shared == counted.shared
    assert priced.taken_at_no_cost is None
    assert counted.taken_at_no_cost == pytest.approx(sum(of.taken for of in counted.shared))
    said = [" ".join(render_terminal(of).split()) for of in of_cores.values()]
    assert ["cost nothing in the model" in text for text in said] == [False, True]
    assert "cost nothing in the model" in render_html(of_cores["free"])
    seconds = [of.attributions[0].part(NUMA_SHARED).seconds for of in of_cores.values()]
    assert seconds[0] > 0
    assert seconds[1] == 0


def test_threads_take_lines_where_a_node_has_memory_alone(traced: Callable[[int], TraceWorkload]) -> None:
    ensemble = pl.simulate(
        traced(8), load_machine(CXL_NODE), ["close"], nodes=1, history="boot; run", ranks=1, progress=False
    )
    assert ensemble.tables.numa["taken"].sum() > 0


def test_no_placement_takes_longer_than_the_bound(
    traced: Callable[[int], TraceWorkload], machine: Machine
) -> None:
    """Lines that change nodes at each use take far longer than all lines of memory can."""
    simulation = Simulation(traced(8), machine, 1)
    node = Node(machine, 1, 0, history=parse_history("boot; run"))
    apart = simulation.run(simulation.place(policies["aged"], node)).times.time_s
    bounds = simulation.bounds()
    assert np.all(bounds.least_s <= apart)
    assert np.all(apart <= bounds.most_s)


def test_seconds_are_those_of_the_lines_that_change_caches() -> None:
    """A line is in one place at a time, and each copy of the program has lines of its own."""
    rows = np.array(
        [[0, 1, 0, 1, 7, 100], [0, 2, 1, 0, 7, 50], [0, 1, 0, 1, 9, 120], [0, 1, 1, 0, RARE, 900]],
        dtype=np.uint64,
    )
    nodes = np.array([[0, 1], [1, 1]], dtype=np.uint8)  # the second copy is on one node
    found = shared_lines(rows, load_machine(TWO_SOCKETS).topology, nodes, 1, 3)
    assert found is not None
    assert found.taken[0, 1].tolist() == [[0, 900], [220, 1120]]
    assert found.taken[0, 2].tolist() == [[0, 50], [0, 50]]
    assert found.busiest_s[0] == pytest.approx((100 * 114 + 50 * 118.9) * 1e-9)
    alone = shared_lines(rows, load_machine(TWO_SOCKETS).topology, nodes[1:], 1, 3)
    assert alone is not None
    assert alone.busiest_s[0] == pytest.approx(150 * 49.9e-9)
    free = load_machine(TWO_SOCKETS_OF_CHIPLETS).topology  # states no latency within a node
    found = shared_lines(rows, free, nodes, 1, 3)
    assert found is not None
    assert found.taken[0, 1].tolist() == [[0, 900], [220, 1120]]
    assert found.busiest_s[0] == pytest.approx(150 * 200e-9)
    assert shared_lines(rows[:0], free, nodes, 1, 3) is None


def test_without_a_published_latency_a_line_takes_as_long_as_memory_or_nothing() -> None:
    topology = load_machine(TWO_SOCKETS_OF_CHIPLETS).topology
    assert np.array_equal(topology.line_latency, topology.latency - np.diag(np.diagonal(topology.latency)))
    assert load_machine(TWO_SOCKETS).topology.line_latency[0].tolist() == pytest.approx([49.9e-9, 118.9e-9])
    near, far = load_machine(TWO_LARGE_SOCKETS).topology.line_latency[0]
    assert (near, far) == pytest.approx((180e-9, 430e-9))


@pytest.mark.parametrize(
    ("name", "why"),
    [(SNOOP_FILTER, "no effect without"), (TWO_SOCKETS, "stands in numa.line_latencies, too")],
)
def test_the_latency_within_a_node_is_stated_once(name: str, why: str) -> None:
    with pytest.raises(UsageError, match=why):
        parse_machine(
            f'''
schema = 1
base = "{name}"
name = "small"
title = "Small"
mode = "single"
[cores]
line_latency = {{ value = "50 ns", assumed = "again" }}
'''.encode(),
            "small.toml",
        )


def test_a_matrix_of_another_shape_is_refused() -> None:
    text = f'schema = 1\nbase = "{TWO_SOCKETS}"\nname = "small"\ntitle = "Small"\nmode = "single"\n[numa]\n'
    text += 'line_latencies = { value = ["50 114 ns"], assumed = "wrong" }\n'
    with pytest.raises(UsageError, match="line_latencies must have 2 rows of 2 columns"):
        parse_machine(text.encode(), "small.toml")
