"""Ensembles of a small machine: deterministic, paired by node, resumed, and refused when too big."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from machine_roles import CACHE_MODE, CXL_NODE
from small_machine import MIB, small
from traced_program import GOLDEN

from pagelens import _core
from pagelens.accesses.declared import declared
from pagelens.accesses.trace import open_trace
from pagelens.cli.text.explain import render_terminal
from pagelens.ensemble import Ensemble, Scaled, check_fits, run_ensemble, scale_to
from pagelens.ensemble.result import TABLES
from pagelens.ensemble.simulate import _collisions
from pagelens.errors import Failure, Interrupted, UsageError
from pagelens.explain import explain
from pagelens.explain.figures import draw_all
from pagelens.frames import policies
from pagelens.machine import Machine, Sourced, load_machine
from pagelens.machine.cores import Spread
from pagelens.replay.mechanisms import FREQUENCY

NAMES = ("aged", "contiguous", "random", "2m")


def run(
    output: Path, workers: int = 2, nodes: int = 3, seed: int = 5, names: tuple[str, ...] = NAMES
) -> Ensemble:
    with ThreadPoolExecutor(workers) as pool:
        return run_ensemble(
            declared("stream-triad", 48 * MIB, 4),
            Scaled(small(), 1, 1 / 256),
            {name: policies[name] for name in names},
            nodes,
            seed,
            output,
            phase="triad",
            executor=pool,
        )


@pytest.fixture(scope="module")
def ensemble(tmp_path_factory: pytest.TempPathFactory) -> Ensemble:
    return run(tmp_path_factory.mktemp("two-workers"))


def files(root: Path) -> dict[str, bytes]:
    return {str(p.relative_to(root)): p.read_bytes() for p in sorted(root.rglob("*.parquet"))}


def test_one_worker_writes_the_same_files_as_two(tmp_path: Path) -> None:
    run(tmp_path / "one", workers=1)
    run(tmp_path / "two", workers=2)
    assert files(tmp_path / "one") == files(tmp_path / "two")
    assert len({path.split("/")[1] for path in files(tmp_path / "one")}) == 3 * len(NAMES)


def test_the_seed_decides(tmp_path: Path, ensemble: Ensemble) -> None:
    other = run(tmp_path, seed=6, names=("random",))
    mine = ensemble.tables.placements.filter(pl.col("policy") == "random")
    assert not mine.equals(other.tables.placements)


def test_policies_are_paired_and_do_not_disturb_each_other(tmp_path: Path, ensemble: Ensemble) -> None:
    """A policy's rows are the same whether or not others were asked for."""
    alone = run(tmp_path, names=("2m",))
    for name in TABLES:
        assert ensemble.tables[name].filter(pl.col("policy") == "2m").equals(alone.tables[name])


def test_every_node_policy_and_phase_has_a_row(ensemble: Ensemble) -> None:
    rows = ensemble.tables.placements
    assert rows.height == 3 * len(NAMES) * 3
    assert rows.select("node", "policy", "phase").is_unique().all()
    assert (rows["msc_hits"] + rows["msc_misses"]).equals(rows["msc_reads"] + rows["msc_writes"])
    assert (rows["time_s"] > 0).all()
    assert (rows["serial_time_s"] > 0).all()


def test_objects_and_phases_add_up(ensemble: Ensemble) -> None:
    key = ["node", "policy", "phase"]
    objects = ensemble.tables.objects.group_by(key).agg(pl.col("accesses", "misses").sum()).sort(key)
    rows = ensemble.tables.placements.sort(key)
    assert np.allclose(objects["accesses"], rows["msc_reads"] + rows["msc_writes"])
    assert np.allclose(objects["misses"], rows["msc_misses"])


def test_first_uses_are_the_footprint(ensemble: Ensemble) -> None:
    """If no page is freed, the infinite twin misses each line of the footprint once, in the first phase."""
    first = ensemble.tables.placements.group_by("policy", "node").agg(pl.col("first_misses").sum())
    assert np.allclose(first["first_misses"], ensemble.workload.footprint_bytes / 64, rtol=0.05)
    later = ensemble.tables.placements.filter(pl.col("phase") == "triad")
    assert (later["first_misses"] == 0).all()
    assert (later["first_misses"] <= later["ideal_misses"]).all()


