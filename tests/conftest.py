"""Settings and fixtures that all tests share."""

import fcntl
import subprocess
from pathlib import Path

import pytest
from hypothesis import settings

ROOT = Path(__file__).parent.parent

# No test depends on the clock: a busy machine must not fail an example for being slow.
settings.register_profile("pagelens", deadline=None, print_blob=True)
settings.load_profile("pagelens")


@pytest.fixture(scope="session")
def examples() -> Path:
    """The folder of the built programs of examples/ (each builds once, whatever the workers)."""
    out = ROOT / "build" / "examples"
    out.mkdir(parents=True, exist_ok=True)
    with (out / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        subprocess.run(["make", "-s", "-C", str(ROOT / "examples"), f"OUT={out}"], check=True)
    return out
