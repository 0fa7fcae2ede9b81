"""Reads the processor: the cores of a socket, their caches and frequency, and the hypervisor, if any."""

import re
from collections.abc import Callable
from dataclasses import dataclass

from pagelens.address.units import FRAME_BYTES, LINE_BYTES
from pagelens.host.system import System
from pagelens.machine.detect.detected_value import Found, assumed, read

_CPU = "/sys/devices/system/cpu"
# CPUID leaf 0x40000000, EBX ECX EDX as text (Linux, arch/x86/kernel/cpu/hypervisor.c and what it names)
_HYPERVISORS = {
    "KVMKVMKVM": "KVM", "Microsoft Hv": "Hyper-V", "VMwareVMware": "VMware", "XenVMMXenVMM": "Xen",
    "TCGTCGTCGTCG": "QEMU without KVM", "bhyve bhyve ": "bhyve",
    "ACRNACRNACRN": "ACRN", "VBoxVBoxVBox": "VirtualBox",
}  # fmt: skip
# CPUID leaf 4 (Intel) and 0x8000001D (AMD) have the same form: SDM volume 2A; AMD64 APM volume 3, appendix E
_CACHE_LEAVES = {"GenuineIntel": 0x4, "AuthenticAMD": 0x8000001D, "HygonGenuine": 0x8000001D}
MOST_LEVELS = 8
_SLOWEST_GHZ, _FASTEST_GHZ = 0.1, 20.0  # what lies outside is garbage
MOST_PRIVATE = 1 << 28  # bytes; what claims more is no cache of a core


@dataclass(frozen=True)
class Cache:
    """A data or unified cache that `threads` logical processors share."""

    level: int
    size: int
    ways: int
    threads: int
    where: str  # the file or instruction it was read from

    @property
    def sound(self) -> bool:
        """Whether a machine file can state it as a private cache."""
        sets = self.size // (LINE_BYTES * self.ways) if self.ways > 0 else 0
        whole = sets * LINE_BYTES * self.ways == self.size
        return (
            whole
            and self.size <= MOST_PRIVATE
            and sets >= FRAME_BYTES // LINE_BYTES
            and sets & (sets - 1) == 0
        )


