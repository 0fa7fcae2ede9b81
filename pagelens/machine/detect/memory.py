"""Describes memories for a machine file, from NUMA nodes and memory modules."""

import struct
from collections import Counter
from dataclasses import dataclass

from pagelens.host.numa_nodes import FOLDER, MOST_BYTES, NumaNode
from pagelens.host.system import System
from pagelens.machine.detect.detected_value import Found, assumed, read, size_text
from pagelens.machine.possible import is_possible

_DMI = "/sys/firmware/dmi/entries"
# SMBIOS 3.7, 7.18.2: kinds of memory modules
_KINDS = {
    0x12: "DDR",
    0x13: "DDR2",
    0x18: "DDR3",
    0x1A: "DDR4",
    0x20: "HBM",
    0x21: "HBM2",
    0x22: "DDR5",
    0x24: "HBM3",
}


@dataclass(frozen=True)
class Module:
    """A memory module that DMI names."""

    kind: str
    size: int
    speed: int  # transfers a second


def read_modules(system: System) -> list[Module]:
    """Return the memory modules in DMI's structures of type 17 (SMBIOS 3.7, 7.18).

    Only root can read them.
    """
    modules = []
    for folder in system.folders(_DMI, "17-"):
        raw = system.raw(f"{folder}/raw")
        if len(raw) < 0x22 or raw[0] != 17:
            continue
        size, kind, speed = (
            struct.unpack_from(form, raw, at)[0] for form, at in (("<H", 12), ("B", 18), ("<H", 32))
        )
        if size == 0x7FFF and len(raw) >= 0x20:
            megabytes = struct.unpack_from("<I", raw, 28)[0] & 0x7FFFFFFF
        else:
            megabytes = size & 0x7FFF if not size & 0x8000 else 0  # else in kilobytes: none of today
        if megabytes and speed and speed != 0xFFFF:
            modules.append(Module(_KINDS.get(kind, "memory"), megabytes << 20, speed * 1_000_000))
    return modules


@dataclass(frozen=True)
class Described:
    """A memory as a machine file states it. A value of None is left to the base of the file."""

    size: Found
    bandwidth: Found | None
    latency: Found | None
    technology: Found | None = None


def describe(nodes: list[NumaNode], modules: list[Module], share: int) -> Described:
    """Describe nodes that make up one memory. `modules` belong to `share` such memories together."""
    size = min(sum(node.size for node in nodes), MOST_BYTES)
    names = ", ".join(node.path.removeprefix(f"{FOLDER}/") for node in nodes)
    bandwidth, latency, technology = None, None, None
    rate = sum(node.bandwidth or 0 for node in nodes)
    delay = round(sum(node.latency_ns or 0 for node in nodes) / len(nodes))
    # People write these tables of the firmware by hand, so impossible values are ignored.
    if all(node.bandwidth for node in nodes) and is_possible("bandwidth", rate):
        bandwidth = read(
            f"{rate / 1e9:.3f}".rstrip("0").rstrip(".") + " GB/s",
            f"{FOLDER} ({names}): read_bandwidth, of HMAT",
        )
    if all(node.latency_ns for node in nodes) and is_possible("latency", delay * 1e-9):
        latency = read(f"{delay} ns", f"{FOLDER} ({names}): read_latency, of HMAT")
    if modules:
        kind, speed = Counter((module.kind, module.speed) for module in modules).most_common(1)[0][0]
        count = max(1, len(modules) // share)
        technology = read(f"{count} x {kind}-{speed // 1_000_000}", "DMI, memory devices")
        if bandwidth is None:
            reason = "DMI, memory devices: peak of 8 B a transfer if each module has a channel of its own"
            bandwidth = assumed(f"{count * speed * 8 / 1e9:g} GB/s", reason)
    total = read(size_text(size), f"{FOLDER} ({names}): MemTotal, which leaves out what the firmware keeps")
    if "/proc/meminfo" in (nodes[0].path, nodes[0].size_path):
        total = read(size_text(size), "/proc/meminfo: MemTotal, which leaves out what the firmware keeps")
    elif not nodes[0].path:
        total = assumed(size_text(size), "neither /sys nor /proc/meminfo says")
    return Described(total, bandwidth, latency, technology)
