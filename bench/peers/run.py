"""Compares pagelens with its peers on the same work in the same run, and writes docs/results/peers.md.

    pip install pycachesim libcachesim; apt-get install valgrind
    python bench/peers/run.py --rounds 7

Tools that are not installed are named in the table. `--build 'Dinero IV=dineroIV ... < file'` adds a build of
yours: its command may name {program}, {dramsim3}, {ramulator}, {champsim} and {v2p}, which are the traced
program and what `pagelens trace-export` has written of it.
"""

import argparse
import os
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
sys.path += [str(Path(__file__).parent), str(ROOT / "scripts")]

import caches  # noqa: E402
import programs  # noqa: E402
from contest import COLUMNS, hold  # noqa: E402
from results import write_table  # noqa: E402

AFTER = """
Where two tools count the same thing, the run ends with an error if they differ. libCacheSim returns its
misses as a share of 24 bits, so it may differ by one.

Each peer does a part of what pagelens does. None of the peers above gives a program's pages frames,
compares placements, or turns counts into seconds. Some of the following tools are not packaged; if
you have built one, add it with `--build`:

| tool | does | cannot |
|---|---|---|
| DRAMsim3, Ramulator 2.1 | time DRAM commands for a list of physical lines | trace, cache, place pages |
| ChampSim | time one core and its caches, from a trace | place pages as Linux does, name objects |
| Dinero IV | count misses of caches, from a trace | trace, place pages, give times |
| drcachesim | count misses of caches and TLBs of a program | place pages; it reads a table of them |
| Virtuoso | time a core with an operating system's page handling | simulate the nodes of a fleet |

STREAM, likwid-bench and hpcc measure memory
instead of simulating it: `bench/bench_stream.py` compares them with `pagelens measure` in
[bench.md](bench.md).
"""


def main() -> None:
    """Entry point."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--build", action="append", default=[], metavar="NAME=COMMAND")
    parser.add_argument("--output", type=Path, default=ROOT / "docs/results/peers.md")
    arguments = parser.parse_args()
    rows = []
    for contest in [*caches.contests(), *programs.contests(arguments.build)]:
        print(f"== {contest.work}", flush=True)
        rows += hold(contest, arguments.rounds)
        for row in rows[-len(contest.contestants) :]:
            print("  ", " | ".join(row[1:7]), flush=True)
    write_table(
        arguments.output,
        "Beside its peers",
        "Each tool does the same work in one run. Times are processor time, measured: medians of\n"
        f"{arguments.rounds} rounds, with the least and the most. *To the first* is the median divided by\n"
        "that of the first tool of this work. Misses and accesses are counted. The machine had\n"
        f"{os.cpu_count()} CPUs and a load of {os.getloadavg()[1]:.1f} (five minutes), so compare the "
        "ratios, not the seconds.\nWritten by `python bench/peers/run.py`.",
        COLUMNS,
        rows,
        AFTER,
    )


if __name__ == "__main__":
    main()