@dataclass(frozen=True)
class Processor:
    """The processor of one socket."""

    vendor: str
    family: int
    model: int
    name: str
    sockets: int
    cores: Found
    threads_a_core: int
    cpus: frozenset[int]  # logical, of this socket
    frequency: Found
    caches: tuple[Cache, ...]
    hypervisor: str | None
    l3_inclusive: bool | None  # None: nothing says
    flags: frozenset[str]
    is_arm: bool  # only Arm's /proc/cpuinfo names an implementer

    def cache(self, level: int) -> Cache | None:
        """Return the data cache of a level, or None."""
        return next((cache for cache in self.caches if cache.level == level), None)

    def shared_by(self, cache: Cache) -> int:
        """Return how many cores share such a cache."""
        return max(1, cache.threads // self.threads_a_core)


def read_processor(system: System) -> Processor:
    """Return the processor of the first socket."""
    info = system.fields("/proc/cpuinfo")
    siblings = _siblings(system, ("thread_siblings_list", "core_cpus_list"))
    threads = max(1, len(siblings))
    socket = _siblings(system, ("package_cpus_list", "core_siblings_list"))
    online = system.cpus(f"{_CPU}/online")
    return Processor(
        vendor=info.get("vendor_id", ""),
        family=_whole(info.get("cpu family", "")),
        model=_whole(info.get("model", "")),
        name=" ".join(re.sub(r"\((R|TM|r|tm)\)|CPU|@.*", " ", info.get("model name", "")).split()),
        sockets=max(1, len(online) // len(socket)) if socket else 1,
        cores=_cores(info, socket, threads, len(online)),
        threads_a_core=threads,
        cpus=socket or online,
        frequency=_frequency(system, info),
        caches=_caches(system, info.get("vendor_id", "")),
        hypervisor=_hypervisor(system, info),
        l3_inclusive=_l3_inclusive(system, info.get("vendor_id", "")),
        flags=frozenset(info.get("flags", "").split()),
        is_arm="CPU implementer" in info,
    )


def _siblings(system: System, names: tuple[str, ...]) -> frozenset[int]:
    return next(filter(None, (system.cpus(f"{_CPU}/cpu0/topology/{name}") for name in names)), frozenset())


def _cores(info: dict[str, str], socket: frozenset[int], threads: int, online: int) -> Found:
    if socket:
        return read(max(1, len(socket) // threads), f"{_CPU}/cpu0/topology: processors of its package")
    if count := _whole(info.get("cpu cores", "")):
        return read(count, "/proc/cpuinfo: cpu cores")
    if online:
        return read(online, f"{_CPU}/online; which share a core is not said")
    return assumed(1, "neither /sys nor /proc/cpuinfo says")


def _frequency(system: System, info: dict[str, str]) -> Found:
    """Return the base frequency, if anything states it.

    A job loads all cores, so they cannot run at their turbo frequency.
    """
    file = f"{_CPU}/cpu0/cpufreq/base_frequency"
    title = re.search(r"@ ?([0-9]{1,2}\.[0-9]{1,3})GHz", info.get("model name", ""))
    current = re.fullmatch(r"([0-9]{1,6}\.[0-9]{1,6})", info.get("cpu MHz", ""))
    now = "/proc/cpuinfo: cpu MHz, what it ran at when it was asked; nothing says the base frequency"
    for gigahertz, found, where in (
        ((system.number(file) or 0) / 1e6, read, file),
        ((system.cpuid(0x16)[0] & 0xFFFF) / 1e3, read, "CPUID leaf 0x16: base frequency"),
        (float(title[1]) if title else 0, read, "/proc/cpuinfo: model name"),
        (float(current[1]) / 1e3 if current else 0, assumed, now),
    ):
        if _SLOWEST_GHZ <= gigahertz <= _FASTEST_GHZ:
            return found(f"{gigahertz:.4g} GHz", where)
    return assumed("2 GHz", "nothing here says it")


def _caches(system: System, vendor: str) -> tuple[Cache, ...]:
    """Return the caches from the first source that knows those of a core: sysfs, CPUID, or hwloc."""
    sources: tuple[Callable[[], list[Cache]], ...] = (
        lambda: _caches_of_sysfs(system),
        lambda: _caches_of_cpuid(system, vendor),
        lambda: _caches_of_hwloc(system),
    )
    for source in sources:
        caches = {cache.level: cache for cache in reversed(source())}
        if {1, 2} <= set(caches):
            return tuple(caches[level] for level in sorted(caches))
    return ()


def _caches_of_sysfs(system: System) -> list[Cache]:
    caches = []
    for folder in system.folders(f"{_CPU}/cpu0/cache", "index"):
        level, size = system.number(f"{folder}/level"), system.size(f"{folder}/size")
        ways = system.number(f"{folder}/ways_of_associativity")
        if level and size and ways and system.text(f"{folder}/type") in ("Data", "Unified"):
            threads = len(system.cpus(f"{folder}/shared_cpu_list"))
            caches.append(Cache(level, size, ways, max(1, threads), folder))
    return caches


def _caches_of_cpuid(system: System, vendor: str) -> list[Cache]:
    leaf, caches = _CACHE_LEAVES.get(vendor, 0x4), []
    for subleaf in range(MOST_LEVELS):
        a, b, c, _ = system.cpuid(leaf, subleaf)
        kind, level = a & 0x1F, a >> 5 & 7
        if kind == 0:
            break
        ways, partitions, line, sets = (b >> 22) + 1, (b >> 12 & 0x3FF) + 1, (b & 0xFFF) + 1, c + 1
        if kind in (1, 3):
            threads = (a >> 14 & 0xFFF) + 1
            caches.append(
                Cache(level, ways * partitions * line * sets, ways, threads, f"CPUID leaf {leaf:#x}")
            )
    return caches


def _l3_inclusive(system: System, vendor: str) -> bool | None:
    """Return whether L3 holds all that the caches above it hold, by bit 1 of EDX; None if nothing says."""
    for subleaf in range(MOST_LEVELS):
        a, _, _, d = system.cpuid(_CACHE_LEAVES.get(vendor, 0x4), subleaf)
        if a & 0x1F == 3 and a >> 5 & 7 == 3:
            return bool(d >> 1 & 1)
    return None


def _caches_of_hwloc(system: System) -> list[Cache]:
    caches = []
    for attributes in system.hwloc():
        match = re.fullmatch(r"L([1-4])Cache", attributes.get("type", ""))
        size, ways = (
            _whole(attributes.get("cache_size", "")),
            _whole(attributes.get("cache_associativity", "")),
        )
        if match and size and ways > 0:
            mask = re.sub(r"0x|,", "", attributes.get("cpuset", ""))
            threads = int(mask, 16).bit_count() if re.fullmatch(r"[0-9a-f]{1,4096}", mask) else 1
            caches.append(Cache(int(match[1]), size, ways, max(1, threads), "hwloc"))
    return caches


def _hypervisor(system: System, info: dict[str, str]) -> str | None:
    """Return the name of the hypervisor, or a text that says that there is one; None if there is none."""
    _, b, c, d = system.cpuid(0x40000000)
    there = "hypervisor" in info.get("flags", "").split() or bool(system.cpuid(1)[2] >> 31)
    kind = system.text("/sys/hypervisor/type")
    if not there and not kind:
        return None
    name = b"".join(word.to_bytes(4, "little") for word in (b, c, d)).decode("latin-1").rstrip("\0")
    return (
        _HYPERVISORS.get(name) or (kind.capitalize() if kind.isalnum() else None) or "an unknown hypervisor"
    )


def _whole(text: str) -> int:
    return int(text) if re.fullmatch(r"[0-9]{1,18}", text) else 0
