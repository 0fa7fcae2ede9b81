"""Studies: what a file states, the points that it makes, and that each is simulated once."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from threading import Event

import polars
import pytest
from hypothesis import given
from hypothesis import strategies as st
from machine_roles import CACHE_MODE, INCLUSIVE_L3
from traced_program import GOLDEN

import pagelens as pl
from pagelens import statistics
from pagelens.cli.text import study as study_text
from pagelens.ensemble.code_digest import code_digest
from pagelens.interrupts import ctrl_c_sets
from pagelens.study import Effect, Index, effects_of, indices_of, sentences, slurm
from pagelens.study.design import design
from pagelens.study.inputs import Range, as_number, parse_input
from pagelens.study.parts import command_of_part
from pagelens.study.plots import small_multiples
from pagelens.study.points import OWN_CODE, Points
from pagelens.study.points_to_simulate import PointsToSimulate
from pagelens.study.report import render_page
from pagelens.study.result import StudyResult
from pagelens.study.rows import ROWS
from pagelens.study.simulating import simulate
from pagelens.study.store import PointStore
from pagelens.study.study_file import Sample, StudyFile, read_study

Run = Callable[..., subprocess.CompletedProcess[str]]

HEAD = 'schema = 1\ntitle = "A test"\npolicies = ["random"]\nnodes = 1\n'
INPUTS = f"""\
[inputs]
machine = "{CACHE_MODE}"
workload = "stream-triad"
size = ["40MB", "80MB"]
history = "boot; run"
cores.count = 8
"fast_memory.size" = "128 MiB"
ddr.size = "1 GiB"
"memory_side_cache.ways" = [1, 2]
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A grid of four points that take a fraction of a second each."""
    path = tmp_path / "small.toml"
    path.write_text(HEAD + INPUTS)
    return path


def points_of(text: str, folder: Path) -> list[dict[str, object]]:
    path = folder / "points.toml"
    path.write_text(text)
    return [dict(point.values) for point in Points(read_study(path)).all]


def shards(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.glob("**/points/*.parquet")}


def test_the_last_input_of_a_grid_changes_fastest(file: Path, tmp_path: Path) -> None:
    found = points_of(file.read_text(), tmp_path)
    assert [(each["size"], each["memory_side_cache.ways"]) for each in found] == [
        ("40MB", 1), ("40MB", 2), ("80MB", 1), ("80MB", 2),
    ]  # fmt: skip


@pytest.mark.parametrize("method", ["sobol", "latin-hypercube"])
def test_a_sample_depends_on_its_seed_and_covers_each_input_evenly(method: str, tmp_path: Path) -> None:
    text = HEAD + f'seed = 7\n[sample]\nmethod = "{method}"\npoints = 16\n' + INPUTS
    text += 'ddr.bandwidth = { from = "40 GB/s", to = "80 GB/s" }\n'
    found = points_of(text, tmp_path)
    assert found == points_of(text, tmp_path) != points_of(text.replace("seed = 7", "seed = 8"), tmp_path)
    for name in ("size", "memory_side_cache.ways"):
        assert sorted(map([each[name] for each in found].count, {each[name] for each in found})) == [8, 8]
    rates = sorted(float(str(each["ddr.bandwidth"]).split()[0]) for each in found)
    assert all(40 + 2.5 * at <= rate <= 42.51 + 2.5 * at for at, rate in enumerate(rates))


@given(low=st.integers(1, 100), more=st.integers(1, 100), steps=st.integers(2, 9), log=st.booleans())
def test_a_range_goes_from_end_to_end_in_order(low: int, more: int, steps: int, log: bool) -> None:
    stated = {
        "from": f"{low} ns",
        "to": f"{low + more} ns",
        "steps": steps,
        "scale": "log" if log else "linear",
    }
    levels = [as_number(each) for each in parse_input(stated).levels()]
    assert levels[0] == pytest.approx(low * 1e-9)
    assert levels[-1] == pytest.approx((low + more) * 1e-9)
    assert levels == sorted(levels)
    whole = Range.model_validate(stated | {"from": low, "to": low + more})
    assert all(isinstance(whole.at(share / 7), int) for share in range(8))


def test_the_ends_of_a_range_are_as_stated_and_nothing_lies_beyond_them() -> None:
    stated = {"from": "12345.0 MB", "to": "12347 MB", "steps": 4}
    assert parse_input(stated).levels() == ("12345.0 MB", "12347 MB")
    plain = Range.model_validate({"from": 1.23456, "to": 1.23478})
    assert [plain.at(share) for share in (0, 0.4, 0.6, 1)] == [1.23456, 1.23456, 1.23478, 1.23478]


def test_whole_numbers_of_a_sample_have_equal_parts(tmp_path: Path) -> None:
    text = HEAD + '[sample]\nmethod = "sobol"\npoints = 16\n' + INPUTS
    found = points_of(text + "ranks = { from = 1, to = 4 }\n", tmp_path)
    ranks = [each["ranks"] for each in found]
    assert [ranks.count(each) for each in (1, 2, 3, 4)] == [4, 4, 4, 4]
    halves = parse_input({"from": 1, "to": 2, "scale": "log"})
    assert {halves.at(share) for share in (0.0, 0.999)} == {1, 2}


REFUSED = [
    ("machine", '"cori-kln-cache"', "'inputs.machine': 'cori-kln-cache' is unknown; did you mean"),
    ("machine", r'"a\u0000.toml"', "'a\\x00.toml': no name has a character 0"),
    ("workload", '"stream-traid"', "'inputs.workload': 'stream-traid' is not declared"),
    ("size", '["40MB", "80"]', "'inputs.size': '80' has no unit"),
    ("size", '["40MB", "2GB"]', f"'inputs.size': 2 GB is more than the 1.07 GB of {CACHE_MODE}"),
    ("size", "[]", "'inputs.size' (is []): the list is empty"),
    ("size", '["40MB", "40MB"]', "'inputs.size' (is ['40MB', '40MB']): '40MB' is listed twice"),
    ("size", '["40MB", "0.04 GB"]', "'40MB' and '0.04 GB' are equal; leave one out"),
    ("cores.count", '"eight"', f"'inputs.cores.count': 'eight' on {CACHE_MODE}: "),
    (
        '"fast_memory.size"',
        '"100 MB"',
        f"'inputs.fast_memory.size': '100 MB' on {CACHE_MODE}: fast_memory.size must",
    ),
    ("ddr.size", '{ from = "1 GiB", to = "2 GiB" }', "'inputs.ddr.size': a range of a grid needs steps"),
    (
        "ddr.size",
        '{ from = "1 GiB", to = "2 GB" }',
        "'inputs.ddr.size': from 1 GiB to 2 GB: write both ends with the same unit",
    ),
    ("ddr.size", '{ from = "2 GiB", to = "1 GiB" }', "'from' must be less than 'to'"),
    ("ddr.size", '{ from = "1 GiB", too = "2 GiB" }', "too: a range has no such key; did you mean to"),
    (
        "ddr.sise",
        '"1 GiB"',
        f"'inputs.ddr.sise': '1 GiB' on {CACHE_MODE}: there is no such value; did you mean size",
    ),
    (
        "tlb.size",
        "3",
        f"'inputs.tlb.size': 3 on {CACHE_MODE}: there is no such table; the machine has tlb.0",
    ),
    (
        "tlb.9.entries",
        "64",
        f"'inputs.tlb.9.entries': 64 on {CACHE_MODE}: there is no such table; the machine",
    ),
    (
        "tlb.0.entrys",
        "64",
        f"'inputs.tlb.0.entrys': 64 on {CACHE_MODE}: there is no such value; did you mean",
    ),
    (
        "sections.x",
        "64",
        f"'inputs.sections.x': 64 on {CACHE_MODE}: {CACHE_MODE} has no such table",
    ),
    ("ranks", "[1, 9]", "'inputs.ranks': 9 x one thread is more than the"),
    ("sise", "3", "'inputs.sise': there is no such input; did you mean size?"),
    ("age", "-1", "'inputs.age': -1 is not a number of jobs"),
    ("history", '"boot; rn"', "'inputs.history': history, column 7: step 'rn' is unknown"),
    ("trace", '"no.trace"', "'inputs.trace': state one of workload and trace"),
    ("policies", '["radnom"]', "'policies': "),
    ("policies", '["random", "random"]', "'random' is listed twice"),
    ("nodes", "0", "'nodes' (is 0)"),
    ("nods", "3", "unknown key 'nods'; did you mean nodes"),
    ("phase", '"nope"', "'phase': 'nope' is unknown"),
    ("answer", '"speed"', "'answer' (is 'speed')"),
    ("title", '""', "'title' (is '')"),
]


@pytest.mark.parametrize(("key", "value", "says"), REFUSED, ids=lambda each: str(each)[:24])
def test_what_is_wrong_is_refused_with_its_place_before_anything_runs(
    key: str, value: str, says: str, file: Path, in_process: Run
) -> None:
    lines = file.read_text().splitlines()
    names = [line.partition(" =")[0] for line in lines]
    top = key in StudyFile.model_fields or key == "nods"
    names += [key] if key not in names and not top else []
    at = names.index(key) if key in names else names.index("nodes")
    lines[at : at + 1] = [f"{key} = {value}"]
    file.write_text("\n".join(lines))
    done = in_process("study", file)
    assert done.returncode == 2
    assert len(done.stderr.splitlines()) == 1
    place, _, text = done.stderr.partition(f"{file}:")[2].partition(": ")
    assert place == str(at + 1)
    assert says in text
    assert not list(file.parent.glob("pagelens-out/**/*.parquet"))


def test_a_point_that_its_nodes_cannot_hold_is_named(file: Path, in_process: Run) -> None:
    """The job fits the memory, but not what the kernel and the history leave of it."""
    file.write_text(file.read_text().replace('"80MB"', '"1 GiB"'))
    done = in_process("study", file, "--points", "1-3", "--quiet")
    assert done.returncode == 2
    assert done.stderr.startswith(
        f"pagelens: {file}:5: 'inputs': point 2 (size = '1 GiB', memory_side_cache.ways = 1): "
    )
    assert "the job needs more memory than the node's 262144 frames leave" in done.stderr
    assert len(shards(file.parent)) == 1


def test_a_sobol_sample_is_a_power_of_two(file: Path, in_process: Run) -> None:
    file.write_text(HEAD + '[sample]\nmethod = "sobol"\npoints = 12\n' + INPUTS)
    assert (
        f"{file}:5: 'sample': points = 12: a Sobol sample needs a power of two"
        in in_process("study", file).stderr
    )


def test_each_point_is_what_simulate_and_explain_say_of_it(file: Path) -> None:
    file.write_text(file.read_text().replace('["random"]', '["random", "contiguous"]').replace("[1, 2]", "2"))
    found = pl.study(file, progress=False)
    changed = {"cores.count": 8, "fast_memory.size": "128 MiB", "ddr.size": "1 GiB"}
    machine = pl.machine(CACHE_MODE).with_values(changed | {"memory_side_cache.ways": 2})
    ensemble = pl.simulate(
        pl.workload("stream-triad", "80MB"),
        machine,
        ["random", "contiguous"],
        nodes=1,
        history="boot; run",
        progress=False,
    )
    expected = {of.policy: of for of in pl.explain(ensemble).distributions}
    rows = found.table.filter(polars.col("size") == 80_000_000)
    assert rows["policy"].to_list() == list(expected)
    for row in rows.iter_rows(named=True):
        assert row["times_s"] == expected[row["policy"]].times_s
        assert row["gain"] == expected[row["policy"]].gain_median


@pytest.mark.parametrize("columns", [120, 80, 50])
def test_the_tables_of_a_study_show_whole_names(
    file: Path, columns: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = pl.study(file, progress=False)
    names = ["memory_side_cache.ways", "fast_memory.bandwidth", "size"]
    effects = [Effect(name, ["a-socket-of-two-sockets", "20 GB/s"], [1.0, 1.5], 0.5) for name in names]
    part = (0.62, 0.5, 0.7)
    monkeypatch.setenv("COLUMNS", str(columns))
    monkeypatch.setattr(study_text, "effects_of", lambda _: effects)
    monkeypatch.setattr(study_text, "indices_of", lambda _: [Index(name, part, part) for name in names])
    _, _, *tables = study_text.render_result(found).rstrip().split("\n\n")
    assert len(tables) == 2
    for rendered in tables:
        assert [line.split()[0] for line in rendered.splitlines() if line.split()[0] in names] == names
        assert max(map(len, rendered.splitlines())) <= columns


def test_traces_histories_and_ages_are_inputs(tmp_path: Path) -> None:
    (tmp_path / "app.trace").write_bytes(GOLDEN.read_bytes())
    text = f'schema = 1\ntitle = "x"\nnodes = 1\n[inputs]\nmachine = "{INCLUSIVE_L3}"\ntrace = "app.trace"\n'
    path = tmp_path / "aged.toml"
    path.write_text(text + "age = [0, 20]\n")
    found = pl.study(path, progress=False)
    assert found.table["age"].to_list() == [0, 20]
    histories = [repr(point.history) for point in Points(read_study(path)).all]
    assert "jobs=0" in histories[0]
    assert "jobs=20" in histories[1]
    path.write_text(text + 'age = [3]\nhistory = "boot; run"\n')
    with pytest.raises(pl.UsageError, match=r"aged.toml:7: 'inputs.age': has no effect on this history"):
        pl.study(path)


def test_only_points_that_are_missing_are_simulated(
    file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    simulated = []

    def counted(*arguments: object, **named: object) -> pl.Ensemble:
        simulated.append(arguments)
        return simulate(*arguments, **named)

    monkeypatch.setattr("pagelens.study.simulating.simulate", counted)
    out = tmp_path / "out"
    first = pl.study(file, out, progress=False)
    assert len(simulated) == 4
    file.write_text(file.read_text().replace("[1, 2]", "[1, 2, 4]"))
    larger = pl.study(file, out, progress=False)
    assert len(simulated) == 6
    assert (
        larger.table.filter(polars.col("memory_side_cache.ways") < 4)
        .drop("point")
        .equals(first.table.drop("point"))
    )
    damaged = next(out.glob("points/*"))
    before = damaged.read_bytes()
    damaged.write_bytes(before[:-1] + b"?")
    assert pl.study(file, out, progress=False).table.equals(larger.table)
    assert len(simulated) == 7
    assert damaged.read_bytes() == before


def start(file: Path, output: Path, *words: str, cores: int) -> subprocess.Popen[str]:
    """A study in a process of its own, on so many cores."""
    allowed = sorted(os.sched_getaffinity(0))[:cores]
    return subprocess.Popen(
        [sys.executable, "-m", "pagelens", "study", file, "-o", output, *words],
        preexec_fn=lambda: os.sched_setaffinity(0, allowed),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def test_a_study_that_was_stopped_goes_on_and_is_equal_to_the_byte(file: Path, tmp_path: Path) -> None:
    whole, stopped = tmp_path / "whole", tmp_path / "stopped"
    for number, status, least in ((signal.SIGKILL, -9, 1), (signal.SIGINT, 130, 2)):
        running = start(file, stopped, cores=2)
        while running.poll() is None and len(shards(stopped)) < least:
            time.sleep(0.005)
        running.send_signal(number)
        _, said = running.communicate()
        assert running.returncode == status, said
        assert least <= len(shards(stopped)) < 4
    assert f"stopped with {len(shards(stopped))} of 4 points complete" in said
    assert "Not complete" in (stopped / "study.html").read_text()
    again = start(file, stopped, "--quiet", cores=1)
    assert again.communicate() == ("", "")
    assert again.returncode == 0
    pl.study(file, whole, progress=False)  # on all cores
    assert shards(whole) == shards(stopped)
    assert len(shards(whole)) == 4
    assert (whole / "study.parquet").read_bytes() == (stopped / "study.parquet").read_bytes()
    assert not list(tmp_path.glob("**/*.partial"))


def test_parts_can_run_side_by_side_and_the_status_says_what_is_left(
    file: Path, tmp_path: Path, in_process: Run
) -> None:
    out = tmp_path / "out"
    for part in ("0-0", "2-9", "0-0"):
        assert in_process("study", file, "-o", out, "--points", part, "--quiet").returncode == 0
    said = in_process("study", file, "-o", out, "--status").stdout
    assert said.startswith("3 of 4 points are complete. The rest takes about")
    assert json.loads(in_process("study", file, "-o", out, "--status", "--json").stdout)["complete"] == 3
    assert not (out / "study.parquet").exists()  # which a study that runs may be writing
    reported = in_process("study", file, "-o", out, "--report")
    assert "4 points, of which 3 are complete" in reported.stdout
    assert "1 of 4 points have not been simulated yet" in (out / "study.html").read_text()
    assert len(shards(out)) == 3
    beyond = in_process("study", file, "-o", out, "--points", "4-5")
    assert "--points: 4-5: the study has 4 points; name some from 0 to 3" in beyond.stderr


def test_a_damaged_point_that_another_process_removes_first_is_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    points = tmp_path / "points"
    points.mkdir()
    damaged = points / f"{'0' * 16}-{'1' * 16}.parquet"
    damaged.write_bytes(b"?")
    listed = list(os.scandir(points))
    damaged.unlink()
    monkeypatch.setattr("pagelens.study.store.os.scandir", lambda _: listed)
    assert "0" * 16 not in PointStore(tmp_path)


def test_a_point_is_kept_though_a_study_sweeps_the_folder_meanwhile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One study of a folder is complete then, and a larger one is not."""
    store, rows = PointStore(tmp_path), ROWS.to_frame()
    swept = []

    def sweep_first(partial: Path, final: Path) -> None:
        if not swept:
            swept.append(partial)
            store.sweep()
        Path(partial).rename(final)

    monkeypatch.setattr("pagelens.study.store.os.replace", sweep_first)
    store.write("0" * 16, rows)
    assert "0" * 16 in PointStore(tmp_path)
    assert not list(tmp_path.glob("**/*.partial"))


