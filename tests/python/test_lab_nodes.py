"""Guests of two nodes: what the firmware says of them, and whose memory a program's lines are of."""

import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from machine_roles import FLAT_MODE

from pagelens.lab.emulator import Hardware, NumaSpeed
from pagelens.lab.initramfs import Initramfs
from pagelens.lab.measured import MeasuredGuest, MemorySide
from pagelens.machine import load_machine

Run = Callable[..., subprocess.CompletedProcess[str]]
MIB = 1 << 20
LINES = 16 * MIB // 64  # of an array, which no L2 holds
PASSES = 3

# Prints what the kernel says of its nodes; then an array on each: written once, and read a few times.
PROGRAM = r"""
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>
#include "pagelens.h"
enum { BIND = 2, COUNT = 16 << 17 };
static const char* const names[] = {"read_bandwidth", "write_bandwidth", "read_latency"};
int main(void) {
    for (int node = 0; node < 2; ++node) {
        for (int i = 0; i < 3; ++i) {
            char name[128], line[64];
            sprintf(name, "/sys/devices/system/node/node%d/access0/initiators/%s", node, names[i]);
            FILE* const file = fopen(name, "r");
            if (file) fputs(fgets(line, sizeof line, file), stdout);
        }
    }
    volatile double* arrays[2];
    for (int node = 0; node < 2; ++node) {
        const unsigned long nodes = 1ul << node;
        if (syscall(SYS_set_mempolicy, BIND, &nodes, 8 * sizeof nodes)) return 2;
        arrays[node] = mmap(0, 8 * COUNT, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (arrays[node] == MAP_FAILED) return 3;
        for (int i = 0; i < COUNT; i += 512) arrays[node][i] = 1;
    }
    const char* const writing[] = {"write 0", "write 1"};
    const char* const reading[] = {"read 0", "read 1"};
    for (int node = 0; node < 2; ++node) {
        pagelens_region_begin(writing[node]);
        for (int i = 0; i < COUNT; ++i) arrays[node][i] = i;
        pagelens_region_end(writing[node]);
        pagelens_region_begin(reading[node]);
        for (int pass = 0; pass < PASSES; ++pass)
            for (int i = 0; i < COUNT; ++i) (void)arrays[node][i];
        pagelens_region_end(reading[node]);
    }
    return 0;
}
"""


@pytest.fixture(scope="session")
def program(compile_c: Callable[[str], Path]) -> Path:
    hooks = Path(__file__).parents[2] / "hooks"
    text = PROGRAM.replace('"pagelens.h"', f'"{hooks}/pagelens.h"').replace("PASSES", str(PASSES))
    return compile_c(text)


def run_of(done: subprocess.CompletedProcess[str]) -> dict[str, Any]:
    assert done.returncode == 0, done.stderr
    (step,) = json.loads(done.stdout)["steps"]
    total = step["run"]["total"]
    for counted in (total, *step["run"]["regions"]):
        for what in ("reads", "writes"):
            assert sum(node[what] for node in counted["nodes"]) == counted["counts"][f"ddr_{what}"]
    return step["run"]  # type: ignore[no-any-return]


def test_lines_are_counted_on_the_node_that_a_program_binds_to(pagelens: Run, program: Path) -> None:
    words = ["--memory", "512MiB", "--cache", "0B", "--numa", "400GB/s:100ns,80GB/s:150ns", "--json"]
    run = run_of(pagelens("lab", "run", *words, "--", program))
    assert run["output"].split() == ["400000", "400000", "100", "80000", "80000", "150"]
    assert run["total"]["time_s"] is None
    regions = {region["name"]: region["nodes"] for region in run["regions"]}
    dirty = 2 * MIB // 64  # at most, in private caches, when a region begins
    for node in (0, 1):
        read, written = regions[f"read {node}"], regions[f"write {node}"]
        assert read[node]["reads"] == pytest.approx(PASSES * LINES, rel=0.02)
        assert written[node]["reads"] == pytest.approx(LINES, rel=0.02)
        assert written[node]["writes"] + read[node]["writes"] == pytest.approx(LINES, rel=0.02)
        assert read[node]["writes"] <= dirty
        for other in (read[1 - node], written[1 - node]):
            assert other["reads"] < 0.02 * LINES
            assert other["writes"] < 0.02 * LINES + dirty


