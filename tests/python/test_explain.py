"""From tables to an explanation: what it says is what the tables hold."""

import dataclasses

import numpy as np
import polars as pl
import pytest
import synthetic

from pagelens.explain import explain
from pagelens.explain.cause_words import interaction_in_words, why_fresh_is_slower
from pagelens.explain.conclusion import _no_effect, _node, _one_numa_node, _out_of_reach, _size, conclude
from pagelens.explain.distributions import AS_FAST, bound
from pagelens.explain.model import Distribution, Explanation
from pagelens.explain.remedy_words import advice, harm_in_words, other_order
from pagelens.explain.words import as_long, few_nodes_note
from pagelens.machine.cores import Spread
from pagelens.values.quantities import Sourced


@pytest.fixture(scope="module")
def explanation() -> Explanation:
    return explain(synthetic.ensemble(), "pagelens explain two-arrays")


def test_the_best_run_is_the_fastest_of_all_policies_and_nodes(explanation: Explanation) -> None:
    fastest = min((min(d.times_s), d.policy) for d in explanation.distributions)
    assert (explanation.best.time_s, explanation.best.policy) == fastest
    assert all(d.p5_s >= explanation.best.time_s for d in explanation.distributions)


def test_distributions_describe_their_times(explanation: Explanation) -> None:
    for d in explanation.distributions:
        times = np.array(d.times_s)
        assert d.median_s == pytest.approx(np.median(times))
        assert d.worst_s == times.max()
        assert d.slower_20_percent == np.mean(times > 1.2 * explanation.best.time_s)
        assert sum(d.histogram.nodes) == len(times) == explanation.sample.nodes
        assert d.histogram.edges == explanation.distributions[0].histogram.edges
    assert explanation.distribution("aged").modes == 2
    assert explanation.distribution("random").modes == 1


def test_misses_go_with_the_time_and_constants_are_said_to_be(explanation: Explanation) -> None:
    by_counter = {c.counter: c for c in explanation.distribution("aged").correlations}
    assert by_counter["msc_misses"].pearson is not None
    assert by_counter["msc_misses"].pearson > 0.99
    assert by_counter["l2_misses"].pearson is None  # the same on every node


def test_attribution_adds_up_for_every_policy(explanation: Explanation) -> None:
    for a in explanation.attributions:
        loss = a.time_s - a.unburdened_s
        assert sum(part.seconds for part in a.parts) == pytest.approx(loss, rel=1e-9, abs=1e-12)
        alone = sum(a.time_s - part.without_s for part in a.parts)
        assert alone + a.interaction_s == pytest.approx(loss, rel=1e-9, abs=1e-12)
    mean = next(a for a in explanation.attributions if (a.policy, a.nodes) == ("aged", "mean"))
    assert mean.time_s == pytest.approx(np.mean(explanation.distribution("aged").times_s))
    slowest = next(a for a in explanation.attributions if (a.policy, a.nodes) == ("aged", "slowest"))
    assert slowest.time_s == pytest.approx(explanation.distribution("aged").worst_s)


def test_objects_share_out_all_lines(explanation: Explanation) -> None:
    for policy in synthetic.POLICIES:
        objects = [o for o in explanation.objects if o.policy == policy]
        assert sum(o.access_share for o in objects) == pytest.approx(1)
        assert [o.name for o in objects] == ["A.values", "B.values"]  # most lines first
        assert objects[0].access_share == pytest.approx(2 / 3)
    collisions = [c for c in explanation.collisions if c.policy == "aged"]
    assert (collisions[0].name, collisions[0].victim) == ("A.values", "A.values")
    assert collisions[0].share == pytest.approx(4 / 9)


