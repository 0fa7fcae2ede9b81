"""The tracer's speed and what a line costs in its file, beside the same programs under the emulator alone.

Then both engines beside the program alone, in turn: processor time of all threads, and time by the clock.
Programs that take some 0.6 s alone show what a trace costs beside its start, which is measured apart.

What is compared with the emulator alone is the CPU time of the program's own thread: the writer's thread runs
beside it, and on a busy machine the clock counts other people's work. Of several runs the least counts:
neighbours on the machine only ever add to it, at times by half.
"""

import os
import resource
import subprocess
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

from figures import ROOT, compile_copy, figure

from pagelens import _core
from pagelens.accesses.dynamorio import has_dynamorio
from pagelens.accesses.emulator import find_emulator
from pagelens.accesses.tracer import TraceRequest, trace_program

RUNS = 7
RUNS_IN_TURN = 3


def run(command: list[str]) -> tuple[float, float]:
    """CPU seconds of the thread that runs the program, and of the whole process, as last seen."""
    with subprocess.Popen(command, stdout=subprocess.DEVNULL) as process:
        main = whole = 0.0
        while process.poll() is None:
            try:
                main = seconds(Path(f"/proc/{process.pid}/task/{process.pid}/stat"))
                whole = seconds(Path(f"/proc/{process.pid}/stat"))
            except (FileNotFoundError, ProcessLookupError):
                break
            time.sleep(0.01)
    return main, whole


def seconds(stat: Path) -> float:
    """User and system time of a task, in seconds (proc(5), fields 14 and 15, in ticks of 10 ms)."""
    fields = stat.read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / 100


def compile_plain_cg(folder: Path) -> Path:
    """examples/cg.cpp for x86-64 as it is: as distributions compile, and as HPCCG's Makefile does."""
    program = folder / "cg"
    flags = ["-std=c++20", "-O3", "-fopenmp-simd", f"-I{ROOT / 'hooks'}"]
    subprocess.run(["g++", *flags, ROOT / "examples/cg.cpp", "-o", program], check=True)
    return program


def cost(work: Callable[[], object]) -> tuple[float, float]:
    """Processor seconds of the processes that `work` waits for, and seconds by the clock."""
    before, begin = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    work()
    after, end = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, end - begin


Costs = dict[str, tuple[float, float]]


def costs_in_turn(program: list[str], engines: tuple[str, ...], folder: Path) -> Costs:
    """Least processor seconds and least seconds by the clock, alone and of whole traces by each engine."""
    costs: dict[str, list[tuple[float, float]]] = {"alone": [], **{engine: [] for engine in engines}}
    with open(os.devnull, "w") as nowhere:

        def run_by(engine: str) -> None:
            if engine == "alone":
                subprocess.run(program, stdout=nowhere, check=False)  # tests/programs/copy.c ends with 7
            else:
                output = str(folder / "engine.trace")
                trace_program(
                    TraceRequest(program, output, accesses=0, engine=engine, stdout=nowhere.fileno())
                )

        for _ in range(RUNS_IN_TURN):
            for engine, made in costs.items():
                made.append(cost(partial(run_by, engine)))
    return {engine: (min(c[0] for c in made), min(c[1] for c in made)) for engine, made in costs.items()}


def compare_engines(title: str, costs: Costs, most_by_clock: str = "") -> None:
    """Prints what the engines cost beside the program alone. `most_by_clock` is the goal."""
    processor_alone, clock_alone = costs["alone"]
    alone = f"alone {processor_alone:.2f} s, {clock_alone:.2f} s by the clock"
    for engine, (processor, clock) in costs.items():
        if engine == "alone":
            continue
        note = f"{processor:.2f} s, {clock:.2f} s by the clock; {alone}"
        name = f"tracer: {title}, {engine}"
        figure(name, processor / processor_alone, "x alone, processor time", "", note)
        figure(f"{name}, by the clock", clock / clock_alone, "x alone, by the clock", most_by_clock, note)


def compare_long_programs(copy: str, folder: Path) -> None:
    """DynamoRIO beside programs of some 0.6 s, and what its start costs."""
    examples = ROOT / "build" / "examples"
    processor, clock = costs_in_turn(["/bin/true"], ("dynamorio",), folder)["dynamorio"]
    figure("tracer: start, dynamorio", clock, "s by the clock", "", f"{processor:.2f} s of processor time")
    for title, program, most in (
        ("long copy of 16 MiB", [copy, "16", "400"], "<= 5"),
        ("long CG", [str(examples / "cg"), "64"], "<= 10"),
        ("long finite elements", [str(examples / "fe"), "40"], "<= 10"),
    ):
        compare_engines(title, costs_in_turn(program, ("dynamorio",), folder), most)


def main() -> None:
    """Entry point."""
    emulator = find_emulator()
    examples = ROOT / "build" / "examples"
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        programs = {
            "copy of 16 MiB": [str(compile_copy(folder)), "16", "60"],
            "CG": [str(examples / "cg"), "40"],
            "CG without FMA": [str(compile_plain_cg(folder)), "40"],
            "finite elements": [str(examples / "fe"), "24"],
            "hydro": [str(examples / "hydro"), "30", "20"],
        }
        for title, program in programs.items():
            trace = folder / "bench.trace"
            options = f"file={emulator.plugin},plugin={emulator.plugin},output={trace}"
            options += f",wide_reads={int(emulator.wide_reads)}"
            traced = ["env", f"LD_PRELOAD={emulator.plugin}", str(emulator.qemu), "-plugin", options,
                      "-E", f"LD_PRELOAD={emulator.hooks}", *program]  # fmt: skip
            bare, with_tracer, cpu = [], [], []
            for _ in range(RUNS):
                bare.append(run([str(emulator.qemu), *program])[0])
                own, whole = run(traced)
                with_tracer.append(own)
                cpu.append(whole)
            opened = _core.Trace(str(trace))
            summary, survey = opened.summary, opened.survey(0)
            own = min(with_tracer)
            accesses = summary.accesses / own / 1e6
            writer = min(cpu) - own
            note = f"{summary.accesses / 1e6:.0f} M; writer's thread {writer:.2f} s, program's {own:.2f} s"
            figure(f"tracer: {title}", accesses, "M accesses/s", ">= 250" if "copy" in title else "", note)
            ratio = own / min(bare)
            figure(f"tracer: {title}, time", ratio, "x emulator alone", "" if "copy" in title else "<= 1.7")
            size = trace.stat().st_size / max(survey.line_events, 1)
            figure(f"tracer: {title}, file", size, "bytes a line", "<= 0.4")
            if has_dynamorio():
                costs = costs_in_turn(program, ("qemu", "dynamorio"), folder)
                compare_engines(title, costs, "<= 8" if title == "hydro" else "")
        if has_dynamorio():
            compare_long_programs(programs["copy of 16 MiB"][0], folder)


if __name__ == "__main__":
    main()