def test_a_node_without_processors_has_its_lines_too(program: Path) -> None:
    """A plan's fast node is one. The guest is made by its parts: `lab run` has only nodes with processors."""
    root = Initramfs()
    root.add_program("/app/program", program)
    hardware = Hardware(
        384 * MIB, fast_bytes=128 * MIB, speeds=[NumaSpeed(8e10, 1e-7), NumaSpeed(4e11, 1e-7)]
    )
    machine = load_machine(FLAT_MODE)
    with MeasuredGuest(machine, MemorySide(0), hardware, "6.1", root) as guest:
        job = guest.job("run", ["/app/program"])
    assert job.status == 0
    assert job.output.split() == ["80000", "80000", "100", "400000", "400000", "100"]
    read = {phase.name: phase.nodes for phase in job.phases if "/read" in phase.name}
    for node in (0, 1):
        assert read[f"run/read {node}"][node].reads == pytest.approx(PASSES * LINES, rel=0.02)
        assert read[f"run/read {node}"][1 - node].reads < 0.02 * LINES


def test_behind_a_cache_what_it_has_does_not_count(pagelens: Run, program: Path) -> None:
    """Before each node one as large as its memory, which has all that the program reads."""
    words = ["--memory", "512MiB", "--cache", "512MiB", "--numa", "2", "--json"]
    run = run_of(pagelens("lab", "run", *words, "--", program))
    regions = {region["name"]: region for region in run["regions"]}
    for node in (0, 1):
        read = regions[f"read {node}"]
        assert read["counts"]["msc_reads"] == pytest.approx(PASSES * LINES, rel=0.02)
        assert read["nodes"][node]["reads"] < 0.02 * PASSES * LINES
    assert run["total"]["time_s"] > 0


def test_the_terminal_has_a_line_for_nodes(pagelens: Run) -> None:
    words = ["--memory", "512MiB", "--cache", "0B", "--numa", "2"]
    done = pagelens("lab", "run", *words, "--", "/bin/true")
    assert done.returncode == 0, done.stderr
    assert "node 0: " in done.stdout
    assert " written; node 1: " in done.stdout
    assert "512 MiB of memory; " in done.stdout
    assert "hits      -" in done.stdout


def told(*speeds: NumaSpeed) -> list[str]:
    words = Hardware(512 * MIB, len(speeds), speeds=speeds).options()
    return [word.partition("data-type=")[2] for word in words if "initiator=1,target=" in word]


def test_what_the_firmware_says_fits_its_table() -> None:
    """Entries are of 16 bits in a common unit; the emulator refuses what is not."""
    assert told(NumaSpeed(50e9, 1e-7), NumaSpeed(20.001e9, 3e-7)) == [
        "access-latency,latency=100",
        "access-bandwidth,bandwidth=50000M",
        "access-latency,latency=300",
        "access-bandwidth,bandwidth=20001M",
    ]
    rates = told(NumaSpeed(400e9, 1e-7), NumaSpeed(20.001e9, 1e-7))[1::2]
    assert rates == ["access-bandwidth,bandwidth=400000M", "access-bandwidth,bandwidth=20000M"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--numa", "two"], "--numa 'two': a number of nodes, or BANDWIDTH:LATENCY of each"),
        (["--numa", "400GB/s:100ns,80GB/s"], "--numa '80GB/s': a number of nodes, or"),
        (["--numa", "400GB:100ns"], "--numa: '400GB' has the unknown unit 'GB'"),
        (["--numa", "1kB/s:100ns"], "from 1MB/s to 1000TB/s"),
        (["--numa", "1GB/s:1ms"], "from 1ns to 60us"),
        (["--numa", "0"], "--numa 0: from 1 to 8 nodes"),
        (["--cache", "0B", "--history", "zonesort; run"], "--cache 0B: zonesort sorts for a cache"),
        (["--cache", "0B", "--history", "boot(fake=on); run"], "--cache 0B: fake nodes are as large"),
    ],
)
def test_bad_input_is_one_line(in_process: Run, words: list[str], message: str) -> None:
    done = in_process("lab", "run", *words, "--", "/bin/true")
    assert done.returncode == 2
    assert message in done.stderr
    assert len(done.stderr.splitlines()) == 1
