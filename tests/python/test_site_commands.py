"""The commands that watch a site's nodes, as an administrator calls them."""

import json
import os
import time
from pathlib import Path

import pytest
from fleet_history import fleet
from typer.testing import CliRunner

from pagelens.cli.commands.site import app
from pagelens.site import CheckRequest, measure_node
from pagelens.site.check import Check, parse_check
from pagelens.site.spool import put


@pytest.fixture
def site(tmp_path):
    """A configuration with folders of its own, and what calls commands with it."""
    config = tmp_path / "site.toml"
    config.write_text(
        f'[node]\nspool = "{tmp_path}/spool"\nstate = "{tmp_path}/state"\n'
        f'[history]\ndatabase = "{tmp_path}/history.sqlite"\n[measure]\nmemory = "24MB"\n'
    )

    def call(*words: str) -> str:
        done = CliRunner().invoke(
            app, [words[0], "--config", str(config), *words[1:]], catch_exceptions=False
        )
        assert done.exit_code == 0, done.output
        return done.stdout

    return call, tmp_path


def filled(folder: Path, nodes: int = 40, checks: int = 30) -> list[Check]:
    moved = time.time() - 1_790_000_000.0
    checks_made = [
        each.model_copy(update={"time": each.time + moved}) for each in fleet(nodes, checks, bad=0.1)
    ]
    for each in checks_made:
        put(folder / "spool" / each.node, each)
    return checks_made


def test_from_the_spool_to_the_status(site):
    call, folder = site
    filled(folder, 40, 30)
    assert json.loads(call("collect", "--json")) == {"new": 1200, "known": 0, "invalid": 0}
    found = json.loads(call("status", "--json"))
    slow = [each["node"] for each in found["nodes"] if each["state"] == "slow"]
    assert slow
    assert found["counts"]["slow"] == len(slow)
    text = call("status")
    assert all(node in text for node in slow)
    one = call("status", slow[0])
    assert f"{slow[0]} is slow" in one
    assert max(map(len, (text + one).splitlines())) <= 80
    assert json.loads(call("status", slow[0], "--json"))["checks"][-1]["details"]["free_blocks"]


def test_a_check_is_measured_when_it_is_due(site, monkeypatch):
    call, _ = site
    monkeypatch.setenv("SLURMD_NODENAME", "n7")
    monkeypatch.setenv("SLURM_JOB_ID", "4711")
    written = Path(call("measure").strip())
    check = parse_check(written.read_bytes())
    assert isinstance(check, Check)
    assert (check.node, check.job) == ("n7", "4711")
    assert set(check.kernels) == {"copy", "scale", "add", "triad"} or check.notes
    assert len(check.free_blocks) >= 10
    assert "not due" in call("measure")
    assert json.loads(call("collect", "--json"))["new"] == 1


def test_the_budget_ends_a_check_and_the_record_says_so(tmp_path):
    request = CheckRequest("n1", tmp_path, tmp_path, budget_s=1e-3, memory=1 << 28)
    check = parse_check(Path(measure_node(request)).read_bytes())
    assert isinstance(check, Check)
    assert "triad" not in check.kernels or len(check.kernels) < 4
    assert any("stopped after 0.001 s" in note for note in check.notes)


def test_a_captured_tree_has_all_figures_but_speed(tmp_path):
    for name, text in {
        "proc/uptime": "86400.5 1000",
        "proc/sys/kernel/random/boot_id": "0123-abc",
        "sys/class/dmi/id/product_uuid": "4c4c-11",
        "proc/buddyinfo": "Node 0, zone   Normal  4  3  2  1  0  0  0  0  0  5  7",
    }.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text + "\n")
    written = measure_node(CheckRequest("n1", tmp_path / "spool", tmp_path / "state", root=tmp_path))
    check = parse_check(Path(written).read_bytes())
    assert isinstance(check, Check)
    assert (check.board, check.uptime, check.free_blocks[-1], check.huge_2m) == ("4c4c-11", 86400.5, 7, 19)
    assert check.kernels == {}


def test_measuring_never_fails_the_epilog(site):
    call, folder = site
    (folder / "spool").write_text("a file where the spool is to be")
    call("measure", "--node", "n1", "--force")
    call("measure", "--node", "../n1", "--force")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root has files that others must not change")
def test_a_configuration_that_others_can_change_is_refused(site):
    call, folder = site
    (folder / "site.toml").chmod(0o666)
    with pytest.raises(Exception, match="others than root can change it"):
        call("status")
