"""The first lines of an explanation hold the verdict, and what decides how to read it."""

import dataclasses
from pathlib import Path

import polars as pl
import pytest
import synthetic

from pagelens.accesses.rank_binding import AS_MODELLED
from pagelens.api import diff
from pagelens.cli.text.several_machines import render_machines
from pagelens.ensemble import Ensemble
from pagelens.explain import Explanation, explain
from pagelens.explain.conclusion import conclude
from pagelens.explain.model import JobRecord
from pagelens.units import format_time

SHARES = "When the ranks were traced, they shared cores."


@pytest.fixture(scope="module")
def explanation() -> Explanation:
    return explain(synthetic.ensemble(nodes=8))


def said_with(e: Explanation, **of_program: object) -> list[str]:
    program = e.program.model_copy(update=of_program)
    return conclude(
        program, e.machine, e.baseline, e.bounds, e.distributions, [], [], e.remedies, []
    ).sentences


@pytest.mark.parametrize(("note", "crowding", "place"), [(AS_MODELLED, 1.0, 1), (SHARES, 2.0, 0)])
def test_a_binding_comes_before_the_verdict_only_where_it_costs_time(
    explanation: Explanation, note: str, crowding: float, place: int
) -> None:
    job = JobRecord(traced_ranks=2, spreads=[], statements=[], binding=[note], crowding=crowding)
    said = said_with(explanation, job=job)
    assert said[place] == note
    assert said[1 - place].startswith("Page placement matters for this program")


def test_a_trace_of_other_instructions_than_the_machines_is_said_once(explanation: Explanation) -> None:
    arm = explanation.machine.model_copy(update={"instruction_set": "AArch64"})
    for machine, traced, warned in (
        (arm, "x86-64", True),
        (arm, None, False),
        (explanation.machine, "x86-64", False),
    ):
        said = said_with(explanation.model_copy(update={"machine": machine}), instruction_set=traced)
        wanted = f"The trace is of x86-64, and {machine.name} executes AArch64. "
        assert [text.startswith(wanted) for text in said[:2]] == [False, warned]
        assert sum("AArch64" in text for text in said) == warned


def lasting(factor: float, placement_matters: bool = True) -> Ensemble:
    """Return the ensemble of a traced program, whose times are so many times those of the declared one."""
    ensemble = synthetic.ensemble(nodes=8, placement_matters=placement_matters)
    workload = ensemble.workload
    workload.source, workload.share_seen = "trace", 1.0
    shorter = ensemble.tables.placements.with_columns(pl.col("^.*time_s$") * factor)
    return dataclasses.replace(ensemble, tables=dataclasses.replace(ensemble.tables, placements=shorter))


def test_a_run_that_is_shorter_than_its_start_is_said_to_be_too_short() -> None:
    whole = explain(lasting(1)).distribution("aged").median_s
    short = explain(lasting(150e-6 / whole))
    first, *rest = short.conclusion.sentences
    assert not short.conclusion.placement_matters
    assert first.startswith(
        f"This run is too short for page placement to matter: it takes {format_time(150e-6)}, and placement "
    )
    assert not any("remedy" in text for text in rest)
    assert "too short" in explain(lasting(150e-6 / whole, placement_matters=False)).conclusion.sentences[0]
    same = explain(lasting(5e-3 / whole, placement_matters=False)).conclusion
    assert same.sentences[0].startswith("Page placement does not matter")  # also if it lasted longer
    # Of 5 ms, placement changes more than a start takes: the run is short, and its nodes differ.
    assert explain(lasting(5e-3 / whole)).conclusion.placement_matters


def test_different_numbers_of_copies_stand_beside_the_ratio(explanation: Explanation) -> None:
    other = explanation.model_copy(
        update={
            "machine": explanation.machine.model_copy(update={"name": "other"}),
            "program": explanation.program.model_copy(update={"ranks": 1}),
        }
    )
    text = render_machines([explanation, other], [diff(explanation, other)], [Path("a"), Path("b")])
    first, many = " ".join(text.split("\n\n")[0].split()), explanation.program.ranks
    assert first.startswith("On other, a median node with 1 copy of the program takes 1.00x as long as ")
    assert f"as one with {many} copies on {explanation.machine.name} (95% interval " in first


