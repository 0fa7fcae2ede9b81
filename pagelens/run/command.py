"""Works out what `pagelens run` tells the preload library, and becomes the program."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

from pagelens.accesses.program import locate
from pagelens.run.preload import LARGE, SMALL_BYTES, Pages, Preload
from pagelens.run.program import start, tell
from pagelens.run.thread_binding import binding_note


@dataclass(frozen=True)
class Request:
    """What the user requests. Sizes are in bytes."""

    pages: Pages | None = None
    stagger: bool = False
    best_frames: bool = False
    plan: Path | None = None
    machine: str | None = None  # the machine whose period and cache count; None: this one
    period: int | None = None  # None takes the machine's
    cache: int | None = None  # None takes the machine's
    fast_node: int | None = None  # NUMA node; None: as the kernel says
    slow_node: int | None = None
    large: int = LARGE
    report: bool = False
    json: bool = False
    output: str = ""


def run_program(words: Sequence[str], request: Request) -> NoReturn:
    """Become the program `words`, with the preload library if there is anything for it to do.

    Raises UsageError if the program, the machine or the plan does not exist, and Failure if the kernel
    refuses to start the program.
    """
    program = locate(words[0])
    start(program, words, _settings(program, request))


def _settings(program: Path, request: Request) -> Preload:
    plan, threads = _planned(program, request)
    return Preload(
        pages=request.pages,
        large=request.large,
        period=_period(request),
        cache=_cache(request),
        guest=request.best_frames and _in_virtual_machine(),
        report=request.report or request.json or bool(request.output),
        json=request.json,
        output=request.output,
        plan=plan,
        threads=threads,
    )


# The imports below take up to a second. Only a program that needs them waits for them.


def _period(request: Request) -> int:
    if not request.stagger:
        return 0
    if request.period is not None:
        return request.period
    from pagelens.run.machine_defaults import machine_period

    return machine_period(request.machine, request.pages.bytes if request.pages else SMALL_BYTES)


def _cache(request: Request) -> int:
    if not request.best_frames:
        return 0
    if request.cache is not None:
        return request.cache
    from pagelens.run.machine_defaults import machine_cache

    return machine_cache(request.machine)


def _in_virtual_machine() -> bool:
    from pagelens.host.virtual_machine import in_virtual_machine

    return in_virtual_machine()


def _planned(program: Path, request: Request) -> tuple[Path | None, str | None]:
    """Return the file of the plan's objects, and how it binds threads."""
    if request.plan is None:
        return None, None
    from pagelens.place.plan import read_plan
    from pagelens.run.plan_handover import objects_file

    plan = read_plan(request.plan)
    if plan.threads is not None:
        tell(f"--plan: {binding_note(plan.threads, os.environ)}")
        if not plan.objects:
            return None, plan.threads
    return objects_file(plan, request.plan, program, request.fast_node, request.slow_node), plan.threads
