"""What is done about slow nodes: planned as a pure function, and carried out in a real Slurm."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from site_history import BAD, GOOD, SiteHistory
from site_node import DROP, SORT, SiteNode
from slurm_cluster import SlurmCluster, cluster, running_cluster, write_script

from pagelens.cli.text.site_act import render_pass
from pagelens.errors import Failure
from pagelens.site.act import BEGUN, DONE, run_pass
from pagelens.site.decision import State
from pagelens.site.slurm import Slurm, SlurmError, parse_node, run_command

Run = Callable[..., subprocess.CompletedProcess[str]]

__all__ = ["cluster", "running_cluster"]  # fixtures


class FakeSlurm(Slurm):
    """A cluster of four nodes that remembers what it was asked for."""

    def __init__(self, **nodes: str) -> None:
        self.asked: list[str] = []
        self.lines = {f"n{i}": "State=IDLE" for i in range(4)} | nodes
        self.jobs = ""
        super().__init__(self._answer)

    def _answer(self, words: Sequence[str]) -> str:
        text = " ".join(words)
        if "show nodes" in text:
            return "\n".join(
                f"NodeName={name} Partitions=main SlurmdStartTime=2020-01-01T00:00:00 {line}"
                for name, line in self.lines.items()
            )
        if words[0] == "squeue":
            return self.jobs
        self.asked.append(text)
        return ""


@pytest.fixture
def site(tmp_path: Path) -> SiteHistory:
    return SiteHistory(tmp_path)


def a_pass(site: SiteHistory, slurm: Slurm, **changed: Any) -> str:
    return render_pass(run_pass(site.config, site.path, **{"dry_run": False, "slurm": slurm} | changed))


def test_a_node_with_one_low_figure_stays(site: SiteHistory) -> None:
    site.add("n0", [GOOD, GOOD, 1e11, GOOD, GOOD])
    assert a_pass(site, FakeSlurm()) == "no node is slow\n"


def test_a_slow_node_is_cleaned_then_rebooted_then_drained_each_on_new_evidence(site: SiteHistory) -> None:
    slurm = FakeSlurm()
    for begin in (
        "sbatch --parsable --nodelist=n1",
        "scontrol reboot ASAP nextstate=resume reason=pagelens: reboot #2, 200 GB/s where its peers have 350",
        "scontrol update nodename=n1 state=drain reason=pagelens: drain #3, 200 GB/s",
    ):
        site.add("n1", [BAD] * 5, boot=len(slurm.asked) // 2)
        assert a_pass(site, slurm).startswith("n1: ")
        assert slurm.asked[-1].startswith(begin)
        assert a_pass(site, slurm) == "no node is slow\n"  # the evidence begins anew
    assert [action.step for action in site.actions("n1")] == ["clean", "reboot", "drain"]
    assert {action.result for action in site.actions()} == {DONE}
    assert site.actions("n1")[0].figures["bytes_per_second"] == BAD
    site.add("n1", [BAD] * 5, boot=1)
    assert "all steps were tried" in a_pass(site, slurm)


def test_a_cleaning_job_may_belong_to_another_user_whose_prolog_cleans(tmp_path: Path) -> None:
    site = SiteHistory(tmp_path, '[act]\ndry_run = false\nmost_share = 0.25\nclean_user = "daemon"\n')
    site.add("n1", [BAD] * 5)
    slurm = FakeSlurm()
    a_pass(site, slurm)
    assert slurm.asked[0].endswith("--partition=main --uid=daemon --wrap true")


def test_a_dry_run_changes_nothing(site: SiteHistory) -> None:
    site.add("n1", [BAD] * 5)
    slurm = FakeSlurm()
    assert "dry run: nothing was done" in a_pass(site, slurm, dry_run=True)
    assert (slurm.asked, site.actions(), site.state("n1")) == ([], [], State.slow)


@pytest.mark.parametrize(
    ("line", "why"),
    [
        (
            "State=IDLE+DRAIN Reason=bad disk [root@2026-01-01T00:00:00]",
            "a reason that is not ours: bad disk",
        ),
        ("State=DOWN*+NOT_RESPONDING", "it is down+not_responding"),
        (
            "State=IDLE+DRAIN+REBOOT_REQUESTED Reason=pagelens: reboot #9, x : reboot requested [root@2026]",
            "as we asked (pagelens: reboot #9, x : reboot requested)",
        ),
    ],
)
def test_a_node_that_is_out_waits(site: SiteHistory, line: str, why: str) -> None:
    site.add("n1", [BAD] * 5)
    slurm = FakeSlurm(n1=line)
    assert why in a_pass(site, slurm)
    assert slurm.asked == []


def test_a_node_that_has_gone_waits(site: SiteHistory) -> None:
    site.add("gone", [BAD] * 5)
    assert "gone: slow, but waits: Slurm has no such node" in a_pass(site, FakeSlurm())


def test_no_more_than_a_share_of_a_partition_is_out_at_once(site: SiteHistory) -> None:
    for node in ("n1", "n2"):
        site.add(node, [BAD if node == "n1" else 1.5e11] * 5)
    slurm = FakeSlurm()
    said = a_pass(site, slurm)
    assert said.startswith("n2: clean")  # the slower one
    assert "n1: slow, but waits: 1 of 4 nodes of partition main are out" in said
    assert len(slurm.asked) == 1
    assert "allows 1" in a_pass(site, FakeSlurm(n3="State=DOWN"))


def test_where_slurm_does_not_answer_nothing_is_done(site: SiteHistory) -> None:
    site.add("n1", [BAD] * 5)

    def down(words: Sequence[str]) -> str:
        raise SlurmError("scontrol: Unable to contact slurm controller (connect failure)")

    assert a_pass(site, Slurm(down)).startswith("Slurm does not answer (scontrol: Unable to contact")
    assert (site.actions(), site.state("n1")) == ([], State.slow)


def test_what_slurm_refuses_is_said_and_kept(site: SiteHistory) -> None:
    site.add("n1", [BAD] * 5)
    slurm = FakeSlurm()
    answer = slurm._answer

    def refuse(words: Sequence[str]) -> str:
        if words[0] == "sbatch":
            raise SlurmError("sbatch: error: jobs of root are not allowed")
        return answer(words)

    slurm._run = refuse
    assert "n1: clean failed: sbatch: error: jobs of root" in a_pass(site, slurm)
    assert site.actions("n1")[0].result == "failed: sbatch: error: jobs of root are not allowed"


def test_a_second_pass_at_the_same_time_does_nothing(site: SiteHistory) -> None:
    site.add("n1", [BAD] * 5)
    said: list[str] = []

    class Slow(FakeSlurm):
        def _answer(self, words: Sequence[str]) -> str:
            if words[0] == "sbatch":
                code = (
                    "import sys; from pathlib import Path; from pagelens.site.config import read_config;"
                    "from pagelens.site.act import run_pass; p = Path(sys.argv[1]);"
                    "print(run_pass(read_config(p), p, False).said)"
                )
                words = [sys.executable, "-c", code, str(site.path)]
                said.append(subprocess.run(words, capture_output=True, text=True, check=True).stdout)
                return ""
            return super()._answer(words)

    a_pass(site, Slow())
    assert said == ["['another pass is at work; nothing was done']\n"]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root mounts a small disk")
def test_a_full_disk_stops_before_slurm_is_asked(tmp_path: Path) -> None:
    mount = ["mount", "-t", "tmpfs", "-o", "size=4m", "none", str(tmp_path)]
    if subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("nothing can be mounted here")
    try:
        site, slurm = SiteHistory(tmp_path), FakeSlurm()
        site.add("n1", [BAD] * 5)
        with open(tmp_path / "filler", "wb", buffering=0) as filler, suppress(OSError):
            while True:
                filler.write(b"x" * 4096)
        with pytest.raises(Failure, match="full"):
            a_pass(site, slurm)
        assert slurm.asked == []
    finally:
        subprocess.run(["umount", "-l", tmp_path], check=True)


def killed_in(work: Callable[[], object], at: Callable[[Callable[[], None]], None]) -> None:
    """Runs a pass in a child that is killed where `at` puts its call."""
    child = os.fork()
    if child == 0:
        try:
            at(lambda: os.kill(os.getpid(), signal.SIGKILL))
            work()
        finally:
            os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL


@pytest.mark.parametrize("step", ["clean", "reboot", "drain"])
@pytest.mark.parametrize("heard", [False, True])
def test_a_pass_that_is_killed_is_brought_to_its_end_once(tmp_path: Path, step: str, heard: bool) -> None:
    site = SiteHistory(tmp_path, f'[act]\ndry_run = false\nmost_share = 0.25\nsteps = ["{step}"]\n')
    site.add("n1", [BAD] * 5)
    slurm = FakeSlurm()

    def kill_at_the_step(kill: Callable[[], None]) -> None:
        for name in ("clean", "reboot", "drain"):
            setattr(slurm, name, lambda *_: kill())

    killed_in(lambda: run_pass(site.config, site.path, False, slurm), kill_at_the_step)
    assert [(action.step, action.result) for action in site.actions()] == [(step, BEGUN)]
    if heard:
        slurm.jobs = "PENDING pagelens-clean-1" if step == "clean" else ""
        slurm.lines["n1"] = f"State=DRAIN Reason=pagelens: {step} #1, x [root@2026-01-01T00:00:00]"
    run_pass(site.config, site.path, False, slurm)
    run_pass(site.config, site.path, False, slurm)
    assert len(slurm.asked) == (0 if heard else 1)
    assert [action.result for action in site.actions()] == [DONE]


def test_a_reason_may_hold_anything() -> None:
    node = parse_node(
        "NodeName=n1 State=IDLE+DRAIN Partitions=a,b Reason=x State=DOWN [y] = z [root@2026-01-01T00:00:00]"
    )
    assert (node.reason, node.states) == ("x State=DOWN [y] = z", {"IDLE", "DRAIN"})
    assert parse_node("NodeName=n1").states == {"UNKNOWN"}


def test_the_command_runs_slurms_commands_and_is_a_dry_run_by_default(tmp_path: Path, pagelens: Run) -> None:
    site = SiteHistory(tmp_path, "[act]\nmost_share = 1.0\n")
    site.add("n1", [BAD] * 5)
    nodes = "echo 'NodeName=n1 State=IDLE Partitions=main'"
    for name, text in (
        ("scontrol", f"{nodes}\necho $* >>{tmp_path}/asked"),
        ("squeue", ""),
    ):
        write_script(tmp_path / name, f"#!/bin/sh\n{text}\n")

    def command(*options: str) -> subprocess.CompletedProcess[str]:
        path = f"{tmp_path}:{os.environ['PATH']}"
        return pagelens("site", "act", "--config", site.path, *options, env={"PATH": path})

    planned = json.loads(command("--json").stdout)["planned"]
    assert [(one["node"], one["step"]) for one in planned] == [("n1", "clean")]
    assert (tmp_path / "asked").read_text() == "--oneliner show nodes\n"
    write_script(tmp_path / "scontrol", "#!/bin/sh\necho 'scontrol: error: no route' >&2\nexit 1\n")
    done = command("--no-dry-run")
    assert (done.returncode, done.stdout) == (
        0,
        "Slurm does not answer (scontrol: no route); the next pass tries again\n",
    )


def in_cluster(cluster: SlurmCluster) -> Slurm:
    """Slurm's real commands, for the cluster of the tests."""

    def run(words: Sequence[str]) -> str:
        done = cluster.run(*words)
        if done.returncode:
            raise SlurmError(f"{words[0]}: {' '.join(done.stderr.split())}")
        return done.stdout

    return Slurm(run)


