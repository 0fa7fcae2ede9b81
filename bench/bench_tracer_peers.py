"""Measures what other tools that see a program's accesses cost, beside pagelens and the program alone.

All run the same programs, in turn, each as gcc usually makes it: `lackey` for one pass of the copy, and what
traces itself as compiled for it. Processor time of all threads counts, and time by the clock is noted.
"""

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from bench_tracer import Costs, cost
from figures import ROOT, figure

from pagelens.accesses.dynamorio import find_dynamorio, has_dynamorio
from pagelens.accesses.emulator import find_emulator
from pagelens.accesses.tracer import TraceRequest, trace_program

RUNS_ALONE = 5  # the least counts; the others take long enough for one
PASSES = 60  # of the copy
SOURCES = {
    "copy of 16 MiB": ("tests/programs/copy.c", ["16", str(PASSES)]),
    "CG": ("examples/cg.cpp", ["40"]),
    "finite elements": ("examples/fe.cpp", ["24"]),
    "hydro": ("examples/hydro.cpp", ["30", "20"]),
}
VALGRIND = {
    "nulgrind": ["--tool=none"],
    "cachegrind": ["--tool=cachegrind", "--cache-sim=yes", "--cachegrind-out-file=/dev/null"],
    "DHAT": ["--tool=dhat", "--dhat-out-file=/dev/null"],
}
LACKEY = ["valgrind", "--tool=lackey", "--trace-mem=yes", "--log-file=/dev/null"]


def compile_program(source: Path, program: Path, flags: list[str]) -> str:
    """Compile it as usual, or with those flags beside."""
    if source.suffix == ".c":
        command = ["gcc", "-O2", "-fno-tree-loop-distribute-patterns", "-fno-tree-vectorize"]
    else:
        command = ["g++", "-std=c++20", "-O3", "-fopenmp-simd", f"-I{ROOT / 'hooks'}"]
    subprocess.run([*command, *flags, source, "-o", program], check=True)
    return str(program)


def compile_flags() -> list[str]:
    """Return the flags for a program that traces itself."""
    command = [sys.executable, "-m", "pagelens", "compile-flags"]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()


def tools(plain: list[str], compiled: list[str]) -> dict[str, list[str]]:
    """Return the commands of the tools that are here."""
    found = {"bare QEMU": [str(find_emulator().qemu), *plain]}
    if has_dynamorio():
        settings = [f"DYNAMORIO_EXE_PATH={plain[0]}", "DYNAMORIO_OPTIONS=-no_follow_children"]
        library = str(find_dynamorio().library)
        found["DynamoRIO without a client"] = ["env", *settings, library, *plain[1:]]
    if shutil.which("valgrind"):
        found |= {name: ["valgrind", "-q", *options, *plain] for name, options in VALGRIND.items()}
    return found | {"compiled for it, not traced": compiled}


def measure(command: list[str] | TraceRequest, runs: int = 1) -> tuple[float, float]:
    """Least processor seconds, and least seconds by the clock."""

    def work() -> None:
        if isinstance(command, TraceRequest):
            trace_program(command)
        else:
            nowhere = subprocess.DEVNULL
            subprocess.run(command, stdout=nowhere, stderr=nowhere, check=False)  # the copy ends with 7

    made = [cost(work) for _ in range(runs)]
    return min(c[0] for c in made), min(c[1] for c in made)


def show(title: str, costs: Costs) -> None:
    """Print what each tool costs beside the program alone."""
    alone, alone_clock = costs["alone"]
    for tool, (processor, clock) in costs.items():
        if tool != "alone":
            note = f"{processor:.2f} s, {clock:.2f} s by the clock; alone {alone:.2f} s, {alone_clock:.2f} s"
            figure(f"peers: {title}, {tool}", processor / alone, "x alone, processor time", "", note)


def main() -> None:
    """Entry point."""
    with tempfile.TemporaryDirectory() as name, open(os.devnull, "w") as nowhere:
        folder = Path(name)
        for title, (source, arguments) in SOURCES.items():
            plain, compiled = (
                [compile_program(ROOT / source, folder / kind, flags), *arguments]
                for kind, flags in (("plain", []), ("compiled", compile_flags()))
            )
            costs = {"alone": measure(plain, RUNS_ALONE)}
            costs |= {tool: measure(command) for tool, command in tools(plain, compiled).items()}
            for engine, program in (("compiled", compiled), ("qemu", plain), ("dynamorio", plain)):
                if engine != "dynamorio" or has_dynamorio():
                    output = str(folder / "peers.trace")
                    request = TraceRequest(
                        program, output, accesses=0, engine=engine, stdout=nowhere.fileno()
                    )
                    costs[f"pagelens trace, {engine}"] = measure(request)
            if "copy" in title and shutil.which("valgrind"):
                processor, clock = measure([*LACKEY, plain[0], "16", "1"])
                costs["lackey, from one pass"] = (processor * PASSES, clock * PASSES)
            show(title, costs)


if __name__ == "__main__":
    main()
