"""Reads files of /proc that are lists of names and numbers."""

import re

from pagelens.host.system import System


def counters(system: System, path: str) -> dict[str, int]:
    """Return the numbers of lines "name number", as in /proc/vmstat, by name."""
    found = re.findall(r"^(\w{1,64}) ([0-9]{1,18})$", system.text(path), re.MULTILINE)
    return {name: int(number) for name, number in found}


def sizes(system: System, path: str = "/proc/meminfo") -> dict[str, int]:
    """Return the bytes of lines "Name:   number kB" by name, as in /proc/meminfo or a NUMA node's meminfo."""
    lines = re.findall(r"^(?:Node \d+ )?([\w()]{1,64}):\s+([0-9]{1,15}) kB$", system.text(path), re.MULTILINE)
    return {name: int(number) << 10 for name, number in lines}


def chosen(text: str) -> str | None:
    """Return the setting in brackets: "madvise" for "always [madvise] never"."""
    match = re.search(r"\[([\w+]{1,32})\]", text)
    return match[1] if match else None
