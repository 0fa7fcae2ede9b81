"""`pagelens reproduce`: what counts, what is shown of it, and what is left when it is stopped."""

import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest

from pagelens import _core
from pagelens.cli.text.reproduce import render_terminal
from pagelens.errors import Interrupted, UsageError
from pagelens.report.drawing import Drawing
from pagelens.reproduce.claim import Kind, Row, near, score, value
from pagelens.reproduce.context import Scale, StudyContext
from pagelens.reproduce.page import render_page
from pagelens.reproduce.result import Reproduction
from pagelens.reproduce.runner import run_studies
from pagelens.reproduce.studies import find_study, study_names
from pagelens.reproduce.study import Findings, Study


def row(kind: Kind = Kind.PREDICTED, holds: bool | None = True, claim: str = "Fresh nodes are fast") -> Row:
    return Row(claim, "table 2", kind, value("90%", share=0.9), value("88%", share=0.88), holds, "A remark.")


def study(name: str, *rows: Row) -> Study:
    picture = Drawing(f"{name}-figure", "A figure", "What it shows.", "<svg></svg>")
    return Study(name, f"Title of {name}", "Author, title, 2008", lambda context: Findings(rows, (picture,)))


def reproduce(directory: Path, *studies: Study, seed: int = 1) -> Reproduction:
    def begin(name: str):  # type: ignore[no-untyped-def]
        return lambda done, total: None

    return run_studies(studies, Scale.QUICK, seed, directory, begin, "pagelens reproduce --quick")


def test_only_what_is_predicted_counts() -> None:
    rows = [
        row(),
        row(),
        row(holds=False),
        row(Kind.DERIVED, holds=False),
        row(Kind.DERIVED),
        row(Kind.INPUT, holds=None),
    ]
    assert (score(rows).held, score(rows).failed, score(rows).claims) == (2, 1, 3)


@pytest.mark.parametrize(
    ("kind", "holds"), [(Kind.INPUT, True), (Kind.SHOWN, False), (Kind.PREDICTED, None), (Kind.DERIVED, None)]
)
def test_inputs_and_what_is_shown_alone_neither_hold_nor_fail(kind: Kind, holds: bool | None) -> None:
    with pytest.raises(ValueError, match="neither hold nor fail"):
        row(kind, holds)


def test_only_what_is_shown_is_decided_by_an_unpublished_input() -> None:
    with pytest.raises(ValueError, match="only what is shown is decided"):
        Row("c", "s", Kind.PREDICTED, value("1"), value("2"), False, decided_by="a rate; 1 to 3")


def test_what_decides_a_shown_figure_is_shown_with_it(tmp_path: Path) -> None:
    shown = Row("c", "s", Kind.SHOWN, value("1"), value("2"), decided_by="The rate is not published; 1 to 3.")
    found = reproduce(tmp_path, study("one", shown))
    for text in (render_terminal(found), render_page(found)):
        assert "Not compared: The rate is not published; 1 to 3." in " ".join(text.split())


def test_verdicts_of_numpys_numbers_can_be_written_as_json() -> None:
    share = np.float64(0.4)
    compared = Row("a share", "table 1", Kind.PREDICTED, value("40%"), value("40%"), near(share, share))
    computed = Row("a share", "table 1", Kind.PREDICTED, value("40%"), value("40%"), share > 0.3)
    assert json.dumps([compared.holds, computed.holds]) == "[true, true]"


def test_near_is_within_a_quarter() -> None:
    assert near(1.5, 2.0)
    assert near(2.5, 2.0)
    assert not near(1.49, 2.0)
    assert not near(2.51, 2.0)


