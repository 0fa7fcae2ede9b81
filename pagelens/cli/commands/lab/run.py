"""`pagelens lab run`: Run a program in a guest with a history."""

from __future__ import annotations

import dataclasses
import json
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from pagelens.cli.commands.lab.options import (
    DEFAULT_MACHINE,
    Cache,
    KernelName,
    Limit,
    MachineName,
    Memory,
)
from pagelens.cli.options import RARE, Json, Seed
from pagelens.cli.text.lab import render_run, step_lines
from pagelens.errors import Interrupted, UsageError
from pagelens.lab import (
    DEFAULT_KERNEL,
    LIMIT_S,
    PAGES,
    NumaSpeed,
    PlanOnNodes,
    Request,
    Result,
    StepDone,
    place_on,
    run_history,
)
from pagelens.machine import load_machine
from pagelens.place import read_plan
from pagelens.units import parse_rate, parse_size, parse_time

commands = typer.Typer()


@commands.command(
    "run",
    context_settings={"allow_interspersed_args": False},
    epilog='  pagelens lab run --history "age(jobs=3); run; zonesort; run" -- ./app',
)
def run_command(
    command: Annotated[
        list[str], typer.Argument(metavar="-- PROGRAM [ARGUMENT]...", help="The program to run.")
    ],
    memory: Memory = "2GiB",
    cache: Cache = "256MiB",
    history: Annotated[
        str,
        typer.Option(
            metavar="STEPS", help="What happens in the guest; `run` runs the program (docs/frames.md)."
        ),
    ] = "run",
    kernel: KernelName = DEFAULT_KERNEL,
    machine: MachineName = DEFAULT_MACHINE,
    ways: Annotated[
        int,
        typer.Option(
            min=1, max=16, metavar="N", help="The ways of the memory-side cache.", rich_help_panel=RARE
        ),
    ] = 1,
    numa: Annotated[
        str,
        typer.Option(
            metavar="NODES",
            help="How many NUMA nodes, or the speed that the firmware states of each, as "
            "400GB/s:100ns,80GB/s:150ns.",
        ),
    ] = "1",
    cpus: Annotated[
        int, typer.Option(min=1, max=16, metavar="N", help="How many processors, at least one for each node.")
    ] = 1,
    pages: Annotated[
        str, typer.Option(metavar="SIZE", help=f"The page size of the program: {', '.join(PAGES)}.")
    ] = "4KiB",
    pool: Annotated[
        str,
        typer.Option(
            metavar="SIZE",
            help="How much memory is set aside at boot for pages of 2MiB or 1GiB; half of memory for 1GiB.",
            rich_help_panel=RARE,
        ),
    ] = "0B",
    file: Annotated[
        list[Path] | None,
        typer.Option(
            metavar="FILE",
            help="Copy this file to /app, beside the program; can be repeated.",
            rich_help_panel=RARE,
        ),
    ] = None,
    plan: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Put the program's objects on the nodes that this plan of `pagelens place` names.",
            rich_help_panel=RARE,
        ),
    ] = None,
    fast_node: Annotated[
        int | None,
        typer.Option(
            min=0,
            metavar="N",
            help="The node that is fast memory for --plan; by default the fastest of --numa.",
            rich_help_panel=RARE,
        ),
    ] = None,
    slow_node: Annotated[
        int | None,
        typer.Option(
            min=0,
            metavar="N",
            help="The node that is slow memory for --plan; by default all others.",
            rich_help_panel=RARE,
        ),
    ] = None,
    seed: Seed = 1,
    limit: Limit = LIMIT_S,
    as_json: Json = False,
) -> None:
    """Run a program in a guest with a history, and count what each of its runs meets.

    For each run it shows the conflict share, the hits and write-backs of the
    memory-side cache, the modelled time, and the kernel's buddyinfo.
    """
    if pages not in PAGES:
        raise UsageError(f"--pages {pages}: one of {', '.join(PAGES)}")
    nodes, speeds = _nodes(numa)
    request = Request(
        command=command,
        machine=load_machine(machine),
        memory_bytes=parse_size(memory, "--memory"),
        cache_bytes=parse_size(cache, "--cache"),
        history=history,
        kernel=kernel,
        ways=ways,
        nodes=nodes,
        speeds=speeds,
        cpus=cpus,
        pages=pages,
        pool_bytes=parse_size(pool, "--pool"),
        files=file or (),
        placement=_placement(plan, nodes, speeds, fast_node, slow_node),
        seed=seed,
        limit_s=limit,
    )

    def report(step: StepDone) -> None:
        if not as_json:
            for line in step_lines(step):
                print(line, flush=True)

    def output(data: bytes) -> None:
        sys.stderr.buffer.write(data)
        sys.stderr.flush()

    try:
        result = run_history(request, report, output)
    except KeyboardInterrupt:
        raise Interrupted("lab: interrupted; the guest is gone") from None
    if as_json:
        print(json.dumps(_as_json(result), indent=2))
    else:
        print(render_run(result), end="")
    runs = [step.run for step in result.steps if step.run]
    raise typer.Exit(runs[-1].status if runs else 0)


def _nodes(text: str) -> tuple[int, list[NumaSpeed]]:
    """Parse "2", or "400GB/s:100ns,80GB/s:150ns"."""
    if text.isdecimal():
        if not 1 <= len(text) <= 3 or int(text) == 0:
            raise UsageError(f"--numa {text}: from 1 to 8 nodes")
        return int(text), []
    speeds = []
    for part in text.split(","):
        rate, colon, time = part.partition(":")
        if not colon:
            raise UsageError(
                f"--numa {part!r}: a number of nodes, or BANDWIDTH:LATENCY of each, with commas between"
            )
        speed = NumaSpeed(parse_rate(rate, "--numa"), parse_time(time, "--numa"))
        if not 1e6 <= speed.bandwidth <= 1e15 or not 1e-9 <= speed.latency <= 60e-6:
            raise UsageError(f"--numa {part!r}: from 1MB/s to 1000TB/s, and from 1ns to 60us")
        speeds.append(speed)
    return len(speeds), speeds


def _placement(
    plan: Path | None, nodes: int, speeds: list[NumaSpeed], fast_node: int | None, slow_node: int | None
) -> PlanOnNodes | None:
    if plan is None:
        for option, node in (("--fast-node", fast_node), ("--slow-node", slow_node)):
            if node is not None:
                raise UsageError(
                    f"{option} {node}: belongs to --plan, which is not given; add --plan or leave this out"
                )
        return None
    return place_on(read_plan(plan), speeds, nodes, fast_node, slow_node)


def _as_json(result: Result) -> dict[str, Any]:
    request = result.request
    return {
        "kernel": result.release,
        "machine": request.machine.name,
        "command": list(request.command),
        "memory_bytes": request.memory_bytes,
        "cache_bytes": request.cache_bytes,
        "nodes": request.nodes,
        "speeds": [dataclasses.asdict(speed) for speed in request.speeds],
        "pages": request.pages,
        "seed": request.seed,
        "steps": [dataclasses.asdict(step) for step in result.steps],
    }
