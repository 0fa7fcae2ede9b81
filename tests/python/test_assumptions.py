"""Values that a machine file only assumes: explain tries others, and says which would turn its conclusion."""

import dataclasses
import subprocess
from collections.abc import Callable
from pathlib import Path

import numpy as np
import polars
import pytest
import synthetic
from machine_roles import CACHE_MODE, HYBRID_MODE, INCLUSIVE_L3

import pagelens as pl
from pagelens.accesses.declared import declared
from pagelens.cli.text.explain import render_terminal
from pagelens.ensemble import Scaled
from pagelens.ensemble.scale import shrink
from pagelens.explain.assumption_words import assumed_in_words
from pagelens.explain.assumptions import _around, _assumption, assumptions
from pagelens.explain.model import Assumption
from pagelens.explain.verdict import Verdict
from pagelens.frames import Node, policies
from pagelens.machine import Machine, load_machine
from pagelens.replay import Simulation
from pagelens.replay.assumed import FACTORS, assumed_values, factors_of
from pagelens.replay.run import Run

MEBIBYTE = 1 << 20

Command = Callable[..., subprocess.CompletedProcess[str]]


def with_assumed(name: str, value: str) -> Machine:
    """Westmere, whose memory's bandwidth nobody has measured, and no value of the time model else."""
    machine = load_machine(INCLUSIVE_L3).with_values({name: value})  # which calls it assumed
    return machine.model_copy(
        update={
            section: table.model_copy(
                update={
                    key: of.model_copy(update={"assumed": None, "source": "a test"})
                    for key in type(table).model_fields
                    if hasattr(of := getattr(table, key), "assumed") and f"{section}.{key}" != name
                }
            )
            for section, table in machine.sections.items()
            if not isinstance(table, list)
        }
    )


@pytest.mark.parametrize("name", ["ddr.bandwidth", "ddr.latency"])
def test_a_run_says_what_it_would_take_by_another_value(name: str) -> None:
    workload = declared("stream-triad", 24 * MEBIBYTE, 1)
    machine = with_assumed(name, {"ddr.bandwidth": "20 GB/s", "ddr.latency": "90 ns"}[name])
    assert list(assumed_values(machine)) == [name]
    section, key = name.split(".")

    def run(of: Machine) -> Run:
        simulation = Simulation(workload, of, ranks=1, vary_assumed=True)
        return simulation.run(simulation.place(policies["contiguous"], Node(of, seed=1, node=0)))

    varied = run(machine).if_assumed
    assert sorted(varied) == [(name, factor) for factor in FACTORS]
    for factor in (FACTORS[0], FACTORS[-1]):
        table = getattr(machine, section)
        of = getattr(table, key)
        changed = table.model_copy(update={key: of.model_copy(update={"value": factor * of.value})})
        other = run(machine.model_copy(update={section: changed}))
        np.testing.assert_allclose(varied[name, factor], other.times.time_s, rtol=1e-12)


def test_a_conclusion_names_the_assumed_value_that_turns_it() -> None:
    """The slower the memory, the less page walks count: 2 MiB pages help only while it is fast."""
    machine = with_assumed("ddr.bandwidth", "40 GB/s").model_copy(update={"dram": None})
    found = pl.explain(
        pl.simulate(
            pl.workload("random-access", size="32MiB"),
            machine,
            ranks=1,
            policies=["aged", "2m"],
            nodes=1,
            seed=1,
        )
    )
    (of,) = found.assumptions
    assert (of.name, of.value) == ("ddr.bandwidth", "40 GB/s")
    assert (of.tried_from, of.holds_from, of.tried_to) == ("13 GB/s", "13 GB/s", "120 GB/s")
    assert 40 < float(of.holds_to.removesuffix(" GB/s")) < 120
    assert (of.below, of.above) == ("", "'2m' gains more than 2%")
    assert (
        f"ddr.bandwidth = 40 GB/s is assumed: this conclusion holds from 13 GB/s to {of.holds_to}, and above "
        "that '2m' gains more than 2%." in found.conclusion.sentences
    )


