"""Replays through the Python interface: true scale, determinism, cancelling, policies, errors."""

import threading
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from machine_roles import CACHE_BEHIND_L3, CACHE_MODE, FLAT_MODE

from pagelens import _core
from pagelens.accesses.declared import declared
from pagelens.accesses.workload import Workload
from pagelens.errors import UsageError
from pagelens.frames import Node, age_node, policies
from pagelens.machine import Machine, load_machine
from pagelens.replay.memory_side import (
    COUNTERS,
    SAMPLED_SLOTS,
    by_phase,
    mechanisms_of_caches,
    replay,
    sampled_slots,
)
from pagelens.replay.whole_node import Parts, node_model, replay_node

KNL = load_machine(CACHE_MODE)
RANKS = 40  # on a Xeon Max
SMALL = 10**8  # bytes: a job whose replay takes a moment


def run(
    workload: Workload, state: Node, policy: str, ranks: int, machine: Machine = KNL, ideal: bool = False
) -> _core.Counters:
    chosen = policies[policy]
    program = workload.compile(machine, chosen.page_bits)
    placement = chosen.place(machine, state)
    return replay(
        program, machine, placement, chosen.page_bits, ranks=ranks, seed=1, node=state.node, ideal=ideal
    )


@pytest.mark.long
@pytest.mark.parametrize("name", ["stream-triad", "cg"])
def test_ranks_agree_with_the_workload_declared_at_true_scale(name: str) -> None:
    size = 17_600_000_000
    whole = declared(name, size, KNL.cores.count.value)
    one_of_many = declared(name, size // 68, 1)
    ratios = []
    for node in range(3):
        state = age_node(KNL, 1, node)
        both = [run(whole, state, "aged", 1), run(one_of_many, state, "aged", 68)]
        loops = [{key: counts[-1] for key, counts in by_phase(counters).items()} for counters in both]
        ratios.append([loops[1][key] / loops[0][key] for key in ("msc_misses", "msc_reads", "ddr_writes")])
        shares = [counters.residency.conflict_share for counters in both]
        assert shares[1] == pytest.approx(shares[0], abs=0.01)
    assert np.median(ratios, axis=0) == pytest.approx(1.0, abs=0.03)


def test_results_do_not_depend_on_the_number_of_threads() -> None:
    workload = declared("stream-triad", SMALL, 1)
    jobs = [(age_node(KNL, 3, node), policy) for node in range(2) for policy in ("aged", "random", "2m")]

    def tables(job: tuple[Node, str]) -> tuple[list[int], list[int], float]:
        counters = run(workload, *job, ranks=68, ideal=True)
        return (
            counters.table.ravel().tolist(),
            counters.collisions.tolist(),
            counters.residency.conflict_share,
        )

    alone = [tables(job) for job in jobs]
    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(tables, jobs)) == alone


def test_objects_push_out_the_lines_of_the_objects_that_they_collide_with() -> None:
    counters = run(declared("stream-triad", SMALL, 1), age_node(KNL, 1, 0), "random", 68)
    objects, victims, lines = counters.collisions.T
    pushed = counters.table[:, :, COUNTERS.index("conflict_evictions")].sum(axis=0)
    assert np.bincount(objects, lines, counters.objects) == pytest.approx(pushed, abs=counters.objects)
    pairs = list(zip(objects.tolist(), victims.tolist(), strict=True))
    assert pairs == sorted(set(pairs))
    assert len(pairs) > counters.objects


def test_arrays_are_views_with_names() -> None:
    counters = run(declared("stream-triad", SMALL, 1), age_node(KNL, 1, 0), "aged", 68)
    assert counters.table.shape == (counters.phases, counters.objects, len(COUNTERS))
    assert counters.table.dtype == np.uint64
    assert counters.table.base is not None or not counters.table.flags.owndata
    assert counters.residency.map.sum() == counters.residency.pages
    counts = by_phase(counters)
    assert (counts["msc_hits"] + counts["msc_misses"] == counts["msc_reads"] + counts["msc_writes"]).all()
    assert set(COUNTERS) < set(counts)


