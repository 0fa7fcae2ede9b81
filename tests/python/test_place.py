"""Placement on two memories: the optimum against brute force, policies within the capacity."""

import itertools
import json
import os
import re
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from drawn_profile import MIB, drawn, profile_of
from hypothesis import given, settings
from hypothesis import strategies as st
from machine_roles import AVX512, FLAT_BEHIND_L3, FLAT_MODE, GPU
from machine_trees import lay_out
from scipy.optimize import milp
from traced_program import GOLDEN, traced_c

from pagelens import _core
from pagelens.accesses.declared import declared
from pagelens.accesses.trace import TraceWorkload, open_trace
from pagelens.accesses.tracer import TraceRequest, trace_program
from pagelens.accesses.workload import Cut, ObjectInfo
from pagelens.cli.text.place import render_terminal
from pagelens.errors import Failure, UsageError
from pagelens.machine import CoreTimes, load_machine, modelled_times, tiered_times
from pagelens.machine.core_times import DENSITIES, LEVELS
from pagelens.machine.detect import System
from pagelens.place.analysis import (
    SECONDS_OF_SWEEP,
    SWEEP,
    analyse,
    between_regions,
    evaluate_policies,
    movable,
)
from pagelens.place.cache_mode import cache_modes
from pagelens.place.moving_optimum import Moving, moving_optimum
from pagelens.place.object_list import listed_objects, read_list
from pagelens.place.optimum import SECONDS, optimum
from pagelens.place.phases import OUTSIDE, find_phases, marked_phases
from pagelens.place.plan import MOST_REGIONS, read_plan, write_plan
from pagelens.place.plan_builder import build_plan
from pagelens.place.policies import ALL_FAST, BETWEEN_REGIONS, MOVING, OURS
from pagelens.place.profile import Profile, profile, timeline, without_dominated
from pagelens.place.report_builder import build_report
from pagelens.place.time_model import TimeModel
from pagelens.run.emulate import Sockets, find_sockets, planned_environment, timed

Run = Callable[..., subprocess.CompletedProcess[str]]

SEEDS = st.integers(0, 2**32 - 1)


@given(SEEDS, st.floats(0.05, 1.0))
@settings(max_examples=40, deadline=None)
def test_the_optimum_of_whole_objects_is_that_of_all_subsets(seed: int, share: float) -> None:
    random = np.random.default_rng(seed)
    drawn_one = drawn(random, objects=7, intervals=4, small=True)
    model, capacity = TimeModel.of(drawn_one), int(share * drawn_one.footprint_bytes)  # whole bytes
    subsets = np.array([(0, *chosen) for chosen in itertools.product((0, 1), repeat=7)], dtype=float)
    fitting = subsets[(subsets @ drawn_one.live_bytes.T <= capacity).all(axis=1)]
    least = model.seconds_of_many(fitting).min()
    found = optimum(drawn_one, model, capacity)
    assert set(found.shares) <= {0.0, 1.0}
    assert (drawn_one.live_bytes @ found.shares <= capacity).all()
    assert least <= model.seconds(found.shares) <= least * (1 + 2e-4)


@given(SEEDS, st.floats(0.05, 1.0))
@settings(max_examples=40, deadline=None)
def test_no_divided_placement_that_fits_is_faster(seed: int, share: float) -> None:
    random = np.random.default_rng(seed)
    drawn_one = drawn(random, objects=5, intervals=3, small=False)
    model, capacity = TimeModel.of(drawn_one), share * drawn_one.footprint_bytes
    found = optimum(drawn_one, model, capacity)
    assert (drawn_one.live_bytes @ found.shares).max() <= capacity * (1 + 1e-12)
    least = model.seconds(found.shares)
    others = random.random((300, 6)) ** random.choice([0.2, 1.0, 5.0], (300, 1))
    others[:, 0] = 0
    most = (others @ drawn_one.live_bytes.T).max(axis=1, keepdims=True)
    others = np.clip(others * np.minimum(1.0, capacity / most), 0, 1)
    assert model.seconds_of_many(others).min() >= least * (1 - 2e-4)


@given(SEEDS, st.booleans(), st.floats(0.05, 1.0))
@settings(max_examples=30, deadline=None)
def test_ours_is_behind_no_policy_and_all_fit_at_every_moment(seed: int, small: bool, share: float) -> None:
    drawn_one = drawn(np.random.default_rng(seed), objects=9, intervals=5, small=small)
    model, capacity = TimeModel.of(drawn_one), share * drawn_one.footprint_bytes
    placed = evaluate_policies(drawn_one, model, capacity, developer=[3, 1, 2])
    times = {name: model.seconds(shares) for name, shares in placed.shares.items()}
    assert all(times[OURS] <= seconds for seconds in times.values())
    for shares in placed.shares.values():
        assert (drawn_one.course @ shares).max() <= capacity * (1 + 1e-9)
        assert shares[0] == 0  # cannot be placed
        assert ((shares >= 0) & (shares <= 1) & ~np.signbit(shares)).all()


