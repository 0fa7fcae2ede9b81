"""NUMA nodes of the allocator's model: the order of nodes, policies, spill, held to a slow reference."""

import numa_rule
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from machine_roles import CXL_NODE, TWO_SOCKETS

from pagelens import _core
from pagelens.address.units import FRAME_BYTES
from pagelens.frames import Node, find_policy, parse_history
from pagelens.frames.numa_rule import layout
from pagelens.machine import load_machine

MIB = 1 << 20
BLOCK = 2 * MIB // FRAME_BYTES
MODES = ("local", "bind", "preferred", "interleave", "weighted_interleave")


@st.composite
def firmware(draw: st.DrawFn) -> tuple[list[int], list[list[int]]]:
    """The node of every CPU, and distances, which need not be symmetric."""
    nodes = draw(st.integers(1, 8))
    cpus = draw(st.lists(st.integers(0, nodes - 1), min_size=1, max_size=8))
    few = st.sampled_from([11, 12, 20, 21, 32, 254])
    return cpus, [[10 if a == b else draw(few) for b in range(nodes)] for a in range(nodes)]


@given(firmware())
@settings(max_examples=200, deadline=None)
def test_nodes_are_tried_in_the_kernel_s_order(machine: tuple[list[int], list[list[int]]]) -> None:
    cpus, far = machine
    flat = [distance for row in far for distance in row]
    assert _core.fallback_orders(len(far), cpus, flat) == numa_rule.fallback_orders(cpus, far)


def test_equals_take_turns_as_first_choices() -> None:
    """Two sockets of two nodes: each node of the other socket is the first remote choice of one node."""
    far = [[10, 12, 32, 32], [12, 10, 32, 32], [32, 32, 10, 12], [32, 32, 12, 10]]
    flat = [distance for row in far for distance in row]
    assert _core.fallback_orders(4, [0, 1, 2, 3], flat) == [
        [0, 1, 2, 3],
        [1, 0, 3, 2],
        [2, 3, 0, 1],
        [3, 2, 1, 0],
    ]


@given(
    st.sampled_from(MODES), st.sets(st.integers(0, 5), min_size=1),
    st.lists(st.integers(1, 255), min_size=6, max_size=6), st.integers(0, 5), st.integers(0, 1 << 40),
)  # fmt: skip
@settings(max_examples=300, deadline=None)
def test_a_policy_begins_where_the_kernel_s_does(
    mode: str, nodes: set[int], weights: list[int], cpu_node: int, index: int
) -> None:
    policy = _core.NumaPolicy(_core.NumaMode[mode], sum(1 << node for node in nodes), weights)
    begin, allowed, sparing = policy.request(cpu_node, 0, index, 6)
    assert begin == numa_rule.home(mode, sorted(nodes), weights, cpu_node, index)
    assert not sparing
    everywhere = (1 << 64) - 1
    assert allowed == (sum(1 << node for node in nodes) if mode == "bind" else everywhere)


def test_a_huge_page_comes_from_its_first_node_or_not_at_all() -> None:
    local = _core.NumaPolicy(_core.NumaMode.local)
    assert local.request(1, 9, 7, 4) == (1, 1 << 1, True)
    over = _core.NumaPolicy(_core.NumaMode.interleave, 0b1011)
    assert over.request(1, 9, 5, 4) == (3, (1 << 64) - 1, False)  # of nodes 0, 1, 3 the third


def small_machine(sizes: list[int], cpu_numa: list[int], far: list[list[int]]) -> _core.Memory:
    flat = [distance for row in far for distance in row]
    return _core.Memory(_core.numa_layout([blocks * BLOCK for blocks in sizes], cpu_numa, flat), 1)


@given(
    st.lists(st.integers(2, 6), min_size=2, max_size=4),
    st.lists(st.tuples(st.integers(0, 3), st.integers(1, 1500), st.integers(0, 15)), min_size=1, max_size=6),
    st.randoms(use_true_random=False),
)
@settings(max_examples=60, deadline=None)
def test_pages_spill_to_the_next_node_of_the_order(
    sizes: list[int], asks: list[tuple[int, int, int]], random: object
) -> None:
    """Down to the last frame of a node, by every CPU, within every mask: as many on each node as the rule."""
    nodes = len(sizes)
    far = [[10 if a == b else random.choice([12, 21, 32]) for b in range(nodes)] for a in range(nodes)]  # type: ignore[attr-defined]
    memory = small_machine(sizes, list(range(nodes)), far)
    ends = np.cumsum(sizes) * BLOCK
    plain = numa_rule.Pages(
        [memory.free_on(node) for node in range(nodes)], numa_rule.fallback_orders(range(nodes), far)
    )
    for cpu, count, mask in asks:
        cpu, mask = cpu % nodes, (mask & ((1 << nodes) - 1)) or (1 << nodes) - 1
        frames = memory.alloc(cpu, 0, _core.MigrateType.movable, mask, count, _core.Mark.none)
        found = np.searchsorted(ends, frames, side="right").tolist()
        allowed = [node for node in range(nodes) if mask >> node & 1]
        expected = [node for _ in range(count) if (node := plain.take(cpu, allowed)) is not None]
        memory.drain()  # what lists of CPUs hold is free again
        assert sorted(found) == sorted(expected)