def test_all_pages_are_cleared_once() -> None:
    counters = run(declared("stream-triad", SMALL, 1), age_node(KNL, 1, 0), "aged", 68)
    cleared = counters.table[:, 0, COUNTERS.index("msc_writes")].sum()
    assert cleared == counters.residency.pages * 64


def test_policies_order_as_they_must_on_a_node_that_jobs_have_spoilt() -> None:
    workload = declared("stream-triad", 15 * 10**9, 68)
    state = next(s for s in (age_node(KNL, 1, node) for node in range(20)) if s.jobs_since_boot > 5)
    names = ("random", "aged", "contiguous", "coloured", "1g", "2m", "aged+zonesort")
    share = {name: run(workload, state, name, 1).residency.conflict_share for name in names}
    fill = 15e9 / 16 / 2**30
    assert share["random"] == pytest.approx(1 - (1 - fill / 6) ** 5, abs=0.01)
    assert share["aged"] == pytest.approx(share["random"], abs=0.06)
    assert share["contiguous"] == share["coloured"] == share["1g"] == 0
    assert share["2m"] == pytest.approx(share["aged"], abs=0.06)
    assert share["aged+zonesort"] < 0.1


def test_large_pages_apply_the_l2_when_compiling() -> None:
    assert policies["2m"].page_bits == 21
    workload = declared("stream-triad", SMALL, 1)
    state = age_node(KNL, 1, 0)
    small, large = (by_phase(run(workload, state, name, 68)) for name in ("aged", "2m"))
    assert small["l2_accesses"][-1] > 0
    assert large["l2_accesses"].sum() == 0
    assert large["msc_reads"][-1] == pytest.approx(small["msc_reads"][-1], rel=0.05)
    flat = load_machine(FLAT_MODE)
    no_cache = by_phase(run(workload, state, "aged", 68, machine=flat))
    assert no_cache["msc_misses"].sum() == 0
    assert no_cache["msc_reads"][-1] == pytest.approx(small["msc_reads"][-1], rel=0.05)


