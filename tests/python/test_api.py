"""The Python API: names, notebooks, rules and job mixes of one's own, Ctrl-C, examples of docstrings."""

import doctest
import inspect
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from machine_roles import CACHE_MODE, FLAT_BEHIND_L3, SNOOP_FILTER

import pagelens as pl
from pagelens import _core
from pagelens.frames import load_mix
from pagelens.frames.steps import Age, Boot, Run
from pagelens.progress import Bar

ROOT = Path(__file__).parents[2]
FUNCTIONS = [name for name in pl.__all__ if callable(getattr(pl, name)) and name[0].islower()]


def small(policies: object, **settings: object) -> pl.Ensemble:
    changed = {"cores.count": 8, "fast_memory.size": "128 MiB", "ddr.size": "1 GiB"}
    return pl.simulate(
        pl.workload("stream-triad", size="40MB"),
        pl.machine(CACHE_MODE).with_values(changed),
        policies=policies,
        **{"nodes": 2, "progress": False} | settings,
    )


@pytest.mark.parametrize("before", ["", "import pagelens.measure, pagelens.machine.time, pagelens.explain"])
def test_a_package_can_be_called_whatever_was_imported_before(before: str) -> None:
    program = f"""{before}
import sys, pagelens as pl
if not {before!r}:
    assert not {{"numpy", "polars", "pydantic"}} & set(sys.modules)
assert set(pl.__all__) <= set(dir(pl))
print(pl.machine("{SNOOP_FILTER}").name, callable(pl.measure), pl.measure.__name__)
from pagelens.measure import trials
import pagelens.measure.trials as same
assert same is trials is pl.measure.trials
"""
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert run.stdout == f"{SNOOP_FILTER} True pagelens.measure\n"


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="nothing"):
        getattr(pl, "nothing")  # noqa: B009


@pytest.mark.parametrize("name", FUNCTIONS)
def test_the_example_of_a_docstring_runs(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    function = inspect.unwrap(getattr(pl, name))
    if not inspect.isfunction(function):
        return
    examples = doctest.DocTestFinder().find(
        function, name, globs={each: getattr(pl, each) for each in pl.__all__}
    )
    assert sum(len(found.examples) for found in examples) > 0
    for found in examples:
        assert doctest.DocTestRunner().run(found).failed == 0


def test_a_machine_is_drawn() -> None:
    assert "│ memory-side cache" in repr(pl.machine(CACHE_MODE).with_ways(2))


def test_a_placement_rule_written_in_python(tmp_path: Path) -> None:
    """Frames in a row have no conflicts; frames a cache apart have nothing else. Rules are never reread."""
    apart = 1

    def rule(machine: pl.Machine, node: object, state: object) -> _core.Placement:
        frames = np.arange(machine.frames, dtype=np.uint32).reshape(apart, -1)
        return _core.place_as_given(np.ascontiguousarray(frames.T).ravel(), machine.frames, 0)

    mine = pl.Policy("mine", "frames of my own", rule)
    assert small([mine, "random"]).placements.filter(policy="mine")["conflict_share"].max() == 0
    apart = 8  # as many frames as memory has for a slot of the cache
    assert small([mine], output=tmp_path, nodes=1).placements["conflict_share"].min() > 0.9
    assert not list(tmp_path.glob("**/*.parquet"))


def test_a_job_mix_written_in_python() -> None:
    quiet = replace(load_mix("cori"), mean_jobs_since_boot=0.0)
    history = [Boot(), Age(mix=quiet), Run()]
    assert small(["aged"], history=history).placements["conflict_share"].max() == 0
    assert small(["aged"], history="boot; age(jobs=40); run").placements["conflict_share"].max() > 0


def test_nothing_is_left_on_disk_unless_asked_for(tmp_path: Path) -> None:
    program = f"""
import pagelens as pl
w = pl.workload("stream-triad", size="300MB")
print(pl.simulate(w, pl.machine("{CACHE_MODE}"), ["random"], nodes=1))
"""
    environment = {"PATH": "/usr/bin", "TMPDIR": str(tmp_path), "HOME": str(tmp_path)}
    run = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, env=environment, check=True
    )
    assert run.stdout == f"<Ensemble: stream-triad x 1 on {CACHE_MODE}, 1 nodes, policies random>\n"
    assert run.stderr == ""
    assert list(tmp_path.iterdir()) == []


