"""`explain` takes as many nodes as its medians need, and says what few nodes do not show."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
import synthetic
from machine_roles import CACHE_MODE, NO_L3, SNOOP_FILTER
from test_same_results import FOLDER

import pagelens
from pagelens.api import ensembles
from pagelens.cli.text.explain import render_terminal
from pagelens.ensemble import ROUNDS, Ensemble, Tables
from pagelens.ensemble.result import PLACEMENTS
from pagelens.explain import explain
from pagelens.explain.intervals import FEW, Intervals
from pagelens.explain.precision import ByPrecision, half_width, unsettled
from pagelens.explain.words import NODES_FOR_RARE
from pagelens.frames import policies as known_policies
from pagelens.units import parse_share

PRECISION = 0.02
TIMES = ("time_s", "serial_time_s", "equal_cores_time_s")
ANY = synthetic.ensemble(nodes=1)  # of which tests change the rows
NODES = 64


def drawn(
    spread: Mapping[str, float],
    random: np.random.Generator,
    nodes: int,
    slower: Mapping[str, float] | None = None,
) -> Ensemble:
    """An ensemble whose times under each policy have this spread of their logarithms."""
    rows = [
        {"policy": policy, "node": node, "phase": "all", "large_pages": 1}
        | dict.fromkeys(TIMES, factor * float(np.exp(random.normal(0, of_policy))))
        for policy, of_policy in spread.items()
        for factor in [(slower or {}).get(policy, 1.0)]
        for node in range(nodes)
    ]
    of_all = {name: [row.get(name, 0) for row in rows] for name in PLACEMENTS}
    tables = Tables.of(placements=pl.DataFrame(of_all, schema=dict(PLACEMENTS), strict=False))
    return replace(ANY, tables=tables, nodes=nodes, policies={name: known_policies[name] for name in spread})


def of_times(times: Mapping[str, np.ndarray], seed: int = 0, columns: Sequence[str] = TIMES) -> Ensemble:
    """Returns an ensemble with these times by policy; those of other columns are 1."""
    rows = [
        dict.fromkeys(TIMES, 1.0)
        | {"policy": policy, "node": node, "phase": "all", "large_pages": 1}
        | dict.fromkeys(columns, seconds)
        for policy, of_nodes in times.items()
        for node, seconds in enumerate(of_nodes)
    ]
    of_all = {name: [row.get(name, 0) for row in rows] for name in PLACEMENTS}
    tables = Tables.of(placements=pl.DataFrame(of_all, schema=dict(PLACEMENTS), strict=False))
    return replace(ANY, tables=tables, seed=seed, policies={name: known_policies.get(name) for name in times})


def intervals(times: Mapping[str, np.ndarray], seed: int = 0) -> Intervals:
    """Return the intervals of an ensemble with these times by policy."""
    return Intervals(of_times(times, seed))


POPULATIONS: dict[str, Callable[[np.random.Generator, int], np.ndarray]] = {
    "normal": lambda random, n: np.exp(random.normal(0, 0.02, n)),
    "a long tail": lambda random, n: 1 + random.exponential(0.015, n),
    "two kinds of nodes": lambda random, n: np.where(random.random(n) < 0.3, 1.03, 1.0),
    "few slow nodes": lambda random, n: np.where(random.random(n) < 0.05, 1.5, random.normal(1, 0.005, n)),
}


@pytest.mark.parametrize("name", POPULATIONS)
def test_medians_of_few_nodes_are_those_of_many(name: str) -> None:
    """95% means 95%, though the nodes are looked at after each round."""
    random = np.random.default_rng(1)
    median = np.median(POPULATIONS[name](random, 1_000_000))
    stopped, right, trials = [], 0, 1000
    for _ in range(trials):
        times = POPULATIONS[name](random, NODES)
        nodes = next((n for n in ROUNDS if half_width(times[:n]) <= PRECISION), NODES)
        stopped.append(nodes)
        right += abs(np.median(times[:nodes]) / median - 1) <= PRECISION
    assert right / trials >= 0.95
    assert np.mean(stopped) < NODES / 2


def test_no_single_node_is_enough() -> None:
    assert half_width(np.array([1.0])) == np.inf


@pytest.mark.parametrize("quantile", [0.5, 0.95])
@pytest.mark.parametrize("nodes", [2, 4, 8, FEW])
def test_intervals_of_few_nodes_hold_what_they_should(nodes: int, quantile: float) -> None:
    """An interval of 95% for a ratio of medians holds it in 95% of cases; a bootstrap's in 60-90%."""
    random, held, trials = np.random.default_rng(nodes), 0, 100
    for seed in range(trials):
        of_node = random.normal(0, 0.03, nodes)  # what both policies have in common
        times = {name: np.exp(of_node + random.normal(0, 0.02, nodes)) for name in ("before", "after")}
        gain = intervals(times, seed).gain("before", "after", quantile)
        held += gain.low <= 1 <= gain.high
    assert held / trials >= 0.9


