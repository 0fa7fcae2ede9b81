"""`pagelens run`: Run a program with its large blocks on better pages."""

import os
from enum import StrEnum
from pathlib import Path
from typing import Annotated

from typer import Argument, Option, Typer

from pagelens.errors import UsageError
from pagelens.host import expand_rank
from pagelens.run import (
    HUGE_BYTES,
    LARGE,
    LEAST_LARGE,
    LEAST_PERIOD,
    MOST_CACHE,
    MOST_PERIOD,
    Pages,
    Request,
    run_program,
)
from pagelens.units import format_binary_size, parse_size

EXAMPLES = """Examples:

  pagelens run --pages 2m --report -- ./app args

  mpirun -n 4 pagelens run --pages 2m --json -o run.%r.json -- ./app args

  sudo pagelens run --pages 2m --frames best -- ./app args

  pagelens run --plan plan.toml --report -- ./app args
"""
RARE = "Rarely needed"

app = Typer(add_completion=False)


class Frames(StrEnum):
    """Which frames large blocks get."""

    BEST = "best"


@app.command(context_settings={"allow_interspersed_args": False}, epilog=EXAMPLES)
def run(
    command: Annotated[list[str], Argument(metavar="-- PROGRAM [ARGUMENT]...", help="The program to run.")],
    pages: Annotated[
        Pages | None,
        Option(help="Put large blocks on pages of 2 MiB or 1 GiB, or on transparent ones."),
    ] = None,
    stagger: Annotated[
        bool, Option("--stagger", help="Shift large blocks so that they do not conflict (docs/run.md).")
    ] = False,
    frames: Annotated[
        Frames | None,
        Option(help="Exchange frames that conflict in a memory-side cache (root)."),
    ] = None,
    plan: Annotated[
        Path | None,
        Option(
            metavar="FILE", help="Put objects in fast memory as `pagelens place` planned; %r is the MPI rank."
        ),
    ] = None,
    report: Annotated[bool, Option("--report", help="Report on stderr what was done.")] = False,
    output: Annotated[
        str,
        Option("--output", "-o", metavar="FILE", help="Report to FILE; %r is the MPI rank, %p the process."),
    ] = "",
    json: Annotated[bool, Option("--json", help="Report as JSON (docs/run.md).")] = False,
    large: Annotated[
        str, Option(metavar="SIZE", help="Treat blocks of this size and more as large.", rich_help_panel=RARE)
    ] = format_binary_size(LARGE).replace(" ", ""),
    machine: Annotated[
        str | None,
        Option(
            metavar="NAME",
            help="Use this machine's period (--stagger) and cache (--frames).",
            rich_help_panel=RARE,
        ),
    ] = None,
    period: Annotated[
        str | None,
        Option(
            metavar="SIZE",
            help="The distance after which addresses conflict (--stagger), such as 128KiB.",
            rich_help_panel=RARE,
        ),
    ] = None,
    cache: Annotated[
        str | None,
        Option(metavar="SIZE", help="Use this cache size with --frames, as 16GiB.", rich_help_panel=RARE),
    ] = None,
    fast_node: Annotated[
        int | None,
        Option(metavar="N", min=0, help="Name --plan's fast NUMA node.", rich_help_panel=RARE),
    ] = None,
    slow_node: Annotated[
        int | None,
        Option(metavar="N", min=0, help="Name --plan's NUMA node for all else.", rich_help_panel=RARE),
    ] = None,
) -> None:
    """Run a program with its large blocks on better pages.

    The program's output, exit status and signals stay its own. If something is
    not available here, one line on stderr says so and the program runs without it.
    """
    if pages is None and not stagger and frames is None and plan is None:
        raise UsageError("nothing to do: give --pages 2m, 1g or thp, --stagger, --frames best or --plan FILE")
    if plan is not None and frames is not None:
        raise UsageError(
            "--plan and --frames best: fast memory is a cache or memory of its own; give one of them"
        )
    for option, value, needed, given in (
        ("--period", period, "--stagger", stagger),
        ("--cache", cache, "--frames best", frames is not None),
        ("--fast-node", fast_node, "--plan", plan is not None),
        ("--slow-node", slow_node, "--plan", plan is not None),
    ):
        if value is not None and not given:
            raise UsageError(f"{option} {value}: is of {needed}, which is not given; add it or leave it out")
    if plan is not None:
        plan = Path(expand_rank(str(plan), os.environ, "--plan"))
    _check_output(output)
    request = Request(
        pages=pages,
        stagger=stagger,
        best_frames=frames is not None,
        plan=plan,
        machine=machine,
        period=None if period is None else _period(period),
        cache=None if cache is None else _cache(cache),
        fast_node=fast_node,
        slow_node=slow_node,
        large=_size("--large", large, LEAST_LARGE, MOST_CACHE),
        report=report,
        json=json,
        output=output,
    )
    run_program(command, request)


def _size(option: str, text: str, least: int, most: int) -> int:
    size = parse_size(text, option)
    if not least <= size <= most:
        raise UsageError(
            f"{option} {text}: from {format_binary_size(least)} to {format_binary_size(most)}, "
            f"as {format_binary_size(LARGE)}"
        )
    return size


def _period(text: str) -> int:
    size = _size("--period", text, LEAST_PERIOD, MOST_PERIOD)
    if size & (size - 1):
        raise UsageError(f"--period {text}: a power of two, as 128KiB")
    return size


def _cache(text: str) -> int:
    size = _size("--cache", text, HUGE_BYTES, MOST_CACHE)
    if size % HUGE_BYTES:
        raise UsageError(f"--cache {text}: a multiple of {format_binary_size(HUGE_BYTES)}, as 16GiB")
    return size


def _check_output(output: str) -> None:
    if not output:
        return
    path = Path(output).absolute()
    if path.is_dir():
        raise UsageError(f"--output {output}: it is a folder; name a file")
    if not path.parent.is_dir():
        raise UsageError(f"--output {output}: there is no folder {path.parent}; make it first")
    if not os.access(path.parent, os.W_OK):
        raise UsageError(f"--output {output}: {path.parent} is not writable; choose another folder")
