"""Bad input ends in one line with the remedy and the right status; nothing stays under its final name."""

import os
import re
import signal
import struct
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from machine_roles import CACHE_MODE, FLAT_MODE, SNOOP_FILTER

Run = Callable[..., subprocess.CompletedProcess[str]]

BLOCK = """#include <signal.h>
#include <stdlib.h>
#include <unistd.h>
int main(void) {
    volatile char *block = malloc(1 << 20);
    for (int i = 0; i < 1 << 20; i++) block[i] = 1;
"""
CRASHES = BLOCK + "*(volatile int *)8 = 1; }"
IS_KILLED = BLOCK + "kill(getpid(), SIGKILL); }"


MACHINES = {"one_memory": SNOOP_FILTER, "cache": CACHE_MODE, "flat": FLAT_MODE}


@dataclass
class Case:
    """One wrong command; `arguments` may name MACHINES and the files of `inputs` in braces."""

    name: str
    arguments: str
    status: int
    says: list[str]  # patterns of the one line
    env: dict[str, str] = field(default_factory=dict)

    def __str__(self) -> str:
        return self.name.replace(" ", "-")


CASES = [
    Case("missing program", "trace -o out.trace -- ./no-such-app", 2, ["no-such-app"]),
    Case("not executable", "trace -o out.trace -- {plain}", 2, ["plain", "execut"]),
    Case("not x86-64", "trace -o out.trace -- {arm}", 2, ["arm", "x86-64"]),
    Case("a folder as program", "trace -o out.trace -- {folder}", 2, ["folder"]),
    Case("no program", "trace -o out.trace", 2, []),
    Case("no qemu", "trace -o out.trace -- {app} 1 1", 1,
         ["qemu-x86_64", "qemu-user"], {"PATH": "/nonexistent"}),
    Case("output folder missing", "trace -o nowhere/out.trace -- {app} 1 1", 2, ["nowhere"]),
    Case("missing trace", "explain no.trace", 1, ["no.trace"]),
    Case("trace-info of a missing trace", "trace-info no.trace", 1, ["no.trace"]),
    Case("not a trace", "explain {text}", 1, ["text.trace"]),
    Case("trace-info of no trace", "trace-info {text}", 1, ["text.trace"]),
    Case("an empty trace", "trace-info {empty}", 1, ["empty.trace"]),
    Case("unknown machine", "explain --workload stream-triad --size 1GiB --machine cori-kln-cache", 2,
         ["cori-kln-cache", CACHE_MODE]),
    Case("unknown policy", "explain --workload stream-triad --size 1GiB --policies aged,contigous", 2,
         ["contigous", "contiguous"]),
    Case("unknown workload", "explain --workload stream-traid --size 1GiB", 2,
         ["stream-traid", "stream-triad"]),
    Case("a size without unit", "explain --workload stream-triad --size 17600000000", 2,
         ["size", "17600000000", "GB"]),
    Case("a size of nonsense", "explain --workload stream-triad --size big", 2, ["size", "big"]),
    Case("a workload without size", "explain --workload stream-triad", 2, ["size"]),
    Case("no nodes", "explain --workload stream-triad --size 1GiB --nodes 0", 2,
         ["--nodes", "greater than or equal to 1"]),
    Case("a workload larger than memory",
         f"explain --machine {CACHE_MODE} --workload stream-triad --size 200GB", 2,
         ["--size: 200 GB", "103 GB", "at most 96 GiB"]),
    Case("a machine with one memory to place on", "place {triad} --machine {one_memory}", 2,
         ["--machine", SNOOP_FILTER, "one memory", FLAT_MODE]),
    Case("a fast memory that is a cache", "place {triad} --machine {cache}", 2, ["cache mode"]),
    Case("no capacity", "place {triad} --machine {flat} --capacity 0B", 2, ["--capacity", "16 GiB"]),
    Case("no share as capacity", "place {triad} --machine {flat} --capacity 0%", 2,
         ["--capacity", "above 0%"]),
    Case("more capacity than fast memory", "place {triad} --machine {flat} --capacity 17GiB", 2,
         ["--capacity", "17GiB", "16 GiB"]),
    Case("a list that is not there", "place {triad} --machine {flat} --list none.txt", 2,
         ["--list", "none.txt"]),
    Case("a list of nothing known", "place {triad} --machine {flat} --list {list}", 2,
         ["--list", "no-such-array"]),
    Case("more ranks than memory holds", "explain {triad} --nodes 1 --ranks 4000", 2, ["ranks"]),
]  # fmt: skip


