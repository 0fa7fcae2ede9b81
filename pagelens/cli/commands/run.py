"""`pagelens run`: Run a program on huge pages, spread, or on frames that do not conflict."""

import os
from enum import StrEnum
from pathlib import Path
from typing import Annotated

from typer import Argument, Option, Typer

from pagelens.accesses.program import locate
from pagelens.errors import UsageError
from pagelens.run.preload import (
    HUGE_BYTES,
    LARGE,
    LEAST_LARGE,
    LEAST_PERIOD,
    MOST_CACHE,
    MOST_PERIOD,
    SMALL_BYTES,
    Pages,
    Preload,
)
from pagelens.run.program import start
from pagelens.units import format_binary_size, parse_size

EXAMPLES = """Examples:

  pagelens run --pages 2m --report -- ./app args

  pagelens run --pages thp --stagger -- ./app args

  mpirun -n 4 pagelens run --pages 2m --output run.%r.json --json -- ./app args

  sudo pagelens run --pages 2m --frames best --cache 16GiB --report -- ./app args

  pagelens run --plan plan.toml --pages thp --report -- ./app args
"""

app = Typer(add_completion=False)


class Frames(StrEnum):
    """Which frames large blocks are to have."""

    BEST = "best"


@app.command(context_settings={"allow_interspersed_args": False}, epilog=EXAMPLES)
def run(
    command: Annotated[list[str], Argument(metavar="-- PROGRAM [ARGUMENT]...", help="What to run.")],
    pages: Annotated[
        Pages | None,
        Option(
            help="Large blocks on pages of 2 MiB or 1 GiB of the kernel's pool, or on transparent huge "
            "pages; what is not to be had falls to the next kind."
        ),
    ] = None,
    stagger: Annotated[
        bool, Option("--stagger", help="Spread large blocks over the period of the machine's conflicts.")
    ] = False,
    frames: Annotated[
        Frames | None,
        Option(help="Exchange frames that conflict in a direct-mapped memory-side cache; needs root."),
    ] = None,
    machine: Annotated[
        str | None,
        Option(
            metavar="NAME",
            help="Whose period or cache: one of `pagelens machines` or a .toml file; else this one.",
        ),
    ] = None,
    period: Annotated[
        str | None, Option(metavar="SIZE", help="Of --stagger, instead of the machine's: a power of two.")
    ] = None,
    cache: Annotated[
        str | None, Option(metavar="SIZE", help="Of --frames, instead of the machine's, as 16GiB.")
    ] = None,
    plan: Annotated[
        Path | None,
        Option(metavar="FILE", help="Put objects in fast memory as `pagelens place` has planned it."),
    ] = None,
    fast_node: Annotated[
        int | None,
        Option(
            metavar="N", min=0, help="Of --plan: the NUMA node that is fast, where the kernel does not say."
        ),
    ] = None,
    slow_node: Annotated[
        int | None,
        Option(metavar="N", min=0, help="Of --plan: the node for all that is not planned; else as it comes."),
    ] = None,
    large: Annotated[
        str, Option(metavar="SIZE", help="From this size on a block is large.")
    ] = format_binary_size(LARGE).replace(" ", ""),
    report: Annotated[
        bool, Option("--report", help="Say on stderr at the end what was done and what came of it.")
    ] = False,
    output: Annotated[
        str,
        Option("--output", "-o", metavar="FILE", help="Report there; %r is the MPI rank, %p the process id."),
    ] = "",
    json: Annotated[bool, Option("--json", help="Report as JSON (docs/run.md).")] = False,
) -> None:
    """Run a program on huge pages, spread, or on frames that do not conflict.

    Or with its objects in two-level memory, as planned. Its output, exit status and signals are its own.

    What cannot be had is said in one line, and the program runs without it.
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
    _check_output(output)
    large_bytes = _size("--large", large, LEAST_LARGE, MOST_CACHE)
    period_bytes = None if period is None else _period(period)
    cache_bytes = None if cache is None else _cache(cache)
    path = locate(command[0])
    guest = False
    if (stagger and period_bytes is None) or frames is not None:
        from pagelens.run import derived  # machines take a second to import: only who needs one waits

        if stagger and period_bytes is None:
            period_bytes = derived.machine_period(machine, pages.bytes if pages else SMALL_BYTES)
        if frames is not None:
            guest = derived.in_virtual_machine()
            cache_bytes = derived.machine_cache(machine) if cache_bytes is None else cache_bytes
    handed = None
    if plan is not None:
        from pagelens.run.planned import hand_over  # likewise

        handed = hand_over(plan, path, fast_node, slow_node)
    settings = Preload(
        pages=pages,
        large=large_bytes,
        period=period_bytes or 0,
        cache=cache_bytes or 0,
        guest=guest,
        report=report or json or bool(output),
        json=json,
        output=output,
        plan=handed,
    )
    start(path, command, settings)


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
