"""NUMA nodes of the allocator's model: the order of nodes, policies, spill, held to a slow reference."""

import numa_rule
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pagelens import _core
from pagelens.address.units import FRAME_BYTES

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
