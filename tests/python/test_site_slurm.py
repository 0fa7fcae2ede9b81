"""The plugin, the Prolog and the Epilog in a real Slurm, with jobs of several users."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from machine_roles import SNOOP_FILTER
from site_node import DROP, INTERVAL, POOL, SORT, SiteNode
from slurm_cluster import NODES, ROOT, SlurmCluster, cluster, running_cluster

from pagelens.run.preload import library

__all__ = ["cluster", "running_cluster"]  # fixtures

NOBODY, DAEMON, BIN = 65534, 1, 2
PAGELENS = f"{sys.executable} -m pagelens"


@pytest.fixture(scope="session")
def plugin(running_cluster: SlurmCluster) -> Path:
    """The plugin, built for the Slurm that is installed."""
    folder = running_cluster.folder / "plugin"
    subprocess.run(["make", "-s", "-C", ROOT / "spank", f"OUT={folder}"], check=True)
    return folder / "pagelens_spank.so"


@pytest.fixture
def nodes(cluster: SlurmCluster, plugin: Path) -> dict[str, SiteNode]:
    """A captured tree for each node, on which Prolog and Epilog work; the plugin is loaded."""
    trees = cluster.folder / f"trees-{os.urandom(4).hex()}"
    found = {name: SiteNode(trees / name) for name in NODES}
    for part in ("prolog", "epilog"):
        line = f"{PAGELENS} site {part} --config {trees}/$SLURMD_NODENAME/site.toml"
        cluster.script(
            f"{part}.sh", f"#!/bin/sh\nenv >{trees}/{part}-$SLURM_JOB_ID\n{line} 2>>{trees}/said\nexit 0\n"
        )
    command = f"{os.path.dirname(sys.executable)}/pagelens"
    cluster.script("plugstack.conf", f"optional {plugin} library={library()} command={command}\n")
    return found


@pytest.mark.parametrize("words", [["srun", "true"], ["sbatch", "--wrap", "true"], ["salloc", "true"]])
def test_a_bad_value_is_refused_at_submission(
    cluster: SlurmCluster, nodes: dict[str, SiteNode], words: list[str]
) -> None:
    for option, why in (
        ("--zonesort=maybe", "on, off, or seconds from 1 to 86400"),
        ("--zonesort=0", "on, off, or seconds from 1 to 86400"),
        ("--pagelens-pages=8k", "4k, thp, 2m or 1g"),
        ("--pagelens-plan=/etc/shadow", "a plan that `pagelens place` wrote and that you may read"),
        ("--pagelens-report=/root", "a directory that exists and that you may write to"),
    ):
        done = cluster.run(words[0], option, *words[1:], user=NOBODY)
        assert done.returncode != 0
        assert f"error: {option}: give {why}" in done.stderr


def test_jobs_of_three_users_get_what_each_asked_for(
    cluster: SlurmCluster, nodes: dict[str, SiteNode]
) -> None:
    script = cluster.folder / "job.sh"
    script.write_text("#!/bin/sh\n#SBATCH --zonesort=30\n#SBATCH --pagelens-pages=2m\nsrun sleep 60\n")
    assert cluster.run("sbatch", "--exclusive", "-w", "n2", str(script), user=BIN).returncode == 0
    assert cluster.run("srun", "-w", "n0", "--zonesort=off", "true", user=NOBODY).returncode == 0
    assert cluster.run("srun", "-w", "n1", "true", user=DAEMON).returncode == 0
    cluster.wait_for(lambda: nodes["n2"].get(INTERVAL) == "30", "the interval on n2")
    assert (nodes["n0"].get(DROP), nodes["n0"].get(SORT)) == ("3", "")
    assert (nodes["n1"].get(DROP), nodes["n1"].get(SORT)) == ("3", "0")
    assert (nodes["n2"].get(SORT), nodes["n2"].get(f"{POOL}/nr_hugepages")) == ("0", "2874")
    assert nodes["n3"].get(DROP) == "0"
    cluster.run("scancel", "--user=bin")
    cluster.wait_idle()
    assert (nodes["n2"].get(INTERVAL), nodes["n2"].get(f"{POOL}/nr_hugepages")) == ("0", "7")


def test_a_shared_node_is_left_alone_while_another_job_runs(
    cluster: SlurmCluster, nodes: dict[str, SiteNode]
) -> None:
    cluster.run("sbatch", "-n1", "-w", "n0", "--wrap", "sleep 60", user=NOBODY)
    cluster.wait_for(lambda: nodes["n0"].get(SORT) == "0", "the first job's sort")
    nodes["n0"].set(DROP, "untouched")
    assert cluster.run("srun", "-n1", "-w", "n0", "--pagelens-pages=2m", "true", user=DAEMON).returncode == 0
    assert (nodes["n0"].get(DROP), nodes["n0"].get(f"{POOL}/nr_hugepages")) == ("untouched", "7")


def test_forged_variables_change_nothing_for_others_and_little_for_oneself(
    cluster: SlurmCluster, nodes: dict[str, SiteNode]
) -> None:
    forged = {
        "SPANK_PAGELENS_ZONESORT": "7\n9",
        "SPANK_PAGELENS_PAGES": "2m;reboot",
        "SPANK_PAGELENS_REPORT": "/etc",
        "SLURM_SPANK_PAGELENS_ZONESORT": "1",
        "SLURM_JOB_UID": "0",
    }
    assert cluster.run("srun", "-w", "n0", "true", user=NOBODY, environment=forged).returncode == 0
    assert cluster.run("srun", "-w", "n1", "true", user=DAEMON).returncode == 0
    for name in ("n0", "n1"):
        assert (nodes[name].get(SORT), nodes[name].get(INTERVAL)) == ("0", "0 sec")
        assert nodes[name].get(f"{POOL}/nr_hugepages") == "7"
    told = (nodes["n0"].folder.parent).glob("prolog-*")
    assert all("SLURM_JOB_UID=0" not in path.read_text().splitlines() for path in told)


def test_a_job_runs_where_the_prolog_is_killed_and_the_plugin_finds_no_library(
    cluster: SlurmCluster, nodes: dict[str, SiteNode], plugin: Path
) -> None:
    cluster.script("plugstack.conf", f"optional {plugin} library=/none command=/none word\n")
    config = nodes["n0"].config
    cluster.script(
        "prolog.sh", f"#!/bin/sh\n{PAGELENS} site prolog --config {config} &\nkill -9 $!\nexit 0\n"
    )
    done = cluster.run("srun", "-w", "n0", "--pagelens-pages=thp", "printenv", user=NOBODY)
    assert done.returncode == 0
    assert "LD_PRELOAD" not in done.stdout
    assert "DRAIN" not in cluster.node("n0")["State"]
    log = (cluster.folder / "log/n0").read_text()
    assert log.count("pagelens: plugstack.conf: library=/none cannot be read; the task runs without") == 1


def test_tasks_get_the_library_in_scripts_and_in_their_steps(
    cluster: SlurmCluster, nodes: dict[str, SiteNode]
) -> None:
    script = cluster.folder / "job.sh"
    script.write_text("#!/bin/sh\n#SBATCH --pagelens-pages=thp --pagelens-report\nprintenv\nsrun printenv\n")
    done = cluster.run("sbatch", "--wait", "-o", "out", str(script), user=NOBODY)
    out = (cluster.folder / f"home-{NOBODY}/out").read_text()
    assert done.returncode == 0
    assert out.count(f"LD_PRELOAD={library()}\n") == 2
    assert out.count("pages=thp,json=1,report=") == 2
    assert out.count("GLIBC_TUNABLES=glibc.malloc.hugetlb=1\n") == 2


def test_a_task_gets_the_plan_that_pagelens_made_for_its_program(
    cluster: SlurmCluster, nodes: dict[str, SiteNode], plugin: Path
) -> None:
    (cluster.folder / "app.toml").write_text("")
    command = cluster.folder / "command"
    line = f"optional {plugin} library={library()} command={command}\n"
    cluster.script("plugstack.conf", line)
    words = ("srun", "-w", "n0", f"--pagelens-plan={cluster.folder}/app.toml", "printenv")
    cluster.script("command", '#!/bin/sh\necho "/plans/$2-$(basename $3)-$4-$(id -u)"\n')
    assert "PAGELENS_PLAN=/plans/plan-app.toml-printenv-1\n" in cluster.run(*words, user=DAEMON).stdout
    cluster.script("command", "#!/bin/sh\nexit 1\n")
    done = cluster.run(*words, user=DAEMON)
    assert (done.returncode, "PAGELENS_PLAN" in done.stdout) == (0, False)


def test_a_job_finds_a_page_on_its_memory_beside_its_output(
    cluster: SlurmCluster, nodes: dict[str, SiteNode], plugin: Path
) -> None:
    config = nodes["n0"].config
    text = config.read_text().replace("[node]", f'[node]\nmachine = "{SNOOP_FILTER}"')
    config.write_text(text + '[prolog]\ncache = "1GiB"\n')
    command = f"{os.path.dirname(sys.executable)}/pagelens"
    cluster.script(
        "plugstack.conf", f"optional {plugin} library={library()} command={command} config={config}\n"
    )
    looks = nodes["n0"].state / "jobs"
    hold = "import glob, time\n"
    hold += f"b = bytearray(b'x') * (64 << 20)\nwhile not glob.glob('{cluster.folder}/seen'): time.sleep(.1)"
    looked = cluster.folder / "seen"
    job = cluster.start(
        "srun", "-w", "n0", "-n2", "--pagelens-report", "/usr/bin/python3", "-c", hold, user=NOBODY
    )  # fmt: skip

    def both_are_seen() -> bool:
        samples = [one for path in looks.glob("*/0.json") for one in json.loads(path.read_text())]
        return len(samples) == 2 and all(sample["resident"] > 64 << 20 for sample in samples)

    cluster.wait_for(both_are_seen, "a look at the job's memory")
    looked.touch()
    assert job.wait(timeout=60) == 0
    home = cluster.folder / f"home-{NOBODY}"
    cluster.wait_for(lambda: any(home.glob("pagelens-*.html")), "the page")
    cluster.wait_idle()
    text = next(home.glob("pagelens-*.txt")).read_text()
    assert next(home.glob("pagelens-*.html")).stat().st_uid == NOBODY
    assert "2 processes had 1" in text
    ranks = [line.split()[:4] for line in text.splitlines() if line.startswith("0 ")]
    assert ranks == [["0", "0", "n0", "python3"], ["0", "1", "n0", "python3"]]
    assert text.count("0: 100%") == 2
    assert "share a slot of the memory-side cache" in " ".join(text.split())
    assert "The fullest bank of DRAM holds" in " ".join(text.split())
    assert list(looks.glob("*")) == []


def test_the_package_installs_and_uninstalls(plugin: Path, tmp_path: Path) -> None:
    subprocess.run(["make", "-s", "-C", ROOT / "spank", f"OUT={plugin.parent}", "package"], check=True)
    environment = os.environ | {"DESTDIR": str(tmp_path)}
    command = f"{os.path.dirname(sys.executable)}/pagelens"
    package = plugin.parent / "pagelens-spank"
    subprocess.run([package / "install", command], env=environment, check=True, capture_output=True)
    line = (tmp_path / "etc/slurm/plugstack.conf.d/pagelens.conf").read_text().splitlines()[-1]
    assert line.endswith(f"library={library()} command={command}")
    assert f"{command} site prolog" in (tmp_path / "etc/slurm/prolog.d/50-pagelens").read_text()
    subprocess.run([package / "uninstall"], env=environment, check=True, capture_output=True)
    assert [path.name for path in tmp_path.rglob("*") if path.is_file()] == ["site.toml"]
