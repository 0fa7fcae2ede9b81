"""Chooses which of an explanation's remedies this user can apply on this machine, for `explain --apply`."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

from pagelens.address.units import GIGANTIC_PAGE_BYTES, HUGE_PAGE_BYTES
from pagelens.explain.model import Explanation, RemedyGain
from pagelens.frames import find_policy
from pagelens.frames.policies import Host, Job, RunOptions
from pagelens.frames.policies.remedy import NEEDS_ADMINISTRATOR
from pagelens.host.huge_page_pools import read_pool
from pagelens.host.system import System
from pagelens.host.virtual_machine import in_virtual_machine
from pagelens.machine import Machine
from pagelens.run.preload import Pages, Preload
from pagelens.run.program import start, tell

_CAP_SYS_ADMIN = 21  # linux/capability.h


@dataclass(frozen=True)
class Choice:
    """The remedy that was chosen, and a line on each one that would gain more."""

    settings: Preload | None  # None if the program runs as it is
    said: tuple[str, ...]


def run_with_best_remedy(
    program: Path, words: Sequence[str], explanation: Explanation, machine: Machine, quiet: bool
) -> NoReturn:
    """Run the program in place of this process, with the best remedy that this user can have here.

    Unless `quiet`, standard error says which remedy that is, and why better ones are out of reach.
    """
    choice = choose_remedy(
        explanation.remedies, Job(explanation.program.footprint_bytes, machine), read_host()
    )
    if not quiet:
        for line in choice.said:
            tell(f"{program.name} {line}" if line.startswith("runs") else line)
    start(program, words, choice.settings or Preload())


def read_host(root: Path = Path("/")) -> Host:
    """Read what this user has on this machine, from /proc and /sys below `root`."""
    system = System(root)
    enabled = system.text("/sys/kernel/mm/transparent_hugepage/enabled")
    rights = re.search(r"^CapEff:\s*([0-9a-f]+)$", system.text("/proc/self/status"), re.MULTILINE)
    return Host(
        free_pool_bytes={size: _free_bytes(system, size) for size in (HUGE_PAGE_BYTES, GIGANTIC_PAGE_BYTES)},
        transparent_huge_pages=bool(enabled) and "[never]" not in enabled,
        sees_frames=rights is not None and bool(int(rights[1], 16) >> _CAP_SYS_ADMIN & 1),
        virtual_machine=in_virtual_machine(root),
    )


def choose_remedy(remedies: Sequence[RemedyGain], job: Job, host: Host) -> Choice:
    """Choose the first remedy that gains at least 2% and that this user can have.

    `remedies` are ranked, the largest gain first.
    """
    said = []
    for remedy in remedies:
        if remedy.verdict != "gains":
            continue
        gain = f"'{remedy.policy}' ({remedy.gain_median:.2f}x)"
        options = _run_options(remedy.policy, job, host)
        if isinstance(options, RunOptions):
            settings = preload_settings(options)
            words = " ".join(option_words(settings))
            said.append(f"runs with {gain}, as `pagelens run {words}` does")
            return Choice(settings, tuple(said))
        said.append(f"not {gain}: {options}")
    said.append("runs as it is: no remedy that gains 2% can be had here")
    return Choice(None, tuple(said))


def preload_settings(options: RunOptions) -> Preload:
    """Return what the preload library is told for these options."""
    return Preload(
        pages=Pages(options.pages) if options.pages else None,
        period=options.period_bytes,
        cache=options.cache_bytes,
    )


def option_words(settings: Preload) -> list[str]:
    """Return the options of `pagelens run` that ask for these settings."""
    words = ["--pages", settings.pages.value] if settings.pages else []
    if settings.period:
        words += ["--stagger", "--period", f"{settings.period}B"]
    if settings.cache:
        words += ["--frames", "best", "--cache", f"{settings.cache}B"]
    return words


def _run_options(policy: str, job: Job, host: Host) -> RunOptions | str:
    remedy = find_policy(policy).remedy
    return remedy.run_options(job, host) if remedy is not None else NEEDS_ADMINISTRATOR


def _free_bytes(system: System, page_bytes: int) -> int:
    """Return the bytes on free pages of a pool that no mapping has reserved."""
    pool = read_pool(system, page_bytes)
    return max(0, (pool.free or 0) - (pool.reserved or 0)) * page_bytes
