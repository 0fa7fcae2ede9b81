"""Time on several NUMA nodes: the rules of two equal nodes, on machines of the field, and who is to blame.

The rules follow from a machine's matrix alone (L: a node's own memory, R: the other node's). All cores read
equally: 2L with parallel first touch, min(L, 2R) if all pages lie on one node, min(2L, 4R) interleaved.
"""

from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from machine_roles import (
    CXL_NODE,
    FOUR_NODES_A_SOCKET,
    NPS4,
    ONE_NODE_A_SOCKET,
    SNOOP_FILTER,
    TWO_NODES_A_SOCKET,
    TWO_SOCKETS,
    TWO_SOCKETS_ICE_LAKE,
    TWO_SOCKETS_LATER,
    TWO_SOCKETS_OF_CHIPLETS,
)

from pagelens.accesses.declared import Array, DeclaredWorkload, Loops, Sweep
from pagelens.accesses.declared.loops import Kind, Stream, Walk, read, serial_first_touch, write
from pagelens.accesses.workload import KERNEL
from pagelens.address.units import FRAME_BYTES, LINE_BYTES
from pagelens.frames import Node, find_policy, parse_history
from pagelens.machine import Machine, NumaLoad, load_machine, modelled_times
from pagelens.replay import Run, Simulation, far_objects
from pagelens.replay.mechanisms import NUMA_CROWDING, NUMA_LINKS
from pagelens.replay.numa import dearest_line

TWO_NODES = (TWO_SOCKETS, TWO_SOCKETS_LATER, TWO_SOCKETS_ICE_LAKE, TWO_SOCKETS_OF_CHIPLETS, ONE_NODE_A_SOCKET)
MIB = 1 << 20
OF_CORES = ("instructions", "l3_hits", "core_forwards", "stlb_hits", "walks", "walker_loads")
NOTHING_ELSE = dict.fromkeys(OF_CORES, np.zeros(1))


def lines_of(
    machine: Machine, shares: np.ndarray, cores: np.ndarray | None = None, writes: float = 0.0
) -> float:
    """The seconds that a byte takes, at given shares of the lines [from, to]."""
    topology = machine.topology
    on_node = np.asarray(topology.cores[: topology.rows], dtype=float) if cores is None else cores
    load = NumaLoad(shares[None], shares[None], on_node)
    lines = {"dram_reads": np.full(1, (1 - writes) * 1e9), "dram_writes": np.full(1, writes * 1e9)}
    counts = {**NOTHING_ELSE, **lines}
    times = modelled_times(machine, counts, int(on_node.sum()), "DDR", 1.0, None, load)
    return float(times.time_s[0]) / (1e9 * LINE_BYTES)


@pytest.mark.parametrize("name", TWO_NODES)
def test_two_equal_nodes_follow_the_rules(name: str) -> None:
    machine = load_machine(name)
    own, other = machine.topology.bandwidth[0] / 1e9
    local, first, over = np.eye(2) / 2, np.array([[0.5, 0], [0.5, 0]]), np.full((2, 2), 0.25)
    rates = [1e-9 / lines_of(machine, shares) for shares in (local, first, over)]
    assert rates == pytest.approx([2 * own, min(own, 2 * other), min(2 * own, 4 * other)])
    one = np.array([[0.5, 0.5], [0, 0]])  # threads of one socket, interleaved
    cores = np.array([machine.topology.cores[0], 0.0])
    assert 1e-9 / lines_of(machine, one, cores) == pytest.approx(min(2 * own, 2 * other))


def test_the_published_table_of_two_socket_machines() -> None:
    """GB/s of local, all on node 0, interleaved: from matrices of Intel MLC (see the machine files)."""
    found = {}
    for name in (TWO_SOCKETS, TWO_SOCKETS_LATER, TWO_SOCKETS_ICE_LAKE):
        machine = load_machine(name)
        shares = (np.eye(2) / 2, np.array([[0.5, 0], [0.5, 0]]), np.full((2, 2), 0.25))
        found[name] = [round(1e-9 / lines_of(machine, of)) for of in shares]
    assert found == {
        TWO_SOCKETS: [210, 69, 137],
        TWO_SOCKETS_LATER: [226, 69, 137],
        TWO_SOCKETS_ICE_LAKE: [352, 111, 223],
    }


