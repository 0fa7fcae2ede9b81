"""`srun` starts the ranks of a job, and one of them reports for all, on a real Slurm."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from slurm_cluster import SlurmCluster, cluster, running_cluster
from small_program import MACHINE

__all__ = ["cluster", "running_cluster"]  # fixtures


@pytest.mark.long
def test_srun_explain(
    cluster: SlurmCluster, built: Callable[..., Path], pagelens_command: Path, tmp_path: Path
) -> None:
    """The ranks use no MPI, so only Slurm's variables say which is which."""
    (tmp_path / "small.toml").write_text(MACHINE)
    program = built("sweeps")
    words = ["explain", "--machine", tmp_path / "small.toml", "--nodes", "1", "--policies", "aged", "--json"]
    step = ["srun", "-N1", "-n2", pagelens_command, *words, "-o", tmp_path / "out", "--", program]
    done = cluster.run(*map(str, step), timeout_s=300)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)["program"]  # one report: the other rank prints nothing
    assert found["job"]["traced_ranks"] == found["ranks"] == 2
    assert found["threads"] == 2
    traces = sorted((tmp_path / "out").glob(f"{program.name}.*.trace"))
    assert [path.name.split(".")[-2] for path in traces] == ["0", "1"]
