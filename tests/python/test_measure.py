"""Measuring: trials on fresh page maps, what is said of them, and the command."""

import ctypes
import json
import mmap
import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from machine_roles import CACHE_MODE, CHIPLETS, HASHED_L3, PIPELINE, SNOOP_FILTER

from pagelens import _probes
from pagelens.accesses.declared import declared
from pagelens.cli.main import main
from pagelens.errors import Failure, Interrupted, UsageError
from pagelens.host.load import Load, LoadMeter
from pagelens.machine import load_machine
from pagelens.measure.benchmarks import BENCHMARKS
from pagelens.measure.counters import HardwareCounters
from pagelens.measure.experiment import Model, Settings
from pagelens.measure.pages import PAGE_SIZES, parse_page_sizes, reserved
from pagelens.measure.predict import predicted_seconds
from pagelens.measure.summary import map_share, outliers, unusual
from pagelens.measure.trials import BUSY, Point, TrialSettings, run_trials

CPU = sorted(os.sched_getaffinity(0))[0]
SMALL = PAGE_SIZES["4k"]
ROOT = os.geteuid() == 0
BARE = Settings([CPU], repeats=1, seed=1, cache_bytes=1 << 20)
LIBPFM4 = Path("/usr/lib/x86_64-linux-gnu/libpfm.so.4")


def setup_of(run: Callable[[_probes.Memory], np.ndarray], **other: object) -> TrialSettings:
    settings = {
        "points": [Point({"kernel": "mine"}, run, 1.0)],
        "pages": [SMALL],
        "memory_bytes": 1 << 20,
        "arrays": [0],
        "cpus": [CPU],
        "trials": 3,
        "seed": 1,
        "retries": 0,
        "ballast_bytes": 4 << 20,
        "scatter": 0.5,
        "overlapped": True,
        "counted": lambda work: (work(), {}),
    }
    return TrialSettings(**(settings | other))  # type: ignore[arg-type]


def test_each_trial_is_visited_twice_with_another_between() -> None:
    seen: list[_probes.Memory] = []  # not their addresses, which a later one may have again

    def run(memory: _probes.Memory) -> np.ndarray:
        seen.append(memory)
        return np.array([1.0])

    trials = list(run_trials(setup_of(run), lambda: False))
    first, second, third = dict.fromkeys(seen)
    assert seen == [first, second, first, third, second, third]
    assert [trial.number for trial in trials] == [0, 1, 2]
    assert all(len(trial.visits) == 2 for trial in trials)


def test_without_room_for_two_the_visits_follow_each_other() -> None:
    seen: list[_probes.Memory] = []  # not their addresses, which a later one may have again

    def run(memory: _probes.Memory) -> np.ndarray:
        seen.append(memory)
        return np.array([1.0])

    list(run_trials(setup_of(run, overlapped=False), lambda: False))
    assert seen[0::2] == seen[1::2]


@pytest.mark.skipif(not ROOT, reason="the kernel shows frames to root only")
def test_the_ballast_makes_page_maps_fresh() -> None:
    # One map at a time: without a ballast the kernel hands out the same frames again (new: 0%), unless other
    # processes take them meanwhile.
    setup = setup_of(
        lambda _: np.array([1.0]), memory_bytes=8 << 20, ballast_bytes=64 << 20, overlapped=False, trials=5
    )
    shares = [trial.new_share for trial in run_trials(setup, lambda: False)]
    assert shares[0] is None
    assert np.mean([share for share in shares if share is not None]) > 0.4


def test_stopping_keeps_whole_trials() -> None:
    """Asked before each point: in the second visit of the second trial all but the first trial go."""
    asked = iter([False] * 5 + [True])
    trials = list(run_trials(setup_of(lambda _: np.array([1.0])), lambda: next(asked)))
    assert [trial.number for trial in trials] == [0, 1]
    assert all(len(trial.visits) == 2 for trial in trials)
    assert not list(run_trials(setup_of(lambda _: np.array([1.0])), lambda: True))


def test_what_a_kernel_refuses_is_said() -> None:
    def refuse(_: _probes.Memory) -> np.ndarray:
        raise ValueError("too many of them")

    with pytest.raises(Failure, match="measure: kernel mine: too many of them"):
        list(run_trials(setup_of(refuse), lambda: False))


