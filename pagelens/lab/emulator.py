"""Finds qemu-system-x86_64, and makes the command line for one guest."""

from __future__ import annotations

import itertools
import re
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from pagelens.errors import Failure, UsageError

FEWEST_BYTES = 256 << 20  # of guest memory: Debian's kernel and the root file system, with room to work
_INSTALL = "install Debian's package: apt-get install qemu-system-x86"
_VERSIONS = ((7, 2), (8, 2))  # versions with a known plugin interface (tracer/qemu_plugin_api.h)
# The processor has everything that TCG emulates except fast `rep stosb`, with which the kernel would clear
# pages byte by byte.
_CPU = "max,-erms,-fsrm"
# QEMU 7.2, hw/i386/pc_piix.c: memory of 3.5 GiB and more continues at 4 GiB after its third GiB.
_MOST_WITHOUT_HOLE, _HOLE = 0xE0000000, 3 << 30
_FRAME_BYTES = 4096
_HMAT_BITS = 16  # of an entry of ACPI's Heterogeneous Memory Attribute Table
_ALIGNMENT = 2 << 20  # of a node's memory: the kernel's own granularity of memory maps


@dataclass(frozen=True, slots=True)
class NumaSpeed:
    """The speed of a node's memory, as the firmware states it for all processors.

    The emulator does not slow the guest down to it.
    """

    bandwidth: float  # bytes a second; the firmware's unit is 10^6 of them
    latency: float  # seconds; the firmware's unit is 1 ns


_ORDINARY, _FAST = NumaSpeed(100e9, 100e-9), NumaSpeed(400e9, 100e-9)  # the defaults


