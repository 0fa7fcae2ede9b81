"""What the recorder of `pagelens io record` costs: processor time with and without it, in pairs."""

import json
import os
import resource
import statistics
import subprocess
import tempfile
from pathlib import Path

from pagelens.host.perf_events import events_ready
from pagelens.io.recorder import recording_environment

PAIRS = 9
OPERATIONS = 400_000
CG = ("80",)  # points per side: a second or two
EXAMPLES = Path(__file__).parents[1] / "build/examples"
# Nothing is cheaper than these operations, so nothing shows more of the recorder.
LOOP = r"""
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>
int main(int count, char** words) {
    char byte = 0;
    const int file = open(words[1], O_RDWR | O_CREAT, 0600), writes = words[2][0] == 'w';
    if (pwrite(file, &byte, 1, 0) != 1) return 1;
    for (long i = strtol(words[3], NULL, 10); i > 0; --i)
        if ((writes ? pwrite(file, &byte, 1, 0) : pread(file, &byte, 1, 0)) != 1) return 1;
    return 0;
}
"""


def seconds(command: list[str], environment: dict[str, str]) -> float:
    """Processor time of a program that ends well, in user space and in the kernel."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, env=environment, check=True, stdout=subprocess.DEVNULL)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def pairs(command: list[str], folder: Path) -> list[tuple[float, float]]:
    """Times with the recorder and without it, in turn, each first in every other pair."""
    found = []
    for number in range(PAIRS):
        times: dict[bool, float] = {}
        for recorded in (number % 2 == 0, number % 2 == 1):
            raw = folder / f"{number}.raw"
            raw.mkdir(exist_ok=True)
            environment = recording_environment(raw) if recorded else dict(os.environ)
            times[recorded] = seconds(command, environment)
            for log in raw.iterdir():
                log.unlink()
        found.append((times[True], times[False]))
    return found


def figure(name: str, of: list[float], unit: str, required: str, note: str) -> None:
    """Print the median of the pairs."""
    low, median, high = statistics.quantiles(of, n=4)
    text = f"median of {len(of)} pairs, middle half {low:.3g} to {high:.3g}; {note}"
    row = {"name": name, "value": round(median, 4), "unit": unit, "required": required, "note": text}
    print(json.dumps(row), flush=True)


def main() -> None:
    """Prints the figures."""
    with tempfile.TemporaryDirectory() as name, events_ready():
        folder = Path(name)
        source, loop = folder / "loop.c", folder / "loop"
        source.write_text(LOOP)
        subprocess.run(["gcc", "-O2", "-o", loop, source], check=True)
        for kind in ("read", "write"):
            took = pairs([str(loop), str(folder / "file"), kind, str(OPERATIONS)], folder)
            alone = statistics.median(without for _, without in took) / OPERATIONS * 1e6
            each = [(with_it - without) / OPERATIONS * 1e6 for with_it, without in took]
            figure(f"io record: a p{kind} of 1 B, processor time more with the recorder", each, "us", "< 1",
                   f"alone {alone:.2f} us")  # fmt: skip
        took = pairs([str(EXAMPLES / "cg"), *CG], folder)
        ratios = [with_it / without for with_it, without in took]
        figure("io record: cg, processor time with the recorder over without", ratios, "x", "< 1.01",
               f"alone {statistics.median(without for _, without in took):.2f} s")  # fmt: skip


if __name__ == "__main__":
    main()
