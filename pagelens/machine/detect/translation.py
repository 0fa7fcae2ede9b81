"""Reads a core's data TLBs from CPUID, and assumes the page walks, which no processor describes."""

from collections.abc import Iterator
from dataclasses import dataclass

from pagelens.host.system import System
from pagelens.machine.detect.detected_value import assumed, read
from pagelens.machine.detect.processor import Processor
from pagelens.machine.detect.shared import Section

SMALL, LARGE, HUGE = "4 KiB", "2 MiB", "1 GiB"
_MOST_ENTRIES, _MOST_WAYS = 1 << 20, 1 << 15  # of a machine file
_MOST_SUBLEAVES = 64
# Bits of EBX in Intel's leaf 0x18 (SDM volume 2A) for the page sizes. These types of entries translate data.
_INTEL_PAGES = {0: SMALL, 1: LARGE, 3: HUGE}
_OF_DATA = {1, 3, 4}  # data, unified, loads only; those of stores alone are left out
# AMD's codes of ways (APM volume 3, appendix E). 0 and missing codes mean none, or are reserved.
_AMD_WAYS = {1: 1, 2: 2, 3: 3, 4: 4, 5: 6, 6: 8, 8: 16, 0xA: 32, 0xB: 48, 0xC: 64, 0xD: 96, 0xE: 128}
_AMD_WHOLE = 0xF  # fully associative; in the byte that leaf 0x80000005 has for it, 0xFF


@dataclass(frozen=True)
class Array:
    """One array of translations."""

    level: int
    pages: tuple[str, ...]
    entries: int
    ways: int
    where: str

    @property
    def sound(self) -> bool:
        """Whether a machine file can state it."""
        sets = self.entries // self.ways if self.ways > 0 else 0
        return (
            0 < self.entries <= _MOST_ENTRIES
            and self.ways <= _MOST_WAYS
            and sets * self.ways == self.entries
            and sets & (sets - 1) == 0
        )

    def section(self) -> Section:
        """Return the section of the file."""
        return {
            "level": read(self.level, self.where),
            "pages": read(list(self.pages), self.where),
            "entries": read(self.entries, self.where),
            "ways": read(self.ways, self.where),
        }


def translation_sections(processor: Processor, system: System) -> tuple[list[Section], Section]:
    """Return the sections tlb and page_walk.

    There are none unless CPUID knows both 4 KiB and 2 MiB pages at level 1.
    """
    intel = processor.vendor == "GenuineIntel"
    arrays: list[Array] = []
    for array in _of_intel(system) if intel else _of_amd(system):
        if array.sound:
            arrays += _the_rest(array, arrays)
    if {SMALL, LARGE} - {page for array in arrays if array.level == 1 for page in array.pages}:
        return [], {}
    walk = {"walkers": assumed(1, "nothing here says; two to six on servers since 2015")}
    return [array.section() for array in arrays], walk


def _the_rest(array: Array, before: list[Array]) -> list[Array]:
    """Return the array without the pages that another array of its level has, as a file allows only one."""
    taken = {page for other in before if other.level == array.level for page in other.pages}
    pages = tuple(page for page in array.pages if page not in taken)
    return [Array(array.level, pages, array.entries, array.ways, array.where)] if pages else []


def _of_intel(system: System) -> Iterator[Array]:
    last = min(system.cpuid(0x18)[0], _MOST_SUBLEAVES)
    for subleaf in range(last + 1):
        _, b, sets, d = system.cpuid(0x18, subleaf)
        level, ways = d >> 5 & 7, b >> 16
        pages = tuple(page for bit, page in _INTEL_PAGES.items() if b >> bit & 1)
        if d & 0x1F in _OF_DATA and level in (1, 2) and pages:
            entries = ways * sets
            yield Array(level, pages, entries, entries if d >> 8 & 1 else ways, "CPUID leaf 0x18")


def _of_amd(system: System) -> Iterator[Array]:
    """Yield the leaves of data TLBs: the first level has ways in a byte, all others a code of four bits."""
    a, b, _, _ = system.cpuid(0x80000005)
    for register, page in ((b, SMALL), (a, LARGE)):
        entries, ways = register >> 16 & 0xFF, register >> 24
        yield Array(1, (page,), entries, entries if ways == 0xFF else ways, "CPUID leaf 0x80000005")
    large, small, _, _ = system.cpuid(0x80000006)
    first, second, _, _ = system.cpuid(0x80000019)
    for level, register, page, leaf in (
        (1, first, HUGE, "0x80000019"),
        (2, small, SMALL, "0x80000006"),
        (2, large, LARGE, "0x80000006"),
        (2, second, HUGE, "0x80000019"),
    ):
        entries, code = register >> 16 & 0xFFF, register >> 28
        ways = entries if code == _AMD_WHOLE else _AMD_WAYS.get(code, 0)
        yield Array(level, (page,), entries, ways, f"CPUID leaf {leaf}")
