"""Programs of examples/ and Debian: their modelled times beside those measured on this machine.

    python scripts/validate_times.py --measure times.json
    python scripts/validate_times.py --measured times.json --output docs/results/validation.md

The first command measures and should have the machine for itself, the second models. With `--rows FILE`
it keeps what it has modelled, and goes on from there if it was stopped.
`pagelens machines detect --measure` has to be run before. Each program is traced whole `--traces` times,
and each trace is modelled on this machine's file. Then all programs run in turn, in as many rounds as there
are runs, each time as a new process, whose pages get other frames. So a busy stretch of the machine hits
all programs alike. The time measured is the processor time of the process. The kernel's part of it is left
out, and so are page faults from the modelled time (docs/decisions/kernel-time.md). Other processors may be
threads of the same core and slow it, so the half of the runs counts during which they were least busy, and
the page says how busy that was. No value of the model is changed for a program.
"""

import argparse
import json
import os
import shlex
import shutil
import statistics
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from wrapping import write_page

from pagelens.accesses.trace import open_trace
from pagelens.accesses.tracer import TraceRequest, trace_program
from pagelens.frames import Node, parse_history, policies
from pagelens.host.load import LoadMeter
from pagelens.host.program_times import ProgramTime, time_program
from pagelens.machine import Machine, choose_machine
from pagelens.replay import Simulation

ROOT = Path(__file__).parent.parent
ENVIRONMENT = {**os.environ, "LC_ALL": "C"}  # when they are traced, too
CHASE = r"""
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
struct line { struct line *next; char rest[56]; };
int main(void) {  // a walk through 64 MiB in random order
    size_t n = (64u << 20) / 64, *order = malloc(n * sizeof *order);
    struct line *lines = aligned_alloc(4096, n * sizeof *lines), *at = lines;
    uint64_t random = 1;
    for (size_t i = 0; i < n; ++i) order[i] = i;
    for (size_t i = n - 1; i > 0; --i) {
        random = random * 6364136223846793005u + 1442695040888963407u;
        size_t j = (random >> 33) % (i + 1), kept = order[i];
        order[i] = order[j], order[j] = kept;
    }
    for (size_t i = 0; i < n; ++i) lines[order[i]].next = &lines[order[(i + 1) % n]];
    for (size_t i = 0; i < 2000000; ++i) at = at->next;
    printf("%ld\n", (long)(at - lines));
}
"""
SORT = r"""
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <vector>
int main() {  // random numbers
    std::vector<std::uint64_t> numbers(1000000);
    std::uint64_t random = 1;
    for (auto& number : numbers)
        number = (random = random * 6364136223846793005u + 1442695040888963407u) >> 20;
    std::sort(numbers.begin(), numbers.end());
    std::printf("%lu\n", static_cast<unsigned long>(numbers[numbers.size() / 2]));
}
"""


@dataclass(frozen=True)
class Program:
    """A program to run: `{e}` is the folder of examples, `{d}` that of the data."""

    name: str
    command: str


PROGRAMS = (
    Program("pointer chase, 64 MiB", "{d}/chase"),
    Program("std::sort, 10^6 random numbers", "{d}/sort"),
    Program("examples/cg", "{e}/cg 40 100"),
    Program("examples/dgemm", "{e}/dgemm"),
    Program("examples/fe", "{e}/fe"),
    Program("examples/fft", "{e}/fft 14 400"),
    Program("examples/gups", "{e}/gups 22 4"),
    Program("examples/hydro", "{e}/hydro"),
    Program("examples/shallow", "{e}/shallow 96 1000"),
    Program("examples/stencil", "{e}/stencil 3 32 60"),
    Program("examples/stream", "{e}/stream"),
    Program("examples/sum", "{e}/sum 125000 2000"),
    Program("examples/triad", "{e}/triad 16 30"),
    Program("sort", "sort --parallel=1 {d}/words.txt"),
    Program("gzip", "gzip -c {d}/words.txt"),
    Program("bzip2", "bzip2 -c {d}/small.txt"),
    Program("xz -d", "xz -dc {d}/words.txt.xz"),
    Program("md5sum", "md5sum {d}/large.txt"),
    Program("mawk, counting words", "mawk '{{n[$1]++}} END {{print length(n)}}' {d}/words.txt"),
    Program("sed", "sed -n 's/a[bc]*d/x/p' {d}/large.txt"),
    Program(
        "perl, counting words", "perl -ne '$n{{$_}}++ for split; END {{print scalar keys %n}}' {d}/small.txt"
    ),
    Program("python3, counting words", "/usr/bin/python3 -S {d}/count.py {d}/small.txt"),
    Program("sqlite3, a join", "sqlite3 :memory: -init {d}/join.sql"),
    Program("bc, digits of pi", "bc -lq {d}/pi.bc"),
)


