"""Programs built to suffer from exactly one mechanism, traced as they come: the right one is named."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
from machine_roles import (
    CACHE_MODE,
    CACHED_OPTANE,
    FLAT_MODE,
    INCLUSIVE_L3,
    NO_L3,
    PIPELINE,
    SLICED_L3,
    SNOOP_FILTER,
)
from small_machine import small

from pagelens.accesses.trace import open_trace
from pagelens.accesses.tracer import TraceRequest, trace_program
from pagelens.ensemble import Scaled, run_ensemble
from pagelens.ensemble.scale import shrink
from pagelens.explain.analysis import explain
from pagelens.explain.model import AttributionRecord
from pagelens.frames import policies
from pagelens.machine import Machine, load_machine
from pagelens.machine.dram_files import load_dram

HEADER = Path(__file__).parents[2] / "hooks" / "pagelens.h"
PROGRAM = """
#include "%s"
#include <stdint.h>
#include <sys/mman.h>
#define MIB (1l << 20)
static volatile char* reserve(long bytes) { /* aligned to 2 MiB */
    const int access = PROT_READ | PROT_WRITE, kind = MAP_PRIVATE | MAP_ANONYMOUS;
    uintptr_t at = (uintptr_t)mmap(0, bytes + 2 * MIB, access, kind, -1, 0);
    return (volatile char*)((at + 2 * MIB - 1) & -(2 * MIB));
}
static void touch(volatile char* from, long bytes) { /* each page gets its frame, in order */
    for (long at = 0; at < bytes; at += 4096) from[at] = 1;
}
int main(void) {
    %s
    pagelens_region_begin("kernel");
    %s
    pagelens_region_end("kernel");
}
"""


@dataclass(frozen=True)
class Case:
    """A program, where it runs, and what it suffers from."""

    mechanism: str
    machine: str
    policy: str
    before: str  # the kernel
    kernel: str
    ranks: int = 1


SMALL = "small"  # a memory-side cache of 64 MiB
SIXTEENTH = "sixteenth"  # KNL's 68 cores with a sixteenth of its memories: they are what all wait for
AT_ONCE = f"{PIPELINE} at once"  # loads and lines between its caches take no turns
ROWS = "rows"  # the same with a DRAM of one channel and open pages, whose map is plain
NARROW_ROWS = "narrow rows"  # and with a quarter of the cache


def in_one_channel(machine: Machine) -> Machine:
    """A page's lines in one row, all pages' in the same banks."""
    return machine.model_copy(update={"dram": load_dram("ddr4-2400").dram})


MADE: dict[str, Callable[[], Machine]] = {
    SMALL: small,
    SIXTEENTH: lambda: shrink(load_machine(CACHE_MODE), 1 / 16),
    ROWS: lambda: in_one_channel(MADE[SIXTEENTH]()),
    AT_ONCE: lambda: load_machine(PIPELINE).with_values({"cores.transfers": "at once"}),
    NARROW_ROWS: lambda: in_one_channel(shrink(load_machine(CACHE_MODE), 1 / 64)),
}

CASES = (
    # 32 lines 64 KiB apart lie in one set of 16 ways; L3's hash spreads them.
    Case("L2 conflicts", SNOOP_FILTER, "contiguous",
         "volatile char* a = reserve(2 * MIB); touch(a, 2 * MIB);",
         "for (int i = 0; i < 3000; ++i) for (long n = 0; n < 32; ++n) a[n << 16];"),
    # 128 pages 1 MiB apart: more than L2 holds, and 128 lines for each of 64 sets of 20 ways.
    Case("L3 conflicts", SLICED_L3, "contiguous",
         "volatile char* a = reserve(128 * MIB); touch(a, 128 * MIB);",
         "for (int i = 0; i < 4; ++i) for (long page = 0; page < 128; ++page)"
         " for (int line = 0; line < 64; ++line) a[page * MIB + line * 64];"),
    # Before a memory-side cache some sets are simulated, so both use many. 20 lines for half of L2's sets of
    # 16 ways; every second page of 32 MiB, 256 lines for half of L3's sets of 16 x 11 ways.
    Case("L2 conflicts", CACHED_OPTANE, "contiguous",
         "volatile char* a = reserve(2 * MIB); touch(a, 2 * MIB);",
         "for (int i = 0; i < 12; ++i) for (long n = 0; n < 20; ++n)"
         " for (long at = 0; at < MIB / 32; at += 64) a[(n << 16) + at];"),
    Case("L3 conflicts", CACHED_OPTANE, "contiguous",
         "volatile char* a = reserve(32 * MIB); touch(a, 32 * MIB);",
         "for (int i = 0; i < 6; ++i) for (long page = 0; page < 8192; page += 2)"
         " for (int line = 0; line < 64; ++line) a[page * 4096 + line * 64];"),
    # 68 x 7 lines for each of 128 sets of 38 x 12 entries. Two cores' lines fit their L2, 14 for a set of 16
    # ways; those of one do not fit its L1.
    Case("snoop filter", FLAT_MODE, "2m", "volatile char* a = reserve(2 * MIB); touch(a, 2 * MIB);",
         "for (int i = 0; i < 60; ++i) for (long page = 0; page < 7; ++page)"
         " for (int line = 0; line < 128; ++line) a[page * (MIB / 8) + line * 64];", ranks=68),
    # A line of each of 4096 pages: 256 KiB of lines, spread over all sets of L2, and more pages than any TLB.
    Case("page walks", SNOOP_FILTER, "contiguous",
         "volatile char* a = reserve(16 * MIB); touch(a, 16 * MIB);",
         "for (int i = 0; i < 30; ++i) for (long page = 0; page < 4096; ++page)"
         " a[page * 4096 + page / 16 % 64 * 64];"),
    Case("page walks", SMALL, "contiguous", "volatile char* a = reserve(4 * MIB); touch(a, 4 * MIB);",
         "for (int i = 0; i < 30; ++i) for (long page = 0; page < 1024; ++page)"
         " a[page * 4096 + page / 16 % 64 * 64];"),
    # Lines of two arrays 16 MiB apart in turn, once: other rows of the same bank.
    Case("row conflicts", NO_L3, "contiguous",
         "volatile char *a = reserve(32 * MIB), *b = a + 16 * MIB; touch(a, 32 * MIB);",
         "for (long at = 0; at < 8 * MIB; at += 64) { a[at]; b[at]; }"),
    # The same 1 MiB apart, on a map with exclusive ors: bit 20 is only the row's. If they took turns, lines
    # between the caches of one core would take nearly as long.
    Case("row conflicts", AT_ONCE, "contiguous",
         "volatile char* a = reserve(4 * MIB); touch(a, 4 * MIB);",
         "for (long from = 0; from < 4 * MIB; from += 2 * MIB)"
         " for (long at = from; at < from + MIB; at += 64) { a[at]; a[at + MIB]; }"),
    # Behind a memory-side cache: pages that are touched for the first time, those of each copy in rows of the
    # same banks. (Only what is used for the first time misses without any other mechanism.)
    Case("row conflicts", ROWS, "contiguous", "",
         "volatile char* a = reserve(4 * MIB); touch(a, 4 * MIB);", ranks=68),
    # A sweep over twice what L2 and L3 hold.
    Case("cache capacity", INCLUSIVE_L3, "contiguous",
         "volatile char* a = reserve(26 * MIB); touch(a, 26 * MIB);",
         "for (int i = 0; i < 2; ++i) for (long at = 0; at < 26 * MIB; at += 64) a[at];"),
    # Three quarters of a direct-mapped cache, with frames at random.
    Case("conflicts", SMALL, "random", "volatile char* a = reserve(12 * MIB); touch(a, 12 * MIB);",
         "for (int i = 0; i < 6; ++i) for (long at = 0; at < 12 * MIB; at += 64) a[at];", ranks=4),
    # Four times what it holds.
    Case("capacity", SMALL, "contiguous", "volatile char* a = reserve(64 * MIB); touch(a, 64 * MIB);",
         "for (int i = 0; i < 2; ++i) for (long at = 0; at < 64 * MIB; at += 64) a[at];", ranks=4),
)  # fmt: skip


def attributed(case: Case, program: Path, folder: Path, seed: int = 1) -> AttributionRecord:
    """Its only node's kernel."""
    machine = MADE[case.machine]() if case.machine in MADE else load_machine(case.machine)
    trace = folder / f"{program.name}.trace"
    trace_program(TraceRequest([str(program)], str(trace), accesses=0))
    ensemble = run_ensemble(
        open_trace(trace), Scaled(machine, case.ranks), {case.policy: policies[case.policy]}, 1, seed,
        folder / "nodes", phase="kernel",
    )  # fmt: skip
    return explain(ensemble).attributions[0]


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.mechanism} on {case.machine}")
def test_the_mechanism_that_a_program_suffers_from_is_named(
    case: Case, compile_c: Callable[[str], Path], tmp_path: Path
) -> None:
    found = attributed(case, compile_c(PROGRAM % (HEADER, case.before, case.kernel)), tmp_path)
    loss = found.time_s - found.unburdened_s
    assert loss > 0.15 * found.time_s
    assert found.part(case.mechanism).seconds > 0.8 * loss, found


