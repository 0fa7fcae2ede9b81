"""The best of an explanation's remedies that this user can have on this machine, for `explain --apply`."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from pagelens.explain.conclusion import MATTERS
from pagelens.explain.model import Remedy
from pagelens.host.huge_page_pools import read_pool
from pagelens.host.system import System
from pagelens.host.virtual_machine import in_virtual_machine
from pagelens.machine import Machine
from pagelens.run.derived import conflict_period, memory_side_cache
from pagelens.run.preload import SMALL_BYTES, Pages, Preload

_CAP_SYS_ADMIN = 21  # linux/capability.h


@dataclass(frozen=True)
class Here:
    """What this user has on this machine."""

    pool: dict[Pages, int]  # bytes on free pages that nobody has reserved
    transparent: bool  # huge pages, on request
    frames: bool  # are shown
    guest: bool  # of a hypervisor, whose frames decide


@dataclass(frozen=True)
class Applied:
    """What is done, and for each remedy that would gain more, why it is not; a line each."""

    settings: Preload | None  # None: nothing
    said: tuple[str, ...]


def look_around(root: Path = Path("/")) -> Here:
    """What there is, from /proc and /sys below `root`."""
    enabled = _text(root / "sys/kernel/mm/transparent_hugepage/enabled")
    rights = re.search(r"^CapEff:\s*([0-9a-f]+)$", _text(root / "proc/self/status"), re.MULTILINE)
    return Here(
        {pages: _free(root, pages.bytes) for pages in (Pages.HUGE, Pages.GIGANTIC)},
        bool(enabled) and "[never]" not in enabled,
        rights is not None and bool(int(rights[1], 16) >> _CAP_SYS_ADMIN & 1),
        in_virtual_machine(root),
    )


def choose(remedies: Sequence[Remedy], machine: Machine, footprint: int, here: Here) -> Applied:
    """The first remedy that gains 2% and can be had; `footprint` is the program's bytes."""
    said = []
    for remedy in remedies:
        if max(remedy.gain_median, remedy.gain_p95) <= MATTERS:
            continue
        found = _settings(remedy.policy, machine, footprint, here)
        gain = f"'{remedy.policy}' ({remedy.gain_median:.2f}x)"
        if isinstance(found, Preload):
            words = " ".join(option_words(found))
            said.append(f"runs with {gain}, as `pagelens run {words}` does")
            return Applied(found, tuple(said))
        said.append(f"not {gain}: {found}")
    said.append("runs as it is: no remedy that gains 2% can be had here")
    return Applied(None, tuple(said))


def option_words(settings: Preload) -> list[str]:
    """The options of `pagelens run` that ask for these settings."""
    words = ["--pages", settings.pages.value] if settings.pages else []
    if settings.period:
        words += ["--stagger", "--period", f"{settings.period}B"]
    if settings.cache:
        words += ["--frames", "best", "--cache", f"{settings.cache}B"]
    return words


def _settings(policy: str, machine: Machine, footprint: int, here: Here) -> Preload | str:
    """What asks for a policy, or why it cannot be had."""
    base, _, modifiers = policy.partition("+")
    ways: dict[str, Callable[[], Preload | str]] = {
        "2m": lambda: _huge(footprint, here),
        "1g": lambda: _gigantic(footprint, here),
        "coloured": lambda: _chosen(Preload(), machine, here),
        "johnny-static": lambda: _chosen(_huge(footprint, here), machine, here),
    }
    if base not in ways or not re.fullmatch(r"(offset-\w+)?", modifiers):
        return "it needs root, a reboot or another kernel, or is no choice of a run"
    found = ways[base]()
    if isinstance(found, Preload) and modifiers:
        period = conflict_period(machine, found.pages.bytes if found.pages else SMALL_BYTES)
        return replace(found, period=period)
    return found


def _huge(footprint: int, here: Here) -> Preload | str:
    if here.pool[Pages.HUGE] >= footprint:
        return Preload(pages=Pages.HUGE)
    if here.transparent:
        return Preload(pages=Pages.TRANSPARENT)
    return "the pool has too few free pages of 2 MiB (vm.nr_hugepages), and transparent ones are off"


def _gigantic(footprint: int, here: Here) -> Preload | str:
    if here.pool[Pages.GIGANTIC] >= footprint:
        return Preload(pages=Pages.GIGANTIC)
    return "the pool has too few free pages of 1 GiB (hugepagesz=1G hugepages= at boot)"


def _chosen(base: Preload | str, machine: Machine, here: Here) -> Preload | str:
    if isinstance(base, str):
        return base
    if not here.frames:
        return "frames are shown to root only (CAP_SYS_ADMIN)"
    if here.guest:
        return "this is a virtual machine, whose frames are not those of the memory"
    cache = memory_side_cache(machine)
    return replace(base, cache=cache) if cache else "there is no memory-side cache to choose frames for"


def _free(root: Path, page_bytes: int) -> int:
    """Return the bytes on free pages of a pool that no mapping has reserved."""
    pool = read_pool(System(root), page_bytes)
    return max(0, (pool.free or 0) - (pool.reserved or 0)) * page_bytes


def _text(path: Path) -> str:
    try:
        return path.read_text(errors="replace")
    except OSError:
        return ""
