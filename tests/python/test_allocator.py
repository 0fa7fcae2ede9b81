"""The allocator against a slow, obvious one, by Hypothesis: every list, in its order, after every step."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from slow_allocator import BLOCK, SlowZone, SlowZone44

from pagelens import _core

FRAMES = 4096
TYPES = (_core.MigrateType.unmovable, _core.MigrateType.movable, _core.MigrateType.reclaimable)
ANYWHERE = 2**64 - 1

STEPS = st.lists(
    st.one_of(
        st.tuples(
            st.just("alloc"),
            st.integers(0, 1),
            st.sampled_from((0, 0, 0, 1, 3, 4, 7, 9, 10)),
            st.sampled_from((0, 1, 1, 1, 2)),
            st.integers(1, 400),
        ),
        st.tuples(
            st.just("free"), st.integers(0, 1), st.integers(0, 10**6), st.booleans(), st.integers(1, 400)
        ),
        st.tuples(st.just("drain"), st.integers(0, 1), st.just(0), st.just(0), st.just(0)),
    ),
    max_size=40,
)


SLOW = {"6.1": SlowZone, "4.4": SlowZone44}
both_kernels = pytest.mark.parametrize("kernel", SLOW)


def one_zone(high: int, batch: int, kernel: str, marks: tuple[int, int] = (0, 0)) -> _core.Memory:
    zone = _core.ZoneSpec(kind=_core.ZoneKind.normal, numa=0, begin=0, end=FRAMES)
    zone.min, zone.low = marks
    zone.pcp_high, zone.pcp_batch = high, batch
    return _core.Memory(_core.Layout(FRAMES, [zone], [0, 0], kernel), 1)


@both_kernels
@settings(max_examples=60, deadline=None)
@given(STEPS, st.sampled_from(((0, 0), (12, 3), (70, 15), (252, 63))))
def test_the_allocator_equals_the_slow_one(
    kernel: str, steps: list[tuple[str, int, int, int, int]], lists: tuple[int, int]
) -> None:
    fast, slow = one_zone(*lists, kernel), SLOW[kernel](FRAMES, *lists)
    held: dict[int, list[int]] = {}
    for step, cpu, first, second, count in steps:
        if step == "alloc":
            got = fast.alloc(cpu, first, TYPES[second], ANYWHERE, count, _core.Mark.none).tolist()
            expected = [slow.alloc(cpu, first, second) for _ in range(count)]
            assert got == [frame for frame in expected if frame is not None]
            held.setdefault(first, []).extend(got)
        elif step == "free" and held:
            order = sorted(held)[first % len(held)]
            pages = held[order]
            if second:  # in any order, or in that of allocation
                np.random.default_rng(first).shuffle(pages)
            freed, held[order] = pages[:count], pages[count:]
            fast.free(cpu, np.array(freed, dtype=np.uint32), order)
            for frame in freed:
                slow.free(cpu, frame, order)
        elif step == "drain":
            fast.drain()
            slow.drain(0)
            slow.drain(1)
        assert [tuple(row) for row in fast.free_blocks().tolist()] == slow.blocks()
        assert fast.cached_frames == slow.count[0] + slow.count[1]


@both_kernels
@settings(max_examples=40, deadline=None)
@given(st.integers(0, 2**32), st.sampled_from(((0, 0), (12, 3), (252, 63))))
def test_a_job_leaves_the_lists_that_its_pages_would_one_by_one(
    kernel: str, seed: int, lists: tuple[int, int]
) -> None:
    """Runs of pages are handled whole: a job's turns, then the frees of its processes, last page first."""
    fast, slow = one_zone(*lists, kernel), SLOW[kernel](FRAMES, *lists)
    node = _core.NodeState.of(fast)
    mix = _core.JobMix(
        smallest_job_frames=500, largest_job_frames=3500, processes=5, longest_turn=16,
        cache_interval=1e9, cache_share=0, huge_share=0, kept_free_share=0,
    )  # fmt: skip
    random, same = (_core.Random(seed, 0, 0, _core.Stream.history) for _ in range(2))
    for _ in range(3):
        node.age(1, mix, random)
        slow_job(slow, same)
        assert [tuple(row) for row in node.memory.free_blocks().tolist()] == slow.blocks()


