"""Guests whose kernel or machine places pages otherwise: nodes, shuffling, large pages."""

import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Run = Callable[..., subprocess.CompletedProcess[str]]
MIB = 1 << 20

# Fills 20 MiB, and prints where it is: what the kernel says of its nodes and of itself.
PROGRAM = r"""
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
int main(void) {
    const char* const names[] = {"/sys/devices/system/node/online",
                                 "/sys/module/page_alloc/parameters/shuffle"};
    char* const memory = malloc(20 << 20);
    char line[256];
    memset(memory, 1, 20 << 20);
    for (int i = 0; i < 2; ++i) {
        FILE* const file = fopen(names[i], "r");
        fputs(fgets(line, sizeof line, file), stdout);
        fclose(file);
    }
    return memory[12345] - 1;
}
"""


# As much in static arrays, of which large pages have none; its status is one that shells use.
STATIC_PROGRAM = r"""
#include <string.h>
static char memory[20 << 20];
int main(void) {
    memset(memory, 1, sizeof memory);
    return 125 + memory[12345];
}
"""


def runs_of(done: subprocess.CompletedProcess[str]) -> list[dict[str, Any]]:
    assert done.returncode == 0, done.stderr
    return [step["run"] for step in json.loads(done.stdout)["steps"] if step["run"]]


def test_two_nodes_with_large_pages_on_a_shuffling_kernel(
    pagelens: Run, compile_c: Callable[[str], Path]
) -> None:
    words = ["--memory", "1GiB", "--cache", "128MiB", "--numa", "2", "--pages", "thp", "--json"]
    history = ["--history", "boot(shuffle=on); run; zonesort; run"]
    done = pagelens("lab", "run", *words, *history, "--", compile_c(PROGRAM))
    first, ordered = runs_of(done)
    for run in (first, ordered):
        assert run["output"].split() == ["0-1", "Y"]
        assert run["resident_pages"] == pytest.approx(20 * MIB / 4096, rel=0.05)
        # Nine or ten large pages, and what lies before and behind them.
        assert sum(parts == 512 for parts in run["huge_parts"]) >= 8
    assert ordered["conflict_share"] < 0.02  # a cache of 64 MiB in front of each node
    for step in json.loads(done.stdout)["steps"]:
        assert {zone.split()[1] for zone in step["buddyinfo"]} == {"0", "1"}
        assert sum(step["buddyinfo"]["node 1 DMA32"]) > 0


def test_static_arrays_are_on_no_large_pages_and_a_programs_status_is_its_own(
    pagelens: Run, compile_c: Callable[[str], Path]
) -> None:
    words = ["--memory", "512MiB", "--cache", "64MiB", "--pages", "2MiB", "--json"]
    done = pagelens("lab", "run", *words, "--", compile_c(STATIC_PROGRAM))
    assert done.returncode == 126, done.stderr
    (step,) = json.loads(done.stdout)["steps"]
    assert step["run"]["resident_pages"] == pytest.approx(20 * MIB / 4096, rel=0.05)
    assert step["run"]["huge_parts"] == []


def test_fake_nodes_are_as_large_as_the_cache_and_all_are_sorted(
    pagelens: Run, compile_c: Callable[[str], Path]
) -> None:
    words = ["--memory", "512MiB", "--cache", "128MiB", "--json"]
    history = ["--history", "boot(fake=on); run; zonesort; run"]
    fresh, ordered = runs_of(pagelens("lab", "run", *words, *history, "--", compile_c(PROGRAM)))
    assert fresh["output"].split() == ordered["output"].split() == ["0-3", "N"]
    assert fresh["huge_parts"] == []
    assert ordered["conflict_share"] < 0.02


def test_a_page_of_1_gib_that_does_not_fit_is_told(pagelens: Run) -> None:
    words = ["--memory", "2GiB", "--pages", "1GiB"]  # the first GiB has the kernel, the second its boot
    done = pagelens("lab", "run", *words, "--", "/bin/true")
    assert (done.returncode, len(done.stderr.splitlines())) == (1, 1)
    assert "set 0 of 1 pages of 1GiB aside at boot; raise --memory 2048MiB" in done.stderr