@pytest.mark.parametrize("quantile", [0.5, 0.95])
def test_intervals_of_gains_over_unequal_numbers_of_nodes_hold_what_they_should(quantile: float) -> None:
    """A remedy that stopped after 4 nodes fails on one in ten, which most of the 4 do not show."""
    random, held, trials = np.random.default_rng(3), 0, 100

    def simulated(nodes: int) -> dict[str, np.ndarray]:
        quick, slow = random.normal(1, 0.01, nodes), random.normal(1.3, 0.05, nodes)
        fails = np.where(random.random(nodes) < 0.1, 1.15, random.normal(1, 0.01, nodes))
        return {"before": np.where(random.random(nodes) < 0.6, slow, quick), "after": fails}

    many = simulated(1_000_000)
    truth = np.quantile(many["before"], quantile) / np.quantile(many["after"], quantile)
    for seed in range(trials):
        times = simulated(32)
        gain = intervals(times | {"after": times["after"][:4]}, seed).gain("before", "after", quantile)
        held += gain.low <= truth <= gain.high
    assert held / trials >= 0.9


def test_a_gain_over_fewer_nodes_is_of_each_on_its_own_where_that_is_surer() -> None:
    random = np.random.default_rng(1)
    before, after = np.exp(random.normal(0, 0.2, 64)), np.exp(random.normal(0, 0.001, 4))
    gain = intervals({"before": before, "after": after}).gain("before", "after", 0.5)
    assert gain.value == np.median(before) / np.median(after)
    both = np.exp(random.normal(0, 0.2, 64))
    gain = intervals({"before": both, "after": both[:4] / 1.5}).gain("before", "after", 0.5)
    assert gain.value == pytest.approx(1.5)


def test_policies_whose_medians_are_known_stop_and_the_baseline_goes_on_with_the_others() -> None:
    random = np.random.default_rng(1)
    spread = {"aged": 0.1, "random": 0.001, "2m": 0.1, "contiguous": 0.0}
    assert unsettled(drawn(spread, random, 8), PRECISION, NODES) == ["aged", "2m"]
    assert unsettled(drawn(spread | {"aged": 0.001}, random, 8), PRECISION, NODES) == ["aged", "2m"]
    slower = {"random": 1.5}
    assert unsettled(drawn(dict.fromkeys(spread, 0.001), random, 8, {"aged": 1.5}), PRECISION, NODES) == []
    # Where nothing gains, only more nodes can show that one in twenty is slow.
    alike = dict.fromkeys(("aged", "random", "2m"), 0.001)
    for nodes, more in ((8, ["aged"]), (NODES_FOR_RARE - 1, ["aged"]), (NODES_FOR_RARE, [])):
        assert unsettled(drawn(alike, random, nodes, slower), PRECISION, NODES) == more


def test_policies_follow_the_baseline_to_its_rare_slow_nodes() -> None:
    random = np.random.default_rng(1)
    times = {name: np.exp(random.normal(0, 0.001, 32)) for name in ("aged", "2m", "random")}
    times["random"] = times["random"][:8]
    judge = ByPrecision(PRECISION, NODES)
    assert judge.left_behind(of_times(times)) == []
    times["aged"][[20, 25, 30]] = 1.3  # three of 32, of which the first eight show nothing
    assert judge.left_behind(of_times(times)) == ["random"]
    of_cores = of_times(times, columns=("time_s", "serial_time_s"))  # all are as fast at equal frequencies
    assert judge.left_behind(of_cores) == []
    times["aged"][3] = 1.3
    assert judge.left_behind(of_times(times)) == []