@pytest.mark.parametrize(
    "policy", ["random", *(pytest.param(n, marks=pytest.mark.long) for n in ("contiguous", "2m"))]
)
def test_behind_an_l3_the_sampled_replay_asks_memory_for_what_the_whole_one_does(
    policy: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Copies that are twice an L2, and together somewhat less than all L2s and L3."""
    monkeypatch.setattr("pagelens.replay.memory_side._LINES_OF_LESS", 16)  # of few lines a sample
    machine = load_machine(CACHE_BEHIND_L3)
    assert mechanisms_of_caches(machine) == ("L2 conflicts", "L3 conflicts", "snoop filter")
    workload, state = declared("stream-triad", 4_200_000, 1), age_node(machine, 1, 0)
    placement = policies[policy].place(machine, state)
    parts = Parts(workload.lines_in_order(machine), [])
    whole = replay_node(parts, placement, node_model(machine, rows=()), ranks=RANKS).counts
    sampled = by_phase(run(workload, state, policy, RANKS, machine))
    for name, of_whole in (
        ("l3_hits", "l3_hits"), ("l2_misses", "l2_misses"), ("msc_reads", "dram_reads"),
        ("msc_writes", "dram_writes"),
    ):  # fmt: skip
        assert sampled[name].sum() == pytest.approx(whole[of_whole].sum(), rel=0.04), name
    assert whole["l3_hits"].sum() > 0.2 * whole["l2_misses"].sum()


def test_the_twins_of_an_l3_have_the_sampled_share_of_its_lines() -> None:
    """Fully associative they keep copies that fit L2s and L3 together, and nothing of larger ones."""
    machine = load_machine(CACHE_BEHIND_L3)
    state = age_node(machine, 1, 0)

    def loop(size: int, without: tuple[str, ...]) -> dict[str, int]:
        workload = declared("stream-triad", size, 1)
        placement = policies["random"].place(machine, state)
        counters = replay(
            workload.compile(machine, 12),
            machine,
            placement,
            12,
            ranks=RANKS,
            seed=1,
            node=0,
            without=without,
        )
        return {name: int(counts[-1]) for name, counts in by_phase(counters).items()}

    ideal = loop(4_200_000, mechanisms_of_caches(machine))
    assert ideal["msc_reads"] < 0.02 * ideal["l2_accesses"]
    assert loop(4_200_000, ())["msc_reads"] > 2 * ideal["msc_reads"]
    assert ideal["sf_evictions"] == 0
    larger = loop(12_600_000, mechanisms_of_caches(machine))
    assert larger["l3_hits"] < 0.02 * larger["l2_misses"]


def test_the_ideal_twin_has_no_conflicts_and_is_the_same_for_every_policy() -> None:
    workload = declared("stream-triad", 8 * 10**9, 68)
    state = age_node(KNL, 1, 0)
    twins = [by_phase(run(workload, state, policy, 1, ideal=True)) for policy in ("random", "contiguous")]
    for counts in twins:
        assert counts["ideal_misses"][-1] == 0  # the footprint fits
    assert twins[0]["msc_misses"][-1] > 0


def test_a_job_larger_than_the_node_is_refused_with_the_remedy() -> None:
    workload = declared("stream-triad", 4 * 10**9, 1)
    with pytest.raises(UsageError, match=rf"ranks: 68 on {CACHE_MODE}: .*fewer ranks"):
        run(workload, age_node(KNL, 1, 0), "aged", 68)


def test_a_replay_can_be_cancelled_from_another_thread() -> None:
    workload = declared("stream-triad", 60 * 10**9, 68)
    program = workload.compile(KNL, 12)
    placement = policies["contiguous"].place(KNL, age_node(KNL, 1, 1))
    cancel = _core.CancelFlag()
    outcome: list[type[BaseException] | None] = []

    def work() -> None:
        try:
            replay(program, KNL, placement, 12, ranks=1, seed=1, node=1, cancel=cancel)
            outcome.append(None)
        except _core.Cancelled as error:
            outcome.append(type(error))

    thread = threading.Thread(target=work)
    thread.start()
    time.sleep(0.01)
    cancel.set()
    thread.join()
    assert outcome == [_core.Cancelled]


@pytest.mark.parametrize("policy", ["random", "2m"])
def test_a_smaller_sample_of_each_page_counts_the_same(policy: str) -> None:
    """Programs that were traced get the smaller one. This job fills a quarter of the memory-side cache."""
    workload, state, chosen = declared("cg", 4 * 10**9 // 68, 1), age_node(KNL, 1, 2), policies[policy]
    program = workload.compile(KNL, chosen.page_bits)
    found = []
    for more in (True, False):
        counters = replay(
            program, KNL, chosen.place(KNL, state), chosen.page_bits,
            ranks=68, seed=1, node=2, more=more,
        )  # fmt: skip
        found.append({name: float(of.sum()) for name, of in by_phase(counters).items()})
    for name in ("l2_misses", "msc_reads", "msc_writes", "msc_misses", "ddr_writes"):
        assert found[1][name] == pytest.approx(found[0][name], rel=0.02), name


def test_of_small_jobs_and_small_caches_more_slots_are_simulated() -> None:
    assert sampled_slots(KNL, KNL.frames) == SAMPLED_SLOTS
    assert sampled_slots(KNL, 1024 * 10) == 8
    assert sampled_slots(KNL, 35) == 1
    workload = declared("cg", 5 * 2**20, 1)  # nine arrays, most of them of few pages
    program = workload.compile(KNL, 12)
    state = age_node(KNL, 1, 0)
    counters = replay(
        program, KNL, policies["random"].place(KNL, state), 12, ranks=1, seed=1, node=0, sampled=1
    )
    seen = counters.table[:, :, COUNTERS.index("l2_accesses")].sum(axis=0)
    assert (seen[1:] > 0).all()
