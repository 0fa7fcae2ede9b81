"""`pagelens trace-info` and open_trace, on the file kept as the golden of the trace format."""

import json
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from machine_roles import CACHE_MODE, L1_OF_FOUR_WAYS, ODD_L1
from traced_program import GOLDEN

from pagelens import _core
from pagelens.accesses.trace import open_trace
from pagelens.accesses.trace_recorder import TraceRecorder
from pagelens.errors import Failure, UsageError
from pagelens.machine import list_machines, load_machine

Run = Callable[..., subprocess.CompletedProcess[str]]


def test_workload_says_what_the_trace_holds() -> None:
    workload = open_trace(GOLDEN)
    assert workload.name == "golden"
    assert workload.source == "trace"
    assert workload.phases == ["(outside regions)", "solve"]
    assert workload.threads == 2
    assert workload.footprint_bytes == 47 * 4096
    assert workload.share_seen == 0.97
    assert "golden" in workload.warnings
    assert [found.name for found in workload.objects[:5]] == [
        "[kernel: page clearing]",
        "[heap]",
        "[stack]",
        "[mmap]",
        "[.data/.bss of golden]",
    ]
    array = workload.objects[5]
    assert (array.bytes, array.births, array.lines, array.stored) == (3000 * 64, 1, 3000, 3000)
    assert array.frames == ("golden+0xfff", "golden+0x1fff")


def test_a_program_is_compiled_once_for_the_same_private_caches() -> None:
    workload = open_trace(GOLDEN)
    machine = load_machine(CACHE_MODE)
    program = workload.compile(machine, 12)
    assert program.threads == 2
    assert np.all(np.diff(program.pages.astype(np.int64)) > 0)
    assert program.instructions.sum() == 970_000
    assert workload.compile(machine, 12) is program
    assert workload.compile(machine, 30) is workload.compile(machine, 21)
    assert workload.compile(machine, 21) is not program


def test_refuses_a_machine_whose_l1_the_trace_is_not_exact_for() -> None:
    machine = load_machine(CACHE_MODE)
    l1 = machine.l1.model_copy(
        update={
            "size": machine.l1.size.model_copy(update={"value": 16384}),
            "ways": machine.l1.ways.model_copy(update={"value": 4}),
        }
    )
    with pytest.raises(UsageError, match=r"64 sets x 4 ways.* at least 64 sets x 8 ways"):
        open_trace(GOLDEN).compile(machine.model_copy(update={"l1": l1}), 12)


def test_an_old_trace_for_an_l1_of_four_ways_is_to_be_traced_again() -> None:
    with pytest.raises(UsageError, match=r"its L1 has 256 sets x 4 ways.*; trace the program again, or"):
        open_trace(GOLDEN).lines_in_order(load_machine(L1_OF_FOUR_WAYS))


def test_a_new_trace_serves_all_machines_but_one(tmp_path: Path) -> None:
    with TraceRecorder(tmp_path / "new.trace", "new") as recorder:
        recorder.access(0, [0x10000], stores=True)
    recorded = open_trace(tmp_path / "new.trace").trace
    refused = {
        name
        for name in list_machines()
        if not recorded.is_exact_for(((m := load_machine(name)).l1.sets, m.l1.ways.value))
    }
    assert refused == {ODD_L1}


def test_json_has_everything(pagelens: Run) -> None:
    result = pagelens("trace-info", "--json", "--pages", GOLDEN)
    assert result.returncode == 0
    found = json.loads(result.stdout)
    assert found["schema"] == "pagelens trace-info"
    assert found["complete"] is True
    assert found["exit_status"] == 3
    assert found["accesses"] == 20_000
    assert found["instructions_of_threads"] == [900_000, 70_000]
    assert found["lines_fetched"] == sum(o["lines_fetched"] for o in found["objects"]) == 6000
    assert found["exact_for"] == [{"least_sets": 64, "least_ways": 8}, {"least_sets": 512, "least_ways": 2}]
    assert found["first_writes"][0] == {"first_page": 0x10000, "pages": 47}
    assert found["objects"][5]["lines_per_byte"] == 3000 / (3000 * 64)


def test_text_fits_80_columns(pagelens: Run) -> None:
    result = pagelens("trace-info", "--pages", GOLDEN, env={"COLUMNS": "80"})
    assert result.returncode == 0
    assert all(len(line.rstrip()) <= 80 for line in result.stdout.splitlines())
    for text in ("footprint", "lines/byte", "golden+0xfff", "[stack]", "97.0% of the run", "warning: golden"):
        assert text in result.stdout


def test_a_cut_file_is_used_with_a_warning(pagelens: Run, tmp_path: Path) -> None:
    cut = tmp_path / "cut.trace"
    cut.write_bytes(GOLDEN.read_bytes()[:-10])
    assert open_trace(cut).objects[5].lines == 3000
    result = pagelens("trace-info", cut)
    assert result.returncode == 0
    assert "is not complete" in " ".join(result.stdout.split())


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "No such file"),
        (b"", "not a trace"),
        (b"#!/bin/sh\n", "not a trace"),
        (GOLDEN.read_bytes()[:8] + b"\3\0\0\0", "format version 3"),
        (GOLDEN.read_bytes()[:40], "trace the program again"),
    ],
)
def test_a_file_that_cannot_be_used_is_one_line(
    pagelens: Run, tmp_path: Path, content: bytes | None, message: str
) -> None:
    path = tmp_path / "bad.trace"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(Failure, match=message):
        open_trace(path)
    result = pagelens("trace-info", path)
    assert result.returncode == 1
    assert result.stdout == ""
    assert result.stderr.count("\n") == 1
    assert message in result.stderr


def test_a_directory_is_no_trace(pagelens: Run, tmp_path: Path) -> None:
    assert "directory" in pagelens("trace-info", tmp_path).stderr


def test_a_file_that_shrinks_while_it_is_open_is_a_fault_not_a_crash(tmp_path: Path) -> None:
    path = tmp_path / "shrinking.trace"
    shutil.copy(GOLDEN, path)
    workload = open_trace(path)
    path.write_bytes(GOLDEN.read_bytes()[:300])
    program = workload.trace.compile(_core.CompileOptions([(64, 8, 1)], 12, False, _core.Padding([], 0)))
    assert any("end early" in warning for warning in program.warnings)