def test_a_job_that_fits_has_no_conflicts_when_contiguous_and_some_at_random(ensemble: Ensemble) -> None:
    found = explain(ensemble)
    fill = 48 / 64  # of the cache; memory is six times as large
    assert found.distribution("contiguous").conflict_share_median == 0
    assert found.distribution("random").conflict_share_median == pytest.approx(
        1 - (1 - fill / 6) ** 5, abs=0.03
    )
    assert found.distribution("contiguous").miss_rate_median == 0
    # Streaming stores and loads of a page that is alone hit; two pages in one slot miss in every sweep.
    assert found.distribution("random").miss_rate_median == pytest.approx(0.49, abs=0.05)
    mean = next(a for a in found.attributions if (a.policy, a.nodes) == ("random", "mean"))
    assert mean.part("capacity").seconds == pytest.approx(0, abs=0.01 * mean.time_s)
    assert mean.part("conflicts").without_s == pytest.approx(
        found.distribution("contiguous").median_s, rel=0.02
    )


def test_the_map_of_slots_holds_all_pages(ensemble: Ensemble) -> None:
    pages = ensemble.workload.footprint_bytes / 4096
    cells = ensemble.tables.slots.group_by("node", "policy").agg(pl.col("pages_per_slot").mean())
    assert np.allclose(cells["pages_per_slot"] * ensemble.machine.slots, pages)


def test_a_rerun_reads_what_is_there_and_adds_nodes(tmp_path: Path) -> None:
    run(tmp_path, nodes=2, names=("contiguous",))
    before = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*.parquet")}
    more = run(tmp_path, nodes=3, names=("contiguous",))
    assert {path: path.stat().st_mtime_ns for path in before} == before
    assert more.tables.placements["node"].unique().sort().to_list() == [0, 1, 2]


def test_the_first_node_is_shown_as_soon_as_it_is_done(tmp_path: Path) -> None:
    workload, chosen = declared("stream-triad", 48 * MIB, 4), {"contiguous": policies["contiguous"]}
    seen: list[int] = []
    with ThreadPoolExecutor(1) as pool:
        run_ensemble(
            workload, Scaled(small(), 1, 1 / 256), chosen, 2, 1, tmp_path, executor=pool,
            look=lambda found: seen.append(found.nodes),
        )  # fmt: skip
    assert seen[:2] == [0, 1]  # the bounds come before any node


def test_ctrl_c_stops_replays_and_keeps_whole_nodes(tmp_path: Path) -> None:
    def interrupt(done: int, total: int) -> None:
        if done == 1:
            raise KeyboardInterrupt

    workload, chosen = declared("stream-triad", 48 * MIB, 4), {"contiguous": policies["contiguous"]}
    with pytest.raises(Interrupted, match="1 of 50 placements complete"):
        run_ensemble(workload, Scaled(small(), 1, 1 / 256), chosen, 50, 1, tmp_path, progress=interrupt)
    assert len(list(tmp_path.glob("*/*"))) == 1


def test_a_cancelled_replay_ends() -> None:
    from pagelens.replay.memory_side import replay

    cancel = _core.CancelFlag()
    cancel.set()
    machine, workload = small(), declared("stream-triad", 48 * MIB, 4)
    placement = _core.place_contiguously(machine.frames)
    with pytest.raises(_core.Cancelled):
        replay(workload.compile(machine, 12), machine, placement, 12, ranks=1, seed=1, node=0, cancel=cancel)


