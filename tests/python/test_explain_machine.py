"""Explanations of the machine that `explain` runs on: without --machine it takes that one, and says so."""

import json
import shlex
import sys
from pathlib import Path

import pytest
from machine_roles import CACHE_BEHIND_L3, CACHE_MODE, FLAT_MODE, SNOOP_FILTER
from machine_trees import lay_out, read_tree

from pagelens.cli.main import main
from pagelens.frames import Node, parse_history, policies
from pagelens.machine import load_machine
from pagelens.machine.chosen import choose_machine
from pagelens.replay.memory_side import left_out

FIXTURE = Path(__file__).parents[1] / "data" / "machines" / "schema-1.toml"  # no section beyond a replay's
WORKLOAD = ["--workload", "l2-sum", "--size", "8MB", "--nodes", "1", "--policies", "random"]


def test_the_machine_that_it_runs_on_is_taken(tmp_path: Path) -> None:
    chosen = choose_machine(None, lay_out(read_tree("knl-cache"), tmp_path))
    assert chosen.machine.title == "Intel Xeon Phi 7250 (68 cores)"
    assert chosen.note == "machine: this one, Intel Xeon Phi 7250 (68 cores); --machine chooses another"
    flag, file = chosen.repeat(tmp_path)
    assert flag == "--machine"
    assert load_machine(file) == chosen.machine


def test_a_machine_that_is_named_needs_no_word() -> None:
    for name in (FLAT_MODE, SNOOP_FILTER):
        chosen = choose_machine(name)
        assert (chosen.machine.name, chosen.note, chosen.repeat(Path())) == (name, "", ())


def test_the_command_takes_it_and_can_be_repeated_elsewhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    here = lay_out(read_tree("knl-flat"), tmp_path / "root")
    monkeypatch.setattr("pagelens.host.system.System", lambda: here)
    monkeypatch.chdir(tmp_path)

    def explained(words: list[str]) -> tuple[dict[str, object], str]:
        monkeypatch.setattr(sys, "argv", words)
        with pytest.raises(SystemExit) as ended:
            main()
        captured = capfd.readouterr()
        assert not ended.value.code, captured.err
        return json.loads(captured.out), captured.err

    first, said = explained(["pagelens", "explain", *WORKLOAD, "--json"])
    assert said == (
        "machine: this one, Intel Xeon Phi 7250 (68 cores); --machine chooses another; "
        "`pagelens machines detect --measure` measures what is assumed of it\n"
    )
    command = shlex.split(first["sample"]["command"])
    assert command[2] == "--machine"
    again, said = explained(command)
    assert said == ""
    assert again["distributions"] == first["distributions"]


def test_what_is_stated_and_not_replayed_yet_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    assert left_out(load_machine(FIXTURE)) == []
    left = left_out(load_machine(CACHE_MODE))
    assert left == ["snoop_filter"]
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["pagelens", "explain", "--machine", CACHE_MODE, *WORKLOAD])
    with pytest.raises(SystemExit):
        main()
    said = " ".join(capfd.readouterr().out.split())
    assert f"These sections of the machine file are not simulated yet: {', '.join(left)}." in said


def test_behind_an_l3_caches_before_the_memory_side_one_have_their_parts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """Copies that fill L2s and L3 together, and the longest name of a policy.

    Loads and lines between caches go on at the same time here, so that memory decides.
    """
    monkeypatch.chdir(tmp_path)
    title = load_machine(CACHE_BEHIND_L3).title
    Path("at-once.toml").write_text(
        f'schema = 1\nbase = "{CACHE_BEHIND_L3}"\nname = "at-once"\ntitle = "{title}"\n'
        '[cores]\ntransfers = { value = "at once", assumed = "test" }\n'
    )
    words = ["--workload", "stream-triad", "--size", "168MB", "--ranks", "40", "--nodes", "3", "-o", "out"]
    words += ["--machine", "at-once.toml", "--policies", "aged+intel-zonesort"]
    monkeypatch.setattr(sys, "argv", ["pagelens", "explain", *words])
    with pytest.raises(SystemExit):
        main()
    said = capfd.readouterr().out
    assert max(map(len, said.splitlines())) <= 80
    assert "on a Xeon Max 9480 node. It was simulated under 'aged+intel-zonesort' only." in " ".join(
        said.split()
    )
    report, data = tmp_path / "out" / "report.html", tmp_path / "out" / "explanation.json"
    mean, slowest = json.loads(data.read_text())["attributions"]
    parts = {part["mechanism"]: part["seconds"] for part in mean["parts"]}
    assert {"conflicts", "capacity", "L2 conflicts", "L3 conflicts", "snoop filter"} <= set(parts)
    assert sum(parts.values()) == pytest.approx(mean["time_s"] - mean["unburdened_s"])
    assert parts["L3 conflicts"] > 0.05 * mean["time_s"]
    # Each set is a replay: the first two nodes have them, and every output says so.
    assert mean["of_nodes"] == slowest["of_nodes"] == 2
    assert "mean over 2 nodes" in " ".join(said.split())
    text = " ".join(report.read_text().split())
    assert "Modelled, mean over 2 nodes." in text
    assert "Means are over 2 nodes, and the slowest is one of these." in text
    assert "removed by a replay on a machine that is ideal there" in text


def test_every_policy_finds_frames_on_a_machine_of_any_size(tmp_path: Path) -> None:
    machine = choose_machine(None, lay_out(read_tree("guest-genoa"), tmp_path)).machine
    assert machine.slots % 1024  # of no power of two, as memory that firmware takes its part of is
    state = Node(machine, 1, 0, history=parse_history("boot; age(jobs=1); run"), job_bytes=1 << 24)
    for policy in policies.values():
        assert policy.place(machine, state).first_frames(1, 16).size == 16, policy.name
