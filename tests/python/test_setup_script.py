"""scripts/setup names what is missing; the machine is played by stand-ins for dpkg-query, id and apt-get."""

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent
Setup = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def setup(tmp_path: Path) -> Setup:
    def run(*arguments: str, installed: str, user: int) -> subprocess.CompletedProcess[str]:
        stand_ins = {
            "dpkg-query": f'case " {installed} " in *" $3 "*) printf installed ;; *) exit 1 ;; esac',
            "id": f"echo {user}",
            "apt-get": 'echo "$@" >>"$APT_CALLS"',
        }
        for name, text in stand_ins.items():
            (tmp_path / name).write_text(f"#!/bin/sh\n{text}\n")
            (tmp_path / name).chmod(0o755)
        env = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}", "APT_CALLS": str(tmp_path / "calls")}
        return subprocess.run(
            [ROOT / "scripts" / "setup", *arguments], env=env, capture_output=True, text=True, check=False
        )

    return run


def test_nothing_is_done_when_nothing_is_missing(setup: Setup, tmp_path: Path) -> None:
    result = setup("debian", "run", "build", installed="qemu-user libzstd-dev", user=0)
    assert (result.returncode, result.stdout, result.stderr) == (0, "", "")
    assert not (tmp_path / "calls").exists()


def test_a_user_is_told_the_command_in_one_line(setup: Setup, tmp_path: Path) -> None:
    result = setup("debian", "run", "build", installed="qemu-user", user=1000)
    assert result.returncode == 1
    assert result.stderr.splitlines() == [
        "setup: missing packages; run: sudo apt-get install --no-install-recommends libzstd-dev"
    ]
    assert not (tmp_path / "calls").exists()


def test_root_gets_what_is_missing_and_no_more(setup: Setup, tmp_path: Path) -> None:
    result = setup("debian", "run", "build", installed="qemu-user", user=0)
    assert result.returncode == 0, result.stderr
    assert (tmp_path / "calls").read_text().splitlines() == [
        "update",
        "install -y --no-install-recommends libzstd-dev",
    ]