def test_remedies_are_what_one_can_choose_best_first(explanation: Explanation) -> None:
    assert [r.policy for r in explanation.remedies] == ["aged+zonesort", "2m"]  # not random, not contiguous
    first = explanation.remedies[0]
    medians = [explanation.distribution(p).median_s for p in ("aged", "aged+zonesort")]
    assert first.gain_median == pytest.approx(medians[0] / medians[1])
    assert first.gain_median_low <= first.gain_median <= first.gain_median_high


def test_the_conclusion_names_cause_culprit_and_remedy(explanation: Explanation) -> None:
    text = " ".join(explanation.conclusion.sentences)
    assert explanation.conclusion.placement_matters
    assert text.startswith(
        "Page placement matters for this program on a Cori KNL node: on a median node that has run other "
        "jobs before ('aged'), it takes 1.98x as long as in contiguous physical memory (modelled)."
    )
    for part in (
        "conflicts in the memory-side cache",
        "`A.values` evicts itself",
        "'aged+zonesort'",
        "root",
    ):
        assert part in text


@pytest.mark.parametrize("attributed", [True, False])
def test_why_a_fresh_node_is_slower_is_said(explanation: Explanation, attributed: bool) -> None:
    base, fresh = explanation.distribution("aged"), explanation.distribution("random")
    gains = {"gain_median": 0.8, "gain_median_low": 0.79, "gain_median_high": 0.81}
    slower = fresh.model_copy(update={"policy": "contiguous", **gains})
    parts = [
        of.model_copy(update={"policy": policy})
        for name, policy in (("contiguous", "aged"), ("random", "contiguous"))
        for of in explanation.attributions
        if of.policy == name
    ]
    said = list(why_fresh_is_slower(base, [base, slower], parts if attributed else []))
    if attributed:
        assert said == ["What costs more on contiguous frames is mostly conflicts in the memory-side cache."]
    else:
        assert said[0].startswith("On contiguous frames, more time goes to DDR: ")
    equal = slower.model_copy(update={"gain_median_high": 1.01})
    assert list(why_fresh_is_slower(base, [base, equal], parts)) == []


@pytest.mark.parametrize(
    ("gain", "low", "said"), [(1.08, 1.05, True), (1.08, 0.9, False), (1.01, 1.005, False)]
)
@pytest.mark.parametrize("matters", [True, False])
def test_a_faster_placement_that_nobody_can_choose_is_said_to_be_out_of_reach(
    explanation: Explanation, gain: float, low: float, said: bool, matters: bool
) -> None:
    base = explanation.distribution("aged")
    if not matters:
        base = base.model_copy(update={"p95_s": base.p5_s, "placement_spread": 1.0})
    gains = {"gain_median": gain, "gain_median_low": low, "gain_median_high": 1.1}
    lucky = explanation.distribution("random").model_copy(update={"median_s": base.median_s / gain, **gains})
    found = conclude(
        explanation.program, explanation.machine, "aged", explanation.bounds, [lucky, base], [], [], [], []
    )
    wanted = "which nobody can choose, the program runs 1.08x as fast as under 'aged' (modelled), and no "
    names_it = [wanted in text or "1.08x as long as under 'random'" in text for text in found.sentences]
    assert found.placement_matters == matters
    assert sum(names_it) == said


@pytest.mark.parametrize(("gain", "said"), [(1.02, True), (1.07, False)])
def test_what_nobody_can_choose_is_named_where_no_remedy_gains_as_much(
    explanation: Explanation, gain: float, said: bool
) -> None:
    base, lucky = (explanation.distribution(policy) for policy in ("aged", "random"))
    gains = dict.fromkeys(("gain_median", "gain_median_low", "gain_median_high"), 1.08)
    lucky = lucky.model_copy(update=gains)
    remedy = explanation.remedies[0].model_copy(update={"verdict": "gains", "gain_median": gain})
    assert bool(_out_of_reach(base, [base, lucky], [remedy])) == said
    assert _out_of_reach(base, [base, lucky], [remedy], said="it takes longer than under 'random'") == []