@both_kernels
@settings(max_examples=60, deadline=None)
@given(
    st.integers(0, 2**32),
    st.sampled_from((0.002, 0.02, 0.2, 0.7)),
    st.sampled_from(((0, 0), (12, 3), (252, 63))),
)
def test_compaction_equals_the_slow_one(kernel: str, seed: int, kept: float, lists: tuple[int, int]) -> None:
    """After single pages were freed, all but some of them, in order or at random."""
    fast, slow = one_zone(*lists, kernel), SLOW[kernel](FRAMES, *lists)
    random = np.random.default_rng(seed)
    pages = fast.alloc(0, 0, TYPES[1], ANYWHERE, random.integers(FRAMES // 2, FRAMES), _core.Mark.none)
    assert pages.tolist() == [slow.alloc(0, 0, 1) for _ in pages]
    freed = pages[random.random(pages.size) > kept]
    if random.random() < 0.5:
        random.shuffle(freed)
    fast.free(1, freed, 0)
    for frame in freed.tolist():
        slow.free(1, frame, 0)
    for cpu in (0, 1):
        assert [tuple(move) for move in fast.compact(cpu).tolist()] == slow.compact(cpu)
        assert [tuple(row) for row in fast.free_blocks().tolist()] == slow.blocks()
        assert fast.cached_frames == slow.count[0] + slow.count[1]


@both_kernels
@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 2), st.sampled_from((0.3, 0.5, 0.8))), min_size=1, max_size=4),
    st.integers(0, 2),
    st.integers(0, 2**32),
)
def test_a_type_that_has_run_dry_takes_what_the_slow_one_takes(
    kernel: str, held: list[tuple[int, float]], type_: int, seed: int
) -> None:
    """Types fill memory in turn, some pages of each go at random, and then one takes all that is left."""
    fast, slow = one_zone(0, 0, kernel), SLOW[kernel](FRAMES, 0, 0)
    random = np.random.default_rng(seed)
    for kind, freed in held:
        pages = fast.alloc(0, 0, TYPES[kind], ANYWHERE, FRAMES, _core.Mark.none)
        assert pages.tolist() == [slow.alloc(0, 0, kind) for _ in pages]
        gone = pages[random.random(pages.size) < freed]
        fast.free(0, gone, 0)
        for frame in gone.tolist():
            slow.free(0, frame, 0)
    for _ in range(8):
        got = fast.alloc(0, 0, TYPES[type_], ANYWHERE, FRAMES // 8, _core.Mark.none)
        assert got.tolist() == [slow.alloc(0, 0, type_) for _ in got]
        assert [tuple(row) for row in fast.free_blocks().tolist()] == slow.blocks()


def slow_job(zone: SlowZone, random: _core.Random) -> None:
    wanted, got = int(random.log_uniform(500, 3500)), 0
    processes: list[tuple[int, list[int], list[int], int]] = []
    for cpu in (0, 1, 0, 1, 0):
        slab = zone.alloc(cpu, 3, 0)
        assert slab is not None
        processes.append((cpu, [], [], slab))
    while got < wanted:
        cpu, pages, tables, _ = processes[random.small(5)]
        for _ in range(min(1 + random.small(16), wanted - got)):
            frame = zone.alloc(cpu, 0, 1)
            assert frame is not None
            pages.append(frame)
            got += 1
        if len(tables) * 512 < len(pages):
            table = zone.alloc(cpu, 0, 0)
            assert table is not None
            tables.append(table)
        random.small(2)
    for left in range(5, 1, -1):
        other = random.below(left)
        processes[left - 1], processes[other] = processes[other], processes[left - 1]
    for cpu, pages, tables, slab in processes:
        for begin in range(0, len(pages), 510):
            for frame in reversed(pages[begin : begin + 510]):
                zone.free(cpu, frame, 0)
        for table in tables:
            zone.free(cpu, table, 0)
        zone.free(cpu, slab, 3)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.sampled_from((0, 0, 2, 5)), st.integers(1, 700)), max_size=30))
def test_zones_of_linux_4_4_serve_in_turns(requests: list[tuple[int, int]]) -> None:
    """A zone gives as many pages as lie between its low and high watermarks, then the next one does."""
    ends, turns = (2048, 6144, 16384), (3, 40, 100)  # of DMA, DMA32 and Normal; frames
    kinds = (_core.ZoneKind.dma, _core.ZoneKind.dma32, _core.ZoneKind.normal)
    zones: list[_core.ZoneSpec] = []
    for kind, begin, end, turn in zip(kinds, (0, *ends), ends, turns, strict=False):
        zones.append(_core.ZoneSpec(kind=kind, numa=0, begin=begin, end=end))
        zones[-1].low, zones[-1].high = 20, 20 + turn
    zones[0].protection = 5000
    fast = _core.Memory(_core.Layout(ends[-1], zones, [0], "4.4"), 1)
    left, free, over = list(turns), [2048, 4096, 10240], [False] * 3
    for order, count in requests:
        size = 1 << order

        def has(zone: int, size: int = size) -> bool:
            return free[zone] - size + 1 > (5020, 20, 20)[zone]

        expected = []
        for _ in range(count):
            fair = [zone for zone in (2, 1, 0) if not over[zone] and has(zone)]
            if not fair and any(over):
                left, over = list(turns), [False] * 3
            serving = fair or [zone for zone in (2, 1, 0) if has(zone)]
            if not serving:
                break
            expected.append(serving[0])
            free[serving[0]] -= size
            left[serving[0]] -= size
            over[serving[0]] = over[serving[0]] or left[serving[0]] <= 0
        got = fast.alloc(0, order, TYPES[1], ANYWHERE, count, _core.Mark.low)
        assert np.searchsorted(ends, got, side="right").tolist() == expected


