"""Profiles from a sample of the lines: exact for the sets in it, close to the whole for all others."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from machine_roles import FLAT_BEHIND_L3, FLAT_MODE, SLOW_SOCKET
from traced_program import traced_c

from pagelens import _core
from pagelens.accesses.declared import declared
from pagelens.accesses.trace import open_trace
from pagelens.accesses.workload import ALL_SETS, Cut
from pagelens.machine import Machine, load_machine
from pagelens.place import memory_traffic as traffic
from pagelens.place.analysis import evaluate_policies
from pagelens.place.cache_mode import cache_modes
from pagelens.place.policies import OURS
from pagelens.place.profile import INTERVALS, profile, profiled_cut, timeline
from pagelens.place.time_model import TimeModel
from pagelens.replay.whole_node import NodeCounts, Parts, node_model, replay_node

SOME = sum(1 << place for place in traffic.SETS)
MACHINES = (FLAT_MODE, SLOW_SOCKET, FLAT_BEHIND_L3)
# The tests that replay every line take the longest: make test has one machine of them.
ONE_QUICKLY = [name if name == FLAT_MODE else pytest.param(name, marks=pytest.mark.long) for name in MACHINES]

# Three arrays: swept, gathered at random and updated; and small blocks that come and go.
PROGRAM = """
#include <stdlib.h>
enum { n = 1 << 18 }; /* 2 MiB */
__attribute__((noinline)) static double* swept(void) { return malloc(4 * n * sizeof(double)); }
__attribute__((noinline)) static double* gathered(void) { return malloc(n * sizeof(double)); }
__attribute__((noinline)) static double* updated(void) { return malloc(2 * n * sizeof(double)); }
__attribute__((noinline)) static double* small(int i) { return malloc(64 + i % 7 * 100); }
int main(void) {
    double *a = swept(), *b = gathered(), *c = updated(), sum = 0;
    unsigned at = 1;
    for (int i = 0; i < 4 * n; ++i) a[i] = i;
    for (int i = 0; i < n; ++i) b[i] = i;
    for (int i = 0; i < 2 * n; ++i) c[i] = 0;
    for (int round = 0; round < 4; ++round) {
        for (int i = 0; i < 4 * n; i += 8) {
            at = at * 1664525 + 1013904223;
            sum += a[i] * b[at % n];
        }
        for (int i = 0; i < 2 * n; i += 8) c[i] += sum;
        for (int i = 0; i < 200; ++i) { double* s = small(i); s[0] = sum; s[7] += s[0]; free(s); }
    }
    return sum + c[7] < 0;
}
"""


@pytest.fixture(scope="module")
def traced(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return traced_c(tmp_path_factory.mktemp("sampling"), PROGRAM)


def through(program: _core.Program, machine: Machine, sets: int) -> NodeCounts:
    """Two ranks, everything, without TLBs."""
    machine = machine.model_copy(update={"tlb": [], "page_walk": None})
    return replay_node(
        Parts(program, [(0, 0, 0, 0, 0)] * program.phases),
        _core.place_contiguously(machine.frames),
        node_model(machine, rows=()),
        ranks=2,
        sets=sets,
    )


@pytest.mark.parametrize("name", MACHINES)
def test_parts_of_the_sets_add_up_to_all(name: str) -> None:
    machine = load_machine(name)
    program = declared("stream-triad", 12 << 20, 1).compile(machine, 12)
    whole = through(program, machine, ALL_SETS)
    parts = [through(program, machine, sets) for sets in (SOME, 1 << 63, ALL_SETS & ~SOME & ~(1 << 63))]
    assert whole.object_writes[:, 0].sum() > 0  # cleared pages are among them
    for counter, values in whole.counts.items():
        np.testing.assert_array_equal(sum(part.counts[counter] for part in parts), values)
    np.testing.assert_array_equal(sum(part.object_reads for part in parts), whole.object_reads)
    np.testing.assert_array_equal(sum(part.object_writes for part in parts), whole.object_writes)


@pytest.mark.parametrize("name", MACHINES)
def test_a_program_of_some_sets_is_the_whole_one_in_them(traced: Path, name: str) -> None:
    machine = load_machine(name)
    workload = open_trace(traced)
    whole, part = (workload.timeline(Cut(machine, 20, sets)) for sets in (ALL_SETS, SOME))
    assert part.sample is not None
    assert whole.interval_phases == part.interval_phases
    np.testing.assert_array_equal(whole.program.instructions, part.program.instructions)
    of_whole, of_part = through(whole.program, machine, SOME), through(part.program, machine, SOME)
    np.testing.assert_array_equal(of_part.object_reads, of_whole.object_reads)
    np.testing.assert_array_equal(of_part.object_writes, of_whole.object_writes)
    assert of_part.object_reads.sum() > 10_000


def test_what_the_sample_counts_of_all_lines_is_what_the_survey_does(traced: Path) -> None:
    workload = open_trace(traced)
    sample = workload.timeline(Cut(load_machine(FLAT_MODE), 20, SOME)).sample
    assert sample is not None
    fetched = [known.lines for known in workload.objects]  # streaming stores, of which it has none, apart
    assert sample.seen.sum(axis=0).tolist() == fetched
    assert sample.kept.sum() == pytest.approx(sample.seen.sum() * 8 / 64, rel=0.02)
    assert 0.05 < sample.touched.sum() / sample.seen.sum() < 0.2  # an eighth of every interval
    assert (sample.touched > 0).mean() > 0.9


@pytest.mark.parametrize("name", ONE_QUICKLY)
def test_a_sampled_profile_is_close_to_that_of_every_line_of_every_rank(
    traced: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """Shares of objects within 1.5 points of a hundred, times within 1.5%, walks a fifth.

    (Of a Xeon Max's L3 as much as all ranks have is where hits and misses turn over: more ranks there.)
    """
    machine, ranks = load_machine(name), 16 if name == FLAT_BEHIND_L3 else 8
    monkeypatch.setattr(traffic, "FEWEST_SAMPLED", 1 << 30)
    monkeypatch.setattr(traffic, "STRETCHES_OF_WHOLE", 1 << 30)
    whole = profile(open_trace(traced), machine, ranks)
    assert whole.simulated == 1
    monkeypatch.setattr(traffic, "FEWEST_SAMPLED", 0)
    found = profile(open_trace(traced, lambda opened: profiled_cut(opened, machine, ranks)), machine, ranks)
    assert found.simulated < 0.2
    shares, others = (each.traffic / each.traffic.sum() for each in (whole, found))
    np.testing.assert_allclose(others, shares, atol=0.015)
    np.testing.assert_allclose(found.accesses.sum(), whole.accesses.sum(), rtol=0.02)
    by_name = {known.name.split(" ")[0]: known.index for known in found.objects}
    assert found.in_sequence[by_name["swept"]] > 0.95
    assert found.in_sequence[by_name["gathered"]] < 0.3
    assert found.threads.tolist() == whole.threads.tolist()
    walks = [each.counts["walks"].sum() for each in (whole, found)]
    assert walks[1] == pytest.approx(walks[0], rel=0.2)
    model, of_found = TimeModel.of(whole), TimeModel.of(found)
    assert of_found.all_slow_s == pytest.approx(model.all_slow_s, rel=0.015)
    assert of_found.all_fast_s == pytest.approx(model.all_fast_s, rel=0.015)
    capacity = 0.5 * whole.footprint_bytes
    best, chosen = (
        evaluate_policies(each, TimeModel.of(each), capacity).shares[OURS] for each in (whole, found)
    )
    assert model.seconds(chosen) == pytest.approx(model.seconds(best), rel=0.015)
    assert of_found.seconds(chosen) == pytest.approx(model.seconds(best), rel=0.015)


def test_a_sampled_profile_is_the_same_each_time_and_on_any_number_of_processors(
    traced: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine = load_machine(SLOW_SOCKET)
    monkeypatch.setattr(traffic, "FEWEST_SAMPLED", 0)
    found = []
    for processors in (1, 3):
        monkeypatch.setattr("os.sched_getaffinity", lambda _, count=processors: set(range(count)))
        found.append(profile(open_trace(traced), machine, 8))
    np.testing.assert_array_equal(found[0].reads, found[1].reads)
    np.testing.assert_array_equal(found[0].writes, found[1].writes)
    for counter, values in found[0].counts.items():
        np.testing.assert_array_equal(found[1].counts[counter], values)


@pytest.mark.parametrize("name", ONE_QUICKLY)
def test_cache_mode_from_a_sample_is_close_to_that_of_all_lines(
    traced: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    machine, workload, capacity = load_machine(name), open_trace(traced), float(64 << 20)
    course = workload.timeline(Cut(machine, INTERVALS))
    [whole] = cache_modes(profile(workload, machine, 8, course), course, [capacity])
    monkeypatch.setattr(traffic, "FEWEST_SAMPLED", 0)
    course = timeline(workload, machine, 8)
    [found] = cache_modes(profile(workload, machine, 8, course), course, [capacity])
    assert found.in_a_row_s == pytest.approx(whole.in_a_row_s, rel=0.02)
    assert found.at_random_s == pytest.approx(whole.at_random_s, rel=0.03)


def test_a_part_of_a_group_has_its_part_of_what_the_group_shares() -> None:
    for name, ranks, threads, simulated in (
        (SLOW_SOCKET, 8, 1, 2),
        (SLOW_SOCKET, 1, 8, 1),
        (FLAT_BEHIND_L3, 56, 1, 7),
        (FLAT_BEHIND_L3, 7, 8, 7),
        (FLAT_MODE, 2, 1, 2),
    ):
        machine = load_machine(name)
        part, left = traffic._part_of_group(machine, ranks, threads)
        assert left == simulated
        assert (part.l3 is None) == (machine.l3 is None)
        if machine.l3 is not None and part.l3 is not None:
            assert part.l3.size.value * ranks == machine.l3.size.value * left
            assert part.l3.ways == machine.l3.ways
        if machine.snoop_filter is not None and part.snoop_filter is not None and part is not machine:
            assert part.snoop_filter.sets.value * ranks == machine.snoop_filter.sets.value * left
        node_model(part, rows=())  # can be built


def test_small_traces_and_declared_loops_have_every_line(
    traced: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine = load_machine(FLAT_BEHIND_L3)
    monkeypatch.setattr(traffic, "FEWEST_SAMPLED", open_trace(traced).trace.event_bytes)
    assert traffic.sampled_sets(open_trace(traced), machine, 56).bit_count() == 2
    monkeypatch.setattr(traffic, "FEWEST_SAMPLED", open_trace(traced).trace.event_bytes + 1)
    assert traffic.sampled_sets(open_trace(traced), machine, 56) == ALL_SETS
    assert traffic.sampled_sets(declared("stream-triad", 1 << 30, 1), machine, 56) == ALL_SETS


def test_every_step_of_up_to_eight_lines_meets_the_sample_as_often_as_any() -> None:
    for step in (1, 2, 4, 8):
        for first in range(step):
            met = sum(1 for place in traffic.SETS if place % step == first)
            assert met == len(traffic.SETS) / step


def test_objects_without_a_line_in_the_sample_are_scaled_as_the_rest() -> None:
    workload_like = replace(
        _sample(),
        seen=np.array([[8.0, 16.0, 4.0], [8.0, 0.0, 4.0]]),
        kept=np.array([[1.0, 2.0, 0], [0, 0, 0]]),
    )
    assert workload_like.of_objects.tolist() == [16, 8, pytest.approx(40 / 3)]
    assert workload_like.of_both.tolist() == [
        [8, 8, pytest.approx(40 / 3)],
        [16, 8, pytest.approx(40 / 3)],
    ]


def _sample() -> traffic.SampledLines:
    none = np.zeros((2, 3))
    return traffic.SampledLines(SOME, none, none, np.zeros(2), np.zeros(3, dtype=np.uint32))
