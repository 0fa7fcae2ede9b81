"""Two results side by side: what changed, and whether chance may have done it."""

import copy
import json
import subprocess
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from traced_program import GOLDEN

import pagelens as pl
from pagelens.cli.text.diff import render
from pagelens.diff.chance import change, sure
from pagelens.diff.explanations import diff_explanations
from pagelens.diff.rows import same_objects
from pagelens.diff.saved import read_explanation
from pagelens.errors import PagelensError, UsageError
from pagelens.explain.model import SCHEMA_VERSION, Explanation

DATA = Path(__file__).parent.parent / "data"
SAVED = DATA / "explanation-4.json"
Run = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def data() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(SAVED.read_text())
    return found


def slower(data: dict[str, Any], factor: float, policy: str = "aged") -> dict[str, Any]:
    """Multiplies every time under the policy; the conflicts cost what is added."""
    found = copy.deepcopy(data)
    for record in found["distributions"]:
        if record["policy"] == policy:
            for field in ("median_s", "median_low_s", "median_high_s"):
                record[field] *= factor
            record["times_s"] = [seconds * factor for seconds in record["times_s"]]
    for record in found["attributions"]:
        if record["policy"] == policy:
            [conflicts] = [part for part in record["parts"] if part["mechanism"] == "conflicts"]
            conflicts["seconds"] += record["time_s"] * (factor - 1)
            record["time_s"] *= factor
    return found


def compared(a: dict[str, Any], b: dict[str, Any], threshold: float = 0.02) -> pl.Difference:
    return diff_explanations(read_explanation(a), read_explanation(b), ("a", "b"), threshold)


@pytest.mark.parametrize("paired", [False, True])
@pytest.mark.parametrize("quantile", [0.5, 0.95])
def test_equal_distributions_are_seldom_told_apart_and_different_ones_always(
    paired: bool, quantile: float
) -> None:
    rng = np.random.default_rng(1)
    wrong = 0
    for _ in range(30):
        a, b = np.exp(0.05 * rng.standard_exponential((2, 64)))
        wrong += sure([change(a.tolist(), b.tolist(), quantile, paired)])[0]
        assert sure([change(a.tolist(), (b * 1.5).tolist(), quantile, paired)]) == [True]
    assert wrong <= 5  # 5% of 30 are 1.5; more than 5 have a chance below 1%


def test_of_many_figures_few_are_told_apart_by_chance() -> None:
    rng = np.random.default_rng(1)
    wrong = 0
    for _ in range(8):
        changes = [change(*np.exp(0.1 * rng.standard_normal((2, 16))).tolist()) for _ in range(20)]
        wrong += any(sure(changes))
    assert wrong <= 2  # without Holm's procedure some 5


def test_few_values_say_nothing() -> None:
    assert sure([change([1.0, 1.1, 1.2], [2.0, 2.1, 2.2])]) == [False]
    assert sure([change([1.0, 1.1, 1.2, 1.3], [2.0, 2.1, 2.2, 2.3])]) == [True]


def test_pairs_show_what_the_spread_of_nodes_hides() -> None:
    rng = np.random.default_rng(1)
    a = np.exp(0.5 * rng.standard_normal(32))
    b = a * 1.03 * np.exp(0.005 * rng.standard_normal(32))
    assert sure([change(a.tolist(), b.tolist(), paired=True)]) == [True]
    assert sure([change(a.tolist(), b.tolist())]) == [False]


@pytest.mark.parametrize("zero", [0, 1])
@pytest.mark.parametrize("quantile", [0.5, 0.95])
def test_a_time_of_zero_has_no_ratio(zero: int, quantile: float) -> None:
    """And no warning: pytest makes one an error."""
    samples = [[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]] * 2
    samples[zero] = [0.0] * 6
    found = change(*samples, quantile, paired=True)
    assert (found.ratio, found.low, found.high, found.p) == (None, None, None, None)
    assert sure([found]) == [False]


@pytest.mark.parametrize("program", ["", "other"])
def test_explanations_of_zero_durations_are_compared(data: dict[str, Any], program: str) -> None:
    after = slower(data, 0)
    after["program"]["name"] = program or after["program"]["name"]
    if program:
        after["objects"] = []
    found = compared(data, after)
    assert not found.slower
    assert "no ratio" in " ".join(found.sentences) or program
    assert render(found)