def test_linux_4_4_has_smaller_lists_and_nearer_watermarks() -> None:
    """The values follow zone_batchsize(), pageset_set_batch() and __setup_per_zone_wmarks() of 4.4.155."""
    old, new = (_core.linux_layout(96 << 18, 1, 68, kernel=kernel).zones[-1] for kernel in ("4.4", "6.1"))
    assert (old.pcp_batch, old.pcp_high, new.pcp_batch) == (31, 6 * 31, 63)
    assert old.min == new.min
    assert (old.low - old.min, old.high - old.low) == (old.min // 4, old.min // 4)
    assert (new.low - new.min, new.high - new.low) == ((new.end - new.begin) // 1000,) * 2


def test_linux_keeps_less_of_much_memory_free_in_4_4() -> None:
    """init_per_zone_wmark_min() bounds its square root at 65,536 kB in 4.4.155, and at 262,144 kB in 6.1.

    For three zones, set_recommended_min_free_kbytes() asks for a little more than the first of these.
    """
    least = {
        kernel: sum(zone.min for zone in _core.linux_layout(6 << 28, 1, 68, kernel=kernel).zones)
        for kernel in ("4.4", "6.1")
    }
    assert least == pytest.approx({"4.4": BLOCK * 3 * (2 + 3 * 3), "6.1": 262144 // 4}, abs=3)


@pytest.mark.parametrize(("kernel", "reclaimed"), [("6.1", [False, True]), ("4.4", [True, True])])
def test_reclaim_ends_when_a_zone_has_enough_or_in_4_4_when_each_has(
    kernel: str, reclaimed: list[bool]
) -> None:
    """pgdat_balanced() asks for one zone above its high watermark in 6.1, and for all of them in 4.4."""
    zones = [
        _core.ZoneSpec(kind=kind, numa=0, begin=begin, end=begin + FRAMES)
        for kind, begin in ((_core.ZoneKind.dma32, 0), (_core.ZoneKind.normal, FRAMES))
    ]
    for zone, high in zip(zones, (400, 1000), strict=True):
        zone.min, zone.low, zone.high = 20, 40, high
    state = _core.NodeState.of(_core.Memory(_core.Layout(2 * FRAMES, zones, [0], kernel), 1))
    state.buffered_io(960)  # one turn of the second zone in 4.4, so that the first has few old pages
    state.memory.alloc(0, 0, TYPES[1], ANYWHERE, 300, _core.Mark.low)
    cached = -1
    while state.page_cache_frames > cached:
        cached = state.page_cache_frames
        state.buffered_io(1)
    blocks = state.memory.free_blocks()
    free = [(1 << blocks[blocks[:, 0] // FRAMES == zone, 1]).sum() for zone in (0, 1)]
    assert [bool(frames > zone.high - 10) for frames, zone in zip(free, zones, strict=True)] == reclaimed


@pytest.mark.parametrize("kernel", ["6.1", "4.4"])
def test_a_node_short_of_memory_reclaims_its_own_pages(kernel: str) -> None:
    """Reclaim works inside a node (kswapd and direct reclaim have lists of pages for each)."""
    state = _core.NodeState(_core.linux_layout(1 << 20, 2, 4, kernel=kernel), 1)
    state.buffered_io(1 << 20, 0)  # the oldest pages lie on node 0
    free, cached = [state.memory.free_on(numa) for numa in (0, 1)], state.page_cache_frames
    assert state.fill_huge_pool(1, 64) == 64
    assert state.memory.free_on(0) == pytest.approx(free[0], abs=512)
    assert state.page_cache_frames < cached - 40 * BLOCK


@pytest.mark.parametrize(("kernel", "kept"), [("6.1", 100), ("4.4", 300)])
def test_compaction_takes_free_pages_down_to_a_watermark(kernel: str, kept: int) -> None:
    """__isolate_free_page() keeps the lowest watermark in 6.1, split_free_page() the low one in 4.4."""
    memory = one_zone(0, 0, kernel, marks=(100, 300))
    pages = memory.alloc(0, 0, TYPES[1], ANYWHERE, FRAMES, _core.Mark.none)
    top = pages >= FRAMES - BLOCK
    memory.free(0, pages[top][:250], 0)
    assert (memory.compact(0).size > 0) == (kept < 250)