def test_reads_and_writes_take_opposite_ways_of_a_link() -> None:
    machine = load_machine(TWO_SOCKETS)
    remote = np.array([[0, 0.5], [0.5, 0]])
    only_reads, half = (lines_of(machine, remote, writes=share) for share in (0.0, 0.5))
    assert only_reads == pytest.approx(half)  # each way has half of the lines in both
    one_way = np.array([[0, 0], [1.0, 0]])  # cores of node 1, memory of node 0
    cores = np.array([0.0, 18.0])
    assert lines_of(machine, one_way, cores) == pytest.approx(1 / 34.3e9)
    assert lines_of(machine, one_way, cores, writes=0.5) == pytest.approx(1 / 68.6e9)


def test_pairs_of_nodes_share_the_link_between_sockets() -> None:
    machine = load_machine(TWO_NODES_A_SOCKET)
    shares = np.zeros((4, 4))
    shares[2:, :2] = 0.25  # both nodes of one socket read from both of the other
    cores = np.array([0.0, 0.0, 13.0, 13.0])
    assert 1e-9 / lines_of(machine, shares, cores) == pytest.approx(50.9)


@given(
    st.sampled_from([*TWO_NODES, FOUR_NODES_A_SOCKET, CXL_NODE]),
    st.lists(st.floats(0, 1), min_size=2 * 64, max_size=2 * 64), st.booleans(), st.booleans(),
    st.sampled_from([None, 0.25, 1.0]),
)  # fmt: skip
@settings(max_examples=60, deadline=None)
def test_the_time_is_that_of_a_slow_rule(
    name: str, numbers: list[float], no_links: bool, no_crowds: bool, directory: float | None
) -> None:
    """Line by line in loops over nodes and links, as the documentation states it."""
    machine = load_machine(name)
    if directory is not None:
        machine = machine.with_values({"numa.directory_writes": directory})
    topology = machine.topology
    rows, nodes = topology.rows, topology.nodes
    reads, writes = (np.array(numbers[at : at + rows * nodes]).reshape(1, rows, nodes) for at in (0, 64))
    cores = np.asarray(topology.cores[:rows], dtype=float)
    of_nodes, ddr = machine.numa.write_bandwidths, machine.ddr
    cost = [
        topology.memory_bandwidth[node] / of_nodes.value[0][node]
        if of_nodes
        else ddr.bandwidth.value / ddr.write_bandwidth.value
        if ddr.write_bandwidth
        else 1.0
        for node in range(nodes)
    ]
    load = NumaLoad(reads, writes, cores, no_links, no_crowds)
    lines = 1e6
    counts = {**NOTHING_ELSE, "dram_reads": np.full(1, lines), "dram_writes": np.full(1, lines)}
    used = machine.cores.count.value
    found = modelled_times(machine, counts, used, "DDR", 1.0, None, load)
    busy, ways, waits = [0.0] * nodes, [0.0] * len(topology.links), [0.0] * rows
    for a in range(rows):
        for b in range(nodes):
            at = a if no_crowds else b
            written = writes[0, a, b] + (directory or 0) * reads[0, a, b] * (a != at < rows)
            moved = lines * (reads[0, a, b] + cost[at] * written) * LINE_BYTES
            busy[at] += moved / topology.memory_bandwidth[at]
            near = topology.latency[a, a] if no_links else topology.latency[a, b]
            waits[a] += lines * reads[0, a, b] * near / cores[a]
            for number, link in enumerate(topology.links):
                if b in link.source and a in link.target:
                    ways[number] += lines * reads[0, a, b] * LINE_BYTES / link.rate
                if a in link.source and b in link.target:
                    ways[number] += lines * writes[0, a, b] * LINE_BYTES / link.rate
    assert found.resources["DDR"][0] == pytest.approx(max(busy), rel=1e-9)
    assert ("links" in found.resources) != no_links
    if not no_links:
        assert found.resources["links"][0] == pytest.approx(max(ways), rel=1e-9, abs=1e-15)
    assert found.resources["latency"][0] == pytest.approx(
        max(waits) / machine.cores.outstanding_lines.value, rel=1e-9
    )


