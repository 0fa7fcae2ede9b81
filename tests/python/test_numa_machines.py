"""Machines of several NUMA nodes: what their files state, and every way in which they cannot."""

import numpy as np
import pytest
from machine_roles import CXL_NODE, SNOOP_FILTER, TWO_SOCKETS

from pagelens.errors import UsageError
from pagelens.machine import Machine, list_machines, load_machine, machine_directory, parse_machine
from pagelens.machine.numa import MOST_NODES

NAME = TWO_SOCKETS
FILE = (machine_directory() / f"{NAME}.toml").read_text()
SEVERAL = tuple(name for name in list_machines() if load_machine(name).numa is not None)


def changed(old: str, new: str) -> bytes:
    assert old in FILE
    return FILE.replace(old, new, 1).encode()


def test_two_sockets_have_a_matrix_and_a_link_each_way() -> None:
    topology = load_machine(NAME).topology
    assert topology.cores == (18, 18)
    assert topology.sizes == (96 << 30, 96 << 30)
    assert np.allclose(topology.latency, [[89.5e-9, 143.5e-9], [143.5e-9, 89.5e-9]])
    assert np.allclose(topology.memory_bandwidth, [105e9, 105e9])
    assert topology.distances == ((10, 21), (21, 10))
    assert [(link.source, link.target, round(link.rate)) for link in topology.links] == [
        ((1,), (0,), 34_300_000_000),
        ((0,), (1,), 34_300_000_000),
    ]
    assert list(topology.node_of_core) == [0] * 18 + [1] * 18


def test_a_machine_without_nodes_is_one_node() -> None:
    machine = load_machine(SNOOP_FILTER)
    topology = machine.topology
    assert (topology.nodes, topology.rows, topology.cores) == (1, 1, (24,))
    assert topology.latency[0, 0] == machine.ddr.latency.value
    assert topology.memory_bandwidth[0] == machine.ddr.bandwidth.value
    assert topology.links == ()


def test_a_node_without_cores_is_a_memory_alone() -> None:
    topology = load_machine(CXL_NODE).topology
    assert (topology.nodes, topology.rows) == (5, 4)
    assert topology.memory_bandwidth[4] == pytest.approx(17.6e9)
    # What is written to it takes the way there, at the rate of its readers.
    rates = {(link.source, link.target): link.rate for link in topology.links}
    assert rates[(0,), (4,)] == rates[(4,), (0,)] == pytest.approx(17.6e9)
    assert rates[(0, 1, 2, 3), (4,)] == pytest.approx(17.6e9)


def test_each_node_writes_at_a_rate_of_its_own() -> None:
    """An expander writes faster than it reads, because the link to it has two directions."""
    of_nodes = load_machine(CXL_NODE).topology.write_cost
    assert of_nodes == pytest.approx(
        [99.8 / 136, 101.3 / 136, 101.1 / 136, 100.9 / 136, 17.6 / 25.8], rel=1e-3
    )
    assert load_machine(NAME).topology.write_cost == pytest.approx([210 / 165] * 2)
    wrong = FILE.replace("[numa]\n", '[numa]\nwrite_bandwidths = { value = ["50 GB/s"], assumed = "t" }\n')
    with pytest.raises(UsageError, match=r"write_bandwidths must be one row of 2 columns"):
        parse_machine(wrong.encode(), "x.toml")
    with pytest.raises(UsageError, match=r"numa.write_bandwidths: no machine has 0 B/s; from 1 MB/s to"):
        parse_machine(wrong.replace('"50 GB/s"', '"50 0 GB/s"').encode(), "x.toml")


def test_a_link_may_be_slower_one_way() -> None:
    section = (
        '[[numa_link]]\nbetween = { value = [[0], [1]], assumed = "t" }\n'
        'rate = { value = "40 GB/s", assumed = "t" }\nback = { value = "20 GB/s", assumed = "t" }\n'
    )
    links = parse_machine((FILE + section).encode(), "x.toml").topology.links[-2:]
    assert [(link.source, link.target, round(link.rate)) for link in links] == [
        ((0,), (1,), 40_000_000_000),
        ((1,), (0,), 20_000_000_000),
    ]


@pytest.mark.parametrize("name", SEVERAL)
def test_the_matrices_of_the_field_are_sane(name: str) -> None:
    machine = load_machine(name)
    topology = machine.topology
    own = np.diagonal(topology.latency)
    assert np.all(topology.latency >= own[:, None])  # nothing is nearer than one's own memory
    assert topology.bandwidth.max() <= 1.02 * topology.memory_bandwidth.max()
    assert sum(topology.cores) == machine.cores.count.value
    assert all(row[node] == 10 for node, row in enumerate(topology.distances))