def drawn_core(random: np.random.Generator, intervals: int) -> CoreTimes:
    """Some core that often waits: few misses overlap."""
    of_levels = (intervals, len(LEVELS))
    return CoreTimes(
        cycles=random.uniform(0.2, 3, intervals),
        load_cycles=random.uniform(0.1, 0.5, intervals),
        mispredicted=np.zeros(intervals),
        past_filter=random.uniform(0.01, 0.3, of_levels),
        irregular=random.uniform(0, 1, of_levels),
        irregular_stores=random.uniform(0, 1, of_levels),
        overlap=random.uniform(1, 8, (*of_levels, len(DENSITIES))),
    )


@given(SEEDS, st.booleans())
@settings(max_examples=30, deadline=None)
def test_the_cost_is_the_time_model_of_the_lines_in_either_memory(seed: int, of_trace: bool) -> None:
    random = np.random.default_rng(seed)
    drawn_one = drawn(random, objects=4, intervals=6, small=False)
    if of_trace:
        drawn_one = replace(drawn_one, core=drawn_core(random, 6))
    shares = random.random(5)
    lines = {
        "fast_reads": drawn_one.reads @ shares,
        "fast_writes": drawn_one.writes @ shares,
        "slow_reads": drawn_one.reads @ (1 - shares),
        "slow_writes": drawn_one.writes @ (1 - shares),
    }
    expected = tiered_times(
        drawn_one.machine, {**drawn_one.counts, **lines}, drawn_one.cores_used, drawn_one.core
    )
    model = TimeModel.of(drawn_one)
    np.testing.assert_allclose(model.by_interval(shares), expected.time_s, rtol=1e-12)
    np.testing.assert_allclose(model.seconds_of_many(shares[None]), expected.time_s.sum(), rtol=1e-12)
    changing = np.tile(shares, (6, 1))
    np.testing.assert_allclose(model.by_interval(changing), expected.time_s, rtol=1e-12)


@given(SEEDS)
@settings(max_examples=20, deadline=None)
def test_a_job_in_one_memory_takes_as_long_as_on_a_machine_with_this_memory_alone(seed: int) -> None:
    random = np.random.default_rng(seed)
    flat, core = load_machine(FLAT_MODE), drawn_core(random, 3)
    pipeline = load_machine(AVX512).pipeline
    machine = flat.model_copy(update={"pipeline": pipeline})
    names = ("instructions", "l2_references", "l2_misses", "l3_hits", "core_forwards", "stlb_hits", "walks",
             "walker_loads", "dram_reads", "dram_writes", "dram_time_s")  # fmt: skip
    counts = {name: np.zeros(3) for name in names} | {
        "instructions": random.uniform(0, 1e9, 3),
        "dram_reads": random.uniform(0, 1e8, 3),
    }
    for memory, served_by in (("fast", "fast memory"), ("slow", "DDR")):
        lines = dict.fromkeys(("fast_reads", "fast_writes", "slow_reads", "slow_writes"), np.zeros(3))
        lines[f"{memory}_reads"] = counts["dram_reads"]
        alone = modelled_times(machine, counts, 4, served_by, core=core)
        together = tiered_times(machine, {**counts, **lines}, 4, core)
        np.testing.assert_allclose(together.time_s, alone.time_s, rtol=1e-12)


def test_the_search_of_integers_ends_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    limits: list[float] = []

    def recorded(*arguments: Any, options: dict[str, float], **more: Any) -> Any:
        limits.append(options["time_limit"])
        return milp(*arguments, options=options, **more)

    monkeypatch.setattr("pagelens.place.optimum.milp", recorded)
    known = drawn(np.random.default_rng(1), objects=20, intervals=4, small=True)
    model, capacity = TimeModel.of(known), 0.3 * known.footprint_bytes
    optimum(known, model, capacity, seconds=0.5)
    assert limits
    assert max(limits) <= 0.5
    limits.clear()
    assert optimum(known, model, capacity, seconds=0.0).gap < 0.5  # what rounding leaves
    assert not limits
    analyse(known, capacity, None)
    assert len(limits) > len(SWEEP) / 2
    assert sum(limits) <= SECONDS + len(SWEEP) * SECONDS_OF_SWEEP


