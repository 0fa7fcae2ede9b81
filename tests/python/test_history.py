"""What a node's history does to its free lists: the table of shares of conflicting pages, and its parts.

The expected shares are those of an experiment with a bare buddy allocator: 96 GiB, a 16 GiB direct-mapped
cache, jobs of 4-80 GB by 68 processes, freed process by process. They hold within three points; independent
random frames give 1 - (1 - f/6)^5.
"""

from functools import cache
from types import SimpleNamespace

import numpy as np
import pytest
from machine_roles import CACHE_MODE
from numpy.typing import NDArray

from pagelens import _core
from pagelens.ensemble.scale import shrink
from pagelens.frames import Node, age_node, parse_history, policies
from pagelens.machine import load_machine

KNL = load_machine(CACHE_MODE)
GIB = 2**30
JOBS = (8 * GIB, 15.5 * GIB, 17.6e9)  # bytes of the job that is placed
RANDOM_LIMIT = (0.34, 0.58, 0.60)
FRESH = (0.0, 0.0, 0.048)
PROCESSES = 68


def conflict_share(frames: NDArray[np.uint32], slots: int = KNL.slots) -> float:
    population = np.bincount(frames % slots, minlength=slots)
    return float(population[population > 1].sum() / len(frames))


def first_frames(placement: _core.Placement, size_bytes: float) -> NDArray[np.uint32]:
    frames: NDArray[np.uint32] = placement.first_frames(PROCESSES, int(size_bytes) // 4096 // PROCESSES + 1)
    return frames


@cache
def begun(history: str, grain: int | None) -> Node:
    return Node(KNL, 1, 0, grain, parse_history(history))


def after(history: str, grain: int | None = None) -> _core.NodeState:
    """The state after a history; how it begins is run once for all tests."""
    first, _, rest = history.partition("; ")
    return begun(first, grain).after(parse_history(rest)[1:] if rest else ()).state


def shares(state: _core.NodeState, parts: int = 1) -> list[float]:
    """Returns the shares of jobs of the three sizes, as the kernel places them; of a part of a node."""
    frames = first_frames(_core.place_by_kernel(state, 0), max(JOBS) / parts)
    return [conflict_share(frames[: int(size / parts) // 4096], KNL.slots // parts) for size in JOBS]


@pytest.mark.parametrize(
    ("history", "expected"),
    [
        ("boot", FRESH),
        ("job(72GB)", (0.34, 0.575, 0.595)),
        ("age(jobs=30)", (0.34, 0.58, 0.60)),
        ("age(jobs=30); drop_caches(left=0); compact; drain; zonesort(address)", FRESH),
        ("age(jobs=30); drop_caches(left=0.02%); zonesort(address)", (0.33, 0.57, 0.59)),
        ("age(jobs=30); drop_caches(left=0.2%); zonesort(address)", (0.33, 0.57, 0.59)),
    ],
)
def test_the_table_of_conflict_shares(history: str, expected: tuple[float, ...]) -> None:
    assert shares(after(history)) == pytest.approx(expected, abs=0.03)


def test_huge_pages_in_the_history_do_not_help() -> None:
    mix = _core.JobMix(
        smallest_job_frames=1e6, largest_job_frames=2e7, processes=68, longest_turn=16,
        cache_interval=544, cache_share=0.02, huge_share=0.75, kept_free_share=0.02,
    )  # fmt: skip
    state = _core.NodeState(after("boot"))
    state.age(30, mix, _core.Random(1, 0, 0, _core.Stream.history))
    assert shares(state) == pytest.approx(RANDOM_LIMIT, abs=0.03)


def test_few_held_pages_defeat_an_order_by_address_but_not_one_that_moves_them() -> None:
    held = after("boot; hold(0.02%)")
    places = KNL.frames - held.memory.free_frames - held.memory.cached_frames
    assert places == pytest.approx(0.0002 * KNL.frames, abs=1)
    assert shares(after("boot; hold(0.02%); zonesort(address)")) == pytest.approx(RANDOM_LIMIT, abs=0.03)
    assert shares(after("boot; hold(0.02%); zonesort")) == pytest.approx(FRESH, abs=0.03)
    assert shares(after("boot; hold(0.02%, pinned=on); zonesort"))[0] > 0.1  # nothing moves what is pinned


def test_small_jobs_leave_a_node_nearly_fresh() -> None:
    assert shares(after("; ".join(["job(8GiB)"] * 10)))[0] < 0.10


def test_our_sort_mends_what_sorting_by_address_does_not() -> None:
    """Pages that can be moved are; of those that cannot, it makes the best.

    These are eighths of nodes, which differ more than whole ones, hence the mean over four.
    """
    parts = 8
    eighth, aged = shrink(KNL, 1 / parts), parse_history("age(jobs=30)")
    nodes = [Node(eighth, seed, 0, history=aged, scale=1 / parts) for seed in range(1, 5)]

    def left(node: Node, pinned: str, sort: str) -> _core.NodeState:
        return node.after(parse_history(f"drop_caches(left=0.02%, pinned={pinned}); {sort}")[1:]).state

    movable = shares(left(nodes[0], "0%", "zonesort"), parts)
    assert movable[:2] == [0, 0]
    assert movable[2] < FRESH[2]
    ours, intel = (
        [left(node, "100%", f"compact; {sort}") for node in nodes] for sort in ("zonesort", "zonesort(intel)")
    )
    shared = [np.mean([shares(state, parts) for state in states], axis=0) for states in (ours, intel)]
    assert (shared[0][:2] < shared[1][:2] - 0.02).all()
    # A job larger than the cache has to share slots; it leaves as few as can be unused.
    used = [
        sum(
            np.unique(first_frames(_core.place_by_kernel(state, 0), JOBS[2] / parts) % eighth.slots).size
            for state in states
        )
        for states in (ours, intel)
    ]
    assert used[0] >= used[1]


def test_buffered_io_defeats_the_sort_and_direct_io_does_not() -> None:
    history = "job(72GB); drop_caches(left=0); io(20GB, {how}); drop_caches(left=0.02%); {sort}"
    by_address = "compact; drain; zonesort(address)"
    # What compaction could move away is pinned here: files that are being read while the job starts.
    pinned = history.replace("left=0.02%", "left=0.02%, pinned=100%")
    assert shares(after(pinned.format(how="direct", sort=by_address)))[1] < 0.02
    assert shares(after(pinned.format(how="buffered", sort=by_address)))[1] > 0.25


def test_random_frames_conflict_as_the_formula_says() -> None:
    node = age_node(KNL, 1, 1)
    for name in ("random", "deterministic"):
        frames = first_frames(policies[name].place(KNL, node), max(JOBS))
        for size in JOBS[:2]:
            fill = size / (16 * GIB)
            expected = 1 - (1 - fill / 6) ** 5
            assert conflict_share(frames[: int(size) // 4096]) == pytest.approx(expected, abs=0.01)


def test_a_deterministic_map_is_the_same_on_every_node() -> None:
    maps = [
        first_frames(policies["deterministic"].place(KNL, age_node(KNL, seed, seed)), 1e7) for seed in (1, 2)
    ]
    assert np.array_equal(*maps)


def test_shuffled_blocks_conflict_as_random_ones() -> None:
    assert shares(after("boot(shuffle=on)")) == pytest.approx((0.35, 0.59, 0.61), abs=0.03)
    state = _core.NodeState(after("boot(shuffle=on)"))
    largest = state.memory.free_blocks()
    assert (largest[:, 1] == 10).all()
    assert len(np.unique(largest[:, 0])) == KNL.frames // 1024


def test_a_numa_node_as_large_as_the_cache_has_no_conflicts() -> None:
    placement = policies["numa-fake"].place(KNL, age_node(KNL, 1, 3))
    assert conflict_share(first_frames(placement, 13e9)) == 0
    assert conflict_share(first_frames(placement, 30e9)) > 0.5


@pytest.mark.parametrize(("name", "order"), [("coloured", 0), ("johnny-static", 9)])
def test_choosing_the_least_populated_slots_leaves_no_conflict_below_the_caches_size(
    name: str, order: int
) -> None:
    # Small pages are asked for: without smaller blocks they are parts of large ones.
    history = "age(jobs=2)" if order == 0 else "job(72GB); drop_caches(left=0); drain"
    node = Node(KNL, 1, 0, history=parse_history(history))
    placement = policies[name].place(KNL, node)
    assert placement.page_order == order
    assert conflict_share(first_frames(placement, 15.9 * GIB)) < 0.001


def test_memory_that_went_offline_comes_back_behind_the_rest() -> None:
    """Route (b): the fragmented lists are used last."""
    node = Node(KNL, 1, 0, history=parse_history("job(72GB); compact; offline(40GB); online"))
    state = node.aged.state
    blocks = state.memory.free_blocks()
    largest = blocks[(blocks[:, 1] == 10) & (blocks[:, 0] >= 1 << 20)][:, 0]
    tail = largest[-9000:]
    assert (np.diff(tail.astype(np.int64)) > 0).all()
    assert not node.aged.offline


def test_a_memory_block_in_two_numa_nodes_stays_online() -> None:
    """It was a traceback. Linux refuses a block that is not in one zone."""
    node = Node(KNL, 1, 0, history=parse_history("boot(numas=5); offline(90GB)")).aged
    border = KNL.frames // 5 // 1024 * 1024 * 4
    assert node.offline
    assert not any(begin < border < end for begin, end in node.offline)


def test_the_hugetlb_pool_hands_out_the_page_that_it_got_last() -> None:
    state = _core.NodeState(after("job(8GB); hugetlb(4GiB)"))
    placement = _core.place_by_kernel(state, 9)
    assert placement.page_order == 9
    assert state.memory.free_frames < KNL.frames - (4 << 18)


def test_what_a_node_lacks_for_the_hugetlb_pool_comes_from_the_others() -> None:
    room, got = [2, 100, 100], [0, 0, 0]

    def fill(numa: int, pages: int) -> int:
        given = min(pages, room[numa] - got[numa])
        got[numa] += given
        return given

    state = SimpleNamespace(memory=SimpleNamespace(numas=3), fill_huge_pool=fill)
    node = SimpleNamespace(machine=SimpleNamespace(page_order=0), scale=1.0, state=state)
    step = parse_history("boot; hugetlb(40MiB)")[-1]
    step.run(node, _core.Random(1, 0, 0, _core.Stream.history))  # type: ignore[arg-type]
    assert got == [2, 9, 9]


def test_the_hugetlb_pool_compacts_only_when_it_finds_no_page() -> None:
    def large_pages(state: _core.NodeState) -> int:
        order = state.memory.free_blocks()[:, 1]
        return int((order == 9).sum() + 2 * (order == 10).sum())

    aged = after("job(72GB); hold(0.1%)")
    there = large_pages(aged)
    few, many = _core.NodeState(aged), _core.NodeState(aged)
    assert few.fill_huge_pool(0, 4) == 4
    assert large_pages(few) <= there
    assert many.fill_huge_pool(0, there + 64) == there + 64


@pytest.mark.long
def test_the_table_at_grain_1() -> None:
    assert shares(after("job(72GB)", grain=1)) == pytest.approx(RANDOM_LIMIT, abs=0.02)
    assert shares(after("age(jobs=30)", grain=1)) == pytest.approx(RANDOM_LIMIT, abs=0.02)
    restored = "age(jobs=30); drop_caches(left=0); compact; drain; zonesort(address)"
    assert shares(after(restored, grain=1)) == pytest.approx(FRESH, abs=0.01)


def test_nodes_of_a_fleet_are_bimodal_and_determined_by_their_key() -> None:
    nodes = [age_node(KNL, 7, node) for node in range(16)]
    found = np.array(
        [conflict_share(first_frames(_core.place_by_kernel(n.aged.state, 0), JOBS[1])) for n in nodes]
    )
    assert ((found < 0.1) | (found > 0.5)).mean() > 0.6
    assert (found < 0.1).sum() >= 3
    assert (found > 0.5).sum() >= 3
    again = age_node(KNL, 7, 5)
    assert again.jobs_since_boot == nodes[5].jobs_since_boot
    assert np.array_equal(again.aged.state.memory.free_blocks(), nodes[5].aged.state.memory.free_blocks())


def test_policies_branch_from_one_history() -> None:
    node = age_node(KNL, 7, 4)
    before = node.aged.state.memory.free_blocks()
    for policy in policies.values():
        policy.place(KNL, node)
    assert np.array_equal(node.aged.state.memory.free_blocks(), before)


def test_every_policy_states_what_it_costs() -> None:
    assert set(policies) >= {
        "aged", "aged+zonesort", "aged+intel-zonesort", "random", "deterministic", "contiguous", "shuffled",
        "numa-fake", "adaptive", "2m", "1g", "coloured", "johnny-static",
    }  # fmt: skip
    for policy in policies.values():
        assert policy.title
        paid = any((policy.costs.root, policy.costs.memory, policy.costs.code))
        assert paid or policy.remedy is None
