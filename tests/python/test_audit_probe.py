"""`pagelens audit --probe`: what frames do to a job, what remedies would, and the command on this machine."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import astuple, replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from machine_roles import CACHE_MODE, SNOOP_FILTER
from machine_trees import audited, lay_out, read_tree
from small_machine import small

from pagelens.address.pages import Pages
from pagelens.audit import Severity, find
from pagelens.audit.effect import Yardstick, large_share, random_conflict_share
from pagelens.audit.huge_page_supply import Supply, free_blocks
from pagelens.audit.model import Effect, Probe, ProbedPlacement
from pagelens.audit.node import may_be
from pagelens.audit.probe import Ground, Job, judge
from pagelens.audit.probe_limits import require_room
from pagelens.cli.main import main
from pagelens.conflicts.predict import predict
from pagelens.errors import UsageError
from pagelens.host.frame_map import FrameMap, Span, Use
from pagelens.host.own_pages import frames_of, frames_visible, populated
from pagelens.machine import load_machine, parse_machine
from pagelens.machine.detect import detect

Run = Callable[..., tuple[int, str, str]]

MIB = 1 << 20
ZONEINFO = """Node 0, zone   Normal
  pages free     1
        min      0
        low      0
        high     0
        spanned  {frames}
        present  {frames}
        managed  {frames}
        protection: (0, 0, 0, 0)
  pagesets
    cpu: 0
              count: 0
              high:  0
              batch: 1
  start_pfn:           0
"""
FRAMES = 24 * MIB // 4096 * 16  # of small(): 384 MiB before 64 MiB of cache
SLOTS = 64 * MIB // 4096


def supply(use: np.ndarray) -> Supply:  # type: ignore[type-arg]
    """Returns the supply of a machine whose only zone has these frames."""
    spans = (Span(0, "Normal", 0, len(use)),)
    return Supply(FrameMap(spans, use), ZONEINFO.format(frames=len(use)), SLOTS)


@given(st.lists(st.integers(0, 3 * SLOTS), max_size=60, unique=True))
def test_the_conflict_share_is_that_of_the_definition(frames: list[int]) -> None:
    """Pages whose slot holds another of the job's pages, counted one by one."""
    found = Yardstick(small(), None).effect(np.array(frames, dtype=np.int64)).conflict_share
    slots = Counter(frame % SLOTS for frame in frames)
    expected = sum(slots[frame % SLOTS] > 1 for frame in frames) / len(frames) if frames else None
    assert found == expected


def test_nodes_with_a_cache_each_do_not_meet() -> None:
    frames = np.array([0, 1, SLOTS, SLOTS + 1, 5])
    node_of = {0: 0, 1: 0, SLOTS: 1, SLOTS + 1: 0, 5: 0}
    apart = Yardstick(small(), None, lambda of: np.array([node_of[frame] for frame in of.tolist()]))
    assert Yardstick(small(), None).effect(frames).conflict_share == 0.8
    assert apart.effect(frames).conflict_share == 0.4