def test_temporaries_share_the_fast_memory_where_a_sum_of_peaks_would_not_let_them() -> None:
    lines = np.array([[0.0, 1e7, 1e7]])
    one_by_one = np.array([[0.0, 8 * MIB, 0.0], [0.0, 0.0, 8 * MIB]])
    apart = profile_of(lines, 0 * lines, one_by_one)
    together = profile_of(lines, 0 * lines, one_by_one.sum(axis=0, keepdims=True))
    shares = optimum(apart, TimeModel.of(apart), 8 * MIB).shares
    assert shares.sum() > 1.5  # as much as both memories at work can use
    assert optimum(together, TimeModel.of(together), 8 * MIB).shares.sum() == pytest.approx(1, rel=1e-6)


@given(SEEDS)
@settings(max_examples=5, deadline=None)
def test_moments_that_bind_enter_the_program_however_many_there_are(seed: int) -> None:
    """A hundred moments, more than are looked at first, none of which asks for nothing more than another."""
    random = np.random.default_rng(seed)
    course = MIB * random.integers(1, 20, (100, 40)).astype(float)
    course[:, 0] = 0
    lines = random.integers(0, 1_000_000, (6, 40)).astype(float)
    known = profile_of(lines, 0 * lines, course)
    assert len(known.live_bytes) == 100
    for share in (0.1, 0.3, 0.5):
        capacity = share * known.footprint_bytes
        shares = optimum(known, TimeModel.of(known), capacity).shares
        used = course @ shares
        assert used.max() <= capacity * (1 + 1e-9)
        assert used.max() >= capacity * (1 - 1e-3)  # and it is used


def test_both_memories_at_work_are_faster_than_the_fast_one_alone() -> None:
    lines = np.array([[0.0, 1e8]])
    known = profile_of(lines, 0 * lines, np.array([[0.0, 64 * MIB]]), machine=FLAT_BEHIND_L3)
    fast, slow = known.machine.fast_memory, known.machine.ddr
    assert fast is not None
    model = TimeModel.of(known)
    shares = optimum(known, model, 64 * MIB).shares
    both = fast.bandwidth.value + slow.bandwidth.value
    assert shares[1] == pytest.approx(fast.bandwidth.value / both, rel=1e-3)
    assert model.seconds(shares) == pytest.approx(64 * 1e8 / both, rel=1e-3)
    assert model.seconds(np.ones(2)) == pytest.approx(64 * 1e8 / fast.bandwidth.value, rel=1e-9)


@given(SEEDS)
@settings(max_examples=50, deadline=None)
def test_moments_without_those_that_others_dominate_allow_the_same(seed: int) -> None:
    random = np.random.default_rng(seed)
    course = random.integers(0, 4, (12, 3)).astype(float)
    kept = without_dominated(course)
    for shares in random.random((20, 3)):
        assert (kept @ shares).max() == pytest.approx((course @ shares).max())
    for number, row in enumerate(kept):
        others = np.delete(kept, number, axis=0)
        assert not (row <= others).all(axis=1).any()


def test_phases_are_intervals_that_use_like_objects_wherever_they_lie() -> None:
    step = [[0.0, 9.0, 1.0], [0.0, 1.0, 9.0]]
    lines = 1e6 * np.array([[0.0, 5.0, 5.0], *step, *step, *step])
    known = profile_of(lines, 0 * lines, np.ones((1, 3)), phases=["set-up"] + ["steps"] * 6)
    found = find_phases(known)
    assert list(found.names) == ["set-up", "steps/1", "steps/2"]
    assert found.of_interval.tolist() == [0, 1, 2, 1, 2, 1, 2]


def test_a_capacity_that_holds_all_gains_what_all_fast_gains_or_more() -> None:
    known = drawn(np.random.default_rng(5), objects=6, intervals=4, small=False)
    found = analyse(known, known.footprint_bytes, None)
    placed = {name: found.model.seconds(shares) for name, shares in found.at_capacity.shares.items()}
    assert placed["largest-first"] == pytest.approx(found.model.all_fast_s, rel=0.05)
    assert found.model.gain(placed[OURS]) >= 1


def test_ctrl_c_ends_the_search_between_capacities() -> None:
    known = drawn(np.random.default_rng(5), objects=6, intervals=4, small=False)
    cancel = _core.CancelFlag()
    analyse(known, known.footprint_bytes / 2, None, cancel)
    cancel.set()
    with pytest.raises(_core.Cancelled):
        analyse(known, known.footprint_bytes / 2, None, cancel)


