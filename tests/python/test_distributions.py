"""Other distributions than the one that the tests run on, each in a folder."""

import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.long
def test_debian_13() -> None:
    done = subprocess.run([ROOT / "scripts/test-debian13"], capture_output=True, text=True, check=False)
    if done.returncode == 77:
        pytest.skip(done.stderr.strip())
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    assert "test-installed: ok, Python 3.13" in done.stdout