@pytest.mark.parametrize(
    ("low", "high", "said"), [(0.99, 1.01, "about as fast as in"), (0.4, 2.7, "too small to tell whether it")]
)
def test_equal_speed_is_claimed_only_where_the_interval_shows_it(
    explanation: Explanation, low: float, high: float, said: str
) -> None:
    base = explanation.distribution("aged")
    gains = {"gain_median": 1.0, "gain_median_low": low, "gain_median_high": high}
    fresh = explanation.distribution("contiguous").model_copy(update=gains)
    assert said in next(_size("a Cori KNL node", base, [base, fresh]))


@pytest.mark.parametrize(("gain", "link"), [(1.0, ", although its median time"), (1.3, ":")])
def test_equal_medians_are_no_reason_why_placement_matters(
    explanation: Explanation, gain: float, link: str
) -> None:
    base = explanation.distribution("aged")
    gains = {"gain_median": gain, "gain_median_low": gain, "gain_median_high": gain}
    other = base.model_copy(update={"policy": "2m", "median_s": base.median_s / 1.01, **gains})
    said = next(_size("a Cori KNL node", base, [base, other]))
    assert said.startswith(f"Page placement matters for this program on a Cori KNL node{link} under 'aged'")


def test_a_median_that_may_be_much_slower_is_not_said_to_be_equal(explanation: Explanation) -> None:
    base = explanation.distribution("aged")
    gains = {"gain_median": 3.2, "gain_median_low": 1.0, "gain_median_high": 5.9}
    other = base.model_copy(update={"policy": "2m", "median_s": base.median_s / 3.2, **gains})
    said = next(_size("a Cori KNL node", base, [base, other]))
    assert "too small to tell whether it takes longer under 'aged' (on a node that has run" in said
    assert "than under '2m': 3.2x as long (modelled, 95% interval 1.00-5.90)" in said


@pytest.mark.parametrize(("gain", "low", "high"), [(1.0, 0.99, 1.01), (1.015, 1.01, 1.019)])
def test_earlier_jobs_are_not_blamed_where_all_nodes_are_as_fast_as_a_fresh_one(
    explanation: Explanation, gain: float, low: float, high: float
) -> None:
    gains = {"gain_median": gain, "gain_median_low": low, "gain_median_high": high}
    fresh = explanation.distribution("contiguous").model_copy(update=gains)
    spread = explanation.distribution("aged")
    alike = spread.model_copy(update={"p95_s": spread.p5_s, "slower_20_percent": 0.0})
    says = [next(_size("a Cori KNL node", base, [base, fresh])) for base in (spread, alike)]
    assert ["not because of earlier jobs" in each for each in says] == [False, True]


@pytest.mark.parametrize(("faster", "said"), [(1.0, True), (1.5, False)])
def test_a_usual_placement_that_nothing_surpasses_is_said_to_be_good(
    explanation: Explanation, faster: float, said: bool
) -> None:
    spread, fresh = (explanation.distribution(policy) for policy in ("aged", "contiguous"))
    base = spread.model_copy(update={"p95_s": spread.p5_s, "slower_20_percent": 0.0})

    def other(policy: str, gain: float) -> Distribution:
        gains = dict.fromkeys(("gain_median", "gain_median_low", "gain_median_high"), gain)
        return fresh.model_copy(update={"policy": policy, "median_s": base.median_s / gain, **gains})

    first = next(_size("a Cori KNL node", base, [base, other("contiguous", 0.5), other("2m", faster)]))
    assert ("but the usual one is as good as any simulated: on a median node" in first) == said