def test_a_part_reads_a_linked_study_under_its_own_name(file: Path, tmp_path: Path) -> None:
    """The files that a study names lie beside the link."""
    folder = tmp_path / "elsewhere"
    folder.mkdir()
    (folder / "link.toml").symlink_to(file)
    points = Points(read_study(folder / "link.toml"))
    store = PointStore(tmp_path / "out")
    words = command_of_part(PointsToSimulate(points, store, tmp_path / "out", lambda done, of: None))
    assert str(folder / "link.toml") in words


def test_a_change_of_any_code_that_decides_a_point_makes_it_anew() -> None:
    """How many nodes are simulated, and their intervals, are decided outside of the rooms of ensembles."""
    before = code_digest()
    for module in (sys.modules[simulate.__module__], statistics):
        room = module.__name__.split(".")[1]
        assert room in OWN_CODE
        assert code_digest(room) != before
    with pytest.raises(ValueError, match="there is none"):
        code_digest("no such room")


def test_the_report_has_the_figures_of_a_grid_of_two(file: Path, tmp_path: Path, in_process: Run) -> None:
    done = in_process("study", file, "-o", tmp_path / "out")
    assert done.returncode == 0, done.stderr
    page = (tmp_path / "out/study.html").read_text()
    for key in ("tornado", "heat-map", "times"):
        assert f'<figure id="{key}">' in page
    assert "The median time under 'random' lies between" in " ".join(done.stdout.split())


