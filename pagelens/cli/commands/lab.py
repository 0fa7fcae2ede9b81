"""`pagelens lab`: Run programs on real kernels, in guests whose memory has a history."""

from __future__ import annotations

import dataclasses
import json
import os
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from pagelens.cli.options import RARE, Json, Quiet, Seed
from pagelens.cli.text.lab import compared_row, render_run, step_lines
from pagelens.errors import Failure, Interrupted, UsageError
from pagelens.files import write_whole
from pagelens.lab import (
    DEFAULT_HISTORIES,
    DEFAULT_KERNEL,
    LIMIT_S,
    PAGES,
    QUICK_RATIOS,
    RATIOS,
    VARIANTS,
    Compared,
    Comparison,
    NumaSpeed,
    PlanOnNodes,
    Request,
    Result,
    Row,
    StepDone,
    Validation,
    command_line,
    compare_states,
    failures,
    find_kernel,
    markdown,
    place_on,
    progress_line,
    render_comparison,
    run_history,
    validate_model,
    write_in_guest,
)
from pagelens.machine import load_machine
from pagelens.place import read_plan
from pagelens.spelling import nearest
from pagelens.units import parse_rate, parse_size, parse_time

EXAMPLES = """Examples:

  pagelens lab run --memory 4GiB --cache 512MiB --history "age(jobs=3); zonesort; run" -- ./app

  pagelens lab compare -- ./app args

  pagelens lab validate
"""

app = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    epilog=EXAMPLES,
    help="Run programs on real kernels, in guests whose memory has a history.",
)

_MACHINE = "cori-knl-cache"
_VARIANTS = {variant.key: variant for variant in VARIANTS}

Memory = Annotated[str, typer.Option(metavar="SIZE", help="How much memory the guest has, as 4GiB.")]
Cache = Annotated[
    str, typer.Option(metavar="SIZE", help="The size of the memory-side cache over all nodes; 0B is none.")
]
KernelName = Annotated[
    str,
    typer.Option(
        "--kernel",
        metavar="NAME",
        help="The kernel: Debian's 6.1 or 6.12, which are fetched once, or a bzImage file.",
    ),
]
MachineName = Annotated[
    str,
    typer.Option(
        "--machine", metavar="NAME", help="The machine whose private caches and bandwidths are used."
    ),
]
Limit = Annotated[
    float,
    typer.Option(
        min=1,
        metavar="SECONDS",
        help="Stop a run that has taken this much processor time.",
        rich_help_panel=RARE,
    ),
]