def test_a_machine_of_one_node_has_the_time_that_it_had() -> None:
    machine = load_machine(SNOOP_FILTER)
    lines = {"dram_reads": np.full(1, 12345.0), "dram_writes": np.full(1, 777.0)}
    counts = {**NOTHING_ELSE, **lines, "dram_time_s": np.zeros(1)}
    times = modelled_times(machine, counts, 24, "DDR")
    assert times.resources["DDR"][0] == LINE_BYTES * (12345.0 + 777.0) / machine.ddr.bandwidth.value
    assert times.resources["latency"][0] == 12345.0 * machine.ddr.latency.value / (20 * 24)
    assert "links" not in times.resources


def reader(threads: int, size: int) -> DeclaredWorkload:
    """Two arrays that one thread initialises; all threads read `used` in parts."""
    loops = Loops(
        (Array("used", size), Array("idle", size / 4)),
        (Sweep("initialise", 4.0, write("used", "idle"), first_touch=True), Sweep("read", 1.0, read("used"))),
        {"read": 4},
    )
    return DeclaredWorkload("reader-serial", serial_first_touch(loops), threads)


def small() -> Machine:
    """Two sockets of Skylake with caches and memories of a sixteenth, so that small programs fill them.

    Writes cost as much as reads, so that times are lines over bandwidths.
    """
    return load_machine(TWO_SOCKETS).with_values(
        {
            "l2.size": "64 KiB",
            "l3.size": "1584 KiB",
            "snoop_filter.sets": 128,
            "numa.sizes": ["1 GiB", "1 GiB"],
            "ddr.size": "2 GiB",
            "ddr.write_bandwidth": "210 GB/s",
        }
    )


@cache
def simulated() -> tuple[Simulation, Node]:
    machine = small()
    sim = Simulation(reader(machine.cores.count.value, 32 * MIB), machine, 1)
    return sim, Node(machine, 0, 0, history=parse_history("boot; run"))


@cache
def run_of(policy: str, without: tuple[str, ...] = ()) -> Run:
    sim, node = simulated()
    return sim.run(sim.place(find_policy(policy), node), without)


def seconds(run: Run) -> float:
    return float(run.times.time_s[-1])


def test_serial_first_touch_puts_everything_on_one_node() -> None:
    """A replay places each page by the rule, and touch and interleave do what their names say."""
    for policy, expected in (
        ("aged", [[0.5, 0.0], [0.5, 0.0]]),
        ("touch", [[0.5, 0.0], [0.0, 0.5]]),
        ("touch:used", [[0.5, 0.0], [0.0, 0.5]]),
        ("touch:idle", [[0.5, 0.0], [0.5, 0.0]]),
        ("interleave", [[0.25, 0.25], [0.25, 0.25]]),
        ("interleave:used", [[0.25, 0.25], [0.25, 0.25]]),
    ):
        lines = run_of(policy).numa.reads[-1]
        assert lines.sum(axis=0) / lines.sum() == pytest.approx(np.array(expected), abs=0.01), policy


def test_a_page_that_is_used_between_the_stretches_lies_with_its_user() -> None:
    """Few lines are simulated, but who uses a page is known from all of them."""
    loops = Loops(
        (Array("used", 64 * MIB),),
        (Sweep("initialise", 4.0, write("used"), first_touch=True), Sweep("read", 1.0, read("used"))),
        {},
    )
    machine = small()
    workload = DeclaredWorkload("reader-serial", serial_first_touch(loops), machine.cores.count.value)
    sim, node = Simulation(workload, machine, 1), simulated()[1]
    cleared = sim.run(sim.place(find_policy("touch"), node), ()).numa.writes[0, KERNEL]
    assert cleared / cleared.sum() == pytest.approx(np.array([[0.5, 0.0], [0.0, 0.5]]), abs=0.01)