def made_up(answer: Callable[[int, int], float]) -> StudyResult:
    """A grid of 3 x 4 points whose times are stated."""
    file = StudyFile.model_validate(
        {"schema": 1, "title": "x", "inputs": {"ranks": [1, 2, 3], "age": [0, 1, 2, 3]}, "answer": "time"}
    )
    values = [{"ranks": ranks, "age": age} for ranks in (1, 2, 3) for age in (0, 1, 2, 3)]
    rows = [
        dict.fromkeys(ROWS, 1.0)
        | {"policy": "aged", "nodes": 1, "bound_by": "DDR", "times_s": [1.0]}
        | {"median_s": answer(each["ranks"], each["age"])}
        for each in values
    ]
    table = polars.DataFrame(rows, schema=ROWS).with_columns(
        point=polars.Series(range(12), dtype=polars.UInt32),
        ranks=polars.Series([each["ranks"] for each in values]),
        age=polars.Series([each["age"] for each in values]),
    )
    return StudyResult(file, values, table, 0, Path())


def test_each_panel_shows_all_of_its_lines() -> None:
    figure = small_multiples(made_up(lambda ranks, age: 1.0 + ranks + age), "age", ["ranks"])
    for axes in figure.axes:
        low, high = axes.get_ylim()
        assert all(low <= y <= high for line in axes.lines for y in line.get_ydata())