def test_a_job_larger_than_the_memory_is_refused_with_the_remedy(tmp_path: Path) -> None:
    declared_one = declared("stream-triad", 100 * MIB, 4)  # the machine has 384 MiB
    with pytest.raises(UsageError, match=r"--size: 419 MB is more than the 403 MB .* at most 384 MiB"):
        run_ensemble(declared_one, Scaled(small(), 4), {"aged": policies["aged"]}, 1, 1, tmp_path)
    traced = open_trace(GOLDEN)
    traced.footprint_bytes = 100 * MIB
    check_fits(traced, small(), 3)
    with pytest.raises(UsageError, match=r"--ranks: 4 x 105 MB is more than the 403 MB .*--ranks 3 or fewer"):
        check_fits(traced, small(), 4)
    traced.footprint_bytes = 500 * MIB
    with pytest.raises(UsageError, match=r"--ranks: 1 x 524 MB is more than .*; use a smaller problem"):
        check_fits(traced, small(), 1)


@pytest.mark.parametrize(
    ("footprint", "ranks", "factor"),
    [
        (17_600_000_000, 1, 1.0),  # the whole problem: no scaling
        (2_200_000_000, 1, 1 / 8),  # one process an eighth: one on an eighth of the machine
        (1_000_000, 69, 1 / 256),  # small: the smallest machine, copies make up the rest
    ],
)
def test_full_size_keeps_the_share_of_the_cache(footprint: int, ranks: int, factor: float) -> None:
    machine = load_machine(CACHE_MODE)
    scaled = scale_to(machine, footprint, 17_600_000_000, most_ranks=100)
    assert (scaled.ranks, scaled.factor) == (ranks, factor)
    assert scaled.machine.slots >= 16_384
    share = scaled.ranks * footprint / scaled.machine.fast_memory.size.value
    assert share == pytest.approx(17.6e9 / machine.fast_memory.size.value, rel=0.02)
    assert scaled.machine.fast_memory.bandwidth == machine.fast_memory.bandwidth


def test_a_machine_shrinks_with_its_numa_nodes() -> None:
    machine = load_machine(CXL_NODE)
    shrunk = scale_to(machine, 2_000_000_000, 64_000_000_000, most_ranks=48)
    assert shrunk.factor < 1
    sizes = shrunk.machine.topology.sizes
    assert sum(sizes) == shrunk.machine.ddr.size.value
    assert sizes == tuple(int(size * shrunk.factor) for size in machine.topology.sizes)
    assert min(machine.numa.shrunk(1e-6).sizes.value) == 4 << 20  # type: ignore[union-attr]


def test_full_size_refuses_too_small_a_trace_and_too_large_a_one() -> None:
    machine = load_machine(CACHE_MODE)
    with pytest.raises(UsageError, match="at least 16384 slots; trace a larger problem"):
        scale_to(machine, 100_000, 17_600_000_000, most_ranks=68)
    with pytest.raises(UsageError, match="--full-size: 1 GB is less than the 2 GB"):
        scale_to(machine, 2_000_000_000, 1_000_000_000, most_ranks=68)


@pytest.mark.parametrize(("megabytes", "memory"), [(48, "fast memory"), (96, "DDR")])
def test_a_flat_machine_holds_the_job_where_it_fits(tmp_path: Path, megabytes: int, memory: str) -> None:
    flat = small().model_copy(update={"mode": "flat", "memory_side_cache": None})
    workload = declared("stream-triad", megabytes * MIB, 4)
    ensemble = run_ensemble(
        workload, Scaled(flat, 1), {"aged": policies["aged"]}, 1, 1, tmp_path, phase="triad"
    )
    found = explain(ensemble)
    assert found.machine.served_by == memory
    row = ensemble.tables.placements.filter(pl.col("phase") == "triad")
    assert flat.fast_memory is not None
    reads, writes = row["msc_reads"][0], row["msc_writes"][0]
    slots = 4 * flat.cores.outstanding_lines.value
    bounds = [
        max(reads * at.latency.value / slots, 64 * (reads + writes) / at.bandwidth.value)
        for at in (flat.fast_memory, flat.ddr)
    ]
    assert bounds[0] != pytest.approx(bounds[1], rel=0.1)
    at_least = bounds[memory == "DDR"]  # the banks of DDR are simulated, those of the fast memory are not
    assert at_least <= found.best.time_s < (1.5 if memory == "DDR" else 1.05) * at_least
    text = render_terminal(found)
    assert f"Objects at the {memory}" in text
    assert "missed" not in text
    assert "cache costs" not in text
    assert "misses" not in draw_all(found)