def test_a_layout_says_what_does_not_fit() -> None:
    wrong = (([], [0], []), ([BLOCK], [0], []), ([8 * BLOCK], [], []), ([8 * BLOCK], [0], [10, 20]))
    for sizes, cpus, far in wrong:
        with pytest.raises(ValueError, match=r"needs|at least 4 MiB"):
            _core.numa_layout(sizes, cpus, far)


def test_a_node_full_of_page_cache_spills_before_anything_is_reclaimed() -> None:
    """zone_reclaim_mode = 0: clean pages of files stay, and a program's pages go to the next node."""
    far = [[10, 21], [21, 10]]
    layout = _core.numa_layout([128 * BLOCK, 128 * BLOCK], [0, 1], [d for row in far for d in row])
    state = _core.NodeState(layout, 1)
    state.buffered_io(126 * BLOCK)  # by CPU 0, so from node 0 on
    cached = state.page_cache_frames
    before = [state.memory.free_on(node) for node in (0, 1)]
    placement = _core.place_by_kernel(state, 0)
    frames = placement.first_frames(1, 4 * BLOCK)
    on_node = np.bincount(frames >= 128 * BLOCK, minlength=2)
    assert before[0] < 9 * BLOCK  # the zone's low watermark
    assert on_node[1] > 0.9 * frames.size  # though node 0 has nothing but clean pages
    assert state.page_cache_frames == cached


def test_the_pages_of_a_file_lie_with_the_cores_that_read_it() -> None:
    sizes = {"numa.sizes": ["1 GiB", "1 GiB"], "ddr.size": "2 GiB"}
    machine = load_machine(TWO_SOCKETS).with_values(sizes)

    def free(history: str) -> list[int]:
        memory = Node(machine, 0, 0, history=parse_history(history)).aged.state.memory
        return [memory.free_on(node) for node in (0, 1)]

    before = free("boot; run")
    for reader in (0, 1):
        after = free(f"boot; io(256MiB, numa={reader}); run")
        taken = [(a - b) * FRAME_BYTES // MIB for a, b in zip(before, after, strict=True)]
        assert taken[1 - reader] == 0
        assert taken[reader] == pytest.approx(256, abs=4)


def test_interleaving_leaves_out_a_node_without_cores_and_weights_follow_bandwidths() -> None:
    """The machine has four nodes with cores and one of CXL memory."""
    machine = load_machine(CXL_NODE)
    nodes = machine.topology.nodes

    def counted(policy: str, pages: int) -> list[int]:
        of_all = find_policy(policy).numa.policies(machine)[1]
        return np.bincount(
            [of_all.request(0, 0, page, nodes)[0] for page in range(pages)], minlength=nodes
        ).tolist()

    assert counted("interleave", 100) == [25, 25, 25, 25, 0]
    rates = machine.topology.memory_bandwidth
    found = counted("weighted", 25 * 40)
    assert found[0] / found[4] == pytest.approx(rates[0] / rates[4], rel=0.1)


def test_the_distances_of_a_machine_file_decide_who_is_next() -> None:
    """By their numbers alone, a node's next one would be the node above."""
    machine = load_machine(CXL_NODE)
    memory = _core.Memory(layout(machine, "6.1"), 64)
    first_cpu, ends = np.cumsum(machine.topology.cores), np.cumsum(machine.topology.sizes) // FRAME_BYTES
    everywhere = (1 << 64) - 1
    largest = memory.free_on(1) // BLOCK
    frames = memory.alloc(
        int(first_cpu[0]), 9, _core.MigrateType.movable, everywhere, largest + 9, _core.Mark.low
    )
    found = np.searchsorted(ends, frames, side="right")
    assert list(dict.fromkeys(found.tolist())) == [1, 0]