def test_the_input_that_decides_comes_first_and_shares_are_those_of_an_analysis_of_variance() -> None:
    first, second = effects_of(made_up(lambda ranks, age: 10 + 3 * ranks + age))
    # Variances of 3 x {1, 2, 3} and of {0, 1, 2, 3} are 6 and 1.25, and nothing is due to both together.
    assert (first.name, first.means) == ("ranks", [14.5, 17.5, 20.5])
    assert first.share == pytest.approx(6 / 7.25)
    assert (second.low, second.high, second.share) == (16, 19, pytest.approx(1.25 / 7.25))
    together = effects_of(made_up(lambda ranks, age: 10 + (ranks - 2) * (age - 1.5)))
    assert [each.share for each in together] == pytest.approx([0, 0])
    assert [each.share for each in effects_of(made_up(lambda ranks, age: 5))] == [0, 0]


def saltelli(answer: Callable[[int, int], float], points: int, folder: Path) -> StudyResult:
    """A whole study of Saltelli's design over two inputs of eight values each."""
    path = folder / "saltelli.toml"
    path.write_text(
        HEAD
        + f'[sample]\nmethod = "saltelli"\npoints = {points}\n[inputs]\n'
        + "ranks = { from = 1, to = 8 }\nage = { from = 0, to = 7 }\n"
    )
    stated = read_study(path)
    values = design(stated)
    table = polars.DataFrame(
        {
            "point": polars.Series(range(len(values)), dtype=polars.UInt32),
            "policy": "random",
            "median_s": [float(answer(each["ranks"], each["age"])) for each in values],  # type: ignore[arg-type]
        }
    )
    return StudyResult(stated.file, values, table, 0, folder)