def test_an_error_as_large_as_the_ratio_leaves_it_above_zero() -> None:
    found = change([1.0, 1.1, 1.2], [2.0, 2.1, 2.2], error=1.5)
    assert 0 < found.low < 1 < found.ratio < found.high
    assert found.ratio / found.low >= 2.5
    exact = change([1.0, 1.1, 1.2], [2.0, 2.1, 2.2])
    assert (exact.low, exact.high) == pytest.approx((2.0 / 1.2, 2.2))


def test_what_was_sampled_of_the_run_widens_the_interval(data: dict[str, Any]) -> None:
    after = slower(data, 1.05)
    assert compared(data, after).table("times").row("aged").worse
    for of in (data, after):
        [aged] = [record for record in of["distributions"] if record["policy"] == "aged"]
        aged["median_low_s"], aged["median_high_s"] = 0.9 * aged["median_s"], 1.1 * aged["median_s"]
    row = compared(data, after).table("times").row("aged")
    assert (row.verdict, row.worse) == ("unsure", False)


def test_the_exit_status_and_the_answer(pagelens: Run, data: dict[str, Any], tmp_path: Path) -> None:
    (tmp_path / "before").mkdir()
    (tmp_path / "before" / "explanation.json").write_text(json.dumps(data))
    (tmp_path / "after.json").write_text(json.dumps(slower(data, 1.1)))
    done = pagelens("diff", "before", "after.json")
    assert (done.returncode, done.stderr) == (3, "")
    first = " ".join(done.stdout.split("\n\n")[0].split())
    assert first.startswith("B is slower than A: under 'aged' it takes 1.10x as long (95% interval 1.")
    assert (
        "The mean time changes by +195 ms, most of all: conflicts in the memory-side cache +195 ms." in first
    )
    found = json.loads(pagelens("diff", "--json", "before", "after.json").stdout)
    assert found["schema_name"] == "pagelens diff"
    assert found["sentences"] == compared(data, slower(data, 1.1)).sentences


