"""Measures how long `pagelens explain` takes after tracing until its first answer, and until its last.

    python bench/bench_answers.py [PROGRAM ...]

The first answer is what the bounds of the time say, on a terminal. Figures are processor seconds, because
these count other people's work less than the clock does; the note has seconds by the clock.
"""

import os
import pty
import random
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from figures import ROOT, figure

PAGELENS = [sys.executable, "-m", "pagelens"]
MACHINES = {
    **{name: ["--machine", name] for name in ("cori-knl-cache", "skx-8160", "genoa-9654")},
    "this machine": [],
}
WANTED = "<= 120"  # a minute on two cores
NUMPY = "import numpy as n; a = n.arange(4e6); print(sum(float((a * k + a[::-1]).sum()) for k in range(4)))"
FIRST_WORDS = b"Page placement "  # of what the bounds say


@dataclass(frozen=True)
class Moment:
    """How long a command has run."""

    clock_s: float
    processor_s: float


def programs(folder: Path) -> dict[str, list[str]]:
    """Return the commands by name; what they need is made in the folder."""
    empty, numbers = folder / "empty.c", folder / "numbers"
    empty.write_text("int main(void) { return 0; }\n")
    draw = random.Random(1)
    numbers.write_text("".join(f"{draw.randrange(10**9)}\n" for _ in range(200_000)))
    for source in (empty, ROOT / "bench/loop.c"):
        subprocess.run(["gcc", "-O2", source, "-o", folder / source.stem], check=True)
    examples = ROOT / "build/examples"
    return {
        "hydro": [str(examples / "hydro")],
        "cg 50 20": [str(examples / "cg"), "50", "20"],  # as large as HPCCG 50 50 50
        "loop": [str(folder / "loop")],
        "numpy": [sys.executable, "-c", NUMPY],
        "empty": [str(folder / "empty")],
        "sort": ["sort", "-n", str(numbers)],
    }


def on_terminal(command: list[str]) -> tuple[Moment, Moment]:
    """Run a command, and return when it gave the first answer and when it ended."""
    terminal, of_command = pty.openpty()
    began = time.monotonic()
    process = subprocess.Popen(
        command, stdout=subprocess.DEVNULL, stderr=of_command, env=os.environ | {"TERM": "xterm"}
    )
    os.close(of_command)
    first, seen = None, b""
    try:
        while shown := os.read(terminal, 1 << 16):
            seen = seen[-len(FIRST_WORDS) :] + shown
            if first is None and FIRST_WORDS in seen:
                first = Moment(time.monotonic() - began, processor_seconds(process.pid))
    except OSError:  # the command closed the terminal
        pass
    os.close(terminal)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        sys.exit(f"{' '.join(command)}: ended with status {process.returncode}")
    last = Moment(time.monotonic() - began, usage.ru_utime + usage.ru_stime)
    return first or last, last


def processor_seconds(process: int) -> float:
    """Return the user and system time of a process that runs."""
    after_name = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return sum(map(int, after_name[11:13])) / os.sysconf("SC_CLK_TCK")


def main() -> None:
    """Entry point."""
    with tempfile.TemporaryDirectory() as created:
        folder = Path(created)
        known = programs(folder)
        for name in sys.argv[1:] or known:
            trace = folder / "traced"
            traced = [*PAGELENS, "trace", "-o", str(trace), "--", *known[name]]
            subprocess.run(traced, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            for machine, options in MACHINES.items():
                output = folder / f"{name} {machine}"
                first, last = on_terminal(
                    [*PAGELENS, "explain", str(trace), *options, "--output", str(output)]
                )
                figure(
                    f"explain {name}, {machine}",
                    last.processor_s,
                    "s",
                    WANTED,
                    f"processor time; the first answer after {first.processor_s:.1f} s; "
                    f"by the clock {first.clock_s:.1f} s and {last.clock_s:.1f} s",
                )


if __name__ == "__main__":
    main()