def test_ctrl_c_keeps_what_is_done(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The exception has the nodes that are done, and the same call does only the others."""
    done = []

    def stop_after_two(self: Bar, count: int, total: int) -> None:
        done.append(count)
        if count == 2:
            raise KeyboardInterrupt

    monkeypatch.setattr(Bar, "__call__", stop_after_two)
    monkeypatch.setattr("os.sched_getaffinity", lambda _: {0})  # nodes are done in order
    with pytest.raises(pl.Interrupted) as stopped:
        small(["random"], nodes=6, output=tmp_path)
    partial = stopped.value.partial
    assert partial.nodes == 2
    monkeypatch.undo()
    whole = small(["random"], nodes=6, output=tmp_path)
    assert whole.placements.filter(pl_node_below(2)).equals(partial.placements)


def pl_node_below(count: int) -> object:
    import polars

    return polars.col("node") < count


@pytest.mark.parametrize(("method", "package"), [("to_pandas", "pandas"), ("to_xarray", "xarray")])
def test_a_missing_package_is_named(method: str, package: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(pl.Failure, match=f"{method}: needs the package '{package}'; pip install {package}"):
        getattr(small(["random"]), method)()


def test_xarray_gets_each_value_at_its_place(monkeypatch: pytest.MonkeyPatch) -> None:
    class Xarray:
        @staticmethod
        def Dataset(columns: dict[str, object], coords: dict[str, object]) -> tuple[object, object]:
            return columns, coords

    monkeypatch.setitem(sys.modules, "xarray", Xarray)
    e = small(["random", "contiguous"], nodes=3)
    columns, axes = e.to_xarray()
    dimensions, times = columns["time_s"]
    assert dimensions == ("policy", "node", "phase")
    assert times.shape == (2, 3, len(axes["phase"]))
    for i, policy in enumerate(axes["policy"]):
        for k, phase in enumerate(axes["phase"]):
            rows = e.placements.filter(policy=policy, phase=phase).sort("node")
            assert times[i, :, k].tolist() == rows["time_s"].to_list()


def test_an_explanation_in_a_notebook() -> None:
    x = pl.explain(small(["aged", "2m"]))
    shown = x._repr_html_()
    assert "<svg" in shown
    assert x.conclusion.sentences[0].split("`")[0].split("'")[0] in shown
    assert x.plot().axes
    assert x.plot("remedies").axes
    with pytest.raises(pl.UsageError, match="name one of distribution"):
        x.plot("nothing")


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"policies": "aged"}, "policies: 'aged' is one text"),
        ({"policies": []}, "policies: the list is empty"),
        ({"policies": ["agd"]}, "policies: 'agd'"),
        ({"policies": ["aged"], "ranks": 0}, "ranks: 0 x one thread"),
        ({"policies": ["aged"], "ranks": 69}, "name 1 to 8"),
        ({"policies": ["aged"], "phase": "nowhere"}, "phase: 'nowhere' is unknown"),
        ({"policies": ["aged"], "history": "bot; run"}, "history"),
    ],
)
def test_what_cannot_be_simulated(changes: dict[str, object], said: str) -> None:
    with pytest.raises(pl.UsageError, match=said):
        small(**changes)  # type: ignore[arg-type]


@pytest.mark.parametrize("fast", ["0B", "1TiB"])
def test_fast_memory_that_a_machine_does_not_have(fast: str) -> None:
    with pytest.raises(pl.UsageError, match="fast: "):
        pl.place(pl.workload("cg", size="2GiB"), pl.machine(FLAT_BEHIND_L3), fast=fast)


def test_a_machine_with_one_memory_cannot_be_placed_on() -> None:
    with pytest.raises(pl.UsageError, match="has one memory"):
        pl.place(pl.workload("cg", size="2GiB"), pl.machine(SNOOP_FILTER))


def test_a_program_that_does_not_exist_cannot_be_recorded() -> None:
    with pytest.raises(pl.PagelensError, match="no-such-program"):
        pl.record(["./no-such-program"], progress=False)