def test_what_fails_is_chosen(in_process: Run, data: dict[str, Any], tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text(json.dumps(data))
    (tmp_path / "b.json").write_text(json.dumps(slower(data, 1.1)))
    for words, status in {
        ("a.json", "b.json"): 3,
        ("b.json", "a.json"): 0,
        ("--fail-on", "different", "b.json", "a.json"): 3,
        ("--fail-on", "different", "a.json", "a.json"): 0,
        ("--fail-on", "never", "a.json", "b.json"): 0,
        ("--threshold", "15%", "a.json", "b.json"): 0,
    }.items():
        assert in_process("diff", *words).returncode == status, words


def test_what_was_not_the_same_is_said(data: dict[str, Any]) -> None:
    after = copy.deepcopy(data)
    after["machine"]["inputs"][0]["value"] = "12 GiB"
    after["sample"]["seed"] = 8
    after["distributions"] = [d for d in after["distributions"] if d["policy"] != "random"]
    settings = {setting.name: (setting.a, setting.b) for setting in compared(data, after).settings}
    name = data["machine"]["inputs"][0]["name"]
    assert settings == {
        "seed": ("7", "8"),
        name: (data["machine"]["inputs"][0]["value"], "12 GiB"),
        "policy 'random'": ("simulated", "not simulated"),
    }


def test_objects_and_remedies_that_changed(data: dict[str, Any]) -> None:
    after = copy.deepcopy(data)
    for record in after["objects"]:
        if record["name"] == "A.values":
            record["accesses"] *= 2
    after["remedies"][0]["verdict"] = "unsure"
    found = compared(data, after)
    assert found.table("objects").rows[0].name == "A.values"
    assert found.table("objects").rows[0].ratio == 2
    assert found.sentences[-1].startswith("The object that changes most is `A.values`: it moves 2.00x")
    assert found.table("remedies").rows[0].note == "gains, then unsure"
    assert not found.slower  # neither is time


def test_two_machines_are_named_with_their_seconds(data: dict[str, Any]) -> None:
    after = slower(data, 0.5)
    after["machine"]["name"], after["program"]["ranks"] = "another", 4
    name = data["machine"]["name"]
    first, ranks, *rest = compared(data, after).sentences
    assert first.startswith(
        f"A and B are of different machines: under 'aged' the program takes 2.07 s on {name} "
        "(A) and 1.03 s on another (B), 0.50x as long (modelled, 95% interval "
    )
    assert ranks == "A has 68 of its processes on a node, and B 4."
    assert not any("object" in text for text in rest)


def test_of_two_programs_only_shares_are_compared(data: dict[str, Any]) -> None:
    other = slower(data, 2)
    other["program"]["name"] = "other"
    for record in other["objects"]:
        record["name"] = f"other.{record['name']}"
    found = compared(data, other)
    assert found.sentences[0].startswith("A and B are of different programs (two-arrays, other), so their ")
    assert found.sentences[-1] == (
        "A loses most to conflicts in the memory-side cache: 29% of its time. B loses most to conflicts in "
        "the memory-side cache: 64% of its time."
    )
    for record in other["attributions"]:
        for part in record["parts"]:
            part["seconds"] = 0.01 * record["time_s"]
    assert compared(data, other).sentences[-1].endswith(" B loses less than 2% of its time to any mechanism.")
    assert not found.slower
    assert {table.unit for table in found.tables} == {"x", "share"}
    [compulsory] = [row for row in found.table("mechanisms").rows if row.name == "compulsory misses only"]
    assert compulsory.ratio == pytest.approx(0.5)
    assert "compulsory misses only" in render(found)


def test_a_version_with_another_name_is_the_same_program(data: dict[str, Any]) -> None:
    renamed = slower(data, 2)
    renamed["program"]["name"] = "two-arrays-2.0"
    assert compared(data, renamed).slower


def test_a_change_beyond_all_lines_has_no_share(data: dict[str, Any]) -> None:
    after = copy.deepcopy(data)
    for record in after["objects"]:
        record["accesses"] *= 60
    said = compared(data, after).sentences[-1]
    assert said.endswith("it moves 60.00x its lines in A, a change by 209 G lines.")
    assert "%" not in said


def test_what_a_table_leaves_out_is_called_changed_only_if_it_is(data: dict[str, Any]) -> None:
    found = compared(data, data)
    times = found.table("times")
    times.rows.extend(times.rows * 8)
    assert f"  {len(times.rows) - 8} more; --json lists them" in render(found).splitlines()


def test_objects_are_the_same_where_only_their_lines_moved() -> None:
    a = ["solve (cg.c:12)", "solve (cg.c:40)", "read (in.c:3)", "[stack]"]
    b = ["solve (cg.c:13)", "solve (cg.c:41)", "read (in.c:5)", "[stack]"]
    assert same_objects(a, b) == {"[stack]": "[stack]", "read (in.c:3)": "read (in.c:5)"}


def test_fields_and_versions(data: dict[str, Any]) -> None:
    more = copy.deepcopy(data) | {"a_field_of_tomorrow": 1}
    assert not compared(data, more).different
    old = {name: data[name] for name in ("program", "machine", "sample", "baseline", "distributions")}
    assert not compared(old | {"schema_version": 2}, data).different
    for version in (1, 99, None, True):
        with pytest.raises(UsageError, match=r"schema_version|no explanation"):
            read_explanation(data | {"schema_version": version})


def test_no_field_has_gone_since_the_saved_version(data: dict[str, Any]) -> None:
    """The saved explanation is of version 4; each of its fields is still there."""
    assert data["schema_version"] <= SCHEMA_VERSION
    schema = Explanation.model_json_schema()

    def gone(value: Any, stated: dict[str, Any], where: str) -> Iterator[str]:
        if "$ref" in stated:
            stated = schema["$defs"][stated["$ref"].rpartition("/")[2]]
        if isinstance(value, dict):
            for name, of in value.items():
                if name not in stated.get("properties", {}):
                    yield f"{where}.{name}"
                else:
                    yield from gone(of, stated["properties"][name], f"{where}.{name}")
        elif isinstance(value, list) and value:
            yield from gone(value[0], stated["items"], f"{where}[]")

    assert list(gone(data, schema, "")) == []


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "is neither JSON nor a trace"),
        ("[1]", "holds no JSON object"),
        ('{"schema": "pagelens place"}', "is no explanation"),
        ('{"schema_version": 4}', "program: field required; the file is damaged"),
        ("[" * 100000, "is neither JSON"),
        ('{"schema": "pagelens measure", "version": 1, "kernel": null}', "is no measurement over page maps"),
    ],
)
def test_what_cannot_be_compared(in_process: Run, tmp_path: Path, text: str, said: str) -> None:
    (tmp_path / "a.json").write_text(text)
    done = in_process("diff", "a.json", SAVED)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
    assert said in done.stderr


def test_two_kinds_and_no_files(in_process: Run, tmp_path: Path) -> None:
    assert "is a trace, and" in in_process("diff", SAVED, GOLDEN).stderr
    assert "is an explanation, and" in in_process("diff", GOLDEN, SAVED).stderr
    assert "the folder has no explanation.json or measure.json" in in_process("diff", tmp_path, SAVED).stderr
    assert "there is no such file" in in_process("diff", "nowhere", SAVED).stderr