@pytest.mark.parametrize(("name", "said"), [("numa.latencies", True), ("ddr.latency", False)])
def test_on_several_numa_nodes_it_is_said_where_contiguous_memory_lies(
    explanation: Explanation, name: str, said: bool
) -> None:
    inputs = [explanation.machine.inputs[0].model_copy(update={"name": name})]
    machine = explanation.machine.model_copy(update={"inputs": inputs})
    base = explanation.distribution("aged")
    sentences = _one_numa_node(machine, base, explanation.distributions)
    assert [each.startswith("Contiguous memory begins on one NUMA node") for each in sentences] == [
        True
    ] * said
    assert _one_numa_node(machine, base, [base]) == []
    alike = explanation.distribution("contiguous").model_copy(update={"gain_median": 1.01})
    assert _one_numa_node(machine, base, [base, alike]) == []


def test_what_is_faster_is_named_where_contiguous_memory_is_not(explanation: Explanation) -> None:
    base = explanation.distribution("aged").model_copy(update={"slower_20_percent": 1.0})
    fresh = explanation.distribution("contiguous").model_copy(update={"gain_median": 1.0})
    gains = {"gain_median": 3.0, "gain_median_low": 2.9, "gain_median_high": 3.1}
    near = fresh.model_copy(update={"policy": "close", "median_s": base.median_s / 3, **gains})
    assert "it takes 3.0x as long as under 'close'" in next(
        _size("a Cori KNL node", base, [base, fresh, near])
    )


def test_the_best_run_is_named_where_it_is_under_another_policy(explanation: Explanation) -> None:
    base = explanation.distribution("aged").model_copy(update={"slower_20_percent": 0.5})
    other = explanation.distribution("contiguous").model_copy(update={"best_s": base.best_s / 2})
    _, alone = _size("a Cori KNL node", base, [base])
    _, beside = _size("a Cori KNL node", base, [base, other])
    assert "than the best run, and the worst" in alone
    assert "than the best run, which is under 'contiguous', and the worst" in beside
    as_fast = other.model_copy(update={"best_s": base.best_s * (1 - AS_FAST / 2)})
    _, tied = _size("a Cori KNL node", base, [base, as_fast])
    assert tied == alone


def test_aged_is_explained_where_no_other_sentence_does(explanation: Explanation) -> None:
    base = explanation.distribution("aged")
    slower = base.model_copy(update={"policy": "random", "median_s": 2 * base.median_s})
    for beside, said in (([], "was simulated"), ([slower], "runs fastest")):
        assert f"It {said} under 'aged' (on a node that has run other jobs)" in next(
            _size("a Cori KNL node", base, [base, *beside])
        )


def test_where_placement_does_not_matter_that_is_all_that_is_said() -> None:
    found = explain(synthetic.ensemble(nodes=8, placement_matters=False)).conclusion
    assert not found.placement_matters
    assert found.sentences[0].startswith("Page placement does not matter for this program on a Cori KNL node")
    assert (
        "as far as all 8 simulated nodes show" in found.sentences[0]
    )  # and rare ones are said to be missing
    rare, elsewhere = found.sentences[1:]
    assert elsewhere == "To make it faster, look elsewhere: 84% of its time is limited by the fast memory."
    assert rare.startswith("Rare slow nodes may be missing: ")


def test_what_stays_open_is_not_said_to_make_no_difference(explanation: Explanation) -> None:
    unsure = explanation.remedies[0].model_copy(update={"verdict": "unsure"})
    decided = unsure.model_copy(update={"verdict": "none"})
    says = [_no_effect("Cori KNL", 1.004, remedies) for remedies in ([unsure], [decided], [])]
    assert ["no remedy saves more" in text for text in says] == [False, True, True]
    assert says[0].endswith("Whether a remedy helps stays open.")
    claimless = decided.model_copy(update={"policy": "close", "verdict": "bounds disagree"})
    said = _no_effect("Cori KNL", 1.004, [decided, claimless])
    assert said.endswith("and apart from 'close', no remedy saves more than that.")
    assert _no_effect("Cori KNL", 1.004, [], nodes=8).endswith(" No remedy was simulated.")