def test_a_slow_node_is_named_where_a_program_computes(
    compile_c: Callable[[str], Path], tmp_path: Path
) -> None:
    cores = load_machine(SNOOP_FILTER).cores
    seed = next(seed for seed in range(1000) if cores.frequency_factor(seed, 0) < 0.96)
    case = Case("core frequency", SNOOP_FILTER, "contiguous", "volatile long sum = 0; long x = 1;",
                "for (int i = 0; i < 1000000; ++i) x = 3 * x + i; sum = x;")  # fmt: skip
    found = attributed(case, compile_c(PROGRAM % (HEADER, case.before, case.kernel)), tmp_path, seed)
    assert found.time_s * cores.frequency_factor(seed, 0) == pytest.approx(found.unburdened_s)
    assert found.part("core frequency").seconds == pytest.approx(found.time_s - found.unburdened_s)


def test_rows_of_lines_that_the_capacity_brings_are_half_its(
    compile_c: Callable[[str], Path], tmp_path: Path
) -> None:
    """Either alone would save them: without rows the same lines come, without their misses no rows."""
    case = Case(
        "row conflicts", NARROW_ROWS, "contiguous", "volatile char* a = reserve(8 * MIB); touch(a, 8 * MIB);",
        "for (int i = 0; i < 3; ++i) for (long at = 0; at < 8 * MIB; at += 64) a[at];", ranks=68,
    )  # fmt: skip
    found = attributed(case, compile_c(PROGRAM % (HEADER, case.before, case.kernel)), tmp_path)
    loss, rows = found.time_s - found.unburdened_s, found.part(case.mechanism)
    assert found.time_s - rows.without_s > 0.8 * loss
    assert 0.4 * loss < rows.seconds < 0.55 * loss
    assert found.part("capacity").seconds > 0.4 * loss
    assert sum(part.seconds for part in found.parts) == pytest.approx(loss)


def test_write_backs_are_of_those_who_write(compile_c: Callable[[str], Path], tmp_path: Path) -> None:
    """Half of their cost is the capacity's, whose misses bring them. Who reads has those of first writes."""
    parts = []
    for touched in ("a[at];", "a[at] = 1;"):
        case = Case(
            "write-backs", SIXTEENTH, "contiguous",
            "volatile char* a = reserve(25 * MIB); touch(a, 25 * MIB);",
            f"for (int i = 0; i < 2; ++i) for (long at = 0; at < 25 * MIB; at += 64) {touched}", ranks=68,
        )  # fmt: skip
        found = attributed(case, compile_c(PROGRAM % (HEADER, case.before, case.kernel)), tmp_path)
        parts.append(found.part("write-backs").seconds)
    assert 0 < 1.5 * parts[0] < parts[1]
