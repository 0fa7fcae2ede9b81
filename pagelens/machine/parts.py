"""The contents of a machine file: the tables of a node's cores, caches and memories, and its name."""

from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field

from pagelens.machine.caches import L3, SnoopFilter
from pagelens.machine.cores import Cores
from pagelens.machine.counters import HardwareCounters
from pagelens.machine.dram import Dram
from pagelens.machine.io import Io
from pagelens.machine.memories import Firmware, Memory, MemorySideCache
from pagelens.machine.numa import Numa, NumaLink
from pagelens.machine.page_fault import PageFault
from pagelens.machine.pages import Pages
from pagelens.machine.pipeline import Pipeline
from pagelens.machine.private_caches import PrivateCache
from pagelens.machine.tlb import PageWalk, Tlb
from pagelens.values.quantities import Table

MOST_TLBS = 16  # two levels of an array for every page size are six
MOST_LINKS = 64

Mode = Literal["cache", "flat", "hybrid", "single"]


def _listed(names: Any) -> Any:
    return [names] if isinstance(names, str) else names


class Parts(Table):
    """The parts of a machine as its file states them; `Machine` checks that they fit together."""

    version: Literal[1] = Field(alias="schema", description="the version of the file's schema")
    base: Annotated[list[str], BeforeValidator(_listed)] = Field(
        default=[],
        description="files whose values hold where this one states none; of several, the last one's",
    )
    name: str = Field(description="the name of the machine on command lines")
    title: str = Field(description="the name of the machine in reports")
    mode: Mode = Field(
        description="the role of the fast memory: a cache for the other (`cache`), memory of its own "
        "(`flat`), or a part of each (`hybrid`); `single` if there is only one memory"
    )
    hypervisor: str | None = Field(
        default=None,
        description="the hypervisor that the machine is a guest of; its frames are the guest's, not the "
        "memory's",
    )
    instruction_set: Literal["x86-64", "AArch64"] = Field(
        default="x86-64", description="what its cores execute; `explain` warns if a trace is of another"
    )
    device: str | None = Field(
        default=None,
        description="the device, such as a GPU, that has these cores and sees these memories; its driver, "
        "not Linux, places its pages",
    )
    ideal: bool = Field(default=False, description="its memory-side cache is fully associative")
    cores: Cores
    pipeline: Pipeline | None = None
    l1: PrivateCache
    l2: PrivateCache
    l3: L3 | None = None
    snoop_filter: SnoopFilter | None = None
    pages: Pages | None = None
    tlb: list[Tlb] = Field(default=[], max_length=MOST_TLBS, description="arrays of a core's data TLB")
    page_walk: PageWalk | None = None
    page_fault: PageFault | None = None
    memory_side_cache: MemorySideCache | None = None
    fast_memory: Memory | None = Field(default=None, description="the faster of two memories")
    ddr: Memory = Field(description="the only memory, or the larger and slower of two")
    numa: Numa | None = None
    numa_link: list[NumaLink] = Field(
        default=[], max_length=MOST_LINKS, description="links that pairs of NUMA nodes share"
    )
    firmware: Firmware | None = None
    dram: Dram | None = Field(default=None, description="the description of `ddr`, bank by bank")
    counters: HardwareCounters | None = Field(
        default=None, description="the processor's own counters, by libpfm4's names"
    )
    io: Io | None = None

    @property
    def sections(self) -> dict[str, Table | list[Table]]:
        """The tables, and arrays of tables, that the file states, by name."""
        fields = {name: getattr(self, name) for name in type(self).model_fields}
        return {
            name: value
            for name, value in fields.items()
            if isinstance(value, Table) or (isinstance(value, list) and value and isinstance(value[0], Table))
        }

    @property
    def private_caches(self) -> tuple[PrivateCache, ...]:
        """The private caches, in the order in which a line meets them."""
        return (self.l1, self.l2)