@dataclass(frozen=True, slots=True)
class Hardware:
    """The guest's machine."""

    memory_bytes: int
    nodes: int = 1  # NUMA nodes, each with an equal share of memory and processors
    cpus: int = 1  # at least one for each node
    cache_bytes: int = 0  # the memory-side cache that the firmware describes for each node; 0 is none
    fast_bytes: int = 0  # the part of the memory in a last node without processors, described as faster
    speeds: Sequence[NumaSpeed] = ()  # the speed of each node that the firmware describes
    distances: Sequence[Sequence[int]] = ()  # from each node to each, as SLIT states them; else all are 20

    def __post_init__(self) -> None:
        if not 1 <= self.nodes <= 8:
            raise UsageError(f"--numa {self.nodes}: from 1 to 8 nodes")
        if self.fast_bytes and (self.fast_bytes % _ALIGNMENT or self.cache_bytes):
            raise UsageError("fast node: a multiple of 2 MiB, and no memory-side cache beside it")
        if self._slow_bytes < FEWEST_BYTES or self._slow_bytes % (_ALIGNMENT * self.nodes):
            least = f"{FEWEST_BYTES >> 20}MiB"
            raise UsageError(
                f"--memory {self.memory_bytes >> 20}MiB: at least {least}, a multiple of 2 MiB for each node"
            )
        assert len(self.speeds) in (0, len(self._sizes))
        assert len(self.distances) in (0, len(self._sizes))

    @property
    def node_begins(self) -> list[int]:
        """The first frame of each node."""
        return [
            self._address(place) // _FRAME_BYTES
            for place in itertools.accumulate(self._sizes[:-1], initial=0)
        ]

    @property
    def _slow_bytes(self) -> int:
        return self.memory_bytes - self.fast_bytes

    @property
    def _sizes(self) -> list[int]:
        """The bytes of each node."""
        return [self._slow_bytes // self.nodes] * self.nodes + ([self.fast_bytes] if self.fast_bytes else [])

    @property
    def frames_end(self) -> int:
        """One past the last frame of memory."""
        return (self._address(self.memory_bytes - 1) + 1) // _FRAME_BYTES

    def _address(self, place: int) -> int:
        """Return the address of a byte of memory. QEMU's `pc` leaves a hole below 4 GiB for devices."""
        return place if self.memory_bytes < _MOST_WITHOUT_HOLE or place < _HOLE else place + (4 << 30) - _HOLE

    def options(self) -> list[str]:
        """Return QEMU's options for this hardware."""
        cpus = max(self.cpus, self.nodes)
        described = bool(self.cache_bytes or self.fast_bytes or self.speeds)  # in ACPI's HMAT
        machine = "pc,usb=off,hmat=on" if described else "pc,usb=off"
        words = ["-machine", machine, "-cpu", _CPU, "-smp", f"{cpus},sockets={cpus}"]
        words += ["-m", f"{self.memory_bytes >> 20}M"]
        if self.nodes == 1 and not described:
            return words
        for node, size in enumerate(self._sizes):
            first, last = (cpus * at // self.nodes for at in (node, node + 1))
            near = f"cpus={first}-{last - 1}" if node < self.nodes else "initiator=0"
            words += ["-object", f"memory-backend-ram,id=memory{node},size={size >> 20}M"]
            words += ["-numa", f"node,nodeid={node},memdev=memory{node},{near}"]
        for row, of_row in enumerate(self.distances):
            for column, far in enumerate(of_row):
                words += ["-numa", f"dist,src={row},dst={column},val={far}"]
        if described:
            for node, told in enumerate(self._speeds_told()):
                words += self._speed_options(node, *told)
        if self.cache_bytes:
            words += [word for node in range(self.nodes) for word in self._cache_options(node)]
        return words

    def _speeds_told(self) -> list[tuple[int, int]]:
        """Return MB/s and ns of each node as HMAT can state them.

        The largest rate must fit into 16 bits, and the others are multiples of its unit. HMAT must state
        speeds for a cache, too.
        """
        fast = [_FAST] if self.fast_bytes else []
        speeds = self.speeds or [*[_ORDINARY] * self.nodes, *fast]
        rates, times = [round(s.bandwidth / 1e6) for s in speeds], [round(s.latency * 1e9) for s in speeds]
        unit = 1 << max(0, max(rates).bit_length() - _HMAT_BITS)
        return [(max(1, rate // unit) * unit, time) for rate, time in zip(rates, times, strict=True)]

    def _speed_options(self, node: int, rate: int, time: int) -> list[str]:
        """Return the options that state one node's speed from all processors.

        QEMU's M is one MB/s of the table. QEMU itself does not use these speeds.
        """
        words = []
        for initiator in range(self.nodes):
            path = f"hmat-lb,initiator={initiator},target={node},hierarchy=memory"
            words += ["-numa", f"{path},data-type=access-latency,latency={time}"]
            words += ["-numa", f"{path},data-type=access-bandwidth,bandwidth={rate}M"]
        return words

    def _cache_options(self, node: int) -> list[str]:
        """Return the options for a direct-mapped cache."""
        cache = f"hmat-cache,node-id={node},size={self.cache_bytes},level=1,line=64"
        return ["-numa", f"{cache},associativity=direct,policy=write-back"]


@dataclass(frozen=True, slots=True)
class Disk:
    """A disk of the guest, /dev/vda, that moves no more than `rate` bytes a second."""

    image: Path
    rate: float

    def options(self) -> list[str]:
        """Return QEMU's options for this disk. Its writes end in this machine's page cache."""
        drive = f"file={self.image},format=raw,if=none,id=disk,cache=unsafe"
        return [
            "-drive", f"{drive},throttling.bps-total={round(self.rate)}",
            "-device", "virtio-blk-pci,drive=disk",
        ]  # fmt: skip


@cache
def find_qemu() -> Path:
    """Return the system emulator in PATH.

    Raises Failure if there is none, or if its plugin interface differs.
    """
    found = shutil.which("qemu-system-x86_64")
    if found is None:
        raise Failure(f"qemu-system-x86_64 is not in PATH; {_INSTALL}")
    said = subprocess.run([found, "--version"], capture_output=True, text=True, check=False).stdout
    match = re.search(r"version (\d+)\.(\d+)", said)
    if match is None or not _VERSIONS[0] <= (int(match[1]), int(match[2])) <= _VERSIONS[1]:
        raise Failure(f"{found}: QEMU 7.2 to 8.2 is needed, not {said.splitlines()[:1]}; {_INSTALL}")
    return Path(found)