def test_a_policy_that_surely_is_beaten_stops() -> None:
    random = np.random.default_rng(1)
    spread = {"aged": 0.05, "random": 0.05, "2m": 0.05}
    slow = drawn(spread, random, 16, slower={"random": 3.0, "2m": 0.5})
    assert unsettled(slow, PRECISION, NODES) == ["aged", "2m"]


def test_a_policy_that_surely_gains_nothing_stops() -> None:
    random = np.random.default_rng(1)
    slow = drawn({"aged": 0.001, "2m": 0.05}, random, 4, slower={"2m": 1.3})
    assert half_width(Intervals(slow).times["2m"]) > PRECISION
    assert unsettled(slow, PRECISION, NODES) == ["aged"]  # for rare slow nodes


@pytest.mark.parametrize(("slow", "behind"), [(1.5, ["2m"]), (1.0, [])])
def test_a_policy_that_gains_nothing_on_the_first_nodes_runs_on_slow_ones(
    slow: float, behind: Sequence[str]
) -> None:
    """The first nodes differ by more than 2% under both policies, and none of them is a slow one."""
    first = np.array([0.98, 1.0, 1.01, 1.02])
    base = np.concatenate([np.tile(first, 3), np.full(4, slow)])
    assert unsettled(of_times({"aged": first, "2m": first}), PRECISION, NODES) == ["aged"]
    assert ByPrecision(PRECISION, NODES).left_behind(of_times({"aged": base, "2m": first})) == behind


@pytest.mark.parametrize(("in_turn", "more"), [(0.5, []), (1.01, ["aged", "2m"])])
def test_the_time_in_turn_is_known_as_soon_as_it_is_known_which_is_faster(
    in_turn: float, more: Sequence[str]
) -> None:
    random = np.random.default_rng(1)
    found = drawn({"aged": 0.001, "2m": 0.001}, random, 4, slower={"2m": 0.9})
    of_nodes = random.normal(0, 0.05, 8)
    factors = np.exp(of_nodes) * np.where(np.arange(8) < 4, 1.0, in_turn)
    rows = found.tables.placements.with_columns(pl.Series("serial_time_s", factors))
    assert unsettled(replace(found, tables=Tables.of(placements=rows)), PRECISION, NODES) == more


def two_kinds(random: np.random.Generator, nodes: int) -> dict[str, np.ndarray]:
    """Times of two kinds of nodes, of a remedy that makes all alike, and of one that changes nothing."""
    slow = np.where(random.random(nodes) < 0.6, 1.3, 1.0)
    noise = np.exp(random.normal(0, 0.02, (3, nodes)))
    return {"aged": slow * noise[0], "aged+zonesort": noise[1] / 100, "2m": slow * noise[2]}


def test_policies_stop_where_all_nodes_together_would_say_no_more() -> None:
    """The median of two kinds of nodes lies at one or the other."""
    random = np.random.default_rng(1)
    kinds = {"aged": 0.15, "aged+zonesort": 0.001, "2m": 0.15}
    slower = {"aged": 1.3}
    assert unsettled(drawn(kinds, random, 8, slower), PRECISION, NODES) == ["aged", "2m"]
    assert unsettled(drawn(kinds, random, 16, slower), PRECISION, NODES) == []
    # Sixteen times as many would.
    assert unsettled(drawn(kinds, random, 16, slower), PRECISION, 16 * NODES) == ["aged", "2m"]


def test_a_remedy_that_stopped_early_counts_over_all_nodes_of_the_baseline() -> None:
    """Its gain over its own first nodes alone would never tell that it beats the others."""
    times = two_kinds(np.random.default_rng(1), 32) | {"aged+zonesort": np.full(8, 0.99)}
    times["aged"][:8] = np.linspace(0.95, 1.35, 8)  # of all nodes, most are slow
    assert unsettled(of_times(times), PRECISION, NODES) == []


