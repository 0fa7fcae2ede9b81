"""Describes what cores share: the L3 and the snoop filter, in slices."""

from dataclasses import dataclass

from pagelens.address.hashes import list_hashes
from pagelens.address.units import LINE_BYTES
from pagelens.machine.detect.detected_value import Found, assumed, read, size_text
from pagelens.machine.detect.processor import Cache, Processor

Section = dict[str, Found]

MOST_SLICES = 1024


@dataclass(frozen=True)
class Kind:
    """Processors that have a part of their file in common."""

    base: str
    hashes: str = ""  # the hash of their slices: the name in machines/hashes/ before the number
    slice_ways: int = 0  # the ways of their L3, stated with `hashes` only
    slice_sets: int = 2048  # of Intel's servers from Sandy Bridge EP to Sapphire Rapids

    def hash_of(self, slices: int) -> str | None:
        """Return the name of the hash for that many slices, or None if it is unknown."""
        name = f"{self.hashes}-{slices}"
        return name if name in list_hashes() else None


def shared_sections(processor: Processor, kind: Kind | None) -> dict[str, Section]:
    """Return the sections l3 and snoop_filter, as far as `kind` does not state them."""
    cache = processor.cache(3)
    sets = cache.size // (LINE_BYTES * cache.ways) if cache is not None and cache.ways > 0 else 0
    if cache is not None and sets * LINE_BYTES * cache.ways != cache.size:
        sets = 0
    if kind is not None and kind.hashes:
        return _of_known_slices(processor, kind, cache if sets % kind.slice_sets == 0 else None, sets)
    if cache is None or not 0 < sets <= MOST_SLICES << 20:
        return {}
    sharers = processor.shared_by(cache)
    odd = sets // (sets & -sets)
    slices = sharers if sets % sharers == 0 and _power_of_two(sets // sharers) else odd
    section = _stated(cache)
    section["slices"] = assumed(
        slices, "one a core that shares it, as far as a slice's sets are a power of two"
    )
    if sharers < processor.cores.count:
        section["shared_by"] = read(sharers, cache.where)
    if kind is None:
        section["inclusion"] = _inclusion(processor)
        section["latency"] = assumed("25 ns", "nothing here says; of servers since 2010, 13 to 40 ns")
    return {"l3": section} if slices <= MOST_SLICES else {}


def _of_known_slices(processor: Processor, kind: Kind, cache: Cache | None, sets: int) -> dict[str, Section]:
    """Return the sections of a processor whose slices all have as many sets."""
    slices = assumed(min(processor.cores.count, MOST_SLICES), "nothing here says; one a core")
    size = LINE_BYTES * kind.slice_sets * kind.slice_ways * slices.count
    l3: Section = {"size": assumed(size_text(size), "nothing here says; as of its kind")}
    if cache is not None and 0 < sets // kind.slice_sets <= MOST_SLICES:
        slices = read(sets // kind.slice_sets, f"{cache.where}: its sets over {kind.slice_sets} of a slice")
        l3 = _stated(cache)
    both = {"slices": slices}
    if (name := kind.hash_of(slices.count)) is not None:
        both["hash"] = assumed(name, "measured of processors with as many slices (doi:10.26153/tsw/14539)")
    return {"l3": l3 | both, "snoop_filter": both}


def _stated(cache: Cache) -> Section:
    return {"size": read(size_text(cache.size), cache.where), "ways": read(cache.ways, cache.where)}


def _inclusion(processor: Processor) -> Found:
    if processor.l3_inclusive is None:
        return assumed("victim", "nothing here says; as of most since 2017")
    return read("inclusive" if processor.l3_inclusive else "victim", "CPUID, cache parameters")


def _power_of_two(number: int) -> bool:
    return number > 0 and number & (number - 1) == 0