def test_total_indices_hold_what_inputs_decide_together(tmp_path: Path) -> None:
    """The product of centred inputs has no variance alone: both totals are 1. A sum has no other."""
    together = saltelli(lambda ranks, age: 10 + (ranks - 4.5) * (age - 3.5), 256, tmp_path)
    assert len(together.values) == 256 * 4
    for index in indices_of(together):
        assert index.total[0] == pytest.approx(1, abs=0.1)
        assert index.first[0] == pytest.approx(0, abs=0.15)
        assert index.total[1] < 1 < index.total[2]
    alone = indices_of(saltelli(lambda ranks, age: 10 + 3 * ranks + age, 256, tmp_path))
    assert [each.name for each in alone] == ["ranks", "age"]
    for index, share in zip(alone, (0.9, 0.1), strict=True):  # variances of 3 x {1 .. 8} and of {0 .. 7}
        assert index.first[0] == pytest.approx(share, abs=0.03)
        assert index.total[0] == pytest.approx(share, abs=0.03)
        assert index.total[1] <= index.total[0] <= index.total[2]
    assert indices_of(saltelli(lambda ranks, age: 5, 8, tmp_path)) == []
    assert indices_of(replace(together, missing=1)) == []
    assert indices_of(together) == indices_of(together)


def test_each_mixed_point_takes_one_input_of_the_other_sample(tmp_path: Path) -> None:
    values = saltelli(lambda ranks, age: 0, 8, tmp_path).values
    a, b, of_ranks, of_age = (values[at : at + 8] for at in range(0, 32, 8))
    assert a != b
    assert of_ranks == [dict(one) | {"ranks": other["ranks"]} for one, other in zip(a, b, strict=True)]
    assert of_age == [dict(one) | {"age": other["age"]} for one, other in zip(a, b, strict=True)]