def test_what_limits_a_program_is_said_where_no_mechanism_was_removed() -> None:
    ensemble = synthetic.ensemble(nodes=8)
    none = dataclasses.replace(ensemble.tables, counterfactuals=ensemble.tables.counterfactuals.head(0))
    sentences = explain(dataclasses.replace(ensemble, tables=none)).conclusion.sentences
    limits = [said for said in sentences if "limited by" in said]
    assert len(limits) == 1
    assert limits[0].startswith("Which mechanism costs the time is not known yet, but ")
    whole = explain(ensemble).conclusion.sentences
    assert not any("is not known yet" in said for said in whole)


def test_a_program_that_is_faster_than_on_contiguous_frames_is_said_to_be_faster() -> None:
    assert as_long(0.5) == "runs 2.0x as fast as"
    assert as_long(2.0) == "takes 2.0x as long as"
    assert as_long(1.001) == "runs about as fast as"
    assert few_nodes_note(2).split(", ")[1].startswith("both simulated nodes can be fast")


def test_a_machine_has_the_article_of_its_name() -> None:
    ensemble = synthetic.ensemble(nodes=2, placement_matters=False)
    named = ensemble.machine.model_copy(update={"title": "AMD EPYC (2 cores)"})
    said = explain(dataclasses.replace(ensemble, machine=named)).conclusion.sentences[0]
    assert "on an AMD EPYC node" in said


def test_what_makes_an_indifferent_program_slower_is_said() -> None:
    ensemble = synthetic.ensemble(nodes=4, placement_matters=False)
    slow = pl.when(pl.col("policy") == "2m").then(pl.col("time_s") * 9).otherwise(pl.col("time_s"))
    tables = dataclasses.replace(
        ensemble.tables, placements=ensemble.tables.placements.with_columns(slow.alias("time_s"))
    )
    found = explain(dataclasses.replace(ensemble, tables=tables)).conclusion
    assert not found.placement_matters
    assert "With these remedies the program would take longer: '2m' (9.0x as long)." in found.sentences


@pytest.mark.parametrize("policy", ["touch", "touch:field", "interleave"])
def test_what_the_model_of_a_parallel_first_touch_lacks_is_said_where_it_costs(policy: str) -> None:
    remedy = explain(synthetic.ensemble(nodes=4)).remedies[0]
    said = harm_in_words([remedy.model_copy(update={"policy": policy, "verdict": "costs"})])
    assert any("the loop that initialises still runs as traced" in sentence for sentence in said) == (
        policy != "interleave"
    )


def test_a_phase_is_explained_alone() -> None:
    whole, solve = (explain(synthetic.ensemble(nodes=8, phase=phase)) for phase in (None, "solve"))
    assert solve.program.phase == "solve"
    assert solve.best.time_s == pytest.approx(
        whole.best.time_s * synthetic.SWEEPS / (synthetic.SWEEPS + 1), rel=0.1
    )
    assert all(a.unburdened_s > 0 for a in solve.attributions)
    assert sum(o.accesses for o in solve.objects) < sum(o.accesses for o in whole.objects)


def test_each_phase_is_decided_by_one_resource() -> None:
    """The resources' parts add up to the time, and one that is always the busiest decides all of it."""
    for phase in (None, "solve"):
        for d in explain(synthetic.ensemble(nodes=8, phase=phase)).distributions:
            assert sum(r.bound_s for r in d.resources) == pytest.approx(np.mean(d.times_s))
            assert all(r.bound_s <= r.busy_s * (1 + 1e-9) for r in d.resources)
            assert [r.busy_s for r in d.resources] == sorted((r.busy_s for r in d.resources), reverse=True)
            assert {r.name for r in d.resources} <= {"issue", "latency", "fast memory", "DDR"}
        if phase == "solve" and d.policy == "random":
            assert d.resource("DDR").busy_s == d.resource("DDR").bound_s == pytest.approx(d.mean_s)