def test_a_degraded_node_is_cleaned_rebooted_and_back_in_a_real_slurm(
    cluster: SlurmCluster, tmp_path: Path
) -> None:
    folder = cluster.folder / f"site-{os.urandom(4).hex()}"
    site, slurm = SiteHistory(folder), in_cluster(cluster)
    node = SiteNode(folder)  # writes site.toml anew, so that one has the sections of both
    node.config.write_text(
        f'{node.config.read_text()}[history]\ndatabase = "{folder}/history.sqlite"\n'
        "[act]\ndry_run = false\nmost_share = 0.25\n"
    )
    site.add("n0", [GOOD, 1e11, GOOD, GOOD, GOOD])
    site.add("n1", [BAD] * 5)
    assert a_pass(site, slurm).startswith("n1: clean")
    cluster.wait_for(lambda: node.get(SORT) == "0", "the cleaning")
    assert node.get(DROP) == "3"
    cluster.wait_idle()
    site.add("n1", [BAD] * 5)
    boot = (cluster.folder / "boot-n1").read_text()
    assert a_pass(site, slurm).startswith("n1: reboot")
    assert cluster.node("n1")["Reason"].startswith("pagelens: reboot #2, 200 GB/s where its peers have")
    cluster.wait_for(lambda: (cluster.folder / "boot-n1").read_text() != boot, "the reboot")
    cluster.wait_idle()
    site.add("n1", [GOOD] * 5, boot=1)
    assert a_pass(site, slurm) == "no node is slow\n"
    assert (cluster.folder / "reboots").read_text().split() == ["n1"]
    assert (site.state("n1"), site.actions("n0")) == (State.ok, [])


def test_users_cannot_act_and_a_controller_that_is_down_is_waited_for(
    cluster: SlurmCluster, tmp_path: Path
) -> None:
    site, slurm = SiteHistory(tmp_path), in_cluster(cluster)
    for words in (["scontrol", "reboot", "ASAP", "n1"], ["scontrol", "update", "nodename=n1", "state=drain"]):
        assert cluster.run(*words, user=65534).returncode != 0
    site.add("n1", [BAD] * 5)
    cluster.stop_controller()
    try:
        said = a_pass(
            site, Slurm(lambda words: run_command(["env", f"SLURM_CONF={cluster.folder}/slurm.conf", *words]))
        )
    finally:
        cluster.start_controller()
    assert "Unable to contact slurm controller" in said
    assert site.state("n1") is State.slow
    cluster.wait_idle()
    assert a_pass(site, slurm).startswith("n1: clean")
