"""This machine as `machines detect --measure` leaves it for `explain`."""

import subprocess
from pathlib import Path

import pytest

from pagelens.machine import choose_machine, measured_file

MEASURED = ("ddr.bandwidth", "ddr.latency", "l2.latency", "cores.outstanding_lines")


@pytest.fixture
def kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the file of this machine is kept, for this test."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    return measured_file()


def test_what_is_measured_takes_the_place_of_what_is_assumed(kept: Path, pagelens_command: Path) -> None:
    before = choose_machine(None)
    assert "detect --measure" in before.note
    subprocess.run([pagelens_command, "machines", "detect", "--measure"], check=True, capture_output=True)
    after = choose_machine(None)
    assert f"as measured ({kept})" in after.note
    assert after.text == kept.read_text()
    for name in MEASURED:
        section, key = name.split(".")
        value = getattr(getattr(after.machine, section), key)
        assert (value.source or "").startswith("measured here"), name
    assert after.machine.l2.size == before.machine.l2.size
    assert after.machine.l2.latency is not None
    assert after.machine.l2.latency.value < after.machine.ddr.latency.value


def test_a_file_of_another_machine_is_not_taken(kept: Path) -> None:
    kept.parent.mkdir()
    kept.write_text("no machine")
    assert "cannot be used" in choose_machine(None).note
    text = choose_machine(None).text
    kept.write_text(text.replace('title = "', 'title = "Not ', 1))
    taken = choose_machine(None)
    assert f"({kept} is of another)" in taken.note
    assert taken.text == text


def test_a_captured_tree_has_no_speed(pagelens_command: Path, tmp_path: Path) -> None:
    done = subprocess.run(
        [pagelens_command, "machines", "detect", "--measure", "--root", tmp_path],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    assert "--root" in done.stderr
    assert len(done.stderr.splitlines()) == 1