def in_stretches(ensemble: Ensemble, error: float, policies: Sequence[str] = ("aged", "2m")) -> Ensemble:
    """Return an ensemble of whose runs six stretches were simulated. Each changes these times by so much."""
    rows = ensemble.tables.placements.filter(pl.col("policy").is_in(policies))
    left_out = [
        rows.select(
            "node",
            "policy",
            "phase",
            pl.lit(number, pl.UInt32).alias("stretch"),
            *(pl.col(name) * (1 + shift) for name in ("time_s", "serial_time_s")),
        )
        for number, shift in enumerate((error, -error) * 3)
    ]
    return replace(ensemble, tables=replace(ensemble.tables, stretches=pl.concat(left_out)))


@pytest.mark.parametrize(("nodes", "vain"), [(8, 0.05), (16, 0.01)])
def test_no_number_of_nodes_makes_up_for_the_choice_of_stretches(nodes: int, vain: float) -> None:
    """Nodes that differ by 4% need 64 for a median to 2%, but the stretches leave more open than that."""
    found = drawn({"aged": 0.04, "2m": 0.04}, np.random.default_rng(1), nodes)
    assert unsettled(in_stretches(found, 0.0001), PRECISION, NODES) == ["aged", "2m"]
    assert "2m" not in unsettled(in_stretches(found, vain), PRECISION, NODES)


def test_no_number_of_nodes_makes_up_for_the_stretches_of_the_baseline() -> None:
    """The median of the remedy would be known, but not what it gains."""
    found = drawn({"aged": 0.04, "2m": 0.04}, np.random.default_rng(1), 8)
    assert "2m" not in unsettled(in_stretches(found, 0.05, ["aged"]), PRECISION, NODES)
    assert unsettled(in_stretches(found, 0.0001, ["aged"]), PRECISION, NODES) == ["aged", "2m"]
    # A gain that more nodes would tell is worth them.
    gains = drawn({"aged": 0.04, "2m": 0.04}, np.random.default_rng(1), 8, {"aged": 1.06})
    assert unsettled(in_stretches(gains, 0.05), PRECISION, NODES) == ["aged", "2m"]


def test_large_pages_that_no_memory_is_large_enough_for_stop() -> None:
    found = drawn({"aged": 0.04, "1g": 0.04}, np.random.default_rng(1), 4)
    assert unsettled(found, PRECISION, NODES) == ["aged", "1g"]
    rows = found.tables.placements.with_columns(pl.lit(0.0).alias("large_pages"))
    assert unsettled(replace(found, tables=Tables.of(placements=rows)), PRECISION, NODES) == ["aged"]


def test_a_spread_that_matters_needs_no_rare_slow_nodes() -> None:
    random = np.random.default_rng(1)
    times = {"aged": np.exp(random.normal(0, 0.03, 16)), "2m": np.full(16, 1.0)}
    wide = of_times({policy: np.sort(of_nodes) for policy, of_nodes in times.items()})
    assert unsettled(wide, 0.5, NODES) == []
    few = of_times({policy: of_nodes[:8] for policy, of_nodes in times.items()})
    assert unsettled(few, 0.5, NODES) == ["aged"]
    assert unsettled(of_times({"aged": times["2m"], "2m": times["2m"]}), 0.5, NODES) == ["aged"]


def test_intervals_hold_what_they_should_where_nodes_are_of_two_kinds() -> None:
    """The number of nodes is not chosen by what they say, so 95% mean 95%."""
    random, held, stopped, trials = np.random.default_rng(2), [0, 0], [], 60
    many = two_kinds(random, 1_000_000)
    truth = {policy: np.median(many["aged"]) / np.median(many[policy]) for policy in list(many)[1:]}
    for seed in range(trials):
        times = two_kinds(random, NODES)
        for nodes in (*ROUNDS, NODES):
            so_far = {policy: of_nodes[:nodes] for policy, of_nodes in times.items()}
            if not unsettled(of_times(so_far), PRECISION, NODES):
                break
        stopped.append(nodes)
        found = intervals(so_far, seed)
        for number, (policy, true) in enumerate(truth.items()):
            gain = found.gain("aged", policy, 0.5)
            held[number] += gain.low <= true <= gain.high
    assert min(held) / trials >= 0.9
    assert np.mean(stopped) < NODES * 2 / 3