def test_a_value_of_an_array_of_sections_is_an_input(file: Path, tmp_path: Path) -> None:
    file.write_text(file.read_text() + 'tlb.0.entries = [64, 128]\n"tlb.1.entries" = 256\n')
    machines = [point.scaled.machine for point in Points(read_study(file)).all]
    assert [each.tlb[0].entries.value for each in machines[:2]] == [64, 128]
    assert machines[0].tlb[0].entries.assumed
    assert {each.tlb[1].entries.value for each in machines} == {256}


def test_a_job_of_another_cluster_is_asked_for_there(monkeypatch: pytest.MonkeyPatch) -> None:
    """Slurm's squeue then begins with the name of the cluster, even where no task is left."""
    asked, answers = [], []

    def squeue(words: list[str]) -> subprocess.CompletedProcess[str]:
        asked.append(words)
        return subprocess.CompletedProcess(words, 0, answers[-1], "")

    monkeypatch.setattr(slurm, "_run", squeue)
    for job, said, queued in [
        ("42;far", "CLUSTER: far\nPENDING\n", True),
        ("42;far", "CLUSTER: far\n", False),
        ("42", "RUNNING\n", True),
        ("42", "", False),
    ]:
        answers.append(said)
        assert slurm._is_queued(job) is queued
    assert asked[0] == ["squeue", "--noheader", "--clusters=far", "--jobs=42", "--format=%T"]
    assert asked[2] == ["squeue", "--noheader", "--jobs=42", "--format=%T"]


