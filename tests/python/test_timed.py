"""`explain --timed`: the measured time of a program beside the modelled one."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from machine_roles import SNOOP_FILTER

from pagelens.address.units import LINE_BYTES
from pagelens.errors import Failure
from pagelens.explain.model import TimedRecord
from pagelens.explain.timed import beside, far_off
from pagelens.host.load import LoadMeter
from pagelens.host.program_times import time_program
from pagelens.machine import choose_machine

Run = Callable[..., subprocess.CompletedProcess[str]]


FAULTS_S = 0.2  # which are the kernel's part, and far more than it takes in most of these tests


def timed(modelled_s: float, of_kernel_s: float = 0.01, by_pipeline: bool = True) -> TimedRecord:
    return TimedRecord(
        measured_s=[1.0, 0.9, 1.2],
        of_kernel_s=[of_kernel_s] * 3,
        clock="processor time",
        modelled_s=modelled_s + FAULTS_S,
        modelled_program_s=modelled_s,
        by_pipeline=by_pipeline,
    )


@pytest.mark.parametrize(
    ("modelled_s", "words"), [(0.5, "too short by a factor of 2.0"), (1.6, "too long by a factor of 1.6")]
)
def test_a_model_that_is_far_off_is_a_warning(modelled_s: float, words: str) -> None:
    (warning,) = far_off(timed(modelled_s), 1.0)
    assert words in warning
    assert "990 ms of the program's own processor time measured in 3 runs (891 ms to 1.19 s)" in warning
    assert beside(timed(modelled_s), 1.0) == []


@pytest.mark.parametrize("modelled_s", [0.7, 1.4])
def test_a_model_that_is_close_stands_beside_the_measured_time(modelled_s: float) -> None:
    assert far_off(timed(modelled_s), 1.0) == []
    (sentence,) = beside(timed(modelled_s), 1.0)
    assert sentence.startswith("The model agrees with this machine within 1.4")


def test_a_part_of_a_run_is_not_compared_with_the_whole() -> None:
    assert far_off(timed(0.1), 0.5) == []
    (sentence,) = beside(timed(0.1), 0.5)
    assert "cannot be compared" in sentence


def test_what_the_model_is_known_to_lack_does_not_delay_the_answer() -> None:
    far = timed(0.3, by_pipeline=False)
    (width,) = beside(far, 1.0)
    assert len(far_off(far, 1.0)) == 1
    assert "full width" in width
    threads = timed(0.3).model_copy(update={"clock": "elapsed time"})
    assert beside(threads, 1.0)[0].startswith("Elapsed time also has the calls by which threads wait")


@pytest.mark.parametrize("modelled_s", [0.3, 0.9])
def test_elapsed_time_beside_other_programs_is_not_compared(modelled_s: float) -> None:
    """What others take from the threads is no fault of the model, and hides whether there is one."""
    busy = timed(modelled_s).model_copy(update={"clock": "elapsed time", "others_share": 0.38})
    assert far_off(busy, 1.0) == []
    (sentence,) = beside(busy, 1.0)
    assert "Other programs used 38% of the processor meanwhile" in sentence
    assert "cannot be compared" in sentence


def test_processor_time_beside_other_programs_is_compared_and_they_are_named() -> None:
    busy = timed(0.3).model_copy(update={"others_share": 0.38})
    _, others = far_off(busy, 1.0)
    assert others.startswith("Other programs used 38% of the processor meanwhile.")
    assert len(far_off(busy.model_copy(update={"others_share": 0.02}), 1.0)) == 1
    assert len(far_off(timed(9.0).model_copy(update={"others_share": 0.38}), 1.0)) == 1  # too long as it is


def test_the_kernels_part_is_not_compared_with_the_programs() -> None:
    """The kernel takes half of 1 s, and the model has 0.2 s of page faults beside the program's 0.5 s."""
    found = timed(0.5, of_kernel_s=0.5 * 3.1 / 3)
    assert far_off(found, 1.0) == []
    agrees, kernel = beside(found, 1.0)
    assert agrees.startswith("The model agrees with this machine within 1.00x: 500 ms of the program's own")
    assert "The kernel takes 517 ms of processor time for the program (measured)" in kernel
    assert "Of this, the model has page faults alone, which make its time 200 ms longer." in kernel
    free = found.model_copy(update={"modelled_program_s": found.modelled_s})  # no price of page faults
    assert "None of this makes the modelled time longer." in beside(free, 1.0)[1]
    of_threads = found.model_copy(update={"clock": "elapsed time"})  # which share what the kernel takes
    assert (
        "1 s of elapsed time measured in 3 runs (900 ms to 1.2 s), 700 ms modelled"
        in beside(of_threads, 1.0)[0]
    )