def on(machine: str, e: Explanation) -> Explanation:
    """The same explanation on a machine of another name."""
    return e.model_copy(update={"machine": e.machine.model_copy(update={"name": machine})})


def several(explanations: list[Explanation], left_out: tuple[str, ...] = ()) -> str:
    first, *others = explanations
    folders = [Path("pagelens-out/a-program-with-a-long-name") / of.machine.name for of in explanations]
    return render_machines(explanations, [diff(first, of) for of in others], folders, left_out)


def test_several_machines_say_too_that_the_run_is_too_short() -> None:
    whole = explain(lasting(1)).distribution("aged").median_s
    short, long = explain(lasting(150e-6 / whole)), explain(lasting(1))
    text = several([on("a", short), on("b", long)])
    first = " ".join(text.split("\n\n")[0].split())
    assert first.startswith(
        "This run is too short on a for page placement to matter. The kernel alone takes "
    )
    both = " ".join(several([on("a", short), on("b", short)]).split("\n\n")[0].split())
    assert both.startswith("This run is too short for page placement to matter. ")
    assert "too short" not in several([on("a", long), on("b", long)])


def test_several_machines_say_on_which_of_them_placement_matters() -> None:
    matters, not_there = explain(lasting(1)), explain(lasting(1, placement_matters=False))
    too_short = explain(lasting(1e-6, placement_matters=False))
    for of, said in (
        ([matters, matters], "Page placement matters on each of these machines."),
        ([not_there, not_there], "Page placement matters on none of these machines."),
        ([not_there, matters], "Of these machines, page placement matters on 1 only."),
        ([matters] * 4 + [not_there], "Page placement matters on 4 of the 5 machines."),
        ([too_short, too_short], None),
    ):
        text = " ".join(several([on(str(number), each) for number, each in enumerate(of)]).split())
        assert said in text if said else "age placement matters" not in text


def test_several_machines_of_other_instructions_are_named_in_one_sentence(explanation: Explanation) -> None:
    program = explanation.program.model_copy(update={"instruction_set": "x86-64"})
    arm = explanation.machine.model_copy(update={"instruction_set": "AArch64"})
    here, there = (
        explanation.model_copy(update={"program": program, "machine": of})
        for of in (explanation.machine, arm)
    )
    said = " ".join(several([on("a", here), on("b", there), on("c", there)]).split())
    assert "The trace is of x86-64, and b and c execute AArch64. The program is assumed" in said
    assert said.count("The trace is of") == 1


def test_of_many_machines_the_sentences_name_the_fastest_and_the_slowest(
    explanation: Explanation, monkeypatch: pytest.MonkeyPatch
) -> None:
    slower, faster = (explain(lasting(factor)) for factor in (2, 0.5))
    many = [on(f"machine-{number}", explanation) for number in range(5)]
    text = several([*many, on("slow", slower), on("fast", faster)], ("missing",))
    first, rows, where = text.split("\n\n")
    said = " ".join(first.split())
    assert said.startswith("Of 7 machines, a median node is fastest on fast and slowest on slow. On slow, ")
    assert said.count("a median node takes") == 2
    assert said.endswith(" Not simulated: missing.")
    assert len(rows.splitlines()) == 9
    assert where.startswith("Reports: pagelens-out/a-program-with-a-long-name/MACHINE/report.html\n")
    for columns in (80, 50):
        monkeypatch.setenv("COLUMNS", str(columns))
        text = several([on("a-socket-of-two-sockets", explanation), on("b", explanation)])
        _, first, second = text.split("\n\n")[1].splitlines()[:3]
        assert first.startswith("a-socket-of-two-sockets " if columns == 80 else "a-socket-of-two")
        assert second.startswith("b ")
        printed = text.splitlines()
        assert max(map(len, [line for line in printed if "report.html" not in line])) <= max(columns, 71)
        start = next(number for number, line in enumerate(printed) if "pagelens diff" in line)
        command = " ".join("\n".join(printed[start:]).replace("\\\n", "").split())
        folder = "pagelens-out/a-program-with-a-long-name"
        assert command == f"pagelens diff {folder}/a-socket-of-two-sockets {folder}/b"