def test_what_fails_is_shown_as_such_everywhere(tmp_path: Path) -> None:
    found = reproduce(tmp_path, study("one", row(), row(holds=False, claim="Aged nodes are slow")))
    text = render_terminal(found)
    assert text.startswith("1 of 2 predicted claims holds, 1 does not")
    assert re.search(r"^FAILS +Aged nodes are slow", text, re.MULTILINE)
    assert re.search(r"^holds +Fresh nodes are fast", text, re.MULTILINE)
    page = (tmp_path / "reproduce.html").read_text()
    assert "1 of 2 predicted claims holds, 1 does not" in page
    assert '<tr class="failed"><td class="name">Aged nodes are slow' in page
    assert page.count("does not hold") >= 2  # in the conclusion and in the table
    data = json.loads((tmp_path / "reproduce.json").read_text())
    assert data["score"] == {"held": 1, "failed": 1}
    assert [each["holds"] for each in data["studies"][0]["rows"]] == [True, False]


def test_lines_of_a_terminal_fit_80_columns(tmp_path: Path) -> None:
    long = "A claim of many words that goes on and on until no line of a terminal can hold it any more"
    full = value("x" * 100, share=1.0)  # cells without a blank fill their columns
    rows = [Row(text, "table 2", Kind.PREDICTED, full, full, False, text) for text in (long, "y" * 100)]
    found = reproduce(tmp_path, study("a-study-of-a-long-name", *rows, row(Kind.INPUT, None, long)))
    assert max(map(len, render_terminal(found).splitlines())) == 80


def test_the_page_needs_nothing_else(tmp_path: Path) -> None:
    """No address is fetched: those in it are of namespaces of SVG."""
    found = reproduce(tmp_path, find_study("page-walks"))
    page = render_page(found)
    assert page == (tmp_path / "reproduce.html").read_text()
    assert "<script" not in page
    assert not re.findall(r'(?:src|href)="(?!#|data:)[^"]*"', page)
    assert set(re.findall(r"https?://[^\"' <)]+", page)) <= {
        "http://www.w3.org/2000/svg", "http://www.w3.org/1999/xlink",
    }  # fmt: skip


def test_the_page_of_results_takes_each_study_from_the_last_folder_that_has_it(tmp_path: Path) -> None:
    first, again, page = tmp_path / "first", tmp_path / "again", tmp_path / "page.md"
    for folder in (first, again):
        folder.mkdir()
    reproduce(first, study("hpccg", row()), study("dgemm", row()))
    reproduce(again, study("dgemm", row(holds=False)))
    script = Path(__file__).parents[2] / "scripts" / "reproduce_table.py"
    subprocess.run([sys.executable, script, first, again, "--output", page], check=True)
    text = page.read_text()
    assert "2 predicted claims **1 held, 1 failed, 0 are undecided**" in " ".join(text.split())
    assert "| 90% | 88% | does not hold |" in text
    verdicts = [text.index(f"| Title of {line} | 0 | no |") for line in ("dgemm | 0 | 1", "hpccg | 1 | 0")]
    assert verdicts == sorted(verdicts)
    assert verdicts[-1] < text.index("![reproduce-all-claims.svg]") < text.index("## Title of")
    assert {path.name for path in tmp_path.glob("*.svg")} == {
        "reproduce-all-claims.svg", "reproduce-dgemm-figure.svg", "reproduce-hpccg-figure.svg",
    }  # fmt: skip


def test_the_page_is_not_written_from_the_json_of_an_older_version(tmp_path: Path) -> None:
    (tmp_path / "reproduce.json").write_text('{"version": 3}')
    script = Path(__file__).parents[2] / "scripts" / "reproduce_table.py"
    words = [sys.executable, script, tmp_path, "--output", tmp_path / "page.md"]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr.splitlines() == [
        f"{tmp_path}/reproduce.json: version 3, not 4; run `pagelens reproduce` again"
    ]


