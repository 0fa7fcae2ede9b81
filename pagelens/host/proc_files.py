"""Files of /proc that are lists of names and numbers, and what random frames do to a direct-mapped cache."""

import re

from pagelens.host.system import System


def counters(system: System, path: str) -> dict[str, int]:
    """Of lines "name number", as /proc/vmstat has them."""
    found = re.findall(r"^(\w{1,64}) ([0-9]{1,18})$", system.text(path), re.MULTILINE)
    return {name: int(number) for name, number in found}


def sizes(system: System, path: str = "/proc/meminfo") -> dict[str, int]:
    """Bytes by name, of lines "Name:   number kB", as /proc/meminfo and a node's meminfo have them."""
    lines = re.findall(r"^(?:Node \d+ )?([\w()]{1,64}):\s+([0-9]{1,15}) kB$", system.text(path), re.MULTILINE)
    return {name: int(number) << 10 for name, number in lines}


def chosen(text: str) -> str | None:
    """The setting in brackets of "always [madvise] never"."""
    match = re.search(r"\[([\w+]{1,32})\]", text)
    return match[1] if match else None


def random_conflict_share(job: float, cache: float, memory: float) -> float:
    """Expected share of a job's pages that share a slot with another, on independent random frames.

    A page's slot is that of memory / cache frames, and each of the other ones is the job's with probability
    job / memory: 1 - (1 - job/memory)^(memory/cache - 1).
    """
    others = memory / cache - 1
    return 0.0 if others <= 0 else float(1 - max(0.0, 1 - job / memory) ** others)