def test_cores_that_do_one_thing_after_another_decide_what_no_resource_does() -> None:
    """Issue and page faults add up: a memory that is busy for less than both limits nothing."""
    busy = {
        name: np.array([seconds, seconds])
        for name, seconds in {"issue": 3.0, "page faults": 4.0, "latency": 1.0, "DDR": 5.0}.items()
    }
    found = bound(busy, np.array([7.5, 5.0]))  # the cores decide the first phase, and DDR the second
    assert {name: seconds.tolist() for name, seconds in found.items()} == {
        "issue": [3.0, 0.0],
        "page faults": [4.0, 0.0],
        "latency": [0.5, 0.0],
        "DDR": [0.0, 5.0],
    }


def test_one_node_and_one_policy_are_enough() -> None:
    found = explain(synthetic.ensemble(nodes=1, policies=("random",)))
    assert found.baseline == "random"
    assert found.remedies == []
    assert found.distributions[0].modes == 1


def test_rows_in_another_order_say_the_same() -> None:
    ensemble = synthetic.ensemble(nodes=6)
    tables = {name: ensemble.tables[name] for name in synthetic.TABLES}
    shuffled = {name: table.sample(fraction=1, shuffle=True, seed=3) for name, table in tables.items()}
    again = dataclasses.replace(ensemble, tables=synthetic.Tables(**shuffled))
    assert explain(again).model_dump_json() == explain(ensemble).model_dump_json()


def test_a_best_run_of_another_policy_is_found() -> None:
    """The best is over all policies: make one 2m node the fastest."""
    ensemble = synthetic.ensemble(nodes=4)
    placements = ensemble.tables.placements.with_columns(
        pl.when((pl.col("policy") == "2m") & (pl.col("node") == 3))
        .then(pl.col("time_s") / 100)
        .otherwise(pl.col("time_s"))
        .alias("time_s")
    )
    found = explain(
        dataclasses.replace(ensemble, tables=dataclasses.replace(ensemble.tables, placements=placements))
    )
    assert (found.best.policy, found.best.node) == ("2m", 3)
    assert found.distribution("contiguous").slower_20_percent == 1


def test_where_another_remedy_helps_the_slow_nodes_more_it_is_said(explanation: Explanation) -> None:
    first, second = explanation.remedies
    level = {"gain_median": 2.0, "gain_p95": 2.0, "gain_worst": 2.0}
    first = first.model_copy(update=level)
    for update, said in (
        ({"gain_median": 1.5, "gain_p95": 2.0, "gain_worst": 2.0}, ""),
        (
            {"gain_median": 1.5, "gain_p95": 3.0, "gain_worst": 2.0},
            "On the slow nodes (95th percentile) '2m' gains more than 'aged+zonesort': 3.0x against 2.0x.",
        ),
        (
            {"gain_median": 1.5, "gain_p95": 2.0, "gain_worst": 4.0},
            "For the worst node '2m' gains more than 'aged+zonesort': 4.0x against 2.0x.",
        ),
    ):
        assert other_order([first, second.model_copy(update=update)]) == said
        claimless = second.model_copy(update={**update, "verdict": "bounds disagree"})
        assert other_order([first, claimless]) == other_order([claimless, first]) == ""
    harmful = first.model_copy(update={"gain_p95": 0.9, "gain_worst": 0.9})
    useless = second.model_copy(update=dict.fromkeys(level, 1.01))
    assert other_order([harmful, useless]) == ""


@pytest.mark.parametrize(
    ("machine", "copies", "said"),
    [
        ("Two EPYC 9654", 64, "a node with two EPYC 9654 that runs 64 copies of it"),
        ("AMD EPYC", 2, "an AMD EPYC node that runs 2 copies of it"),
        ("Two-socket Sandy Bridge", 1, "a Two-socket Sandy Bridge node"),
    ],
)
def test_a_machine_has_its_article_and_runs_copies(
    explanation: Explanation, machine: str, copies: int, said: str
) -> None:
    program = explanation.program.model_copy(update={"source": "trace", "ranks": copies})
    assert _node(machine, program) == said