def test_of_nodes_that_are_alike_four_are_enough(tmp_path: Path) -> None:
    changed = {"cores.count": 8, "fast_memory.size": "128 MiB", "ddr.size": "1 GiB"}
    machine = pagelens.machine(CACHE_MODE).with_values(changed)

    def nodes(**options: Any) -> int:
        program = pagelens.workload("stream-triad", size="40MB")
        return pagelens.simulate(
            program, machine, ["contiguous"], output=tmp_path, progress=False, **options
        ).nodes

    assert nodes() == ROUNDS[0]
    assert nodes(precision=PRECISION) == ROUNDS[0]
    assert nodes(nodes=5) == 5
    assert nodes(nodes=3, precision=PRECISION) == 3


def test_nobody_makes_the_answer_so_far_where_nobody_sees_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ensembles, "so_far", lambda _: pytest.fail("it was made"))
    program, machine = pagelens.workload("stream-triad", size="10MB"), pagelens.machine(NO_L3)
    pagelens.simulate(program, machine, ["contiguous"], nodes=1, output=tmp_path, progress=False)


def test_of_nodes_that_are_alike_one_stands_for_all_in_what_costs_the_time(tmp_path: Path) -> None:
    random = np.random.default_rng(1)
    judge = ByPrecision(PRECISION, NODES)
    assert judge.alike(drawn({"aged": 0.001, "random": 0.1}, random, 8))
    assert not judge.alike(drawn({"aged": 0.03, "random": 0.0}, random, 8))
    program, machine = pagelens.workload("stream-triad", size="10MB"), pagelens.machine(NO_L3)
    for options, nodes in (({"precision": PRECISION}, 1), ({"nodes": 4}, 2)):
        found = pagelens.simulate(
            program, machine, ["contiguous"], output=tmp_path, progress=False, **options
        )
        assert found.tables.counterfactuals["node"].n_unique() == nodes


def test_few_nodes_do_not_show_the_slow_ones() -> None:
    few, many = (render_terminal(explain(synthetic.ensemble(nodes=n))) for n in (8, NODES))
    assert "all 8 simulated nodes can be fast with a chance of 66%" in " ".join(few.split())
    assert "in twenty" not in many


def test_a_precision_is_a_share() -> None:
    assert parse_share("2%") == 0.02
    for text in ("2", "0%", "101%", "x%", ""):
        with pytest.raises(pagelens.UsageError, match="a share is above 0% and at most 100%"):
            parse_share(text)
    with pytest.raises(pagelens.UsageError, match="precision: 2"):
        pagelens.simulate(
            pagelens.workload("stream-triad", size="300MB"), pagelens.machine(SNOOP_FILTER), precision=2
        )


def test_two_nodes_confirm_what_the_bounds_of_the_time_say_already(tmp_path: Path) -> None:
    changed = {"cores.count": 8, "fast_memory.size": "128 MiB", "ddr.size": "1 GiB"}
    machine = pagelens.machine(CACHE_MODE).with_values(changed)
    slow = machine.with_values({"cores.frequency": "1 MHz"})
    program = pagelens.workload("stream-triad", size="40MB")
    found = pagelens.simulate(program, slow, ["aged", "random"], output=tmp_path, progress=False)
    assert found.nodes == 2
    least, most = found.between()
    assert least <= most <= 1.02 * least
    conclusion = pagelens.explain(found).conclusion
    assert not conclusion.placement_matters
    assert any(sentence.startswith("No placement can") for sentence in conclusion.sentences)


def test_every_result_that_is_kept_lies_within_its_bounds() -> None:
    """The results are of a machine of each kind, under several policies. Single nodes may be 5% faster."""
    checked = 0
    for path in FOLDER.glob("*.json"):
        numbers = json.loads(path.read_text())
        times = [float(numbers[name]) for name in numbers if name.endswith((".best_s", ".worst_s"))]
        if times:
            assert 0.95 * float(numbers[".bounds.least_s"]) <= min(times)
            assert max(times) <= float(numbers[".bounds.most_s"])
            checked += 1
    assert checked >= 10