def test_disturbed_visits_are_repeated_until_the_machine_is_just_busy(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    busy = Load(1.0, 1.0, 0.0, 0)
    monkeypatch.setattr(LoadMeter, "stop", lambda self: busy)
    setup = setup_of(lambda _: np.array([1.0]), trials=4, retries=2)
    attempts = [visit.attempts for trial in run_trials(setup, lambda: False) for visit in trial.visits]
    assert sorted(attempts) == [1] * (8 - BUSY) + [3] * BUSY


def test_the_least_disturbed_visit_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    loads = iter([Load(1.0, 3.0, 0.0, 0), Load(1.0, 1.0, 0.0, 0), Load(1.0, 2.0, 0.0, 0)] * 4)
    monkeypatch.setattr(LoadMeter, "stop", lambda self: next(loads))
    times = iter(range(100))
    setup = setup_of(lambda _: np.array([float(next(times))]), trials=1, retries=2)
    (trial,) = run_trials(setup, lambda: False)
    assert [visit.seconds[0][0] for visit in trial.visits] == [1.0, 4.0]
    assert trial.disturbed


def test_load_counts_others_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stat = tmp_path / "stat"
    ticks = os.sysconf("SC_CLK_TCK")
    own = iter([(1.0, 0), (3.0, 7), (3.0, 7), *[(3.0, 7)] * 4])
    monkeypatch.setattr("pagelens.host.load._own", lambda: next(own))
    stat.write_text("cpu 100 0 100 1000 0 0 0 50 0 0\n")
    meter = LoadMeter(stat)
    stat.write_text(f"cpu {100 + 2 * ticks} 0 100 1000 0 0 0 50 0 0\n")  # 2 seconds, all of them ours
    quiet = meter.stop()
    assert quiet.foreign_cpus == 0
    assert quiet.stolen_cpus == 0
    assert quiet.preemptions == 7
    assert not quiet.disturbed
    stat.write_text("cpu 100000 0 100 1000 0 0 0 5000 0 0\n")
    busy = meter.stop()
    assert busy.disturbed
    assert busy.stolen_cpus is not None
    assert busy.stolen_cpus > 1
    for garbage in ("", "cpu\n", "cpu 1 2 x\n", "intr 1 2 3 4 5 6 7 8\n"):
        stat.write_text(garbage)
        assert meter.stop().foreign_cpus is None


def in_order(of_map: np.ndarray, of_moment: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Visits [trial, 2] as run_trials makes them, and their places: 0a 1a 0b 2a 1b ..."""
    trials = len(of_map)
    order = np.array([[max(0, 2 * n - 1), min(2 * n + 2, 2 * trials - 1)] for n in range(trials)])
    return of_map[:, None] + of_moment[order], order


def test_share_of_the_map() -> None:
    rng = np.random.default_rng(1)
    visits, order = in_order(rng.normal(100, 5, 30), rng.normal(0, 1, 60))
    assert sorted(order.ravel().tolist()) == list(range(60))
    decided = map_share(visits, order, 1)
    assert decided is not None
    assert decided.significant
    assert 0.9 < decided.share < 1  # 25 / (25 + 1)
    assert map_share(np.ones((5, 2)), order[:5], 1) is None
    assert map_share(visits[:2], order[:2], 1) is None


@pytest.mark.parametrize(
    "moment",
    [
        lambda rng: rng.normal(0, 1, 40),
        lambda rng: rng.normal(0, 0.1, 40) + np.linspace(0, 3, 40),  # it drifts
        lambda rng: rng.normal(0, 0.1, 40) + 3 * (np.arange(40) < 20),  # a neighbour leaves
        lambda rng: np.cumsum(rng.normal(0, 1, 40)),
    ],
)
def test_the_moment_is_no_map(moment: Callable[[np.random.Generator], np.ndarray]) -> None:
    """At a level of 5%, few of 40 runs without any effect of the map are called significant."""
    found = []
    for seed in range(40):
        visits, order = in_order(np.full(20, 100.0), moment(np.random.default_rng(seed)))
        share = map_share(visits, order, seed)
        assert share is not None
        found.append(share.significant)
    assert sum(found) <= 6


def test_outliers_and_what_else_was_unusual() -> None:
    values = np.array([10.0, 10.1, 9.9, 10.05, 9.95, 10.02, 9.98, 5.0, 9.0])
    assert outliers(values) == (7, 8)
    assert outliers(values[:7]) == ()
    large = np.array([1.0] * 7 + [0.5, 1.0])
    assert unusual(7, [("load", values[::-1].copy(), 0.0), ("large pages", large, 0.1)]) == "large pages"
    assert unusual(8, [("large pages", large, 0.1)]) == ""
    assert unusual(7, [("large pages", large, 0.6)]) == ""  # not enough to matter


def test_predicted_on_the_frames_of_a_trial() -> None:
    """Pages that fall to the same L2 sets cost more than pages that spread over them."""
    machine = load_machine(SNOOP_FILTER)
    workload = declared("l2-sum", 1 << 20, 1)
    spread = np.arange(1000, 1256, dtype=np.uint64)
    crowded = 1000 + 16 * np.arange(256, dtype=np.uint64)  # 1 MiB of 16 ways: 16 pages' worth of sets
    model = Model(workload, "sum", 1.0)
    fast, slow = predicted_seconds(machine, model, SMALL, [spread, crowded], 1)
    assert slow > 1.2 * fast
    with pytest.raises(
        UsageError, match=r"its banks are of one socket.* frames lie up to 1 TiB; .* numactl --cpunodebind=0"
    ):
        predicted_seconds(machine, model, SMALL, [spread + (1 << 28)], 1)


def test_pools_grow_and_are_given_back(tmp_path: Path) -> None:
    """The files stand in for the kernel's: `free` is what it says after it was asked."""
    folder = tmp_path / "hugepages-2048kB"
    folder.mkdir()
    total, free = folder / "nr_hugepages", folder / "free_hugepages"
    small, large = 40 << 20, 80 << 20
    total.write_text("10\n")
    free.write_text("40\n")
    with reserved([PAGE_SIZES["2m"]], small, large, tmp_path):
        assert total.read_text() == "10\n"  # 40 pages are enough
    free.write_text("30\n")
    with reserved([PAGE_SIZES["2m"]], small, large, tmp_path):
        assert total.read_text() == "20\n"
        total.write_text("120\n")  # somebody else has 100 more
    assert total.read_text() == "110\n"
    free.write_text("4\n")
    with (
        pytest.raises(Failure, match="the kernel finds only 4"),
        reserved([PAGE_SIZES["2m"]], small, large, tmp_path),
    ):
        pass
    assert total.read_text() == "110\n"
    with (
        pytest.raises(UsageError, match="no such pages"),
        reserved([PAGE_SIZES["1g"]], 1 << 30, 2 << 30, tmp_path),
    ):
        pass


def test_counters_by_name() -> None:
    """Software events stand in for hardware's, which a virtual machine may not have."""
    if not LIBPFM4.exists():
        pytest.skip("libpfm4 is not installed")
    counters = HardwareCounters(
        {"faults": ["perf::PAGE-FAULTS"], "none": ["knl_unc_imc*::UNC_M_CAS_COUNT:RD"]}, [CPU]
    )
    if not counters.names:
        pytest.skip(counters.missing)
    assert counters.names == ("faults",)

    def touch() -> np.ndarray:
        os.sched_setaffinity(0, [CPU])
        with mmap.mmap(-1, 1 << 20) as fresh:  # malloc may have memory that was touched before
            fresh.write(b"x" * len(fresh))
        return np.ones(1)

    before = os.sched_getaffinity(0)
    try:
        _, counted = counters.count(touch)
    finally:
        os.sched_setaffinity(0, before)
        counters.close()
    assert counted["faults"] >= 1


NAMES = """
import sys
from pagelens.machine import load_machine
from pagelens.measure.counters import Names
names = Names()
not_found = {-4, -8}  # PFM_ERR_NOTFOUND, PFM_ERR_ATTR
for machine in sys.argv[1:]:
    for events in load_machine(machine).counters.stated().values():
        for event in events:
            assert names.encode(event.replace("*::", "0::"))[0] not in not_found, event
assert names.encode("skx::NO_SUCH_EVENT")[0] in not_found
"""


def test_every_name_in_a_machine_file_is_libpfm4s() -> None:
    if not LIBPFM4.exists():
        pytest.skip("libpfm4 is not installed")
    environment = os.environ | {"LIBPFM_ENCODE_INACTIVE": "1"}  # processors other than this one
    machines = (SNOOP_FILTER, CACHE_MODE, HASHED_L3, PIPELINE, CHIPLETS)
    subprocess.run([sys.executable, "-c", NAMES, *machines], check=True, env=environment)


def run(*words: str, cwd: Path, **other: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "pagelens", "measure", *words]
    return subprocess.run(command, capture_output=True, text=True, cwd=cwd, check=False, **other)  # type: ignore[call-overload, no-any-return]


QUICK: dict[str, Sequence[str]] = {
    "stream": ("--n", "20480", "--offset", "0:1024:512"),
    "latency": ("--footprint", "16KiB,128KiB", "--stride", "128B"),
    "gups": ("--table", "1MiB"),
    "l2sum": ("--block", "64KiB"),
    "cg": ("--n", "12"),
    "conflict": ("--distance", "2MiB"),
}


def run_here(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, *words: str) -> Any:
    """The command in this process, which saves its imports: status, output and errors."""
    monkeypatch.setattr(sys, "argv", ["pagelens", "measure", *words])
    with pytest.raises(SystemExit) as ended:
        main()
    written = capfd.readouterr()
    return ended.value.code or 0, written.out, written.err


@pytest.mark.parametrize("kernel", QUICK)
def test_the_command(
    kernel: str, tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    words = (kernel, *QUICK[kernel], "--trials", "2", "--retries", "0", "--no-predict", "--json")
    status, out, err = run_here(capfd, monkeypatch, *words)
    assert status == 0, err
    found = json.loads(out)
    assert found == json.loads((tmp_path / f"pagelens-out/measure-{kernel}/measure.json").read_text())
    assert found["kernel"] == kernel
    assert len(found["trials"]) == 2
    assert all(result["spread"]["median"] > 0 for result in found["results"])
    visits = pl.read_parquet(tmp_path / f"pagelens-out/measure-{kernel}/visits.parquet")
    points = len(found["results"])
    repetitions = visits.filter(pl.col("trial") == 0, pl.col("visit") == 0).height
    assert visits.height == 2 * 2 * repetitions
    assert repetitions % points == 0
    frames = pl.read_parquet(tmp_path / f"pagelens-out/measure-{kernel}/frames.parquet")
    if ROOT:
        pages = frames.filter(pl.col("trial") == 0)["pages"].sum()
        assert pages * 4096 >= found["memory_bytes"]
    assert (tmp_path / f"pagelens-out/measure-{kernel}/figure.svg").read_text().startswith("<svg")


@pytest.mark.skipif(not ROOT, reason="the kernel shows frames to root only")
def test_a_long_sweep_is_predicted_where_it_is_asked_for(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    quick = ("--trials", "1", "--repeats", "1", "--retries", "0", "--json")
    words = ("stream", "--n", "1024", "--offset", "0:8704:512", "--kernels", "copy", *quick)
    for named, expected in (((), True), (("--no-predict",), False)):
        status, out, err = run_here(capfd, monkeypatch, *words, *named)
        assert status == 0, err
        note = "Not predicted: 18 points, each a replay a trial; --predict asks for it."
        assert (note in json.loads(out)["notes"]) == expected


def test_dgemm_by_the_installed_blas(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    status, out, err = run_here(capfd, monkeypatch, "dgemm", "--n", "64", "--trials", "1", "--retries", "0")
    if status == 2:
        assert "no BLAS is found" in err
    else:
        assert status == 0, err
        assert "GFLOP/s" in out


def test_predicted_beside_measured(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    words = ("l2sum", "--block", "256KiB", "--trials", "3", "--retries", "0")
    status, out, err = run_here(capfd, monkeypatch, *words)
    assert status == 0, err
    if ROOT:
        assert "Predicted (modelled" in out
    else:
        assert "shows them to root only" in " ".join(out.split())
    assert max(map(len, out.splitlines()[:-2])) <= 80


@pytest.mark.skipif(not ROOT, reason="the kernel shows frames to root only")
def test_what_cannot_be_predicted_is_measured(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> np.ndarray:
        raise UsageError("frame 0x614 lies beyond its memory")

    monkeypatch.setattr("pagelens.measure.results.predicted_seconds", refuse)
    monkeypatch.chdir(tmp_path)
    status, _, err = run_here(capfd, monkeypatch, "l2sum", "--block", "64KiB", "--trials", "1", "-q")
    assert status == 0, err
    found = json.loads((tmp_path / "pagelens-out/measure-l2sum/measure.json").read_text())
    assert found["results"][0]["prediction"] is None
    assert "Not predicted: frame 0x614 lies beyond its memory." in found["notes"]


@pytest.mark.skipif(not ROOT, reason="the kernel shows frames to root only")
def test_ctrl_c_while_predicting_keeps_what_was_measured(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def stop(*_: object) -> np.ndarray:
        raise Interrupted("stopped with 0 of 1 nodes complete, kept in a folder that is gone")

    monkeypatch.setattr("pagelens.measure.results.predicted_seconds", stop)
    monkeypatch.chdir(tmp_path)
    status, _, err = run_here(capfd, monkeypatch, "l2sum", "--block", "64KiB", "--trials", "1", "-q")
    assert status == 130
    assert "stopped while predicting; all trials are kept" in err
    found = json.loads((tmp_path / "pagelens-out/measure-l2sum/measure.json").read_text())
    assert "Not predicted: stopped by Ctrl-C." in found["notes"]


def test_the_arrays_are_four_times_the_caches_that_are_there(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The caches are those of all sockets, and not those of the machine that frames are held against."""
    monkeypatch.setattr(_probes, "last_level_bytes", lambda cpus: 1 << 44)
    status, _, err = run_here(capfd, monkeypatch, "stream", "--machine", SNOOP_FILTER, "--kernels", "copy")
    assert status == 2
    assert "needs 211 TB" in err  # three arrays of 4 x 2^44 bytes


def test_what_is_chosen_where_nothing_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """The instructions that the processor takes whole, which need not be its widest."""
    monkeypatch.setattr(_probes, "best_isa", lambda: _probes.Isa.sse2)
    assert [BENCHMARKS[name][0](BARE).ran["isa"] for name in ("stream", "l2sum")] == ["sse2", "sse2"]
    for isa in _probes.isas():
        assert BENCHMARKS["l2sum"][0](replace(BARE, isa=isa.name)).ran["isa"] == isa.name


def test_blocks_within_pages_are_not_predicted_and_it_is_said(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = BENCHMARKS["l2sum"][0](BARE)
    assert list(plan.models()) == [None]
    (model,) = BENCHMARKS["l2sum"][0](replace(BARE, block="976KiB")).models()
    assert model is not None
    assert model.amount == 976 << 10
    if ROOT:
        monkeypatch.chdir(tmp_path)
        words = ("l2sum", "--trials", "1", "--repeats", "1", "--retries", "0", "--json")
        status, out, err = run_here(capfd, monkeypatch, *words)
        assert status == 0, err
        found = json.loads(out)
        assert found["ran"] == {"isa": _probes.best_isa().name}
        assert any("a --block in multiples of 4KiB, such as 976KiB" in note for note in found["notes"])


IN_A_POINT = """
import os, signal, sys
from pagelens import _probes
from pagelens.cli.main import main

real, calls = _probes.gups, []


def gups(memory, table, updates, cpus):
    calls.append(table)
    if len(calls) > 3:  # one trial is complete, and the visit that begins would take for ever
        os.kill(os.getpid(), signal.SIGINT)
        updates = 1 << 60
    return real(memory, table, updates, cpus)


_probes.gups = gups
words = "gups --table 64KiB --trials 5 --repeats 1 --retries 0 -o out".split()
sys.argv = ["pagelens", "measure", *words]
main()
"""


def test_ctrl_c_in_the_midst_of_a_point_leaves_whole_files(tmp_path: Path) -> None:
    command = [sys.executable, "-c", IN_A_POINT]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, check=False)
    assert done.returncode == 130, done.stderr
    assert "stopped after 1 of 5 trials, which are kept" in done.stderr
    found = json.loads((tmp_path / "out/measure.json").read_text())
    assert found["interrupted"]
    assert len(found["trials"]) == 1
    assert pl.read_parquet(tmp_path / "out/visits.parquet").height == 2
    assert not list(tmp_path.rglob("*.partial"))


@pytest.mark.skipif(not ROOT, reason="changes to another user")
def test_without_rights(tmp_path: Path) -> None:
    """A container has no frames and no pools, but the measurement."""
    tmp_path.chmod(0o777)
    for parent in tmp_path.parents[:3]:
        parent.chmod(parent.stat().st_mode | 0o055)

    def drop() -> None:
        os.setgroups([])
        os.setgid(65534)
        os.setuid(65534)
        ctypes.CDLL(None).prctl(38, 1, 0, 0, 0)  # PR_SET_NO_NEW_PRIVS

    home = os.environ | {"HOME": str(tmp_path)}
    words = ("stream", "--n", "20480", "--kernels", "copy", "--trials", "1", "--retries", "0")
    done = run(*words, "-o", "out", cwd=tmp_path, preexec_fn=drop, env=home)
    assert done.returncode == 0, done.stderr
    assert "the kernel shows them to root only" in " ".join(done.stdout.split())
    done = run(*words, "--page-size", "1g", "-o", "out", cwd=tmp_path, preexec_fn=drop, env=home)
    assert done.returncode in (1, 2)
    assert "--page-size 1g" in done.stderr


@pytest.mark.parametrize(
    ("words", "error"),
    [
        (("steam",), "Did you mean 'stream'?"),
        (("stream", "--table", "1MiB"), "No such option: --table"),
        (("stream", "--page-size", "8k"), "some of 4k, thp, 2m, 1g"),
        (("stream", "--kernels", "copy,quad"), "some of copy, scale, add, triad"),
        (("stream", "--offset", "5:1:1"), "FIRST:LAST:STEP"),
        (("stream", "--offset", "0:99999999:1"), "at most 4096"),
        (("stream", "--isa", "neon"), "this processor has"),
        (("stream", "--stores", "lazy"), "auto, or one of plain, nontemporal"),
        (("stream", "--order", "back"), "auto, or one of in-turn, spread"),
        (("stream", "--n", "3"), "at least 512"),
        (("stream", "--n", "999999999999"), "can be had; take less"),
        (("stream", "--n", "99999999999999999999"), "--n"),
        (("stream", "--offset", "9" * 5000), "a whole number of doubles"),
        (("stream", "--cpus", "4096"), "this process may run on"),
        (("stream", "--cpus", "a"), "numbers and rising ranges"),
        (("stream", "--cpus", "3-1,0"), "rising ranges"),
        (("latency", "--footprint", "12"), "has no unit"),
        (("latency", "--footprint", "64B"), "at least two strides"),
        (("latency", "--stride", "100B"), "a multiple of 64"),
        (("gups", "--table", "3MiB"), "a power of two"),
        (("gups", "--table", "32KiB"), "at least 64 KiB"),
        (("l2sum", "--block", "3B"), "a multiple of 8"),
        (("conflict", "--distance", "1MiB"), "at least 2097152"),
        (("dgemm", "--blas", "/no/such.so"), "there is no such file"),
        (("cg", "--n", "4"), "8 to 1000"),
    ],
)
def test_bad_input_is_one_line(
    words: Sequence[str], error: str, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    status, _, err = run_here(capfd, monkeypatch, *words)
    assert status == 2
    assert error in err
    assert len(err.strip().splitlines()) == 1
    assert not Path("pagelens-out").exists()


def test_each_kernel_has_its_settings() -> None:
    assert set(BENCHMARKS) == {"stream", "latency", "gups", "l2sum", "dgemm", "cg", "conflict"}
    assert parse_page_sizes("2m, 4K,2m") == [PAGE_SIZES["2m"], PAGE_SIZES["4k"]]
    plan = BENCHMARKS["stream"][0](BARE)
    assert None not in plan.models()  # by default all can be predicted
    assert plan.figure(16e9, np.array([2.0])).tolist() == [8.0]