def test_a_gain_that_slow_nodes_do_not_have_is_said_so(explanation: Explanation) -> None:
    first = explanation.remedies[0].model_copy(
        update={"gain_median": 1.3, "gain_median_low": 1.2, "gain_median_high": 1.4}
    )
    for slow, said in (
        (1.05, "1.30x as fast (95% interval 1.20-1.40), but only 1.05x on the slow"),
        (1.5, "1.30x as fast (95% interval 1.20-1.40), and 1.50x on the slow"),
        (1.3, "runs 1.30x as fast (95% interval 1.20-1.40)."),
    ):
        assert said in advice([first.model_copy(update={"gain_p95": slow})])[0]
    assert "slow nodes" not in advice([first.model_copy(update={"gain_p95": 1.3})])[0]


def test_the_worst_node_has_a_gain_of_its_own(explanation: Explanation) -> None:
    for remedy in explanation.remedies:
        worst = [explanation.distribution(policy).worst_s for policy in ("aged", remedy.policy)]
        assert remedy.gain_worst == pytest.approx(worst[0] / worst[1])


def test_the_interaction_is_said_in_words(explanation: Explanation) -> None:
    mean = next(a for a in explanation.attributions if (a.policy, a.nodes) == ("aged", "mean"))
    for share, said in ((0.5, "save 50% of the time more than"), (-0.25, "save 25% of the time less than")):
        assert said in interaction_in_words(mean.model_copy(update={"interaction_s": share * mean.time_s}))
    assert interaction_in_words(mean.model_copy(update={"interaction_s": 0.01 * mean.time_s})) == ""


def test_of_runs_that_are_as_fast_the_plain_one_is_the_best() -> None:
    """It is not '1g', because no part of the program is large enough for such a page."""
    ensemble = synthetic.ensemble(nodes=4, policies=("aged", "2m"), placement_matters=False)
    same = pl.col("time_s").filter(pl.col("policy") == "aged").first().over("node", "phase")
    tables = dataclasses.replace(
        ensemble.tables,
        placements=ensemble.tables.placements.with_columns(
            pl.when(pl.col("policy") == "2m")
            .then(same * (1 - 1e-6))
            .otherwise(pl.col("time_s"))
            .alias("time_s")
        ),
    )
    assert explain(dataclasses.replace(ensemble, tables=tables)).best.policy == "aged"


def test_core_frequencies_are_no_effect_of_placement() -> None:
    """Nodes of a program that issue limits differ in their cores' frequency alone."""
    alike = synthetic.ensemble(placement_matters=False)
    cores = alike.machine.cores.model_copy(
        update={"frequency_spread": Sourced[Spread](value=0.02, assumed="test")}
    )
    factors = [cores.frequency_factor(alike.seed, node) for node in range(alike.nodes)]
    slower = pl.col("time_s") / pl.col("node").replace_strict(
        dict(enumerate(factors)), return_dtype=pl.Float64
    )
    different = dataclasses.replace(
        alike,
        machine=alike.machine.model_copy(update={"cores": cores}),
        tables=dataclasses.replace(
            alike.tables, placements=alike.tables.placements.with_columns(slower.alias("time_s"))
        ),
    )
    found = explain(different)
    base = found.distribution(found.baseline)
    assert base.spread > 1.05
    assert base.placement_spread == pytest.approx(1, abs=1e-3)
    assert not found.conclusion.placement_matters
    text = " ".join(found.conclusion.sentences)
    assert (
        f"{base.spread:.2f}x as long as fast nodes (5th percentile), mostly because the frequencies" in text
    )
    assert "with equal frequencies they would take 1.00x as long" in text
    assert "frequencies" not in " ".join(explain(alike).conclusion.sentences)
