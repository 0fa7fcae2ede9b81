"""The allocator against a slow, obvious one, by Hypothesis: every list, in its order, after every step."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from slow_allocator import SlowZone, SlowZone44

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


def one_zone(high: int, batch: int, kernel: str) -> _core.Memory:
    zone = _core.ZoneSpec(kind=_core.ZoneKind.normal, numa=0, begin=0, end=FRAMES)
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
