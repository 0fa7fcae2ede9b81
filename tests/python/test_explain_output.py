"""The explanation as text, as a report and as data."""

import dataclasses
import json
import re
import shutil
import subprocess
import textwrap
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path
from xml.etree import ElementTree

import polars as pl
import pytest
import synthetic

from pagelens.cli.text.explain import render_terminal
from pagelens.errors import Failure
from pagelens.explain import Explanation, explain
from pagelens.explain.cause_words import causes_in_words
from pagelens.explain.conclusion import conclude
from pagelens.explain.figures import draw_all
from pagelens.explain.html import render_html
from pagelens.explain.model import AttributionRecord, PartRecord, ResourceRecord
from pagelens.explain.outputs import write_outputs
from pagelens.explain.plots import objects
from pagelens.explain.schema import json_reference, json_schema
from pagelens.explain.words import RESOURCES_IN_WORDS, shares_in_words
from pagelens.replay.mechanisms import (
    CACHE_CAPACITY,
    L2_CONFLICTS,
    L3_CONFLICTS,
    PAGE_WALKS,
    ROW_CONFLICTS,
    SNOOP_FILTER,
)
from pagelens.units import format_size

DOCS = Path(__file__).parents[2] / "docs"
LONG_NAME = "void very::deep::name<with, templates>::allocate_everything (some_long_file_name.cpp:1234)"

MANY = (  # seconds that mechanisms cost, of 29
    (10.0, ROW_CONFLICTS),
    (8.0, CACHE_CAPACITY),
    (7.0, L3_CONFLICTS),
    (2.0, L2_CONFLICTS),
    (1.5, SNOOP_FILTER),
    (0.5, PAGE_WALKS),
)


needs_browser = pytest.mark.skipif(shutil.which("chromium") is None, reason="needs chromium")


@pytest.fixture(scope="module")
def explanation() -> Explanation:
    return explain(synthetic.ensemble(nodes=24), "pagelens explain --workload two-arrays")


@pytest.fixture(scope="module")
def report(explanation: Explanation) -> str:
    return render_html(explanation)


def renamed(e: Explanation, name: str) -> Explanation:
    return Explanation.model_validate_json(e.model_dump_json().replace('"A.values"', json.dumps(name)))


def test_the_terminal_has_80_columns_and_the_conclusion_first(explanation: Explanation) -> None:
    text = render_terminal(renamed(explanation, LONG_NAME))
    assert max(map(len, text.splitlines())) <= 80
    assert text.startswith("Page placement matters for this program on a Cori KNL node: on a median node")
    for d in explanation.distributions:
        assert re.search(rf"^{re.escape(d.policy)} +{d.median_slowdown:.2f} ", text, re.M)
    for word in ("counted", "modelled", "seed 7", "1 in 64 slots", "Remedies"):
        assert word in " ".join(text.split())


def test_the_first_twelve_lines_answer_alone(explanation: Explanation) -> None:
    said = " ".join(render_terminal(explanation).splitlines()[:12])
    first = explanation.remedies[0]
    for answer in (
        "Page placement matters for this program",
        "1.98x as long",
        "is due to conflicts in the memory-side cache",
        f"The best remedy is '{first.policy}'",
        f"(95% interval {first.gain_median_low:.2f}-{first.gain_median_high:.2f})",
    ):
        assert answer in said


def test_many_causes_do_not_hide_how_sure_the_answer_is(explanation: Explanation) -> None:
    """The first twelve lines also say it if all mechanisms cost much, and a warning comes first."""
    e = explanation
    cause = next(a for a in e.attributions if (a.policy, a.nodes) == (e.baseline, "mean"))
    parts = [PartRecord(mechanism=name, seconds=seconds, without_s=None) for seconds, name in MANY]
    lost = sum(part.seconds for part in parts)
    many = cause.model_copy(update={"parts": parts, "time_s": 2 * lost, "unburdened_s": lost})
    program = e.program.model_copy(update={"share_seen": 0.5})
    found = conclude(program, e.machine, e.baseline, e.bounds, e.distributions, [many], [], e.remedies, [])
    said = " ".join(textwrap.wrap(" ".join(found.sentences), 80)[:12])
    assert "Only 50% of the run was traced" in said
    assert "all 24 simulated nodes can be fast with a chance of 29%." in said
    assert f"The best remedy is '{e.remedies[0].policy}'" in said
    assert "14% to other causes." in said


