"""Makes a machine file from what was found: its mode, its base, and the values that had to be assumed."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import tomlkit
from tomlkit.items import Table

from pagelens.errors import UsageError
from pagelens.host.numa_nodes import NumaNode, read_nodes
from pagelens.host.system import System
from pagelens.machine.detect.detected_value import Found, assumed, read, size_text
from pagelens.machine.detect.memory import Described, describe, read_modules
from pagelens.machine.detect.nodes import bandwidth_of_all, numa_section, several
from pagelens.machine.detect.processor import Cache, Processor, read_processor
from pagelens.machine.detect.shared import Kind, Section, shared_sections
from pagelens.machine.detect.translation import translation_sections
from pagelens.machine.memories import MOST_TAGS
from pagelens.machine.reader import parse_machine
from pagelens.units import parse_rate, parse_size

# Vendor, family and model as /proc/cpuinfo has them (Linux, arch/x86/include/asm/intel-family.h; AMD's
# revision guides). What all processors of a kind share is not read but taken over from the kind.
_KINDS: Mapping[tuple[str, int, int], Kind] = {
    ("GenuineIntel", 6, 0x2D): Kind("family/sandy-bridge-ep"),
    ("GenuineIntel", 6, 0x3F): Kind("family/haswell-ep"),
    ("GenuineIntel", 6, 0x4F): Kind("family/broadwell-ep"),
    ("GenuineIntel", 6, 0x55): Kind("family/skylake-sp", "skx", 11),  # and its successors on the same socket
    ("GenuineIntel", 6, 0x57): Kind("family/knl"),
    ("GenuineIntel", 6, 0x6A): Kind("family/ice-lake-sp", "icx", 12),
    ("GenuineIntel", 6, 0x8F): Kind("family/sapphire-rapids", "spr", 15),
    ("GenuineIntel", 6, 0xCF): Kind("family/emerald-rapids", "emr", 20, 4096),
    ("GenuineIntel", 6, 0xAD): Kind("family/sapphire-rapids", "gnr", 16, 4096),  # Granite Rapids
    ("AuthenticAMD", 23, 0x31): Kind("family/rome"),
    ("AuthenticAMD", 25, 0x01): Kind("family/milan"),
    ("AuthenticAMD", 25, 0x11): Kind("family/genoa"),
    ("AuthenticAMD", 26, 0x02): Kind("family/turin"),
}
# A hypervisor may tell of another model, but a guest's programs use what its flags say. No processor with
# Intel's tiles for matrices (AMX) has cores older than Sapphire Rapids'.
_BY_FLAG = {"amx_tile": Kind("family/sapphire-rapids", "spr", 15)}
_MCDRAM = {0x57, 0x85}  # models of Intel's family 6 with memory on the package: KNL, KNM
_MCDRAM_BYTES = 16 << 30
_LEAST_CACHE = 4 << 20  # of a machine file


@dataclass
class Description:
    """What the file states."""

    name: str
    title: str
    mode: str
    base: str | None
    hypervisor: str | None
    is_arm: bool
    sections: dict[str, Section] = field(default_factory=dict)
    tlbs: list[Section] = field(default_factory=list)

    @property
    def memory_side_cache(self) -> bool:
        """Whether a memory is a cache of another one, which a machine of NUMA nodes cannot have."""
        return "memory_side_cache" in self.sections

    def to_toml(self) -> str:
        """Return the text of the file."""
        document = tomlkit.document()
        for line in self._introduction():
            document.add(tomlkit.comment(line))
        document["schema"] = 1
        if self.base:
            document["base"] = self.base
        document["name"], document["title"], document["mode"] = self.name, self.title, self.mode
        if self.hypervisor:
            document["hypervisor"] = self.hypervisor
        if self.is_arm:
            document["instruction_set"] = "AArch64"
        for name, section in self.sections.items():
            document.add(tomlkit.nl())
            document[name] = _table(section)
        if self.tlbs:
            arrays = tomlkit.aot()
            for section in self.tlbs:
                arrays.append(_table(section))
            document.add(tomlkit.nl())
            document["tlb"] = arrays
        return tomlkit.dumps(document).rstrip("\n") + "\n"

    def _introduction(self) -> list[str]:
        lines = [
            "Written by `pagelens machines detect`: `source` names what a value was read from,",
            "`assumed` says why it could not be.",
        ]
        if self.base:
            lines.append(f"What is not here is {self.base}'s.")
        if self.hypervisor:
            lines += [
                f"This is a guest of {self.hypervisor}: its frames are the guest's, not those of the memory,",
                "and the hypervisor may tell of other caches than there are.",
            ]
        return lines


def detect(system: System) -> Description:
    """Return one socket of the machine, as a file describes it."""
    return _one_socket(system, read_processor(system), read_nodes(system))


def detect_whole(system: System) -> Description:
    """Return the whole machine with its NUMA nodes, or one socket if only one node has processors.

    One socket is also what is returned if the nodes make no machine, as with a damaged tree.
    """
    processor, nodes = read_processor(system), read_nodes(system)
    found = _one_socket(system, processor, nodes)
    if not several(nodes) or found.memory_side_cache:
        return found
    whole = _with_nodes(found, system, processor, nodes)
    try:
        parse_machine(whole.to_toml().encode(), "this machine")
    except UsageError:
        return found
    return whole


def _with_nodes(
    found: Description, system: System, processor: Processor, nodes: list[NumaNode]
) -> Description:
    near = [node for node in nodes if node.cpus]
    local = describe(near, read_modules(system), 1)
    stated = parse_rate(str(local.bandwidth.value)) if local.bandwidth is not None else None
    numa = numa_section(nodes, processor, stated, _has_mcdram(processor))
    cores = numa["cores"]
    assert isinstance(cores.value, list)
    count = sum(map(int, cores.value))
    sections = {name: dict(section) for name, section in found.sections.items() if name != "fast_memory"}
    sections["cores"]["count"] = read(count, cores.note)
    if (cache := processor.cache(3)) is not None and "l3" in sections:
        sections["l3"]["shared_by"] = read(processor.shared_by(cache), cache.where)
    sizes = numa["sizes"].value
    assert isinstance(sizes, list)
    size = sum(parse_size(str(text)) for text in sizes)
    memory = {"technology": local.technology} if local.technology else {}
    memory |= {"size": read(size_text(size), numa["sizes"].note), "bandwidth": bandwidth_of_all(numa)}
    memory["latency"] = local.latency or assumed("100 ns", "HMAT says nothing; typical of a server")
    sections["ddr"] = memory
    sections["numa"] = numa
    named = found.title.rpartition(" (")[0]
    guest = f", a guest of {processor.hypervisor}" if processor.hypervisor else ""
    title = f"{named} ({count} cores, {len(nodes)} NUMA nodes{guest})"
    return replace(found, title=title, mode="single", sections=sections)


def _one_socket(system: System, processor: Processor, nodes: list[NumaNode]) -> Description:
    kind = _kind_of(processor)
    base = kind.base if kind is not None else None
    name = "".join(c for c in processor.name if c.isprintable())[:60] or "Unknown processor"
    several = f", one of {processor.sockets} sockets" if processor.sockets > 1 else ""
    guest = f", a guest of {processor.hypervisor}" if processor.hypervisor else ""
    cores = processor.cores.value
    title = f"{name} ({cores} core{'' if cores == 1 else 's'}{several}{guest})"
    found = Description("this-machine", title, "single", base, processor.hypervisor, processor.is_arm)
    found.sections["cores"] = _cores(processor, base)
    found.sections["l1"] = _private(processor, 1, "32 KiB", 8)
    found.sections["l2"] = _private(processor, 2, "1 MiB", 16)
    if kind is None:
        found.sections["l2"]["latency"] = assumed("5 ns", "nothing here says; 12 to 16 cycles since 2011")
    found.sections |= shared_sections(processor, kind)
    if kind is None:
        _add_translation(found, processor, system)
    _add_memories(found, system, processor, nodes)
    return found


def _kind_of(processor: Processor) -> Kind | None:
    """Return what is known of such processors, by their model or, in a guest, by what they can do."""
    kind = _KINDS.get((processor.vendor, processor.family, processor.model))
    if kind is not None or processor.hypervisor is None:
        return kind
    return next((kind for flag, kind in _BY_FLAG.items() if flag in processor.flags), None)


def _has_mcdram(processor: Processor) -> bool:
    return processor.vendor == "GenuineIntel" and processor.family == 6 and processor.model in _MCDRAM


def _cores(processor: Processor, base: str | None) -> Section:
    section = {"count": processor.cores, "frequency": processor.frequency}
    if base is None:
        section["instructions_per_cycle"] = assumed(4.0, "four-wide, as most processors of its time")
        section["outstanding_lines"] = assumed(16, "10 to 12 fill buffers and what an L2's prefetcher adds")
    return section


def _private(processor: Processor, level: int, size: str, ways: int) -> Section:
    cache = processor.cache(level)
    if cache is None or not cache.sound:
        reason = "nothing here says it" if cache is None else _odd(cache)
        return {"size": assumed(size, reason), "ways": assumed(ways, reason), "shared_by": assumed(1, reason)}
    shared = read(processor.shared_by(cache), cache.where)
    return {
        "size": read(size_text(cache.size), cache.where),
        "ways": read(cache.ways, cache.where),
        "shared_by": shared,
    }


def _odd(cache: Cache) -> str:
    return f"{cache.where} has {size_text(cache.size)}, {cache.ways}-way, which makes no power of two of sets"


def _add_translation(found: Description, processor: Processor, system: System) -> None:
    arrays, walk = translation_sections(processor, system)
    if arrays:
        found.tlbs, found.sections["page_walk"] = arrays, walk


def _add_memories(found: Description, system: System, processor: Processor, nodes: list[NumaNode]) -> None:
    """Add the sections of the memories, and the mode.

    The nodes of this socket are one memory, and nodes without processors another.
    """
    own = (
        [node for node in nodes if node.cpus & processor.cpus]
        or [node for node in nodes if node.cpus]
        or nodes
    )
    without = [node for node in nodes if not node.cpus and node not in own]
    local = describe(own, read_modules(system), processor.sockets)
    mcdram = _has_mcdram(processor)
    fast_base = found.base if mcdram else None  # the only kind whose file states a fast memory
    size = _side_cache(own, mcdram and not without)
    if size is not None:
        _add_cache(found, own, size, without, fast_base)
    elif without:
        found.mode = "flat"
        far = describe(without, [], 1)
        rates = [sum(node.bandwidth or 0 for node in group) for group in (without, own)]
        if rates[0] > rates[1] if all(rates) else mcdram:
            found.sections["fast_memory"] = _memory(far, fast_base, fast=True)
        else:
            found.sections["fast_memory"] = _memory(local, None, fast=True)
            found.sections["ddr"] = _memory(far, None)
            return
    found.sections["ddr"] = _memory(local, found.base)


def _side_cache(own: list[NumaNode], must_be: bool) -> Found | None:
    """Return the size of the memory-side cache, a power of two, or None if there is none to model."""
    side, memory = sum(node.side_cache or 0 for node in own), sum(node.size for node in own)
    where = f"{own[0].path}/memory_side_cache"
    least = max(_LEAST_CACHE, -(-2 * memory // MOST_TAGS))
    if not least <= side <= memory:
        reason = "no node has the MCDRAM as memory of its own, so all of it is a cache"
        return assumed(size_text(_MCDRAM_BYTES), reason) if must_be else None
    if side & (side - 1):
        reason = f"{where} says {size_text(side)}; a power of two is modelled"
        return assumed(size_text(1 << (side.bit_length() - 1)), reason)
    return read(size_text(side), where)


def _add_cache(
    found: Description, own: list[NumaNode], size: Found, without: list[NumaNode], base: str | None
) -> None:
    """Add a memory-side cache.

    Nodes without processors are then the rest of the fast memory.
    """
    direct = all(node.side_cache_direct for node in own if node.side_cache) and size.kind == "source"
    ways = read(1, f"{size.note}: direct-mapped") if direct else assumed(1, "as of KNL and Xeon Max")
    section = {"ways": ways, "miss_latency": assumed("270 ns", "as measured of KNL (Chips and Cheese)")}
    found.mode, total = "cache", size
    if without:
        found.mode, section = "hybrid", {"size": size, **section}
        bytes_in_all = parse_size(str(size.value)) + sum(node.size for node in without)
        total = read(size_text(bytes_in_all), f"{size.note}, and the nodes without processors")
    found.sections["memory_side_cache"] = section
    found.sections["fast_memory"] = _memory(Described(total, None, None), base, fast=True)


def _memory(memory: Described, base: str | None, fast: bool = False) -> Section:
    """Return the section of a memory. Unknown values are left to the base, or assumed."""
    section = {"technology": memory.technology} if memory.technology else {}
    section["size"] = memory.size
    rate, delay = ("200 GB/s", "130 ns") if fast else ("20 GB/s", "100 ns")
    if memory.bandwidth or not base:
        section["bandwidth"] = memory.bandwidth or assumed(
            rate, "neither HMAT nor DMI says; root can read DMI"
        )
    if memory.latency or not base:
        section["latency"] = memory.latency or assumed(delay, "HMAT says nothing; typical of a server")
    return section


def _table(section: Section) -> Table:
    table = tomlkit.table()
    for key, found in section.items():
        value = tomlkit.inline_table()
        value.update({"value": found.value, found.kind: found.note})
        table[key] = value
    return table
