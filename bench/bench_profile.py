"""What a profile costs after its trace: opening, cutting and replaying, beside the tracing itself.

Both use two processors, and what counts is the clock. Of several rounds the least of each counts: neighbours
on the machine only ever add to it. `python bench/bench_profile.py [ROUNDS]`.
"""

import subprocess
import sys
import tempfile
import time
from pathlib import Path

from figures import ROOT, figure

from pagelens.accesses.trace import open_trace
from pagelens.machine import Machine, load_machine
from pagelens.place.profile import profile, profiled_cut, timeline

ROUNDS = 3
PROGRAMS = {"cg": ("40",), "fe": ("24",), "hydro": ("20", "5")}
MACHINES = ("sandy-bridge-two-socket", "cori-knl-flat", "xeon-max-flat")


def main() -> None:
    """Entry point."""
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else ROUNDS
    machines = {name: load_machine(name) for name in MACHINES}
    with tempfile.TemporaryDirectory() as folder:
        for program, words in PROGRAMS.items():
            trace = Path(folder) / f"{program}.trace"
            tracing: list[float] = []
            stages: dict[str, list[tuple[float, float, float]]] = {name: [] for name in MACHINES}
            for _ in range(rounds):
                tracing.append(_traced([str(ROOT / "build" / "examples" / program), *words], trace))
                for name, machine in machines.items():
                    stages[name].append(_profiled(trace, machine))
            for name, found in stages.items():
                opening, replaying, whole = (min(times) for times in zip(*found, strict=True))
                ratio = whole / min(tracing)
                note = f"tracing {min(tracing):.2f} s; opening {opening:.2f} s, replay {replaying:.2f} s"
                figure(f"profile: {program} on {name}", ratio, "x tracing", "<= 0.3", note)


def _traced(program: list[str], trace: Path) -> float:
    """Seconds of `pagelens trace`."""
    command = [sys.executable, "-m", "pagelens", "trace", "--accesses", "0", "-o", str(trace), "--", *program]
    begin = time.perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return time.perf_counter() - begin


def _profiled(trace: Path, machine: Machine) -> tuple[float, float, float]:
    """Seconds of opening and cutting, of the replay, of both."""
    begin = time.perf_counter()
    workload = open_trace(trace, lambda opened: profiled_cut(opened, machine, None))
    ranks = max(1, machine.cores.count.value // workload.threads)
    course = timeline(workload, machine, ranks)
    opened = time.perf_counter()
    profile(workload, machine, ranks, course)
    end = time.perf_counter()
    return opened - begin, end - opened, end - begin


if __name__ == "__main__":
    main()