def test_ctrl_c_between_tracing_and_placing_is_a_line(
    in_process: Callable[..., subprocess.CompletedProcess[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("pagelens.place.assignment.check_fits", interrupted)
    triad = ("--workload", "stream-triad", "--size", "300MB", "-o", "out", "--quiet")
    run = in_process("place", "--machine", FLAT_MODE, *triad)
    assert (run.returncode, run.stdout) == (130, "")
    assert run.stderr == "pagelens: interrupted before all was written; the same command begins anew\n"


@pytest.mark.parametrize("capacity", [1e-290, 1e-12])
def test_next_to_no_fast_memory_is_none(capacity: float) -> None:
    found = analyse(drawn(np.random.default_rng(7), objects=4, intervals=3, small=False), capacity, None)
    assert found.model.seconds(found.at_capacity.shares[OURS]) == pytest.approx(
        found.model.all_slow_s, rel=1e-5
    )


# --- profiles of real programs --------------------------------------------------------------------------

TWO_ARRAYS = """
#include <stdlib.h>
enum { n = 1 << 19 }; /* 4 MiB */
static double table[n];
__attribute__((noinline)) static double* cold(void) { return malloc(4 * n * sizeof(double)); }
__attribute__((noinline)) static double* hot(void) { return malloc(n * sizeof(double)); }
int main(void) {
    double *a = cold(), *b = hot(), sum = 0;
    for (int i = 0; i < 4 * n; ++i) a[i] = i;
    for (int i = 0; i < n; ++i) table[i] = i;
    for (int round = 0; round < 12; ++round)
        for (int i = 0; i < n; ++i) { b[i] += i; if (round % 3 == 0) sum += table[i]; }
    return sum + b[7] < 0;
}
"""


@pytest.fixture(scope="module")
def traced(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return traced_c(tmp_path_factory.mktemp("place"), TWO_ARRAYS)


def test_a_traced_programs_profile_has_each_objects_lines_of_memory(traced: Path) -> None:
    workload = open_trace(traced)
    found = profile(workload, load_machine(FLAT_MODE), ranks=4)
    by_name = {known.name.split(" ")[0]: known.index for known in found.objects}
    hot, cold, table = by_name["hot"], by_name["cold"], by_name["table"]
    lines = 4 * (4 << 20) / 64  # of 4 ranks
    # A page is cleared, then swept: reads and write-backs of more than L2 holds.
    assert found.reads[:, hot].sum() == pytest.approx(12 * lines, rel=0.02)
    assert found.writes[:, hot].sum() == pytest.approx(13 * lines, rel=0.03)
    assert found.reads[:, cold].sum() == pytest.approx(4 * lines, rel=0.02)
    assert found.reads[:, table].sum() == pytest.approx(5 * lines, rel=0.05)
    assert found.bytes[[hot, cold]].tolist() == pytest.approx([4 << 20, 16 << 20], rel=1e-3)
    assert found.in_sequence[hot] > 0.99
    assert found.threads[hot] == 1


def test_the_plan_names_what_the_program_uses_most(traced: Path, tmp_path: Path, pagelens: Run) -> None:
    command = ["place", "--machine", FLAT_MODE]
    out = tmp_path / "out"
    run = pagelens(*command, "--capacity", "20%", "--json", "-o", out, traced)
    report = json.loads(run.stdout)
    assert json.loads((out / "place.json").read_text()) == report
    rows = {row["policy"]: row for row in report["policies"]}
    static = {
        name: row["time_s"] for name, row in rows.items() if name not in (ALL_FAST, MOVING, BETWEEN_REGIONS)
    }
    assert rows[OURS]["time_s"] == min(static.values())
    assert rows[MOVING]["time_s"] <= rows[OURS]["time_s"]
    assert rows[OURS]["fast_bytes"] <= report["capacity_bytes"]
    plan = read_plan(out / "plan.toml")
    first = plan.objects[0]
    assert first.name.startswith("hot")
    assert 0.7 < first.share <= 1  # the slow memory works beside the fast one
    assert first.site is not None
    assert [text.partition("+")[0] for text in first.site] == ["arrays!hot", "arrays!main"]
    assert re.fullmatch("[0-9a-f]{40}", plan.modules[0].build_id)
    assert "<svg" in (out / "place.svg").read_text()
    shown = pagelens(*command, "-o", out, traced)
    assert shown.returncode == 0
    assert all(
        len(line) <= 80 for line in shown.stdout.splitlines() if not line.startswith(("Plan", "Figure"))
    )
    assert "All 84" in shown.stdout or "fit the fast memory" in shown.stdout


def test_a_program_without_anything_to_place_has_a_report(
    compile_c: Callable[[str], Path], pagelens: Callable[..., subprocess.CompletedProcess[str]]
) -> None:
    run = pagelens(
        "place", "--machine", FLAT_MODE, "-o", "out", "--", compile_c("int main(void) { return 0; }")
    )
    assert run.returncode == 0, run.stderr
    assert "Nothing here can be placed" in run.stdout


def test_the_answer_comes_first_and_fits_the_screen_however_slow_the_slow_memory_is(
    pagelens: Callable[..., subprocess.CompletedProcess[str]], tmp_path: Path
) -> None:
    slower = tmp_path / "slower.toml"
    slow = '[ddr]\nbandwidth = { value = "17.5 GB/s", assumed = "t" }\n'
    slower.write_text(f'schema = 1\nbase = "{GPU}"\nname = "slower"\ntitle = "t"\nmode = "flat"\n{slow}')
    triad = ("--workload", "stream-triad", "--size", "600MB")
    run = pagelens("place", "--machine", str(slower), *triad, "--capacity", "50%", "--moves", "-o", "out")
    assert run.returncode == 0, run.stderr
    assert run.stdout.startswith("With the best static placement the program takes")
    rows = re.findall(r"^(.* [\d.]+ [mun]?s +[\d.]+x) +\d+% ", run.stdout, re.MULTILINE)
    assert len({len(row) for row in rows}) == 1
    assert any(re.search(r" \d{3}x$", row) for row in rows)
    assert "DDR" not in run.stdout  # the slow memory is the host's
    assert "slow memory" in run.stdout.partition("limited by")[2]
    assert "--moves: moving objects between regions gains nothing.\n" in run.stdout  # there is no plan


def test_a_job_larger_than_the_machine_is_refused_in_a_line(
    pagelens: Callable[..., subprocess.CompletedProcess[str]],
) -> None:
    run = pagelens("place", "--machine", GPU, "--workload", "hydro", "--size", "100TB")
    assert run.returncode == 2
    assert re.fullmatch(r"pagelens: --size: 100 TB is more than .* name at most 256 GiB, .*\n", run.stderr)


def test_shares_of_a_plan_are_not_rounded_up(traced: Path) -> None:
    workload = open_trace(traced)
    found = profile(workload, load_machine(FLAT_MODE), ranks=4)
    plan = build_plan(found, workload, np.full(len(found.objects), 0.20076), 1e6)
    assert {one.share for one in plan.objects} == {0.2007}


@pytest.mark.parametrize(("name", "said"), [(b"new\nline", ""), (b"byte\xff", "is no text in UTF-8")])
def test_a_programs_name_may_be_any(
    name: bytes, said: str, compile_c: Callable[[str], Path], pagelens: Callable[..., Any], tmp_path: Path
) -> None:
    app = tmp_path / os.fsdecode(name)
    shutil.copy(compile_c("int main(void) { return 0; }"), app)
    run = pagelens("place", "--machine", FLAT_MODE, "-o", "out", "--", app)
    assert run.returncode == (2 if said else 0), run.stderr
    assert said in run.stderr
    assert "Traceback" not in run.stderr


def test_keys_of_call_sites_hold_wherever_the_program_is_loaded(compile_c: Callable[[str], Path]) -> None:
    app = compile_c(TWO_ARRAYS)
    keys = []
    for number in range(2):
        trace = app.with_name(f"{number}.trace")
        trace_program(TraceRequest([str(app)], str(trace), accesses=200_000))
        keys.append({known.site for known in open_trace(trace).objects if known.site})
    assert keys[0] == keys[1]
    assert keys[0]


SEVERAL = """
#include <sys/mman.h>
enum { n = 1 << 17 }; /* 1 MiB */
static double table[n];
double* other_table(void);
__attribute__((noinline)) static double* mapped(void) {
    return mmap(0, n * sizeof(double), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
}
int main(void) {
    double *a = mapped(), *other = other_table(), sum = 0;
    for (int i = 0; i < n; ++i) a[i] = table[i] = other[i] = i;
    for (int round = 0; round < 4; ++round)
        for (int i = 0; i < n; ++i) sum += a[i] + table[i] + other[i];
    return sum < 0;
}
"""
OTHER = "static double table[1 << 17]; double* other_table(void) { return table; }"


@pytest.mark.parametrize("name", ["several", "se!veral"])
def test_mappings_and_variables_of_one_name_have_their_places_in_a_plan(
    name: str, tmp_path: Path, pagelens: Callable[..., subprocess.CompletedProcess[str]]
) -> None:
    (tmp_path / "main.c").write_text(SEVERAL)
    (tmp_path / "other.c").write_text(OTHER)
    app = tmp_path / name
    subprocess.run(["gcc", "-O1", "-g", "-o", app, tmp_path / "main.c", tmp_path / "other.c"], check=True)
    run = pagelens("place", "--machine", FLAT_MODE, "--json", "-o", "out", "--", app)
    assert run.returncode == 0, run.stderr
    report, plan = json.loads(run.stdout), read_plan(tmp_path / "out" / "plan.toml")
    large = [known for known in report["objects"] if known["bytes"] >= 1 << 20 and known["blocks"] < 2]
    if "!" in name:
        assert not any(known["can_be_placed"] for known in large)
        assert any("files whose names have '!' cannot be planned" in note for note in report["notes"])
        assert not plan.objects
        return
    assert sum(known["can_be_placed"] for known in large) >= 3
    assert [one.frames[0].symbol for one in plan.objects if one.site] == ["mapped"]
    variables = [one.variable or "" for one in plan.objects if one.variable]
    assert len(set(variables)) == 2
    assert all(re.fullmatch("several!table@0x[0-9a-f]+", variable) for variable in variables)


def test_declared_loops_are_placed_loop_by_loop() -> None:
    machine = load_machine(FLAT_MODE)
    found = profile(declared("hydro", 64 * MIB, 2), machine, ranks=34)
    assert "steps" in found.phases
    names = {known.name: known.index for known in found.objects}
    before, mass = names["before"], names["mass"]
    assert 0 < found.lifetime[before] < found.lifetime[mass]
    assert found.writes[:, names["gradients"]].sum() > found.writes[:, mass].sum()


def test_a_larger_cache_of_the_slow_memory_is_no_slower() -> None:
    machine = load_machine(FLAT_MODE)
    program = declared("cg", 256 * MIB, 2)
    course = timeline(program, machine, 1)
    modes = cache_modes(
        profile(program, machine, 1, course), course, [256 * MIB, 255 * MIB, 65 * MIB, 64 * MIB, 0]
    )
    assert [mode.bytes for mode in modes] == [256 * MIB, 128 * MIB, 64 * MIB]
    assert modes[0].at_random_s <= modes[1].at_random_s <= modes[2].at_random_s


# --- lists and errors -----------------------------------------------------------------------------------

OBJECTS = [
    ObjectInfo(0, "[kernel: page clearing]"),
    ObjectInfo(1, "Mesh::allocate (hydro.cpp:120)", site=("a+0x1",)),
    ObjectInfo(2, "Mesh::allocate (hydro.cpp:12)", site=("a+0x2",)),
    ObjectInfo(3, "table (app)", variable="app!table"),
]


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("hydro.cpp:12", [2]),
        ("hydro.cpp:120", [1]),
        ("Mesh::allocate", [1, 2]),
        ("Mesh::*", [1, 2]),
        ("table", [3]),
        ("table (app)", [3]),
    ],
)
def test_a_name_of_a_list_means_objects(name: str, meant: list[int]) -> None:
    assert listed_objects([name], OBJECTS) == meant


def test_a_list_keeps_its_order_and_says_what_it_does_not_know(tmp_path: Path) -> None:
    path = tmp_path / "list.txt"
    path.write_text("table # the hot one\n\n# all of the mesh\nMesh::allocate\ntable\n")
    assert listed_objects(read_list(path), OBJECTS) == [3, 1, 2]
    with pytest.raises(UsageError, match=r"--list: 'tabel' is no object .*table \(app\)"):
        listed_objects(["tabel"], OBJECTS)
    with pytest.raises(UsageError, match="kernel"):
        listed_objects(["kernel"], OBJECTS)
    path.write_text(
        "main::{lambda()#2}\t# not a comment before\n#table\n #1\nmake (app.c:5) #2 # the second\n"
    )
    assert read_list(path) == ["main::{lambda()#2}", "make (app.c:5) #2"]
    path.write_text("# nothing\n")
    with pytest.raises(UsageError, match="names nothing"):
        read_list(path)
    path.write_bytes(b"\xff\xfe")
    with pytest.raises(UsageError, match="is not text"):
        read_list(path)
    with pytest.raises(UsageError, match="No such file"):
        read_list(tmp_path / "none")


@pytest.mark.parametrize(("program", "words"), [("hydro", ["6", "1"]), ("cg", ["8"]), ("fe", ["6"])])
def test_the_lists_of_the_examples_name_their_objects(
    program: str, words: list[str], examples: Path, tmp_path: Path
) -> None:
    trace = tmp_path / "app.trace"
    trace_program(TraceRequest([str(examples / program), *words], str(trace), accesses=0))
    names = read_list(Path(__file__).parents[2] / "examples" / "lists" / f"{program}.txt")
    found = listed_objects(names, open_trace(trace).objects)
    assert len(found) >= len(names)


# --- emulation ------------------------------------------------------------------------------------------


def test_two_sockets_are_two_nodes_with_processors(tmp_path: Path) -> None:
    def laid(nodes: dict[int, str], name: str) -> System:
        files = {}
        for number, cpus in nodes.items():
            folder = f"sys/devices/system/node/node{number}"
            files[f"{folder}/cpulist"] = f"{cpus}\n".encode()
            files[f"{folder}/meminfo"] = f"Node {number} MemTotal:       16777216 kB\n".encode()
        return lay_out(files, tmp_path / name)

    assert find_sockets(laid({0: "0-7", 1: "8-15"}, "two")) == Sockets(0, 1, frozenset(range(8)))
    assert find_sockets(laid({0: "0-7", 1: ""}, "flat")) is None
    assert find_sockets(laid({0: "0-7"}, "one")) is None


def test_a_program_runs_on_the_processors_and_the_node_named(tmp_path: Path) -> None:
    cpu = min(os.sched_getaffinity(0))
    out = tmp_path / "said"
    words = ["sh", "-c", f"grep -E 'Cpus_allowed_list|Mems_allowed_list' /proc/self/status > {out}; "
             f"grep -c bind:0 /proc/self/numa_maps >> {out}"]  # fmt: skip
    assert timed(words, frozenset({cpu}), 0) > 0
    said = out.read_text().split()
    assert said[said.index("Cpus_allowed_list:") + 1] == str(cpu)
    assert int(said[-1]) > 0  # mappings that the policy holds for
    with pytest.raises(Failure, match=r"--emulate: .* ended with status 3: no"):
        timed(["sh", "-c", "echo no >&2; exit 3"], frozenset({cpu}), None)
    with pytest.raises(Failure, match="bound to the node"):
        timed(["true"], frozenset({cpu}), 900)


def test_the_plan_is_measured_without_what_starts_it_and_never_without_it(
    traced: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    app, plan = traced.with_name("arrays"), tmp_path / "plan.toml"
    workload = open_trace(traced)
    found = profile(workload, load_machine(FLAT_MODE), ranks=1)
    write_plan(build_plan(found, workload, np.ones(len(found.objects)), 64 * MIB), plan)
    nodes = {}
    for number in (0, 1):
        nodes[f"sys/devices/system/node/node{number}/cpulist"] = f"{number}\n".encode()
        nodes[f"sys/devices/system/node/node{number}/meminfo"] = (
            f"Node {number} MemTotal:       16777216 kB\n".encode()
        )
    two = Sockets(0, 1, frozenset(os.sched_getaffinity(0)))
    system = lay_out(nodes, tmp_path / "two")
    environment = planned_environment(str(app), plan, two, system)
    assert environment["PAGELENS_PLAN"].startswith(str(tmp_path))
    script = tmp_path / "seen"
    script.write_text(f"#!/bin/sh\necho $PAGELENS_PLAN $LD_PRELOAD > {tmp_path}/said\n")
    script.chmod(0o755)
    timed([str(script)], two.cpus, None, environment)
    assert (tmp_path / "said").read_text().split() == [
        environment["PAGELENS_PLAN"], environment["LD_PRELOAD"]
    ]  # fmt: skip
    with pytest.raises(Failure, match="would run without the plan"):
        planned_environment("true", plan, two, system)


# --- moving between phases ------------------------------------------------------------------------------


def two_phases(rounds: int, lines: float) -> Profile:
    """Each phase uses an array of 8 MiB of its own, `lines` an interval."""
    reads = np.array([[0.0, lines, 0.0], [0.0, 0.0, lines]] * rounds)
    course = np.tile([[0.0, 8.0 * MIB, 8.0 * MIB]], (2 * rounds, 1))
    phases = ["one", "two"] * rounds
    return profile_of(reads, 0 * reads, course, phases=phases, instructions=1000.0)


def test_objects_move_where_a_phase_pays_for_the_copy() -> None:
    for lines, moves in ((1e8, True), (1e4, False)):
        known = two_phases(3, lines)
        model, phases = TimeModel.of(known), find_phases(known)
        static = optimum(known, model, 8 * MIB).shares
        found = moving_optimum(known, model, phases, 8 * MIB, static)
        assert (found.copied_bytes > 0) is moves
        assert (found.seconds < model.seconds(static)) is moves
        fast, slow = known.machine.fast_memory, known.machine.ddr
        assert fast is not None
        copies = found.copied_bytes * (1 / fast.bandwidth.value + 1 / slow.bandwidth.value)
        of_lines = model.by_interval(found.shares[phases.of_interval]).sum()
        assert found.seconds == pytest.approx(of_lines + copies)
        if moves:  # five borders, two arrays of 8 MiB, as far as fast memory is used
            assert 5 * MIB < found.copied_bytes <= 5 * 2 * 8 * MIB


def test_between_marked_regions_only_what_may_move_does() -> None:
    known = two_phases(3, 1e8)
    model, regions = TimeModel.of(known), marked_phases(known)
    assert list(regions.names) == ["one", "two"]
    assert regions.of_interval.tolist() == [0, 1] * 3
    gaps = replace(known, phases=[OUTSIDE, "one", OUTSIDE, OUTSIDE, "two", OUTSIDE])
    assert list(marked_phases(gaps).names) == [OUTSIDE, "one", "two"]
    assert marked_phases(gaps).of_interval.tolist() == [0, 1, 1, 1, 2, 2]
    static = optimum(known, model, 8 * MIB).shares
    for may in ([True, True, True], [True, True, False], [True, False, False]):
        found = moving_optimum(known, model, regions, 8 * MIB, static, np.array(may))
        assert all(np.ptp(found.shares[:, np.logical_not(may)], axis=0) == 0)
        assert (found.copied_bytes > 0) is all(may)  # one alone finds no room that the other leaves


def test_between_more_regions_than_a_plan_can_name_nothing_moves() -> None:
    for count, moves in ((MOST_REGIONS + 1, False), (4, True)):
        known = two_phases(count // 2, 1e8)
        known = replace(known, phases=[f"r{i}" for i in range(len(known.phases))])
        model, regions = TimeModel.of(known), marked_phases(known)
        assert len(regions.names) == count
        static = optimum(known, model, 8 * MIB).shares
        found = between_regions(known, model, regions, 8 * MIB, static)
        assert (found.copied_bytes > 0) is moves


def test_where_phases_are_the_marked_regions_what_moves_is_found_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    found: list[Moving] = []

    def recorded(*arguments: Any) -> Moving:
        found.append(moving_optimum(*arguments))
        return found[-1]

    monkeypatch.setattr("pagelens.place.analysis.moving_optimum", recorded)
    known = two_phases(3, 1e8)
    small = [*known.objects[:2], replace(known.objects[2], births=65)]  # may not move between regions
    divided = replace(known, phases=["one"] * 6)  # a region of two phases
    for profiled, times in ((known, 1), (replace(known, objects=small), 2), (divided, 2)):
        found.clear()
        analysis = analyse(profiled, 8 * MIB, None)
        assert len(found) == times
        assert analysis.moving.seconds == min(each.seconds for each in found)
    assert analysis.moving.copied_bytes > 0


def test_blocks_that_are_small_on_average_may_not_move() -> None:
    known = two_phases(1, 1e8)
    objects = [*known.objects[:2], replace(known.objects[2], births=65)]  # of 8 MiB: below 128 KiB each
    assert movable(replace(known, objects=objects)).tolist() == [False, True, False]


def test_a_plan_has_moves_only_where_they_gain(
    traced: Path, pagelens: Callable[..., subprocess.CompletedProcess[str]], tmp_path: Path
) -> None:
    run = pagelens("place", "--machine", FLAT_MODE, "--capacity", "20%", "--moves", "-o", "out", traced)
    assert run.returncode == 0, run.stderr
    said = " ".join(run.stdout.split())
    assert (
        "--moves: moving objects between regions gains nothing: the program marks no regions (pagelens.h)"
        in said
    )
    assert not read_plan(tmp_path / "out" / "plan.toml").regions


def test_shares_that_are_shown_are_those_of_the_plan() -> None:
    found = analyse(two_phases(3, 1e8), 8 * MIB, None)
    assert found.moves_gain
    static, moving = (build_report(found, "", [], [], "", moves).objects for moves in (False, True))
    assert all(not row.fast_shares for row in static)
    shown = {row.name: row.fast_shares for row in moving if row.can_be_placed and row.phases}
    for object_, of_regions in shown.items():
        index = next(o for o, known in enumerate(found.profile.objects) if known.name == object_)
        assert of_regions == {
            name: float(shares[index]) for name, shares in found.shares_in_regions.items() if name != OUTSIDE
        }
    assert any(len(set(of_regions.values())) > 1 for of_regions in shown.values())
    text = render_terminal(build_report(found, "", [], [], "", moves=True))
    assert re.search(r"\d-\d+%$", text, re.MULTILINE)
    assert not re.search(r"\d-\d+%$", render_terminal(build_report(found, "", [], [], "")), re.MULTILINE)
    assert "8 MiB" in text


@given(SEEDS, st.floats(0.1, 1.0))
@settings(max_examples=20, deadline=None)
def test_moving_is_never_slower_than_staying_and_keeps_the_capacity(seed: int, share: float) -> None:
    random = np.random.default_rng(seed)
    known = replace(drawn(random, objects=5, intervals=6, small=False), phases=["a", "b", "a", "b", "c", "a"])
    known = replace(known, counts={**known.counts, "instructions": np.full(6, 1e6)})
    model, phases = TimeModel.of(known), find_phases(known)
    capacity = share * known.footprint_bytes
    static = optimum(known, model, capacity).shares
    found = moving_optimum(known, model, phases, capacity, static)
    assert found.seconds <= model.seconds(static)
    for moment, live in enumerate(known.course):  # six moments, six intervals
        assert live @ found.shares[phases.of_interval[moment]] <= capacity * (1 + 1e-6)


def test_a_refused_machine_is_refused_before_a_trace_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_: TraceWorkload) -> Cut:
        raise UsageError("no such machine")

    monkeypatch.setattr("pagelens.accesses.trace.Symbolizer", lambda *_: pytest.fail("names are looked up"))
    with pytest.raises(UsageError, match="no such machine"):
        open_trace(GOLDEN, refuse)