@pytest.mark.parametrize(("size", "is_worth_it"), [(32 * MIB, True), (36 * FRAME_BYTES, False)])
def test_an_object_whose_lines_cannot_matter_gets_no_remedy(size: int, is_worth_it: bool) -> None:
    """All remote lines are of `few`, so that their share of these says nothing."""
    machine = load_machine(TWO_SOCKETS)
    by_one = (Stream("few", Kind.write, walk=Walk.serial),)
    loops = Loops(
        (Array("most", 128 * MIB), Array("few", size)),
        (
            Sweep("initialise", 4.0, write("most"), first_touch=True),
            Sweep("initialise", 4.0, by_one, first_touch=True),
            Sweep("read", 1.0, read("most", "few")),
        ),
        {},
    )
    found = far_objects(DeclaredWorkload("few", loops, machine.cores.count.value), machine, 1)
    assert found == ({"few": 1.0} if is_worth_it else {})


@pytest.mark.parametrize("name", [*TWO_NODES, TWO_NODES_A_SOCKET, FOUR_NODES_A_SOCKET, NPS4])
def test_an_object_on_one_node_gains_no_more_than_its_bound(name: str) -> None:
    """All other lines are local and keep the memories busy, so node 0 works longer for the object's."""
    machine = load_machine(name)
    nodes, share = machine.topology.nodes, 0.01
    local = np.eye(nodes) / nodes
    crowded = (1 - share) * local
    crowded[:, 0] += share / nodes
    remote = share * (nodes - 1) / nodes
    gain = lines_of(machine, crowded) / lines_of(machine, local) - 1
    assert gain <= remote * dearest_line(machine, remote) + 1e-9


def test_the_times_of_a_replayed_program_follow_the_rules() -> None:
    aged, touch, over = (seconds(run_of(policy)) for policy in ("aged", "touch", "interleave"))
    assert aged / touch == pytest.approx(210 / 68.6, rel=0.02)
    assert over / touch == pytest.approx(210 / 137.2, rel=0.02)
    assert seconds(run_of("touch:idle")) == pytest.approx(aged, rel=1e-3)


def test_without_links_and_crowding_all_memory_is_local() -> None:
    """The two mechanisms together make up what serial first touch costs."""
    aged, touch = seconds(run_of("aged")), seconds(run_of("touch"))
    both = seconds(run_of("aged", (NUMA_LINKS, NUMA_CROWDING)))
    assert both == pytest.approx(touch, rel=0.03)
    assert seconds(run_of("aged", (NUMA_LINKS,))) == pytest.approx(aged * 68.6 / 105, rel=0.03)
    assert seconds(run_of("aged", (NUMA_CROWDING,))) == pytest.approx(aged)


def test_threads_close_together_stay_on_one_node() -> None:
    machine = small()
    node = Node(machine, 0, 0, history=parse_history("boot; run"))
    sim = Simulation(reader(18, 16 * MIB), machine, 1)
    spread, close = (
        sim.run(sim.place(find_policy(name), node)).numa.reads[-1].sum(axis=0) for name in ("aged", "close")
    )
    assert close[0, 0] == close.sum()
    assert spread[1, 0] == pytest.approx(spread.sum() / 2, rel=0.01)


@pytest.mark.parametrize(("threads", "ranks"), [(36, 1), (2, 9)])
def test_contiguous_memory_begins_on_the_first_node(threads: int, ranks: int) -> None:
    """A copy has its own region of memory, whichever cores its threads run on."""
    machine = small()
    loops = Loops(
        (Array("a", 64 * MIB),),
        (Sweep("initialise", 4.0, write("a"), first_touch=True), Sweep("read", 1.0, read("a"))),
        {},
    )
    sim = Simulation(DeclaredWorkload("reader", loops, threads), machine, ranks)
    node = Node(machine, 0, 0, history=parse_history("boot; run"))
    lines = sim.run(sim.place(find_policy("contiguous"), node)).numa.reads[-1].sum(axis=0)
    assert lines[:, 0].sum() == lines.sum() > 0
    assert lines[1].sum() == pytest.approx(lines.sum() / 2, rel=0.25)  # half of the cores are on the second