@pytest.fixture(scope="module")
def inputs(
    tmp_path_factory: pytest.TempPathFactory, examples: Path, pagelens_command: Path
) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("inputs")
    names = ("plain", "arm", "folder", "list", "text.trace", "empty.trace", "triad.trace")
    paths = {name.removesuffix(".trace"): folder / name for name in names}
    paths["plain"].write_text("just text\n")
    paths["text"].write_text("just text\n" * 100)
    paths["empty"].write_text("")
    paths["list"].write_text("no-such-array\n")
    paths["folder"].mkdir()
    # An ELF header for AArch64 (machine 183): 64-bit, little endian, an executable of version 1.
    header = b"\x7fELF\x02\x01\x01" + bytes(9) + struct.pack("<HHIQQQIHHHHHH", 2, 183, 1, *[0] * 10)
    paths["arm"].write_bytes(header)
    paths["arm"].chmod(0o755)
    # Large enough that 4000 copies exceed the largest machine's memory.
    command = [pagelens_command, "trace", "-o", paths["triad"], "--", examples / "triad", "16", "1"]
    subprocess.run(command, check=True, capture_output=True)
    return {"app": examples / "triad", **paths}


def one_line(result: subprocess.CompletedProcess[str]) -> str:
    """The single line on standard error that a failed command says."""
    assert "Traceback" not in result.stderr
    lines = result.stderr.strip().splitlines()
    assert len(lines) == 1, result.stderr
    return lines[0]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_one_line_with_the_remedy(
    case: Case,
    inputs: dict[str, Path],
    in_process: Run,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name, value in case.env.items():
        monkeypatch.setenv(name, value)
    result = in_process(*(argument.format(**MACHINES, **inputs) for argument in case.arguments.split()))
    assert result.returncode == case.status, result.stderr + result.stdout
    if case.says:
        line = one_line(result)
        for pattern in case.says:
            assert re.search(pattern, line), f"{pattern!r} is not in {line!r}"
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(("program", "number"), [(CRASHES, signal.SIGSEGV), (IS_KILLED, signal.SIGKILL)])
def test_what_a_crashed_program_did_is_kept_and_said(
    program: str, number: signal.Signals, compile_c: Callable[[str], Path], pagelens: Run
) -> None:
    result = pagelens("trace", "-o", "crash.trace", "--", compile_c(program))
    assert result.returncode == -number  # as if it ran alone
    said = result.stderr.splitlines()[-1]  # a line of the emulator's own may stand before it
    assert number.name in said
    assert "crash.trace" in said
    info = pagelens("trace-info", "crash.trace")
    assert info.returncode == 0, info.stderr
    if number != signal.SIGKILL:  # which leaves no time to write the last chunk
        assert "main (program" in info.stdout  # the block's call site


@pytest.mark.parametrize("share", [0.5, 0.99])
def test_a_truncated_trace_is_read_to_its_last_whole_chunk(
    share: float, inputs: dict[str, Path], pagelens: Run, tmp_path: Path
) -> None:
    whole = inputs["triad"].read_bytes()
    (tmp_path / "cut.trace").write_bytes(whole[: int(len(whole) * share)])
    info = pagelens("trace-info", "cut.trace")
    assert info.returncode == 0, info.stderr
    assert "cut.trace is not complete" in info.stdout


@pytest.fixture
def tiny_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 64 KiB."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", folder]
    if os.geteuid() != 0 or subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("mounting a tiny file system needs root")
    yield folder
    subprocess.run(["umount", folder], check=True)


def test_no_disk_space(tiny_disk: Path, examples: Path, pagelens: Run) -> None:
    result = pagelens("trace", "-o", tiny_disk / "out.trace", "--", examples / "cg", "16")
    assert result.returncode == 1
    assert "space" in one_line(result)
    assert not (tiny_disk / "out.trace").exists()
