"""Whether a guest hangs is told by processor time, here of stand-ins in a /proc of our own."""

from pathlib import Path

import pytest

from pagelens.lab.watch import Watch


@pytest.fixture
def proc(tmp_path: Path) -> Path:
    (tmp_path / "7" / "task" / "7").mkdir(parents=True)
    return tmp_path


def set_state(proc: Path, cpu_s: float, state: str) -> None:
    text = f"7 (qemu (x)) {state} " + "0 " * 10 + f"{int(cpu_s * 100)} 0 0"
    (proc / "7" / "stat").write_text(text)
    (proc / "7" / "task" / "7" / "stat").write_text(text)


def watch(proc: Path) -> Watch:
    return Watch(7, proc, silent_cpu_s=10, asleep_looks=3)


def test_processor_time_without_a_word_counts_and_a_word_begins_anew(proc: Path) -> None:
    looked = watch(proc)
    set_state(proc, 9, "R")
    assert looked.look() is None
    looked.heard()
    set_state(proc, 19, "R")
    assert looked.look() is None
    set_state(proc, 20, "R")
    assert "11 s of processor time" in str(looked.look())


def test_one_that_sleeps_hangs_but_one_that_waits_for_a_processor_does_not(proc: Path) -> None:
    looked = watch(proc)
    set_state(proc, 1, "R")
    assert [looked.look() for _ in range(20)] == [None] * 20
    set_state(proc, 1, "S")
    assert [looked.look() for _ in range(3)] == [None] * 3
    assert "asleep" in str(looked.look())
