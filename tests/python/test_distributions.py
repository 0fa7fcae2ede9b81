"""Other distributions than the one that the tests run on, each in a folder."""

import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
NEWER_PYTHONS = [f"python3.{minor}" for minor in (12, 13, 14)]


def run(*command: str | Path) -> str:
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode == 77:
        pytest.skip(done.stderr.strip())
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    return done.stdout


@pytest.mark.long
def test_debian_13() -> None:
    assert "test-installed: ok, Python 3.13" in run("scripts/test-debian", "trixie")


@pytest.mark.long
def test_the_portable_wheel_on_a_later_python() -> None:
    """It names no later glibc than 2.28, or it is not built; that of Debian's forky is later."""
    found = [python for python in NEWER_PYTHONS if shutil.which(python) and works(python)]
    if not found:
        pytest.skip("no Python from 3.12 on, whose wheel would serve later ones")
    run("scripts/build-portable-wheel", found[0])
    (wheel,) = (ROOT / "build/portable/wheels").glob("*.whl")
    assert "abi3" in wheel.name
    assert "test-installed: ok, Python 3.1" in run("scripts/test-debian", "forky", wheel)


def works(python: str) -> bool:
    return (
        subprocess.run([python, "-c", "import ensurepip"], capture_output=True, check=False).returncode == 0
    )