def test_a_policy_with_fewer_nodes_is_compared_on_these_alone() -> None:
    """A slow node that only the baseline has says nothing about the remedy."""
    machine = with_assumed("ddr.bandwidth", "40 GB/s").model_copy(update={"dram": None})
    workload = pl.workload("random-access", size="32MiB")
    ensemble = pl.simulate(workload, machine, ranks=1, policies=["aged", "2m"], nodes=2, seed=1)
    remedies = pl.explain(ensemble).remedies
    policy, node = polars.col("policy"), polars.col("node")
    times = ensemble.tables.assumed.filter((policy == "aged") | (node == 0))
    slower = polars.when((policy == "aged") & (node == 1)).then(9.0).otherwise(1.0)

    def found(assumed: polars.DataFrame) -> list[Assumption]:
        tables = dataclasses.replace(ensemble.tables, assumed=assumed)
        return assumptions(dataclasses.replace(ensemble, tables=tables), remedies)

    assert found(times.with_columns(polars.col("time_s") * slower)) == found(times.filter(node == 0))


@pytest.mark.parametrize(
    ("gains", "ends"),
    [
        ([1.1, 1.1, 1.1], (1 / 3, 3)),
        ([1.0, 1.1, 1.1], (None, 3)),
        ([1.1, 1.1, 1.0], (1 / 3, None)),
    ],
)
def test_the_range_in_which_a_conclusion_holds_ends_where_the_gain_is_two_percent(
    gains: list[float], ends: tuple[float | None, float | None]
) -> None:
    factors, of = np.array([1 / 3, 1.0, 3.0]), np.array(gains)
    crossing = 3 ** (1 - (1.02 - 1.0) / (1.1 - 1.0))  # by the logarithm of the factor
    expected = [1 / crossing if ends[0] is None else ends[0], crossing if ends[1] is None else ends[1]]
    assert _around(factors, of, of > 1.02) == pytest.approx(expected)


def stated(name: str, value: object, ends: list[object]) -> Machine:
    """A KNL in hybrid mode, small, with one assumed value that has a range."""
    changed = {"cores.count": 8, "fast_memory.size": "256 MiB", "ddr.size": "1 GiB"}
    machine = load_machine(HYBRID_MODE).with_values(
        changed | {"memory_side_cache.size": "128 MiB"}, name="small"
    )
    section, key = name.split(".")
    table = getattr(machine, section)
    of = getattr(table, key)
    raw = {"value": value, "range": ends, "assumed": "a test"}
    return machine.model_copy(update={section: table.model_copy(update={key: type(of).model_validate(raw)})})


