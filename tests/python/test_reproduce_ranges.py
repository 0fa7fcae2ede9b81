"""`pagelens reproduce --ranges`: what is left of a claim when seeds and assumed inputs are others."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
from machine_roles import CACHED_OPTANE

from pagelens.cli.text.reproduce import render_terminal
from pagelens.machine import load_machine, range_ends
from pagelens.reproduce.claim import NEAR, Kind, Row, Verdict, tally, value
from pagelens.reproduce.context import Scale, StudyContext
from pagelens.reproduce.overview import ratios
from pagelens.reproduce.page import render_page
from pagelens.reproduce.ranges import SEEDS, with_ranges
from pagelens.reproduce.result import Reproduction, row_from_json
from pagelens.reproduce.study import Findings, Study

MACHINE = CACHED_OPTANE  # states a range for ddr.bandwidth and ddr.write_bandwidth


def of_write_bandwidth(published: float, within: float = NEAR) -> Row:
    """Answer for a study whose one figure is how many GB/s Optane writes."""
    return run(published, within).rows[0]


def run(published: float, within: float = NEAR) -> Findings:
    def simulate(context: StudyContext) -> Findings:
        machine = context.machine(MACHINE)
        assert machine.ddr.write_bandwidth is not None
        rate = machine.ddr.write_bandwidth.value / 1e9
        row = Row(
            "How fast it writes", "table 1", Kind.PREDICTED, value("so fast", rate=published),
            value(f"{rate:g} GB/s", rate=rate), abs(rate / published - 1) <= within,
        )  # fmt: skip
        return Findings((row, Row("Shown", "x", Kind.SHOWN, value(""), value(""))), ())

    study = with_ranges(Study("s", "t", "a", simulate), 1)
    return study.run(StudyContext(Scale.QUICK, 1, Path("nowhere")))


def test_both_ends_of_each_range_and_other_seeds_are_tried() -> None:
    tried = of_write_bandwidth(3.6).tried
    assert tried is not None
    ends = list(range_ends(load_machine(MACHINE)))
    assert {"ddr.bandwidth", "ddr.write_bandwidth"} <= {stated.name for stated, *_ in ends}
    assert tried.inputs == 1 + SEEDS + len(ends)  # as it is, seeds, each end of each range
    assert (tried.low, tried.high) == (3.0, 5.0)


def test_mixes_that_decide_nothing_run_once() -> None:
    seen: list[tuple[str, ...]] = []

    def simulate(context: StudyContext) -> Findings:
        seen.append(context.beside(("llnl", "throughput")))
        return Findings((), ())

    with_ranges(Study("s", "t", "a", simulate), 1).run(StudyContext(Scale.QUICK, 1, Path("nowhere")))
    assert seen == [("llnl", "throughput"), *[()] * SEEDS]


@pytest.mark.parametrize(
    ("published", "verdict"),
    [(4.0, Verdict.HELD), (3.6, Verdict.UNDECIDED), (10.0, Verdict.FAILED), (6.0, Verdict.UNDECIDED)],
)
def test_a_claim_is_held_or_failed_only_if_all_inputs_agree(published: float, verdict: Verdict) -> None:
    tried = of_write_bandwidth(published).tried
    assert tried is not None
    assert tried.verdict is verdict


def test_a_claim_whose_published_figure_lies_between_the_obtained_ones_has_not_failed() -> None:
    tried = of_write_bandwidth(4.2, within=0.01).tried
    assert tried is not None
    assert tried.contradicted == tried.inputs
    assert tried.verdict is Verdict.UNDECIDED
    assert tried.in_words.startswith("Undecided: the published figure lies between")


def test_a_range_is_told_as_the_row_tells_its_figure_and_in_a_word_if_it_is_none() -> None:
    tried = of_write_bandwidth(10.0).tried
    assert tried is not None
    assert tried.in_words.startswith(f"Failed with all {tried.inputs} inputs tried. Obtained: from 3 GB/s to")
    assert "All give the same figure." in replace(tried, high_text=tried.low_text).in_words


def test_the_power_is_what_the_range_excludes() -> None:
    # From 3.0 / 1.25 to 5.0 / 0.75 of 1.75 to 7, evenly in the logarithm: 0.26 is left below and 0.03 above.
    tried = of_write_bandwidth(4.0).tried
    assert tried is not None
    assert tried.power == pytest.approx(0.26, abs=0.02)


def test_the_report_opens_with_the_tally_and_shows_every_range() -> None:
    found = Reproduction(Scale.QUICK, 1, "pagelens reproduce", ((Study("s", "t", "a", run), run(3.6)),))  # type: ignore[arg-type]
    assert tally(found.rows) == {Verdict.HELD: 0, Verdict.FAILED: 0, Verdict.UNDECIDED: 1}
    printed = render_terminal(found)
    assert "0 held, 0 failed, 1 undecided" in printed
    assert printed.index("1 undecided") < printed.index("How fast")
    page = render_page(found)
    assert "the claim fails with" in page
    assert "Obtained: from 3 GB/s to 5 GB/s." in page
    assert "all-claims" in page
    assert [ratio for _, ratio in ratios(found.rows)] == [pytest.approx(3.5 / 3.6)]


def test_a_row_is_read_back_as_it_was_written() -> None:
    rows = run(3.6).rows
    assert rows[0].tried is not None
    found = Reproduction(Scale.QUICK, 1, "", ((Study("s", "t", "a", run), Findings(rows, ())),))  # type: ignore[arg-type]
    written = found.to_json()["studies"][0]["rows"]
    assert tuple(row_from_json(row) for row in json.loads(json.dumps(written))) == rows
