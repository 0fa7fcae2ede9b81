"""`pagelens lab compare`: Compare a real kernel with the model."""

from __future__ import annotations

import dataclasses
import json
import os
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from pagelens.cli.commands.lab.options import DEFAULT_MACHINE, KernelName, Limit, MachineName, Memory
from pagelens.cli.options import Json, Seed
from pagelens.errors import Interrupted, UsageError
from pagelens.files import write_whole
from pagelens.lab import (
    DEFAULT_KERNEL,
    LIMIT_S,
    QUICK_RATIOS,
    RATIOS,
    VARIANTS,
    Comparison,
    Request,
    Row,
    command_line,
    compare_states,
    markdown,
    progress_line,
    render_comparison,
)
from pagelens.machine import load_machine
from pagelens.spelling import nearest
from pagelens.units import parse_size

commands = typer.Typer()

_VARIANTS = {variant.key: variant for variant in VARIANTS}


@commands.command(
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
    machine: MachineName = DEFAULT_MACHINE,
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