def test_the_json(tmp_path: Path) -> None:
    found = reproduce(tmp_path, study("one", row(), row(Kind.INPUT, None)), seed=7).to_json()
    assert found["version"] == 4
    assert (found["scale"], found["seed"], found["missing"]) == ("quick", 7, [])
    only = found["studies"][0]
    assert (only["name"], only["source"]) == ("one", "Author, title, 2008")
    assert [each["holds"] for each in only["rows"]] == [True, None]
    assert only["figures"] == ["one-figure"]
    assert only["rows"][:1] == [
        {
            "claim": "Fresh nodes are fast",
            "source": "table 2",
            "kind": "predicted",
            "published": {"text": "90%", "numbers": {"share": 0.9}},
            "obtained": {"text": "88%", "numbers": {"share": 0.88}},
            "holds": True,
            "remark": "A remark.",
            "decided_by": "",
            "tried": None,
        }
    ]


def test_unknown_names_offer_the_nearest() -> None:
    with pytest.raises(UsageError, match=r"there is no 'redstorm'; did you mean red-storm"):
        find_study("redstorm")


def test_every_study_has_the_name_it_is_listed_by() -> None:
    assert [find_study(name).name for name in study_names()] == list(study_names())


def test_a_map_has_its_results_in_the_order_of_its_parts(tmp_path: Path) -> None:
    reports: list[tuple[int, int]] = []
    context = StudyContext(Scale.QUICK, 1, tmp_path, lambda done, total: reports.append((done, total)))

    def late(part: int) -> int:
        time.sleep(0.002 * (4 - part))
        return part * part

    assert context.map(late, range(5)) == [0, 1, 4, 9, 16]
    assert (reports[0], reports[-1]) == ((0, 5), (5, 5))
    assert (context.pick("all", "few"), StudyContext(Scale.FULL, 1, tmp_path).pick("all", "few")) == (
        "few",
        "all",
    )


def test_a_stopped_study_leaves_those_before_it(tmp_path: Path) -> None:
    """The flag is set while parts run, as Ctrl-C does."""
    begun = threading.Event()

    def endless(part: int) -> None:
        begun.set()
        time.sleep(0.01)

    def stopped(context: StudyContext) -> Findings:
        threading.Thread(target=lambda: (begun.wait(), os.kill(os.getpid(), signal.SIGINT))).start()
        context.map(endless, range(100_000))
        raise AssertionError("not reached")

    last = Study("last", "Endless", "Nobody", stopped)
    with pytest.raises(Interrupted, match="stopped with 1 of 2 studies complete; their page is"):
        reproduce(tmp_path, study("one", row()), last)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["figures", "reproduce.html", "reproduce.json"]
    figures = sorted(path.name for path in (tmp_path / "figures").iterdir())
    assert figures == ["all-claims.svg", "one-figure.svg"]
    assert json.loads((tmp_path / "reproduce.json").read_text())["missing"] == ["last"]
    assert "these studies have not run yet: last" in (tmp_path / "reproduce.html").read_text()


def test_errors_of_a_part_come_through(tmp_path: Path) -> None:
    def fails(part: int) -> None:
        raise UsageError("no such thing")

    with pytest.raises(UsageError, match="no such thing"):
        StudyContext(Scale.QUICK, 1, tmp_path).map(fails, range(3))
    cancelled = StudyContext(Scale.QUICK, 1, tmp_path)

    def gives_up(part: int) -> None:
        cancelled.cancel.set()
        raise _core.Cancelled

    with pytest.raises(Interrupted):
        cancelled.map(gives_up, range(3))


def test_the_command(tmp_path: Path) -> None:
    """Quick, one study: files whole, JSON on standard output, nothing on standard error."""
    command = [
        sys.executable,
        "-m",
        "pagelens",
        "reproduce",
        "periodic-sort",
        "--quick",
        "--json",
        "-o",
        str(tmp_path),
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stderr == ""
    assert json.loads(done.stdout) == json.loads((tmp_path / "reproduce.json").read_text())
    assert "pagelens reproduce periodic-sort --quick --json" in (tmp_path / "reproduce.html").read_text()
    wrong = subprocess.run(
        [*command[:3], "reproduce", "page-wlks"], capture_output=True, text=True, check=False
    )
    assert (wrong.returncode, wrong.stdout) == (2, "")
    assert wrong.stderr == "pagelens: study: there is no 'page-wlks'; did you mean page-walks?\n"