def make_data(folder: Path) -> None:
    """Texts, databases and programs; the same at every run."""
    generator = np.random.default_rng(1)
    letters = np.array(list("abcdefghijklmnop"))
    words = ["".join(letters[generator.integers(0, 16, generator.integers(2, 9))]) for _ in range(20000)]
    ranks = np.minimum(generator.zipf(1.3, 400_000) - 1, len(words) - 1)
    text = "\n".join(" ".join(words[r] for r in ranks[i : i + 8]) for i in range(0, len(ranks), 8)) + "\n"
    (folder / "words.txt").write_text(text)
    (folder / "small.txt").write_text(text[: len(text) // 3])
    (folder / "large.txt").write_text(text * 12)
    subprocess.run(["xz", "-k", "-3", folder / "words.txt"], check=True)
    (folder / "count.py").write_text(
        "import sys\nn = {}\nfor line in open(sys.argv[1]):\n"
        "    for word in line.split():\n        n[word] = n.get(word, 0) + 1\nprint(len(n))\n"
    )
    (folder / "join.sql").write_text(
        "create table a(x integer primary key, y int);\n"
        "with recursive n(i) as (select 1 union all select i + 1 from n where i < 60000)\n"
        "insert into a select i, (i * 7919) % 60000 from n;\n"
        "select count(*), sum(b.y) from a join a as b on b.x = a.y;\n.quit\n"
    )
    (folder / "pi.bc").write_text("scale=700\n4*a(1)\nquit\n")
    (folder / "chase.c").write_text(CHASE)
    (folder / "sort.cpp").write_text(SORT)
    subprocess.run(["gcc", "-O2", "-o", folder / "chase", folder / "chase.c"], check=True)
    subprocess.run(["g++", "-O2", "-o", folder / "sort", folder / "sort.cpp"], check=True)


@dataclass(frozen=True)
class Row:
    """One program's figures, in seconds."""

    name: str
    modelled: Sequence[float]  # by each trace, the program's own part
    measured: Sequence[float]  # of each run that counts, the program's own part
    others: float  # median share of the time that other processors were busy during these
    kernel: float  # the kernel's part beside that, mean
    decided: str  # the part of the machine that limits it
    faults: float  # what page faults take by the model
    at_full_width: float  # by the model without samples, the program's own part

    @property
    def ratio(self) -> float:
        """Modelled over measured."""
        return statistics.median(self.modelled) / statistics.median(self.measured)


@dataclass
class Runs:
    """All runs of a program."""

    times: list[ProgramTime] = field(default_factory=list)
    others: list[float] = field(default_factory=list)  # share of the time that other processors were busy

    def add(self, words: Sequence[str]) -> None:
        """One more."""
        meter = LoadMeter()
        (run,) = time_program(words, 1, ENVIRONMENT)  # runs it twice
        self.times.append(run)
        self.others.append(min(1.0, meter.stop().others / max((os.cpu_count() or 1) - 1, 1)))

    def to_json(self) -> dict[str, Any]:
        """As a file keeps it."""
        return {"times": [asdict(run) for run in self.times], "others": self.others}

    @classmethod
    def from_json(cls, kept: dict[str, Any]) -> "Runs":
        """What `to_json` gave."""
        return cls([ProgramTime(**run) for run in kept["times"]], kept["others"])

    def least_disturbed(self) -> tuple[list[float], float]:
        """The program's own seconds in the better half, and how busy other processors were during it.

        The kernel notes at its ticks whether it is at work itself, so its share is that of all runs.
        """
        order = sorted(range(len(self.times)), key=lambda run: self.others[run])
        chosen = order[: (len(order) + 1) // 2]
        own = 1 - sum(run.of_kernel_s for run in self.times) / sum(run.processor_s for run in self.times)
        return [own * self.times[run].processor_s for run in chosen], statistics.median(
            self.others[run] for run in chosen
        )


def model(
    words: Sequence[str], machine: Machine, folder: Path, traces: int
) -> tuple[list[float], str, float, float]:
    """The program's own seconds by each trace, what limits it, its faults' seconds, its own at full width.

    Each trace is simulated on a node of its own. Traces of a program that runs alike each time are alike.
    """
    path = folder / "program.trace"
    seconds, busy, at_full_width = [], {}, 0.0
    for number in range(traces):
        trace_silently(words, path)
        workload = open_trace(path)
        node = Node(machine, 1, number, history=parse_history("boot; run"))
        simulation = Simulation(workload, machine, ranks=1)
        times = simulation.run(simulation.place(policies["aged"], node)).times
        seconds.append(float(times.program_time_s.sum()))
        busy = {name: float(of.sum()) for name, of in times.resources.items()}
        if number == traces - 1:
            workload.samples = None
            plain = Simulation(workload, machine, ranks=1)
            at_full_width = float(plain.run(plain.place(policies["aged"], node)).times.program_time_s.sum())
    faults = busy.pop("page faults", 0.0)
    return seconds, max(busy, key=lambda name: busy[name]), faults, at_full_width


def trace_silently(words: Sequence[str], path: Path) -> None:
    """Trace a program without its output."""
    output = os.dup(1)
    try:
        with open(os.devnull, "w") as nowhere:
            os.dup2(nowhere.fileno(), 1)
            trace_program(TraceRequest(words, str(path), accesses=0))
    finally:
        os.dup2(output, 1)
        os.close(output)


def page(rows: Sequence[Row], processor: str, runs: int) -> str:
    """The table as Markdown."""
    away = [max(row.ratio, 1 / row.ratio) for row in rows]
    within = sum(factor <= 1.3 for factor in away)
    before = [
        max(
            row.at_full_width / statistics.median(row.measured),
            statistics.median(row.measured) / row.at_full_width,
        )
        for row in rows
    ]
    errors = [abs(row.ratio - 1) for row in rows]
    traces = max(len(row.modelled) for row in rows)
    by = f"the median by {traces} traces (least and most in brackets)" if traces > 1 else "that by one trace"
    lines = [
        "# Modelled beside measured times",
        "",
        f"`python scripts/validate_times.py` wrote this page on {processor}, with the machine file that",
        "`pagelens machines detect --measure` leaves. How close are modelled times to measured ones, for",
        "programs that nobody tuned the model for? Times are the program's own, without the kernel's work.",
        "",
        f"Of {len(rows)} programs {within} are modelled within 30%: the ratio of modelled to measured time",
        f"is between 1/1.3 and 1.3. The median is off by a factor of {statistics.median(away):.2f}, and the",
        f"worst by {max(away):.2f}. With the difference over the measured time as the error,",
        f"{sum(error <= 0.3 for error in errors)} are within 30%, and the median error is "
        f"{100 * statistics.median(errors):.0f}%. Without samples of",
        "instructions, with issue at full width, the median is off by a factor of "
        f"{statistics.median(before):.2f}",
        f"and the worst by {max(before):.2f}.",
        "",
        *_far_off(rows),
        "| program | measured | others busy | modelled | ratio | at full width | limited by | "
        "kernel | page faults |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for row in rows:
        low, high = np.percentile(row.measured, [5, 95])
        lines.append(
            f"| {row.name} | {1e3 * statistics.median(row.measured):.0f} ms ({1e3 * low:.0f} to {1e3 * high:.0f}) | "  # noqa: E501
            f"{100 * row.others:.0f}% | {1e3 * statistics.median(row.modelled):.0f} ms "
            f"({1e3 * min(row.modelled):.0f} to {1e3 * max(row.modelled):.0f}) | {row.ratio:.2f} | "
            f"{row.at_full_width / statistics.median(row.measured):.2f} | {row.decided} | "
            f"{1e3 * row.kernel:.0f} ms | {1e3 * row.faults:.0f} ms |"
        )
    lines += [
        "",
        f"`measured` is the processor time of a process, without the kernel's part. Each program ran {runs} "
        "times, in rounds over all",
        "programs. The half of these runs counts during which other processors were least busy",
        "(`others busy` says how busy). The table has the median of this half, and its 5th and 95th",
        f"percentile. `modelled` is {by}, without page",
        "faults. Each trace is simulated on another node under",
        "`aged`. `ratio` is modelled over measured time; `at full width` is that ratio without samples of",
        "instructions. `kernel` is what the kernel takes on the program's behalf (measured, the mean of all",
        "runs). It notes only at its ticks whether it is at work, so of a run of 15 ms its part is known",
        "roughly. The model has only the `page faults` of that part (modelled).",
    ]
    return "\n".join(lines) + "\n"


def _far_off(rows: Sequence[Row]) -> list[str]:
    """Paragraph that names the programs that are further off than 30%."""
    far = [f"{row.name} ({row.ratio:.2f})" for row in rows if max(row.ratio, 1 / row.ratio) > 1.3]
    if not far:
        return []
    return [
        f"Further off are {', '.join(far)}.",
        "[What the model leaves out](../core-model.md#what-is-left-out) has the causes that were measured.",
        "",
    ]


def main() -> None:
    """Measures, models, and writes the page."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--measure", type=Path, metavar="FILE", help="measure, and keep the times there")
    what.add_argument("--measured", type=Path, metavar="FILE", help="model, and take the times from there")
    parser.add_argument("--rows", type=Path, metavar="FILE", help="what is modelled, with --measured")
    parser.add_argument("--output", type=Path, help="the page, with --measured")
    parser.add_argument("--runs", type=int, default=15)
    parser.add_argument("--examples", type=Path, default=ROOT / "build" / "examples")
    parser.add_argument("--traces", type=int, default=3, help="of each program")
    parser.add_argument("--processor", help="what the page calls this machine, if that says more")
    parser.add_argument("--only", help="programs whose names contain this")
    options = parser.parse_args()
    os.environ.update(ENVIRONMENT)
    with tempfile.TemporaryDirectory(prefix="pagelens-validation-") as name:
        folder = Path(name)
        make_data(folder)
        commands = {
            program.name: shlex.split(program.command.format(d=folder, e=options.examples))
            for program in PROGRAMS
            if not options.only or options.only in program.name
        }
        commands = {name: words for name, words in commands.items() if shutil.which(words[0]) is not None}
        if options.measure:
            options.measure.write_text(json.dumps(measured(commands, options.runs)))
            return
        kept = {name: Runs.from_json(of) for name, of in json.loads(options.measured.read_text()).items()}
        machine = choose_machine(None).machine
        before = json.loads(options.rows.read_text()) if options.rows and options.rows.exists() else {}
        rows = []
        for name in (name for name in kept if name in commands):
            if name in before:
                rows.append(Row(**before[name]))
                continue
            rows.append(modelled(name, commands[name], kept[name], machine, folder, options.traces))
            before[name] = asdict(rows[-1])
            if options.rows:
                options.rows.write_text(json.dumps(before))
    if options.output:
        runs = max(len(of.times) for of in kept.values())
        write_page(options.output, page(rows, options.processor or machine.title, runs))


def measured(commands: Mapping[str, Sequence[str]], runs: int) -> dict[str, Any]:
    """Run all programs in turn, so many times, and return what `Runs.from_json` takes of each."""
    found = {name: Runs() for name in commands}
    for _ in range(runs):
        for name, words in commands.items():
            found[name].add(words)
    return {name: of.to_json() for name, of in found.items()}


def modelled(name: str, words: Sequence[str], runs: Runs, machine: Machine, folder: Path, traces: int) -> Row:
    """Model a program, and print its row."""
    seconds, others = runs.least_disturbed()
    kernel = statistics.mean(run.of_kernel_s for run in runs.times)
    times, decided, faults, at_full_width = model(words, machine, folder, traces)
    row = Row(name, times, seconds, others, kernel, decided, faults, at_full_width)
    print(
        f"{row.name:34} measured {statistics.median(seconds):.3f} (kernel {kernel:.3f}, others busy "
        f"{100 * others:.0f}%) modelled {statistics.median(times):.3f} ratio {row.ratio:.2f} "
        f"{decided}; page faults {faults:.3f}; at full width "
        f"{at_full_width / statistics.median(seconds):.2f}",
        flush=True,
    )
    return row


if __name__ == "__main__":
    main()