def test_values_are_tried_within_their_stated_range() -> None:
    machine = stated("ddr.bandwidth", "90 GB/s", ["60 GB/s", "90 GB/s"])
    factors = factors_of(assumed_values(machine)["ddr.bandwidth"])
    assert factors == pytest.approx([2 / 3, (2 / 3) ** (2 / 3), (2 / 3) ** (1 / 3)])


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ('{ value = "9 GB/s", range = ["1 GB/s", "2 GB/s"], assumed = "x" }', "the value must lie between"),
        ('{ value = "9 GB/s", range = ["1 GB/s"], assumed = "x" }', "a range is two numbers"),
        ('{ value = "9 GB/s", range = [1, 20], assumed = "x" }', "has no unit"),
        (
            '{ value = "9 GB/s", range = ["1 GB/s", "20 GB/s"], source = "x" }',
            "a range is of an assumed value",
        ),
    ],
)
def test_a_range_that_makes_no_sense_is_refused_with_its_place(line: str, says: str, tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(
        f'schema = 1\nbase = "{INCLUSIVE_L3}"\nname = "x"\ntitle = "x"\n[ddr]\nbandwidth = {line}\n'
    )
    with pytest.raises(pl.UsageError, match=rf"mine.toml:6: 'ddr.bandwidth.*{says}"):
        load_machine(path)


def test_a_machine_that_is_scaled_down_keeps_its_shares_and_ranges() -> None:
    """The cache of a machine in hybrid mode is a part of the fast memory, whose range shrinks with it."""
    whole = load_machine(HYBRID_MODE)
    machine = shrink(whole, 1 / 32)
    assert machine.frames // machine.slots == whole.frames // whole.slots
    w = pl.workload("stream-triad", size="300MB")
    ensemble = pl.simulate(w, Scaled(machine, 1, 1 / 32), ["random", "2m"], nodes=1, history="boot; run")
    tried = pl.try_assumed(ensemble, progress=False)
    assert list(tried["memory_side_cache.size"]) == [0.5]


@pytest.mark.parametrize(("key", "value", "other"), [("ways", 2, 1), ("size", "128 MiB", "64 MiB")])
def test_values_that_decide_counts_are_simulated_at_both_ends(key: str, value: object, other: object) -> None:
    name = f"memory_side_cache.{key}"
    machine = stated(name, value, [other, value])
    w = pl.workload("stream-triad", size="90MB")
    ensemble = pl.simulate(w, machine, ["random", "2m"], nodes=2, history="boot; run")
    tried = pl.try_assumed(ensemble, progress=False)
    changed = pl.simulate(
        w, machine.with_values({name: other}), ["random", "2m"], nodes=2,
        history="boot; run",
    )  # fmt: skip
    gain = pl.explain(changed).distribution("2m").gain_median
    assert tried == {name: {0.5: {"random": 1.0, "2m": gain}}}
    found = pl.explain(ensemble, tried=tried)
    of = next(each for each in found.assumptions if each.simulated)
    assert (of.name, of.tried_from, of.tried_to) == (name, str(other), str(value))
    assert of.range_is_stated
    assert of.gain_from != of.gain_to == of.gain_as_it_is
    assert of.gain_from == gain


def test_the_command_has_a_table_and_a_figure_of_what_is_assumed(tmp_path: Path, in_process: Command) -> None:
    (tmp_path / "mine.toml").write_text(
        f'schema = 1\nbase = "{CACHE_MODE}"\nname = "mine"\ntitle = "mine"\n'
        '[cores]\ncount = { value = 8, assumed = "a test" }\n'
        '[fast_memory]\nsize = { value = "128 MiB", assumed = "a test" }\n'
        '[ddr]\nsize = { value = "1 GiB", assumed = "a test" }\n'
        '[memory_side_cache]\nways = { value = 2, range = [1, 2], assumed = "a test" }\n'
    )
    words = "--machine mine.toml --workload stream-triad --size 90MB --nodes 1 --policies random,2m -o out"
    done = in_process("explain", "--sensitivity", *words.split(), "--history", "boot; run")
    assert done.returncode == 0, done.stderr
    row = next(line for line in done.stdout.splitlines() if "memory_side_cache.ways" in line and "*" in line)
    assert row.split()[1] == "1"
    assert row.split()[3] == "2"
    assert '<figure id="assumptions">' in (tmp_path / "out/report.html").read_text()


@pytest.mark.parametrize(
    ("verdicts", "said"),
    [
        (("gains", "unsure"), "'first' still gains more than 2%"),
        (("none", "none"), "still no remedy gains more than 2%"),
        (("unsure", "none"), "the other remedies still gain no more than 2%"),
        (("unsure", "unsure"), ""),
        ((), ""),
    ],
)
def test_nothing_is_said_to_survive_that_was_not_judged(verdicts: tuple[Verdict, ...], said: str) -> None:
    found = pl.explain(synthetic.ensemble(nodes=4))
    remedies = [
        found.remedies[0].model_copy(update={"policy": policy, "verdict": verdict})
        for policy, verdict in zip(("first", "second"), verdicts, strict=False)
    ]
    stays = Assumption(
        name="ddr.bandwidth",
        value="40 GB/s",
        note="a guess",
        tried_from="13 GB/s",
        tried_to="120 GB/s",
        holds_from="13 GB/s",
        holds_to="120 GB/s",
        below="",
        above="",
    )
    sentences = assumed_in_words([stays], remedies)
    assert len(sentences) == bool(said)
    assert all(f", {said}. This value is assumed: ddr.bandwidth." in sentence for sentence in sentences)
    told = found.model_copy(update={"assumptions": [stays], "remedies": remedies})
    text = " ".join(render_terminal(told, sensitivity=True).split())
    assert ("?: no remedy has a verdict that a value could change" in text) == (not said)


@pytest.mark.parametrize(("median", "entries"), [(1.0, 0), (1.5, 1)])
def test_advice_for_slow_nodes_is_not_judged_by_the_median(median: float, entries: int) -> None:
    # All remedies gain as much with any value: nothing was divided by, and no range is claimed.
    remedy = pl.explain(synthetic.ensemble(nodes=8)).remedies[0]
    advised = remedy.model_copy(update={"verdict": "gains", "gain_median": median, "gain_p95": 1.5})
    value = load_machine(CACHE_MODE).ddr.latency
    gains = {factor: {advised.policy: median} for factor in (0.5, 1.0, 2.0)}
    assert [_assumption("ddr.latency", value, gains, [advised]) is not None] == [entries == 1]