def test_machines_of_few_and_of_many_nodes_are_there() -> None:
    """Machines of two, four and eight nodes are among those whose matrices are checked above."""
    assert {2, 4, 8} <= {load_machine(name).topology.nodes for name in SEVERAL}


@pytest.mark.parametrize(
    ("old", "new", "why"),
    [
        ("[18, 18]", "[18, 17]", "cores.count must be 35"),
        ("[18, 18]", "[0, 36]", "nodes without cores come last"),
        ("[18, 18]", "[36]", "1 nodes and numa.sizes 2"),
        ("[18, 18]", "[18, -18]", "an array such as [18, 18]"),
        ('["96 GiB", "96 GiB"]', '["96 GiB", "64 GiB"]', "ddr.size must be 160 GiB"),
        ('["96 GiB", "96 GiB"]', "[96, 96]", "an array such as"),
        ('["96 GiB", "96 GiB"]', '["192 GiB", "0 B"]', "node 1 has 0 B; a node has at least 4 MiB"),
        ('["96 GiB", "96 GiB"]', '["96 GB", "96 GB"]', "node 0 has 96,000,000,000 B"),
        ('"143.5 89.5 ns"', '"143.5 ns"', "must have a row for each of the 2 nodes with cores, of 2 columns"),
        ('"143.5 89.5 ns"', '"143.5 89.5"', "is not a time"),
        ('"143.5 89.5 ns"', '"143.5 89.5 s"', "no machine has 144 s; from 10 ps to 1 ms is possible"),
        ('"114 49.9 ns"', '"114 0 ns"', "numa.line_latencies: no machine has 0 s; from 10 ps to 1 ms"),
        ('"143.5 89.5 ns"', "143", "a row is numbers and their unit"),
        ('"34.3 105 GB/s"', '"34.3 205 GB/s"', "ddr.bandwidth must be 310 GB/s"),
        ('"21 10"', '"10 21"', "numa.distances must be 2 rows"),
        ('"21 10"', '"x 10"', "whole numbers"),
        ('mode = "single"', 'mode = "flat"', 'mode = "flat"'),
        ('base = "family/skylake-sp"', 'base = ["family/skylake-sp", "dram/skx-ddr4-2666"]', "[dram]"),
        ("shared_by = { value = 18", "shared_by = { value = 12", "divide the cores of each node"),
    ],
)
def test_an_error_says_what_does_not_fit(old: str, new: str, why: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_machine(changed(old, new), "x.toml")
    text = str(caught.value)
    assert "\n" not in text
    assert why in text or why == 'mode = "flat"'


@pytest.mark.parametrize(
    ("ends", "why"),
    [
        ("[[0], [0]]", "none at both"),
        ("[[0, 0], [1]]", "none at both or twice"),
        ("[[0], [2]]", "no node 2"),
        ("[0, 1]", "two lists"),
        ("[[], [1]]", "each end"),
        (f"[[0], [{MOST_NODES}]]", "from 0 to 63"),
    ],
)
def test_a_link_has_two_ends(ends: str, why: str) -> None:
    rate = 'rate = { value = "9 GB/s", assumed = "t" }'
    section = f'[[numa_link]]\nbetween = {{ value = {ends}, assumed = "t" }}\n{rate}\n'
    with pytest.raises(UsageError, match=why):
        parse_machine((FILE + section).encode(), "x.toml")


@pytest.mark.parametrize("key", ["rate", "back"])
def test_a_link_has_a_rate_that_machines_have(key: str) -> None:
    rates = {"rate": "9 GB/s", "back": "9 GB/s", key: "1 B/s"}
    section = '[[numa_link]]\nbetween = { value = [[0], [1]], assumed = "t" }\n'
    section += "".join(f'{name} = {{ value = "{rate}", assumed = "t" }}\n' for name, rate in rates.items())
    with pytest.raises(UsageError, match=f"{key} = 1 B/s: no machine has that"):
        parse_machine((FILE + section).encode(), "x.toml")


def test_changed_values_are_checked_together() -> None:
    with pytest.raises(UsageError, match=r"the sum of numa\.cores"):
        load_machine(NAME).with_values({"cores.count": 4})
    assert isinstance(load_machine(NAME).with_values({"cores.frequency": "2 GHz"}), Machine)
