"""Reads what a machine says of itself: files of /proc and /sys under a root, CPUID, hwloc.

Another root is a captured tree. There the answers of CPUID lie in the file `cpuid`, as `cpuid -1 -r` prints
them, and those of hwloc in `hwloc.xml`, as `lstopo --of xml` writes them. Anything can be missing or damaged.
It then reads as empty, never as an error.
"""

import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from xml.etree import ElementTree

from pagelens import _core

MOST_BYTES = 4 << 20  # of a file: /proc/cpuinfo of hundreds of processors has 1 MB
_READ_BYTES = 64 << 10  # at a time: files of /proc/sys refuse reads of megabytes
MOST_CPUS = 1 << 16
_HWLOC_SECONDS = 20
_SIZES = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30}
_LEAF = re.compile(
    r"\s*0x([0-9a-f]+) 0x([0-9a-f]+): eax=0x([0-9a-f]+) ebx=0x([0-9a-f]+) ecx=0x([0-9a-f]+) edx=0x([0-9a-f]+)"
)

Registers = tuple[int, int, int, int]  # EAX, EBX, ECX, EDX


class System:
    """The machine whose root directory is `root`."""

    def __init__(self, root: Path = Path("/")) -> None:
        self.root = root
        self.captured = root.resolve() != Path("/")

    def text(self, path: str) -> str:
        """Return a file's content without blanks at its ends; empty if it cannot be read."""
        return self.raw(path).decode("utf-8", "replace").strip()

    def raw(self, path: str) -> bytes:
        """Return a file's bytes; none if it cannot be read."""
        try:
            with open(self.root / path.lstrip("/"), "rb", buffering=0) as file:
                found = bytearray()
                while len(found) < MOST_BYTES and (part := file.read(_READ_BYTES)):
                    found += part
                return bytes(found)
        except (OSError, ValueError):
            return b""

    def bytes_at(self, path: str, offset: int, count: int) -> bytes:
        """Return some of a file's bytes. There are fewer, or none, if it cannot be read that far."""
        try:
            with open(self.root / path.lstrip("/"), "rb") as file:
                file.seek(offset)
                return file.read(count)
        except (OSError, ValueError):
            return b""

    def write(self, path: str, text: str) -> None:
        """Write into an existing file in one call, as the kernel's settings need it. Raises OSError."""
        descriptor = os.open(self.root / path.lstrip("/"), os.O_WRONLY | os.O_TRUNC | os.O_CLOEXEC)
        try:
            os.write(descriptor, text.encode())
        finally:
            os.close(descriptor)

    def names(self, path: str) -> list[str]:
        """Return the names in a folder; none if there is no folder."""
        try:
            return sorted(entry.name for entry in (self.root / path.lstrip("/")).iterdir())
        except OSError:
            return []

    def number(self, path: str) -> int | None:
        """Return the whole number that a file holds, or None."""
        text = self.text(path)
        return int(text) if re.fullmatch(r"[0-9]{1,18}", text) else None

    def size(self, path: str) -> int | None:
        """Return the bytes that a file states, as 1048576 for "1024K", or None."""
        match = re.fullmatch(r"([0-9]{1,12})([KMG]?)", self.text(path))
        return int(match[1]) * _SIZES[match[2]] if match else None

    def cpus(self, path: str) -> frozenset[int]:
        """Return the processors that a file lists, such as "0-3,8"."""
        found: set[int] = set()
        for part in self.text(path).split(","):
            match = re.fullmatch(r"([0-9]{1,6})(?:-([0-9]{1,6}))?", part.strip())
            if match:
                last = min(int(match[2] or match[1]), MOST_CPUS)
                found.update(range(int(match[1]), last + 1))
        return frozenset(found)

    def folders(self, path: str, prefix: str) -> list[str]:
        """Return the paths of the entries `prefix` + number in a folder, in order of number."""
        numbered = [
            name
            for name in self.names(path)
            if re.fullmatch(re.escape(prefix) + "[0-9]{1,6}(-[0-9]{1,6})?", name)
        ]
        return [f"{path}/{name}" for name in sorted(numbered, key=lambda name: (len(name), name))]

    def fields(self, path: str) -> dict[str, str]:
        """Return the first "name : value" of each name in a file such as /proc/cpuinfo."""
        found: dict[str, str] = {}
        for line in self.text(path).splitlines():
            name, colon, value = line.partition(":")
            if colon:
                found.setdefault(name.strip(), value.strip())
        return found

    def cpuid(self, leaf: int, subleaf: int = 0) -> Registers:
        """Return the registers of a CPUID leaf, which are zero if there is no such leaf."""
        if self.captured:
            return self._captured_leaves.get((leaf, subleaf), (0, 0, 0, 0))
        a, b, c, d = _core.cpuid(leaf, subleaf)
        return (a, b, c, d)

    def hwloc(self) -> Iterator[dict[str, str]]:
        """Yield the attributes of hwloc's objects, from the machine down; nothing if it is not installed."""
        try:
            root = ElementTree.fromstring(self._hwloc_xml())
        except (ElementTree.ParseError, ValueError):
            return
        yield from (dict(element.attrib) for element in root.iter("object"))

    def _hwloc_xml(self) -> bytes:
        if self.captured:
            return self.raw("hwloc.xml")
        program = shutil.which("lstopo-no-graphics") or shutil.which("lstopo")
        if program is None:
            return b""
        command = [program, "--of", "xml", "--no-io"]
        try:
            done = subprocess.run(command, capture_output=True, timeout=_HWLOC_SECONDS, check=False)
        except (OSError, subprocess.TimeoutExpired):
            return b""
        return done.stdout[:MOST_BYTES]

    @cached_property
    def _captured_leaves(self) -> dict[tuple[int, int], Registers]:
        found: dict[tuple[int, int], Registers] = {}
        for line in self.text("cpuid").splitlines():
            if match := _LEAF.match(line):
                leaf, subleaf, a, b, c, d = (int(word, 16) & 0xFFFFFFFF for word in match.groups())
                found.setdefault((leaf, subleaf), (a, b, c, d))
        return found