def test_a_grid_of_which_points_are_missing_says_what_that_does_to_its_inputs() -> None:
    """The first row and one more point: the means of the first input differ, which changes nothing."""
    whole = made_up(lambda ranks, age: 10 + age)
    part = replace(whole, table=whole.table.head(5), missing=7)
    assert next(each.share for each in effects_of(part) if each.name == "ranks") > 0.1
    effects = effects_of(part)
    (warning,) = set(sentences(part, effects)) - set(sentences(replace(part, missing=0), effects))
    assert warning.startswith("Points of the grid are missing")
    together = "is due to several inputs together"
    assert together in render_page(whole, "")
    assert together not in render_page(part, "")
    drawn = whole.file.model_copy(update={"sample": Sample(method="sobol", points=16)})
    assert together not in render_page(replace(whole, file=drawn), "")


def test_equal_values_of_an_input_with_many_stay_in_one_quarter() -> None:
    """An input that decides nothing has no share, whichever others change along with it."""
    ranks, age = (9 * list(range(8)), [at for at in range(9) for _ in range(8)])
    file = StudyFile.model_validate(
        {"schema": 1, "title": "x", "inputs": {"age": list(range(9)), "ranks": list(range(8))}}
    )
    table = made_up(lambda ranks, age: 1).table
    table = polars.concat([table] * 6).with_columns(
        point=polars.Series(range(72), dtype=polars.UInt32),
        ranks=polars.Series(ranks),
        age=polars.Series(age),
        median_s=polars.Series(ranks, dtype=polars.Float64),
    )
    values = [{"ranks": one, "age": other} for one, other in zip(ranks, age, strict=True)]
    first, second = effects_of(StudyResult(file, values, table, 0, Path()))
    assert (first.name, second.name) == ("ranks", "age")
    assert (first.share, second.share) == (pytest.approx(1), pytest.approx(0))
    assert second.levels == ["0 to 1", "2 to 3", "4 to 6", "7 to 8"]


def test_a_flag_of_an_outer_block_is_set_too() -> None:
    outer, inner = Event(), Event()
    with ctrl_c_sets(outer), ctrl_c_sets(inner):
        os.kill(os.getpid(), signal.SIGINT)
        assert inner.wait(10)
    assert outer.is_set()