def test_a_start_of_a_process_is_not_compared() -> None:
    found = timed(0.0001).model_copy(update={"measured_s": [0.001] * 30, "of_kernel_s": [0.0] * 30})
    assert far_off(found, 1.0) == []
    (sentence,) = beside(found, 1.0)
    assert "One copy takes 1 ms on this machine (measured)." in sentence
    assert "is not compared" in sentence


def test_the_warning_names_assumed_values_that_can_be_measured() -> None:
    _, assumed = far_off(timed(0.3), 1.0, ["ddr.latency", "dram.window", "cores.frequency"])
    assert assumed.startswith("The machine file assumes cores.frequency and ddr.latency; `pagelens machines")


def test_runs_that_fail_are_not_times() -> None:
    with pytest.raises(Failure, match="was not timed: it ended with status 3"):
        time_program([sys.executable, "-c", "raise SystemExit(3)"], 1)
    with pytest.raises(Failure, match="/nowhere was not timed: No such file"):
        time_program(["/nowhere"], 1)


def test_processor_time_is_the_programs_and_not_the_waiting() -> None:
    spin = (
        "import time\nend = time.process_time() + 0.1\nwhile time.process_time() < end: pass\ntime.sleep(0.2)"
    )
    for run in time_program([sys.executable, "-c", spin], 2):
        assert run.elapsed_s - run.processor_s >= 0.19
        assert run.processor_s >= 0.1
        assert 0 <= run.of_kernel_s < run.processor_s


def test_what_a_timed_program_uses_is_not_that_of_others(tmp_path: Path) -> None:
    """By hand: processors were busy for 2 s meanwhile, of which it used 0.1 s or more twice."""
    stat, ticks = tmp_path / "stat", os.sysconf("SC_CLK_TCK")
    stat.write_text("cpu 0 0 0 1000 0 0 0 0 0 0\n")
    meter = LoadMeter(stat)
    time_program([sys.executable, "-c", "import time\nwhile time.process_time() < 0.1: pass"], 1)
    stat.write_text(f"cpu {2 * ticks} 0 0 1000 0 0 0 0 0 0\n")
    load = meter.stop()
    assert load.foreign_cpus is not None
    assert 0 < load.foreign_cpus * load.elapsed_s <= 1.8


def test_timed_explains_the_program_of_this_machine(
    pagelens: Run, compile_c: Callable[[str], Path], tmp_path: Path
) -> None:
    program = compile_c("int main(int n, char **words) { return n > 1; }")
    words = ("explain", "--timed", "--nodes", "1", "--policies", "aged", "-o", "out")
    # A server's L3 takes seconds to simulate. This machine's file may state a small one in its place.
    chosen = choose_machine(None)
    assert chosen.machine.l3 is not None
    small = chosen.machine.l3.ways.value * chosen.machine.l3.slices.value * 32 * LINE_BYTES
    kept = tmp_path / "pagelens" / "this-machine.toml"
    kept.parent.mkdir()
    kept.write_text(re.sub(r'(\[l3\]\nsize = .*?)"[^"]*"', rf'\1"{small} B"', chosen.text))
    here = {"XDG_CONFIG_HOME": str(tmp_path)}
    done = pagelens(*words, "--", program, env=here)
    assert done.returncode == 0, done.stderr
    assert "Most of so short a time is the kernel's" in " ".join(done.stdout.split())
    record = json.loads((tmp_path / "out" / "explanation.json").read_text())["timed"]
    assert len(record["measured_s"]) == 30
    assert record["modelled_s"] >= record["modelled_program_s"] > 0
    assert 0 <= record["others_share"] <= 1
    failing = pagelens(*words, "--", program, "fail", env=here)  # the answer is there without the time
    assert failing.returncode == 0
    assert f"pagelens: {program} was not timed: it ended with status 1" in failing.stderr
    assert json.loads((tmp_path / "out" / "explanation.json").read_text())["timed"] is None


@pytest.mark.parametrize(
    ("words", "error"),
    [
        (["x.trace.gone", "--timed"], None),
        (["--timed"], "--timed: runs a program; give it, as -- ./app args"),
        (
            ["--timed", "--machine", SNOOP_FILTER, "--", "/bin/true"],
            "--timed: times the program on this machine; leave out --machine",
        ),
    ],
)
def test_timed_needs_a_program_and_this_machine(in_process: Run, words: list[str], error: str | None) -> None:
    done = in_process("explain", *words)
    assert done.returncode == 2
    if error is not None:
        assert done.stderr == f"pagelens: {error}\n"