@settings(max_examples=30)
@given(st.data())
def test_damaged_explanations_are_refused_or_compared(draw: st.DataObject) -> None:
    data = json.loads(SAVED.read_text())
    at: Any = data
    while True:
        key = draw.draw(st.sampled_from(sorted(at) if isinstance(at, dict) else range(len(at))))
        if not (isinstance(at[key], dict | list) and at[key]) or draw.draw(st.integers(0, 3)) == 0:
            break
        at = at[key]
    at[key] = draw.draw(st.sampled_from([None, "", -1, 0, 1e308, [], {}, "x", True]))
    with suppress(PagelensError):
        compared(json.loads(SAVED.read_text()), data)


def measurement(values: list[list[float]], kernel: str = "stream", rate: bool = True) -> dict[str, Any]:
    return {
        "schema": "pagelens measure",
        "version": 1,
        "kernel": kernel,
        "title": "STREAM",
        "unit": "GB/s" if rate else "ns",
        "more_is_better": rate,
        "memory_bytes": 1 << 30,
        "results": [
            {"page_size": "4k", "point": {"kernel": name}, "values": of}
            for name, of in zip(("copy", "triad"), values, strict=False)
        ],
    }


@pytest.mark.parametrize("rate", [True, False])
def test_measurements(tmp_path: Path, rate: bool) -> None:
    rng = np.random.default_rng(1)
    a, b = (10 + 0.1 * rng.standard_normal((2, 12)) for _ in range(2))
    b[1] *= 1.2
    paths = []
    for name, values in {"a": a, "b": b}.items():
        paths.append(tmp_path / name)
        paths[-1].mkdir()
        (paths[-1] / "measure.json").write_text(json.dumps(measurement(values.tolist(), rate=rate)))
    found = pl.diff(*paths)
    copied, triad = found.table("figures").rows
    assert (copied.name, copied.worse, copied.better) == ("kernel copy (4k)", False, False)
    assert (triad.worse, triad.better) == (not rate, rate)
    how = "faster" if rate else "slower"
    assert found.sentences[0].startswith(
        f"B is {how} than A at 1 of 2 points; most at kernel triad (4k): 1.2"
    )
    assert len(found.sentences) == 1
    beside = measurement(b.tolist(), rate=rate) | {"trials": [{"disturbed": n > 3} for n in range(12)]}
    (paths[1] / "measure.json").write_text(json.dumps(beside))
    assert "disturbed 0 of 0 trials of A and 8 of 12 of B" in pl.diff(*paths).sentences[-1]
    other = tmp_path / "other.json"
    other.write_text(json.dumps(measurement(a.tolist(), "random")))
    with pytest.raises(UsageError, match="compare measurements of one kernel"):
        pl.diff(paths[0], other)


def test_traces(tmp_path: Path) -> None:
    def write(name: str, sweeps: int) -> Path:
        lines = np.tile(np.arange(1 << 14) * 64 + (1 << 30), sweeps)
        with pl.TraceRecorder(tmp_path / name, program="sweeps") as recorder:
            recorder.access(0, lines, np.ones(lines.size, dtype=bool))
        return tmp_path / name

    a, b = write("a.trace", 2), write("b.trace", 4)
    found = pl.diff(a, pl.trace(b))
    assert found.slower
    assert found.table("whole").row("lines fetched").ratio == 2
    assert found.table("objects").rows[0].ratio == 2
    assert found.sentences[0].startswith("B does more than A: ")
    assert pl.diff(a, a).sentences == ["B does exactly as much as A."]


@pytest.mark.parametrize("width", [50, 80, 200])
def test_text_fits_the_terminal(data: dict[str, Any], width: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    after = slower(data, 1.1)
    after["sample"]["sampled_lines"] = "a long text of what was simulated of each page " * 3
    for record in after["objects"]:
        record["name"] += " with<templates>::and_more (some_long_file_name.cpp:1234)" * 2
    lines = render(compared(data, after)).splitlines()
    assert max(map(len, lines)) <= width
    assert any(line.startswith("  aged ") and line.endswith("slower") for line in lines)
    has_p = any(line.endswith(" p") or " p " in line for line in lines if "95% interval" in line)
    assert any(line.startswith("  p: how likely chance alone") for line in lines) == has_p == (width > 50)