def test_associativity_and_the_ideal_twin_take_the_conflicts_away(tmp_path: Path) -> None:
    def found(machine: Machine) -> Ensemble:
        chosen = {"random": policies["random"]}
        return run_ensemble(
            declared("stream-triad", 48 * MIB, 4), Scaled(machine, 1), chosen, 1, 1, tmp_path, phase="triad"
        )

    direct, two_way, ideal = (found(m) for m in (small(), small().with_ways(2), small().ideal_twin()))

    def misses(ensemble: Ensemble, column: str = "msc_misses") -> float:
        return float(ensemble.tables.placements[column].sum())

    assert misses(two_way) == misses(direct, "two_way_misses") < misses(direct)
    assert misses(ideal) == misses(direct, "ideal_misses") < misses(two_way)
    assert misses(ideal, "time_s") < misses(direct, "time_s")
    assert ideal.tables.collisions.is_empty()
    assert ideal.tables.slots.is_empty()
    explanation = explain(ideal)
    assert [a.part("conflicts").seconds for a in explanation.attributions] == [0, 0]
    assert "1 node." in render_terminal(explanation)
    assert "slots" not in draw_all(explanation)


def test_pairs_of_objects_that_do_not_collide_take_no_rows() -> None:
    """A NumPy program has 10^4 objects with names of 500 letters: 10^8 pairs, of which few collide."""
    names = [f"{number:500}" for number in range(100)]
    found = _collisions({"node": 0, "policy": "aged"}, names, np.array([[3, 7, 5]], np.uint64))
    assert found.rows() == [(0, "aged", names[3], names[7], 5.0)]


@pytest.mark.parametrize(
    ("error", "kind", "said"),
    [
        (MemoryError(), Failure, "this computer's memory does not suffice to simulate --ranks 1"),
        (UsageError("--ranks: 1 on small: no frames left"), UsageError, "--ranks: 1 on small"),
    ],
)
def test_a_policy_that_runs_out_of_memory_is_named(
    error: Exception, kind: type[Exception], said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*arguments: object, **named: object) -> None:
        raise error

    monkeypatch.setattr("pagelens.replay.memory_side_engine.replay", fail)
    with pytest.raises(kind, match=f"policy 'random', node 0: {said}"):
        run(tmp_path, nodes=1, names=("random",))


def test_cores_of_nodes_differ_in_frequency_whatever_the_policy(tmp_path: Path) -> None:
    slow = small()
    cores = slow.cores.model_copy(
        update={
            "instructions_per_cycle": slow.cores.instructions_per_cycle.model_copy(update={"value": 0.001}),
            "frequency_spread": Sourced[Spread](value=0.1, assumed="test"),
        }
    )
    ensemble = run_ensemble(
        declared("stream-triad", 48 * MIB, 4),
        Scaled(slow.model_copy(update={"cores": cores}), 1),
        {name: policies[name] for name in ("contiguous", "random")},
        4,
        7,
        tmp_path,
        phase="triad",
    )
    rows = ensemble.tables.placements.filter(pl.col("phase") == "triad").sort("policy", "node")
    factors = [cores.frequency_factor(7, node) for node in range(4)]
    times = rows["time_s"].to_numpy().reshape(2, 4)
    assert np.ptp(times[0]) > 0
    assert times * factors == pytest.approx(np.full((2, 4), times[0, 0] * factors[0]))
    assert rows["equal_cores_time_s"].to_numpy() == pytest.approx(times[0, 0] * factors[0])
    for record in explain(ensemble).attributions:
        assert record.unburdened_s + sum(part.seconds for part in record.parts) == pytest.approx(
            record.time_s
        )
        assert record.unburdened_s == pytest.approx(times[0, 0] * factors[0])  # none is lost to misses
        assert record.part(FREQUENCY).seconds == pytest.approx(record.time_s - record.unburdened_s)
        of_nodes = times[["contiguous", "random"].index(record.policy)]
        assert record.time_s == pytest.approx(of_nodes.mean() if record.nodes == "mean" else of_nodes.max())