def test_row_conflicts_of_two_streams_are_those_of_a_loop() -> None:
    machine = load_machine(SNOOP_FILTER)
    assert machine.dram is not None
    frames = np.random.default_rng(3).integers(0, machine.dram.size // 4096, 40)
    to_place = machine.dram.map()
    conflicts, loads = 0, Counter[int]()
    for first, second in zip(frames[:20].tolist(), frames[20:].tolist(), strict=True):
        for line in range(64):
            banks, rows = to_place(
                np.array([first * 4096 + 64 * line, second * 4096 + 64 * line], dtype=np.uint64)
            )
            loads.update(banks.tolist())
            conflicts += int(banks[0] == banks[1] and rows[0] != rows[1])
    effect = Yardstick.of(machine).effect(frames)
    assert effect.row_conflicts == conflicts / (20 * 64)
    assert effect.bank_load == pytest.approx(max(loads.values()) / (2 * 20 * 64 / to_place.banks))
    beyond = np.full(8, machine.dram.size // 4096)
    assert Yardstick.of(machine).effect(beyond).row_conflicts is None  # the map does not reach there


def test_the_snoop_filter_is_that_of_pagelens_conflicts() -> None:
    machine = load_machine(SNOOP_FILTER)
    firsts = np.random.default_rng(5).permutation(1000)[:20] * 512
    frames = (firsts[:, None] + np.arange(512)).ravel()
    yardstick = Yardstick.of(machine)
    assert yardstick.socket is not None
    pages = Pages(firsts.astype(np.uint64) * 4096, np.full(20, 2 * MIB))
    shares = predict(yardstick.socket, pages).shares
    effect = yardstick.effect(frames)
    assert (effect.filter_share, effect.filter_worst) == (shares.mean(), shares.max())
    assert shares.max() > 0


@given(st.lists(st.booleans(), max_size=200))
def test_free_frames_make_the_largest_blocks(free: list[bool]) -> None:
    blocks = free_blocks(np.array(free, dtype=bool))
    covered = sorted(
        frame for first, order in blocks.tolist() for frame in range(first, first + (1 << order))
    )
    assert covered == [frame for frame, is_free in enumerate(free) if is_free]
    there = {(first, order) for first, order in blocks.tolist()}
    for first, order in there:
        assert first % (1 << order) == 0
        assert (first ^ (1 << order), order) not in there  # buddies would have merged


def test_free_blocks_are_of_order_10_at_most() -> None:
    assert free_blocks(np.ones(4096, dtype=bool)).tolist() == [[0, 10], [1024, 10], [2048, 10], [3072, 10]]


@settings(max_examples=50, deadline=None)
@given(st.lists(st.integers(0, 5 * SLOTS - 1), min_size=1, max_size=40, unique=True), st.data())
def test_frames_chosen_evenly_fill_no_slot_more_than_they_must(free: list[int], data: st.DataObject) -> None:
    use = np.full(5 * SLOTS, Use.pinned, dtype=np.uint8)
    use[free] = Use.free
    pages = data.draw(st.integers(1, len(free)))
    chosen = supply(use).evenly(pages).tolist()
    assert len(set(chosen)) == pages
    assert set(chosen) <= set(free)
    have, got = Counter(f % SLOTS for f in free), Counter(f % SLOTS for f in chosen)
    # As full as the fullest but one, or all that the slot has.
    assert all(got[slot] >= min(have[slot], max(got.values()) - 1) for slot in have)


def test_random_frames_conflict_as_often_as_the_formula_says() -> None:
    machine = small()
    rule = Supply.by_rule(machine)
    for share in (0.25, 0.5, 1):
        frames = rule.random(int(share * SLOTS))
        expected = random_conflict_share(share, 1, machine.frames / SLOTS)
        assert Yardstick.of(machine).effect(frames).conflict_share == pytest.approx(expected, abs=0.02)


def test_large_pages_as_far_as_they_go() -> None:
    use = np.full(FRAMES, Use.pinned, dtype=np.uint8)
    use[: 3 * 512] = Use.free
    use[4 * 512 : 4 * 512 + 500] = Use.free
    use[8 * 512 : 20 * 512] = Use.movable  # in use: none of it can be had
    of = supply(use)
    assert large_share(of.large(1024, 2 * MIB)) == 1
    frames = of.large(2000, 2 * MIB)
    assert len(set(frames.tolist())) == 2000
    assert (use[frames] == Use.free).all()
    assert large_share(frames) == 1536 / 2000
    assert of.at_boot(1024) is None  # no GiB in it


def test_gigantic_pages_at_boot_are_whatever_is_memory() -> None:
    """They are those of the policy `1g`, which leaves four places to the kernel."""
    use = np.full(7 << 18, Use.pinned, dtype=np.uint8)
    use[7] = Use.hole
    of = supply(use)
    found = of.at_boot((1 << 18) + 1)
    assert found is not None
    assert found.tolist() == [*range(1 << 18, 2 << 18), 2 << 18]
    assert of.at_boot((2 << 18) + 1) is None


@pytest.mark.parametrize("pinned_share", [0.0, 0.02])
def test_zonesort_is_tried_on_the_free_frames(pinned_share: float) -> None:
    use = np.zeros(FRAMES, dtype=np.uint8)
    scattered = np.random.default_rng(1).random(FRAMES)
    use[scattered < 0.3] = Use.droppable
    use[scattered < pinned_share] = Use.pinned
    yardstick = Yardstick.of(small())
    frames = supply(use).sorted(SLOTS // 2)
    assert frames is not None
    assert len(set(frames.tolist())) == SLOTS // 2
    assert (use[frames] <= Use.movable).all()
    share = yardstick.effect(frames).conflict_share
    random = yardstick.effect(supply(use).random(SLOTS // 2)).conflict_share
    assert share is not None
    assert random is not None
    assert share == 0 if not pinned_share else share < random


def test_caches_are_dropped_and_blocks_mended_before_the_sort() -> None:
    use = np.full(FRAMES, Use.droppable, dtype=np.uint8)
    draws = np.random.default_rng(2).random(FRAMES)
    use[draws < 0.3] = Use.free
    assert supply(use).sorted(FRAMES // 2) is not None  # more than was free
    use[:] = Use.free
    use[draws < 0.002] = Use.movable
    share = Yardstick(small(), None).effect(supply(use).sorted(SLOTS // 2)).conflict_share  # type: ignore[arg-type]
    assert share == pytest.approx(0, abs=0.02)  # unmended, small blocks would come first: .3


def test_a_zoneinfo_that_says_nothing_leaves_the_sort_out() -> None:
    of = Supply(FrameMap((), np.zeros(64, dtype=np.uint8)), "Node 0, zone Normal\n garbage\n", SLOTS)
    assert of.sorted(10) is None
    assert supply(np.full(FRAMES, Use.pinned, dtype=np.uint8)).sorted(10) is None  # nothing is free


def test_without_rights_the_models_rule_answers(tmp_path: Path) -> None:
    system = lay_out(read_tree("knl-cache"), tmp_path)
    machine = small()
    ground = Ground.of(audited(system), machine, False, system, None)
    probe = judge(Job(32 * MIB, "4k"), None, ground, lambda done, total: None)
    assert [(p.name, p.source) for p in probe.placements] == [
        (name, "model") for name in ("random", "2m", "aged+zonesort", "coloured", "half")
    ]
    shares = {p.name: p.effect.conflict_share for p in probe.placements}
    assert shares["random"] == pytest.approx(random_conflict_share(0.5, 1, 6), abs=0.02)
    assert shares["aged+zonesort"] == shares["coloured"] == 0
    assert (probe.measured, probe.verified, probe.nodes) == (False, False, {})
    assert "CAP_SYS_ADMIN" in probe.notes[0]
    too_large = judge(Job(500 * MIB, "4k"), None, ground, lambda done, total: None)
    assert [placement.name for placement in too_large.placements] == ["half"]
    assert (
        "no frames for a job of this size with: 4 KiB pages, random frames; 2 MiB pages;"
        in too_large.notes[-1]
    )
    assert not any(finding.code.startswith("probe") for finding in find(audited(system), probe))


def test_whose_frames_are_verified(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    system = lay_out(read_tree("max-9480-cache"), tmp_path)
    audit, machine, frames = audited(system), small(), np.arange(SLOTS + 512)
    monkeypatch.setattr("pagelens.audit.probe.in_virtual_machine", lambda: False)
    for foreign in (False, True):
        ground = Ground.of(audit, machine, foreign, system, None)
        assert (ground.yardstick().node_of is None) == foreign  # two nodes, a cache each
        probe = judge(Job(len(frames) * 4096, "4k"), frames, ground, lambda done, total: None)
        assert (probe.measured, probe.verified) == (True, not foreign)
    assert probe.notes[1:] == (
        f"These are this machine's frames, judged as if they were frames of {machine.title}.",
    )
    shares = {p.name: p.effect.conflict_share for p in probe.placements}
    assert (shares["probed"], shares["half"]) == (1024 / (SLOTS + 512), 0)
    monkeypatch.setattr("pagelens.audit.probe.in_virtual_machine", lambda: True)
    ground = Ground.of(audit, machine, False, system, None)
    probe = judge(Job(2 * MIB, "4k"), np.arange(512), ground, lambda done, total: None)
    assert not probe.verified
    assert any(note.startswith("Unverified") for note in probe.notes)


def test_which_files_may_be_this_machines(tmp_path: Path) -> None:
    system = lay_out(read_tree("knl-cache"), tmp_path)
    assert may_be(parse_machine(detect(system).to_toml().encode(), "x.toml"), system)
    assert may_be(load_machine(CACHE_MODE), system)
    assert not may_be(load_machine(SNOOP_FILTER), system)


@pytest.mark.parametrize("pages", ["4k", "thp"])
def test_populated_memory_is_there_and_given_back(pages: str) -> None:
    done = []
    with populated(68 * MIB, pages, lambda part, of: done.append((part, of))) as (address, size):
        assert size == 68 * MIB
        assert pages == "4k" or address % (2 * MIB) == 0
        mapped = Path("/proc/self/smaps").read_text()
        assert len(frames_of(address, size)) == size // 4096
    assert done == [(64 * MIB, 68 * MIB), (68 * MIB, 68 * MIB)]
    resident = [int(line.split()[1]) for line in mapped.splitlines() if line.startswith("Rss:")]
    assert max(resident) >= 68 * MIB // 1024


def probed(share: float, verified: bool, after: float) -> Probe:
    def of(value: float) -> Effect:
        return Effect(value, None, None, None, None)

    placements = (
        ProbedPlacement("probed", "as it was", "measured", of(share), 0.0),
        ProbedPlacement("2m", "2 MiB pages", "free frames", of(after), 1.0, ("use large pages",)),
    )
    return Probe(64 * MIB, "4k", "x", True, verified, {0: 1.0}, placements, ())


@pytest.mark.parametrize(
    ("share", "verified", "after", "severity", "remedy"),
    [
        (0.3, True, 0.0, "bad", ("use large pages",)),
        (0.3, False, 0.0, "note", ("use large pages",)),  # a guest's, or another machine's
        (0.1, True, 0.0, "warning", ("use large pages",)),
        (0.1, True, 0.09, "warning", ()),  # hardly less
        (0.01, True, 0.0, "good", ()),
    ],
)
def test_what_a_probe_saw_replaces_what_was_expected(
    share: float, verified: bool, after: float, severity: str, remedy: tuple[str, ...], tmp_path: Path
) -> None:
    audit = audited(lay_out(read_tree("knl-cache"), tmp_path))
    assert audit.cache is not None
    findings = {finding.code: finding for finding in find(audit, probed(share, verified, after))}
    assert findings["probe-cache"].severity == Severity(severity)
    assert findings["probe-cache"].remedy == remedy
    assert ("free-lists" in findings) == (not verified)


def test_of_remedies_that_do_about_the_same_the_cheapest_is_named(tmp_path: Path) -> None:
    audit, probe = audited(lay_out(read_tree("knl-cache"), tmp_path)), probed(0.3, True, 0.2)
    names = {"1g": 0.0, "aged+zonesort": 0.004, "coloured": 0.008}
    more = [ProbedPlacement(n, n, "model", Effect(v, *[None] * 4), 0.0, (n,)) for n, v in names.items()]
    for taken, expected in ((3, "coloured"), (2, "aged+zonesort"), (1, "1g")):
        of = replace(probe, placements=(*probe.placements, *more[:taken]))
        (finding,) = (finding for finding in find(audit, of) if finding.code == "probe-cache")
        assert finding.remedy == (expected,)


def test_what_is_available_bounds_a_probe(tmp_path: Path) -> None:
    audit = audited(lay_out(read_tree("guest-genoa"), tmp_path))
    assert audit.usage.total is not None
    with pytest.raises(UsageError, match=r"--probe 8 MiB: from 2 MiB to 0 B now"):
        require_room(audit, 8 * MIB, "4k", 64 * MIB)  # of a control group: less than is left to others
    require_room(audit, 8 * MIB, "4k", audit.usage.total)


@pytest.fixture
def command(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Run:
    """The command, run inside this process; its status and what it printed."""

    def run(*arguments: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["pagelens", "audit", *arguments])
        with pytest.raises(SystemExit) as ended:
            main()
        captured = capfd.readouterr()
        return int(ended.value.code or 0), captured.out, captured.err

    return run


def test_the_command_on_this_machine(command: Run) -> None:
    """The user who runs the tests may see no frames, and neither does a root without CAP_SYS_ADMIN."""
    probe_it = ("--probe", "64MiB", "--machine", CACHE_MODE, "--fail-on", "never", "--quick")
    status, out, err = command(*probe_it, "--json")
    assert (status, err) == (0, "")
    found = json.loads(out)
    assert (found["schema"], found["version"]) == ("pagelens audit", 1)
    probe = found["probe"]
    assert probe["measured"] == found["rights"]["frames"]
    assert probe["verified"] is False  # another machine's file
    if probe["measured"]:
        assert probe["placements"][0]["name"] == "probed"
        assert 0 <= probe["placements"][0]["effect"]["conflict_share"] < 0.5
        assert sum(probe["nodes"].values()) == pytest.approx(1)
        assert any("frames of Cori KNL node" in note for note in probe["notes"])
        own = json.loads(command("--probe", "4MiB", "--fail-on", "never", "--json", "--quick")[1])["probe"]
        assert not any("judged as if" in note for note in own["notes"])
    status, out, err = command("--fail-on", "never")
    assert (status, err) == (0, "")
    assert max(map(len, out.splitlines())) <= 80
    assert out.split("\n\n")[-1].startswith("Findings\n")


def test_the_command_on_a_captured_tree(command: Run, tmp_path: Path) -> None:
    lay_out(read_tree("milan-cpuid"), tmp_path)
    status, out, err = command("--root", str(tmp_path))
    assert (status, err) == (3, "")
    assert "  BAD      100% of the free memory is in pieces smaller than 2 MiB." in out
    assert command("--root", str(tmp_path), "--fail-on", "never")[0] == 0
    lay_out(read_tree("genoa-cxl"), tmp_path / "warnings")
    assert command("--root", str(tmp_path / "warnings"))[0] == 0
    assert command("--root", str(tmp_path / "warnings"), "--fail-on", "warning")[0] == 3


@pytest.mark.skipif(os.geteuid() != 0 or not shutil.which("setpriv"), reason="root becomes another user")
def test_a_user_without_rights_is_told_so() -> None:
    user = ["setpriv", "--reuid=65534", "--clear-groups", "--no-new-privs"]
    options = ["--probe", "64MiB", "--machine", CACHE_MODE, "--fail-on", "never"]
    run = [*user, sys.executable, "-m", "pagelens", "audit", *options]
    environment = os.environ | {"PYTHONDONTWRITEBYTECODE": "1", "HOME": "/nonexistent"}
    done = subprocess.run(run, capture_output=True, text=True, env=environment, check=False)
    if "Permission denied" in done.stderr or "No module" in done.stderr:
        pytest.skip("that user cannot read this checkout")
    assert (done.returncode, done.stderr) == (0, "")
    assert "(not taken), before Cori KNL node" in " ".join(done.stdout.split())
    assert "This user may not see frame numbers (CAP_SYS_ADMIN)." in done.stdout
    assert " meas." not in done.stdout
    assert max(map(len, done.stdout.splitlines())) <= 80


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ("--probe 8", "'8' has no unit"),
        ("--probe 900TB", "less a tenth of memory for others"),
        ("--probe 1MiB", "--probe 1 MiB: 2 MiB or more, a multiple of 4 KiB"),
        ("--probe 3MiB --page-size thp", "a multiple of 2 MiB"),
        ("--probe 64MiB --root /tmp", "leave out --root"),
        ("--root /no/such", "--root /no/such: no such folder"),
        ("--root /usr/share", "--root /usr/share: holds neither proc/ nor sys/"),
        ("--machine nope", "'nope' is unknown"),
        ("--page-size 3m", "3m"),
        ("--probe 900GiB --page-size 1g", "set aside and free; echo "),
    ],
)
def test_bad_input_is_one_line(arguments: str, says: str, command: Run) -> None:
    status, out, err = command("--quick", *arguments.split())
    assert (status, out) == (2, "")
    assert err.count("\n") == 1
    assert says in err


@pytest.mark.skipif(not frames_visible(), reason="without rights no memory is taken")
def test_ctrl_c_ends_a_probe_with_one_line() -> None:
    command = [sys.executable, "-m", "pagelens", "audit", "--quick", "--probe", "1GiB"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    resident = Path(f"/proc/{process.pid}/statm")
    while process.poll() is None and int(resident.read_text().split()[1]) < (300 * MIB) // 4096:
        time.sleep(0.005)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate()
    assert (process.returncode, out) == (130, "")
    assert err == "pagelens: audit: interrupted; memory that it took is given back\n"


def test_effects_of_a_machine_that_states_nothing_are_unknown() -> None:
    machine = load_machine(SNOOP_FILTER).model_copy(update={"dram": None, "snoop_filter": None})
    yardstick = Yardstick.of(machine)
    assert yardstick.decides_nothing
    assert set(astuple(yardstick.effect(np.arange(4096)))) == {None}