def test_a_share_of_page_faults_is_said_once(explanation: Explanation) -> None:
    """Cores compute and wait beside them, so a phase that they limit has less of them than its time."""
    e = explanation
    faults = ResourceRecord(name="page faults", busy_s=0.06, bound_s=0.1)
    waits = ResourceRecord(name="latency", busy_s=0.04, bound_s=0.0)
    base = next(d for d in e.distributions if d.policy == e.baseline)
    same = base.model_copy(
        update={"times_s": [0.1, 0.1], "resources": [faults, waits], "p5_s": 0.1, "p95_s": 0.1}
    )
    found = conclude(e.program, e.machine, e.baseline, e.bounds, [same], [], [], [], [])
    said = " ".join(found.sentences)
    assert not found.placement_matters
    assert "look elsewhere. Page faults take 60% of its time" in said
    assert "100%" not in said


def test_the_conclusion_says_what_few_nodes_leave_open(explanation: Explanation) -> None:
    sentences = explanation.conclusion.sentences
    assert any("all 24 simulated nodes can be fast with a chance of 29%" in said for said in sentences)
    many = explain(synthetic.ensemble(nodes=64)).conclusion.sentences
    assert not any("Rare slow nodes" in said for said in many)


@pytest.mark.parametrize("width", [50, 77, 200])
def test_the_terminal_may_have_other_widths(
    explanation: Explanation, width: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    lines = render_terminal(renamed(explanation, LONG_NAME)).splitlines()
    assert max(map(len, lines)) <= width
    rows = [line for line in lines if line.startswith("  void")]
    assert rows
    assert all("(some_long_file_name.cpp:1234)" in row for row in rows) == (width > 50)
    for d in explanation.distributions:
        assert any(
            re.match(rf"{re.escape(d.policy[:5])}.* +{d.median_slowdown:.2f} ", line) for line in lines
        )


def test_remedies_without_effect_are_left_out_in_one_line(explanation: Explanation) -> None:
    """One that gains for slow nodes alone, or costs, has an effect."""
    first, *others = explanation.remedies
    idle = first.model_copy(update={"policy": "idle", "gain_median": 1.004, "gain_p95": 0.996})
    slow = first.model_copy(update={"policy": "slow", "gain_median": 1.0, "gain_p95": 1.02})
    text = render_terminal(explanation.model_copy(update={"remedies": [idle, slow, *others]}))
    assert "These remedies make no difference (1.00x), and are not shown: 'idle'.\n" in text
    assert re.search("^  slow ", text, re.M)
    assert not re.search("^  idle ", text, re.M)
    text = render_terminal(explanation.model_copy(update={"remedies": [idle]}))
    assert "Remedies: how much faster" not in text


def test_every_node_shows_in_the_histogram(explanation: Explanation) -> None:
    """A lone node in a bin is not rounded away."""
    lines = render_terminal(explanation).splitlines()
    row = next(line for line in lines if line.startswith("aged "))
    assert len(re.findall("[▁▂▃▄▅▆▇█]", row)) >= 2


def test_a_policy_far_off_does_not_squeeze_the_others() -> None:
    ensemble = synthetic.ensemble(nodes=12)
    far = pl.when(pl.col("policy") == "2m").then(pl.col("time_s") * 9).otherwise(pl.col("time_s"))
    tables = dataclasses.replace(
        ensemble.tables, placements=ensemble.tables.placements.with_columns(far.alias("time_s"))
    )
    before = render_terminal(explain(ensemble))
    squeezed = explain(dataclasses.replace(ensemble, tables=tables))
    assert squeezed.off_scale() == {"2m"}
    old, rows = (
        {line.split()[0]: line for line in text.splitlines() if line and line[0] != " "}
        for text in (before, render_terminal(squeezed))
    )
    assert rows["2m"].endswith("beyond the scale")
    assert rows["aged"] == old["aged"]
    drawn = draw_all(squeezed)
    assert "beyond the scale" in drawn["distribution"].caption
    assert "Left out, because it lies far beyond: 2m." in drawn["misses"].caption


def test_what_the_program_has_is_in_the_same_units_everywhere(explanation: Explanation, report: str) -> None:
    text = render_terminal(explanation)
    sizes = {format_size(o.bytes) for o in explanation.objects if o.bytes and o.accesses}
    assert sizes
    for size in {*sizes, format_size(explanation.program.footprint_bytes)}:
        assert f" {size}" in text
        assert size in report


def test_names_that_are_cut_do_not_look_alike_in_the_figure(explanation: Explanation) -> None:
    inner, module = "new_user_memory+0x2d (_array.cpython-311.so) from ", " (_array.cpython-311.so)"
    names = [f"{inner}{caller}{module}" for caller in ("empty+0x1f", "zeros+0x8a")]
    changed = [
        o.model_copy(update={"name": name}) for o, name in zip(explanation.objects, names, strict=False)
    ]
    assert len({o.policy for o in changed}) == 1
    found = objects(explanation.model_copy(update={"objects": changed, "baseline": changed[0].policy}))
    assert len({label.get_text() for label in found.axes[0].get_yticklabels()}) == len(names)


def test_what_the_plain_case_is_is_said(explanation: Explanation, report: str) -> None:
    title = explanation.distribution("aged").title
    assert f"'aged': {title}." in render_terminal(explanation)
    assert f"&lsquo;aged&rsquo;: {title}." in report


class Fetches(HTMLParser):
    """Collects whatever would make a browser fetch something, or run something."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag in ("script", "link", "iframe", "object", "embed"):
            self.found.append(tag)
        for name, value in attrs:
            local = (value or "").startswith(("#", "data:"))
            if (name in ("src", "srcset", "poster", "data") or name.endswith("href")) and not local:
                self.found.append(f"{tag} {name}={value}")
            if name.startswith("on"):
                self.found.append(f"{tag} {name}")


def test_the_report_needs_neither_network_nor_scripts(report: str) -> None:
    parser = Fetches()
    parser.feed(report)
    assert parser.found == []
    assert not re.search(r"url\((?!#)|@import", report)


def test_the_report_says_what_the_explanation_says(explanation: Explanation, report: str) -> None:
    for sentence in explanation.conclusion.sentences:
        plain = re.sub("<[^>]+>", "", report)
        assert sentence.replace("`", "").replace("'", "&#39;").replace(">", "&gt;") in plain
    for stated in explanation.machine.inputs:
        assert stated.value in report
    assert "pagelens explain --workload two-arrays" in report
    assert "calibration" in report


def test_what_all_changes_save_goes_on_after_the_policys_name(explanation: Explanation) -> None:
    waiting = [
        record.model_copy(update={"interaction_s": record.time_s / 2}) for record in explanation.attributions
    ]
    text = render_html(explanation.model_copy(update={"attributions": waiting}))
    assert "Under &#39;aged&#39;, all changes together save 50% of the time more than" in text


def test_names_of_objects_cannot_break_the_report(explanation: Explanation) -> None:
    text = render_html(renamed(explanation, "<script>alert(1)</script>"))
    assert "<script" not in text
    assert "&lt;script&gt;" in text


def test_equal_explanations_give_equal_reports(explanation: Explanation, report: str) -> None:
    assert render_html(explanation) == report


def test_the_report_says_why_an_interval_is_wider_than_the_nodes_lie_apart(explanation: Explanation) -> None:
    sample = explanation.sample.model_copy(update={"sampled_lines": "2% of the run's, in stretches"})
    said = "so it can be wider than the nodes lie apart"
    assert said not in render_html(explanation)
    assert said in render_html(explanation.model_copy(update={"sample": sample}))


def test_figures_and_tables_scroll_on_a_narrow_screen(report: str) -> None:
    """Squeezed into the width of a telephone, a figure's text is some 5 pixels high."""
    for wide, within in (("<svg", "<figure"), ("<table", "<table")):
        assert report.count(f'<div class="scroll">{wide}') == report.count(within) > 0


def test_figures_are_whole_svg_with_names_of_their_own(explanation: Explanation) -> None:
    drawings = draw_all(explanation)
    assert list(drawings) == ["distribution", "misses", "attribution", "objects", "slots", "remedies"]
    names: set[str] = set()
    for drawing in drawings.values():
        root = ElementTree.fromstring(drawing.svg)
        own = {element.get("id") for element in root.iter() if element.get("id")}
        assert not own & names
        names |= own
        used = set(re.findall(r'"#([^"]+)"|url\(#([^)]+)\)', drawing.svg))
        assert {a or b for a, b in used} <= own


def test_negative_parts_and_missing_data_are_drawn(explanation: Explanation) -> None:
    def taken_off(a: AttributionRecord) -> AttributionRecord:
        """Conflicts give 0.1 s back, which capacity costs more."""
        conflicts = a.part("conflicts").seconds
        moved = {"conflicts": -0.1 - conflicts, "capacity": 0.1 + conflicts}
        parts = [
            part.model_copy(update={"seconds": part.seconds + moved.get(part.mechanism, 0)})
            for part in a.parts
        ]
        return a.model_copy(update={"parts": parts})

    negative = [taken_off(a) for a in explanation.attributions]
    bare = explanation.model_copy(update={"objects": [], "slot_maps": [], "remedies": [], "collisions": []})
    assert "<pattern" not in draw_all(explanation)["attribution"].svg
    hatched = draw_all(explanation.model_copy(update={"attributions": negative}))
    assert "<pattern" in hatched["attribution"].svg
    assert list(draw_all(bare.model_copy(update={"attributions": []}))) == ["distribution", "misses"]
    render_html(bare)
    render_terminal(bare)


@pytest.mark.parametrize(
    ("mechanism", "said"), [("L3 conflicts", "caches and TLB"), ("capacity", "Other parts of the machine")]
)
def test_what_lies_before_the_memory_side_cache_is_in_the_loss_where_it_is_simulated(
    explanation: Explanation, mechanism: str, said: str
) -> None:
    cause = next(a for a in explanation.attributions if a.nodes == "mean")
    part = cause.parts[0].model_copy(update={"mechanism": mechanism})
    small = cause.model_copy(update={"parts": [part], "unburdened_s": 0.99 * cause.time_s})
    machine = explanation.machine.model_copy(update={"served_by": "memory-side cache"})
    (sentence,) = causes_in_words(machine, small, [])
    assert "less than 2% of its time" in sentence
    assert said in sentence


def test_a_mechanism_that_saves_time_is_named_with_what_would_take_longer(explanation: Explanation) -> None:
    cause = next(a for a in explanation.attributions if (a.policy, a.nodes) == ("aged", "mean"))
    parts = [
        PartRecord(mechanism=name, seconds=seconds, without_s=None)
        for name, seconds in ((CACHE_CAPACITY, 4.0), (L3_CONFLICTS, -1.0))
    ]
    helped = cause.model_copy(update={"parts": parts, "time_s": 10.0, "unburdened_s": 7.0})
    assert causes_in_words(explanation.machine, helped, [])[2] == (
        "In return, 25% as much time is saved by conflicts in L3: with a fully associative L3, the program "
        "would take longer."
    )


@pytest.mark.parametrize(
    "lost", [(70.6, 11.2, 10.6, 7.6), (49.91, 44.95, 4.62, 0.52)], ids=["rounded up", "rounded to none"]
)
def test_the_shares_of_the_lost_time_add_up_to_100(explanation: Explanation, lost: tuple[float, ...]) -> None:
    """Each rounded, they would add up to 101. No share of 0% is said."""
    cause = next(a for a in explanation.attributions if (a.policy, a.nodes) == ("aged", "mean"))
    names = (SNOOP_FILTER, ROW_CONFLICTS, L3_CONFLICTS, L2_CONFLICTS)
    parts = [
        PartRecord(mechanism=name, seconds=seconds, without_s=None)
        for name, seconds in zip(names, lost, strict=True)
    ]
    of_four = cause.model_copy(update={"parts": parts, "time_s": 300.0, "unburdened_s": 200.0})
    said = causes_in_words(explanation.machine, of_four, [])[1]
    shares = [int(share) for share in re.findall(r"(\d+)%", said)]
    assert sum(shares) == 100
    assert min(shares) > 0


@needs_browser
def test_all_tables_of_a_report_fit_on_a_page(explanation: Explanation, tmp_path: Path) -> None:
    """Every part of the machine is busy, and remedies have long words."""
    from playwright.sync_api import sync_playwright

    busy = [ResourceRecord(name=name, busy_s=0.235, bound_s=0.1) for name in RESOURCES_IN_WORDS]
    words = {"root": "drop_caches before each job", "code": "threads that read OMP_PROC_BIND=close"}
    full = explanation.model_copy(
        update={
            "distributions": [d.model_copy(update={"resources": busy}) for d in explanation.distributions],
            "remedies": [remedy.model_copy(update=words) for remedy in explanation.remedies],
        }
    )
    (tmp_path / "report.html").write_text(render_html(full))
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": 1280, "height": 900})
        page.goto((tmp_path / "report.html").as_uri())
        wide = "[...document.querySelectorAll('.scroll')].filter(e => e.scrollWidth > e.clientWidth).length"
        shown = page.evaluate("document.querySelectorAll('.scroll').length")
        assert shown > 5
        assert page.evaluate(wide) == 0
        browser.close()


@pytest.mark.parametrize(
    ("shares", "shown"),
    [
        ([1 / 3, 1 / 3, 1 / 3], ["34%", "33%", "33%"]),
        ([0.495, 0.495, 0.01], ["50%", "49%", "1%"]),  # each alone rounds to 50%
        ([0.996, 0.004, 0.0], ["100%", "<1%", "0%"]),
    ],
)
def test_shares_of_objects_add_up(shares: list[float], shown: list[str]) -> None:
    assert shares_in_words(shares) == shown


@needs_browser
def test_the_report_renders_in_a_browser(report: str, tmp_path: Path) -> None:
    (tmp_path / "report.html").write_text(report)
    shot = tmp_path / "shot.png"
    command = [
        "chromium",
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        f"--user-data-dir={tmp_path}/profile",
    ]
    command += [f"--screenshot={shot}", "--window-size=900,3000", "--virtual-time-budget=1000"]
    subprocess.run([*command, f"file://{tmp_path}/report.html"], check=True, capture_output=True, timeout=120)
    from matplotlib.image import imread

    pixels = imread(shot)[:, :, :3]
    orange = (pixels[..., 0] > 0.75) & (pixels[..., 1] < 0.5) & (pixels[..., 2] < 0.2)
    assert orange.sum() > 1000  # the baseline's colour: figures are drawn


def test_a_baseline_that_memory_moves_nothing_for_is_reported(explanation: Explanation) -> None:
    """Such a program stays in L2 under the baseline, and not under the other policies."""
    still = [
        o.model_copy(update={"accesses": 0.0} if o.policy == explanation.baseline else {})
        for o in explanation.objects
    ]
    assert any(o.accesses for o in still)
    quiet = explanation.model_copy(update={"objects": still})
    assert "objects" not in draw_all(quiet)
    assert "Which objects" not in render_html(quiet)
    assert "Objects at" not in render_terminal(quiet)


def test_the_data_reads_back_and_is_finite(explanation: Explanation) -> None:
    text = explanation.model_dump_json()
    data = json.loads(text, parse_constant=lambda name: pytest.fail(f"{name} is not JSON"))
    assert data["schema_version"] == 5
    assert Explanation.model_validate_json(text) == explanation


def test_the_documented_schema_is_the_models() -> None:
    assert (DOCS / "explain-schema.json").read_text() == json_schema()
    assert (DOCS / "explain-json.md").read_text() == json_reference()


def test_outputs_are_whole_files(explanation: Explanation, tmp_path: Path) -> None:
    report = write_outputs(explanation, synthetic.ensemble(nodes=24), tmp_path)
    names = {path.name for path in tmp_path.iterdir()}
    assert names == {"report.html", "explanation.json"} | {f"{name}.parquet" for name in synthetic.TABLES}
    assert report.read_text().endswith("</html>\n") or report.read_text().endswith("</html>")


@pytest.mark.parametrize("most", [100, 100_000])  # bytes of a file: no table fits, all but the report do
def test_outputs_without_room_are_one_failure_and_no_pieces(
    explanation: Explanation, tmp_path: Path, most: int, full_disk: Callable[[int], None]
) -> None:
    full_disk(most)
    with pytest.raises(Failure, match=r"--output: cannot write .* \(File too large\); free some space"):
        write_outputs(explanation, synthetic.ensemble(nodes=24), tmp_path)
    assert {path.suffix for path in tmp_path.iterdir()} == ({".parquet", ".json"} if most > 100 else set())


@pytest.mark.parametrize(
    ("given", "missing", "said"),
    [
        (0, 0, "no part of the memory is large enough for 2 MiB pages"),
        (3, 1, "25% of the 2 MiB pages wanted were not available"),
        (3, 0, ""),
    ],
)
def test_large_pages_that_fell_back_are_said(given: float, missing: float, said: str) -> None:
    ensemble = synthetic.ensemble(nodes=2)
    pages = {"large_pages": given, "large_pages_missing": missing}
    placements = ensemble.tables.placements.with_columns(
        pl.when(pl.col("policy") == "2m").then(float(count)).otherwise(0.0).alias(name)
        for name, count in pages.items()
    )
    tables = dataclasses.replace(ensemble.tables, placements=placements)
    text = " ".join(render_terminal(explain(dataclasses.replace(ensemble, tables=tables))).split())
    assert said in text
    assert ("small pages replace them" in text or "is on small pages" in text) == bool(said)