@app.command(
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
    machine: MachineName = _MACHINE,
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


@app.command("validate", epilog="  pagelens lab validate --kernel 6.1 --history 'age(jobs=2); compact'")
def validate_command(
    memory: Memory = "2GiB",
    cache: Cache = "256MiB",
    size: Annotated[
        str, typer.Option(metavar="SIZE", help="The memory of the program that runs after each step.")
    ] = "102MiB",
    history: Annotated[
        list[str] | None,
        typer.Option(
            metavar="STEPS", help="Check this history instead of the default ones; can be repeated."
        ),
    ] = None,
    hole: Annotated[
        str,
        typer.Option(
            metavar="SIZE",
            help="How much of the middle of the memory is left out, as firmware does for devices.",
        ),
    ] = "0B",
    kernel: KernelName = DEFAULT_KERNEL,
    machine: MachineName = _MACHINE,
    seed: Seed = 1,
    as_json: Json = False,
) -> None:
    """Run the same histories in a guest and in the model of the allocator, and compare them step by step."""
    setup = Validation(
        load_machine(machine),
        find_kernel(kernel),
        parse_size(memory, "--memory"),
        parse_size(cache, "--cache"),
        parse_size(size, "--size"),
        history or DEFAULT_HISTORIES,
        seed,
        parse_size(hole, "--hole"),
    )

    def report(row: Compared) -> None:
        if not as_json:
            print(compared_row(row), flush=True)

    try:
        rows = validate_model(setup, report)
    except KeyboardInterrupt:
        raise Interrupted("lab: interrupted; the guest is gone") from None
    if as_json:
        print(json.dumps([_row(row) for row in rows], indent=2))
    if found := failures(rows):
        raise Failure(f"lab validate: {'; '.join(found)}")


@app.command("io", epilog="  pagelens lab io --disk 400MB/s")
def io_command(
    disk: Annotated[
        str, typer.Option(metavar="RATE", help="The rate of the guest's disk, such as 400MB/s.")
    ] = "400MB/s",
    size: Annotated[
        str, typer.Option(metavar="SIZE", help="The size of the file that is written.")
    ] = "256MiB",
    kernel: KernelName = DEFAULT_KERNEL,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Show what a slow core does to I/O: writes and small files of an emulated guest.

    The guest has one processor, which QEMU emulates, and a disk of the given rate.
    A model takes the times of two sizes of requests or files, and predicts the others.
    """
    from pagelens.cli.text.lab_io import render_written
    from pagelens.progress import progress_bar

    file_bytes, rate = parse_size(size, "--size"), parse_rate(disk, "--disk")
    with progress_bar(quiet, "files") as bar:
        written = write_in_guest(file_bytes, rate, kernel, bar)
    if as_json:
        rows = [dataclasses.asdict(each) for each in written]
        typer.echo(json.dumps({"schema": "pagelens lab io", "version": 1, "written": rows}, indent=1))
    elif not quiet:
        typer.echo("\n".join(render_written(written, rate)))


@app.command(
    "compare",
    context_settings={"allow_interspersed_args": False},
    epilog="  pagelens lab compare --output compare.md -- ./app args",
)
def compare_command(
    command: Annotated[
        list[str], typer.Argument(metavar="-- PROGRAM [ARGUMENT]...", help="The program to run.")
    ],
    memory: Memory = "2GiB",
    ratio: Annotated[
        list[float] | None,
        typer.Option(
            min=0.05,
            max=4.0,
            metavar="R",
            help="Ratio of footprint to cache; can be repeated. By default 0.25, 0.5, 1 and 1.1.",
        ),
    ] = None,
    variant: Annotated[
        list[str] | None,
        typer.Option(
            metavar="V", help=f"Compare only this variant of {', '.join(_VARIANTS)}; can be repeated."
        ),
    ] = None,
    quick: Annotated[bool, typer.Option("--quick", help="Compare at one ratio only, 1.")] = False,
    jobs: Annotated[int, typer.Option(min=1, max=100, metavar="N", help="How many jobs age a node.")] = 3,
    kernel: KernelName = DEFAULT_KERNEL,
    machine: MachineName = _MACHINE,
    seed: Seed = 1,
    limit: Limit = LIMIT_S,
    output: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Also write the tables to this file, as Markdown.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Compare a real kernel with the model: states of a node, and ways to place a program's pages.

    The states are fresh, aged, after dropping caches and compaction, sorted by
    Intel's rule, and sorted by zonesort. The ways are 4 KiB pages, 0.1% of memory
    held by scattered pages, page_alloc.shuffle=1, and pages of 2 MiB and 1 GiB.
    Each runs at several sizes of the cache, in a guest of its own. As many guests
    run at once as there are processors.
    """
    if quick and ratio:
        raise UsageError("--quick: is --ratio 1; give one of the two")
    for key in variant or ():
        if key not in _VARIANTS:
            raise UsageError(f"--variant: {key!r} is unknown; did you mean {nearest(key, _VARIANTS)}?")
    if output is not None:
        _require_writable(output)
    request = Request(
        command=command,
        machine=load_machine(machine),
        memory_bytes=parse_size(memory, "--memory"),
        cache_bytes=0,
        kernel=kernel,
        seed=seed,
        limit_s=limit,
    )
    ratios = QUICK_RATIOS if quick else tuple(dict.fromkeys(ratio or RATIOS))

    def report(row: Row) -> None:
        print(progress_line(row), file=sys.stderr, flush=True)

    try:
        comparison = compare_states(
            request, ratios, jobs, report, [_VARIANTS[key] for key in dict.fromkeys(variant or _VARIANTS)]
        )
    except KeyboardInterrupt:
        raise Interrupted("lab: interrupted; the guests are gone") from None
    if as_json:
        print(json.dumps(_comparison(comparison), indent=2), flush=True)
    else:
        print(render_comparison(comparison), end="", flush=True)
    if output is not None:
        page = markdown(comparison)
        write_whole(output, lambda path: path.write_text(page))


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


def _require_writable(output: Path) -> None:
    """Raise UsageError now if the output cannot be written, and not after the guests have run."""
    folder = output.absolute().parent
    if output.is_dir():
        raise UsageError(f"--output {output}: it is a directory; name a file")
    if not folder.is_dir() or not os.access(folder, os.W_OK):
        raise UsageError(f"--output {output}: {folder} is no directory that can be written; name another")


def _comparison(comparison: Comparison) -> dict[str, Any]:
    request = comparison.request
    return {
        "kernel": comparison.release,
        "machine": request.machine.name,
        "command": list(request.command),
        "memory_bytes": request.memory_bytes,
        "footprint_bytes": comparison.footprint_bytes,
        "seed": request.seed,
        "jobs": comparison.jobs,
        "command_line": command_line(comparison),
        "rows": [
            {
                "variant": row.variant.name,
                "footprint_over_cache": row.ratio,
                "cache_bytes": row.cache_bytes,
                "state": row.state,
                "kernel_conflict_share": row.kernel_share,
                "model_conflict_share": row.model_share,
                "run": dataclasses.asdict(row.run),
            }
            for row in comparison.rows
        ],
    }


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


def _row(row: Compared) -> dict[str, Any]:
    return {
        key: value.tolist() if hasattr(value, "tolist") else value
        for key, value in dataclasses.asdict(row).items()
    }
