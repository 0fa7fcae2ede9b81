"""A machine: the conditions between its parts, and how to change it."""

from collections.abc import Mapping
from typing import Any, Literal, Self, TypeGuard

from pydantic import ValidationError, model_validator

from pagelens.address.units import FRAME_BYTES
from pagelens.errors import UsageError
from pagelens.machine.changes import ASKED_FOR, first_reason, with_value, with_value_in_array
from pagelens.machine.drawing import picture_lines
from pagelens.machine.memories import MOST_TAGS, MOST_WAYS, Ways
from pagelens.machine.numa import STEP_BYTES
from pagelens.machine.parts import Parts
from pagelens.machine.possible import check_order, check_possible
from pagelens.machine.private_caches import PrivateCache
from pagelens.machine.tlb import core_tlb
from pagelens.machine.topology import Topology, one_node, topology_of
from pagelens.units import format_binary_size, format_rate
from pagelens.values.quantities import Bytes, Sourced, Table

IDEAL_SUFFIX = "-ideal"  # names the ideal twin of a machine in cache mode
FEWEST_FRAMES = 1024  # of a node: the largest free block of its allocator

ServedBy = Literal["memory-side cache", "fast memory", "DDR"]


class Machine(Parts):
    """A node, or one socket of it, with everything that its lines pass."""

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        check_possible(self)
        self._memories_fit_the_mode()
        if self.ideal and self.mode != "cache":
            raise ValueError('ideal = true needs mode = "cache"')
        if self.frames < FEWEST_FRAMES:
            raise ValueError(f"ddr.size must be at least 4 MiB, not {self.ddr.size.value} B")
        check_order(self)
        if self.memory_side_cache is not None:
            self._slots_can_be_told_apart()
        self._numa_nodes_make_up_the_machine()
        if self.cores.line_latency is not None:
            if self.numa is None:
                raise ValueError("cores.line_latency has no effect without [numa]; leave it out")
            if self.numa.line_latencies is not None:
                raise ValueError("cores.line_latency stands in numa.line_latencies, too; leave one out")
        l3, filter_ = self.l3, self.snoop_filter
        if l3 is not None and filter_ is not None and l3.slice_hash() != filter_.slice_hash():
            raise ValueError("l3.hash and snoop_filter.hash must be the same: a slice has a part of both")
        if bool(self.tlb) != (self.page_walk is not None):
            raise ValueError("[[tlb]] and [page_walk] belong together; state both or none")
        memories = [memory for memory in (self.ddr, self.fast_memory) if memory is not None]
        if any(of.by_cores is not None for of in memories) and (len(memories) > 1 or self.numa is not None):
            raise ValueError("by_cores is of the only memory of a machine of one NUMA node; leave it out")
        if self.page_fault is not None and self.memory_side_cache is not None:
            raise ValueError('[page_fault] has no effect in mode "cache" and "hybrid"; leave it out')
        self._larger_pages_are_modelled()
        if self.page_walk is not None:
            core_tlb(self.tlb, self.page_walk)  # says what does not fit together
            if self.page_walk.host_page is not None and self.bound_to_frames:
                raise ValueError(
                    f"page_walk.host_page and [{self.bound_to_frames[0]}] cannot stand together: where the "
                    "host has a page decides the rest; leave one out"
                )
        if self.dram is not None and self.dram.size < self.ddr.size.value:
            raise ValueError(
                f"ddr.size of {self.ddr.size.shown} is more than the {format_binary_size(self.dram.size, 6)} "
                "that the map of [dram] places; state more bits of its row or rank"
            )
        return self

    def _memories_fit_the_mode(self) -> None:
        cache, fast = self.memory_side_cache, self.fast_memory
        if (self.mode in ("cache", "hybrid")) != (cache is not None):
            raise ValueError(
                'mode = "cache" and "hybrid" need a [memory_side_cache] table, "flat" and "single" have none'
            )
        if (self.mode == "single") != (fast is None):
            raise ValueError('mode = "single" has no [fast_memory] table, every other mode needs one')
        part = cache.size.value if cache is not None and cache.size is not None else None
        if (self.mode == "hybrid") != (part is not None):
            raise ValueError('memory_side_cache.size belongs to mode = "hybrid", which needs it')
        if part is not None and fast is not None and part >= fast.size.value:
            raise ValueError("memory_side_cache.size must be a part of fast_memory.size, not all of it")

    def _larger_pages_are_modelled(self) -> None:
        if self.page_order == 0:
            return
        for name in ("tlb", "page_fault", "memory_side_cache"):
            if getattr(self, name):
                raise ValueError(f"[{name}] is of a kernel with pages of 4 KiB; leave it or [pages] out")
        if any(size % (STEP_BYTES << self.page_order) for size in self.topology.sizes):
            step = format_binary_size(STEP_BYTES << self.page_order)
            raise ValueError(f"[pages] needs memories in whole {step}: numa.sizes, or else ddr.size")

    def _numa_nodes_make_up_the_machine(self) -> None:
        numa = self.numa
        if numa is None:
            if self.numa_link:
                raise ValueError("[[numa_link]] is between the nodes of [numa]; state them")
            return
        numa.check()
        if self.mode != "single":
            raise ValueError('[numa] needs mode = "single"; a fast or slow memory is a node without cores')
        if self.dram is not None:
            raise ValueError(
                "[numa] and [dram] cannot stand together: banks are not simulated on several nodes"
            )
        cores, size = sum(numa.cores.value), sum(numa.sizes.value)
        if cores != self.cores.count.value:
            raise ValueError(
                f"cores.count must be {cores}, the sum of numa.cores, not {self.cores.count.shown}"
            )
        if size != self.ddr.size.value:
            raise ValueError(
                f"ddr.size must be {format_binary_size(size, 6)}, the sum of numa.sizes, "
                f"not {self.ddr.size.shown}"
            )
        rate = float(self.topology.memory_bandwidth.sum())
        if abs(self.ddr.bandwidth.value / rate - 1) > 0.01:
            raise ValueError(
                f"ddr.bandwidth must be {format_rate(rate, 4)}, what all nodes of numa.bandwidths give "
                f"together, not {self.ddr.bandwidth.shown}"
            )
        sharing = self.l3.shared_by.value if self.l3 is not None and self.l3.shared_by is not None else 1
        if self.l3 is not None and (self.l3.shared_by is None or any(n % sharing for n in numa.cores.value)):
            raise ValueError("l3.shared_by must be stated and divide the cores of each node of [numa]")
        for number, link in enumerate(self.numa_link, 1):
            if (most := max(*link.between.value[0], *link.between.value[1])) >= len(numa.sizes.value):
                raise ValueError(f"[[numa_link]] {number}: there is no node {most}")

    @property
    def topology(self) -> Topology:
        """The NUMA nodes as numbers. A machine without [numa] has one, with all cores and DDR."""
        if self.numa is None:
            return one_node(self.cores.count.value, self.ddr)
        within = self.cores.line_latency
        return topology_of(
            self.numa,
            self.numa_link,
            self.ddr.write_cost,
            within.value if within is not None else 0.0,
        )

    def _slots_can_be_told_apart(self) -> None:
        slots = self.slots
        if slots & (slots - 1) or slots < 1024:
            what = "memory_side_cache.size" if self.mode == "hybrid" else "fast_memory.size"
            raise ValueError(f"{what} must be a power of two of at least 4 MiB, not {slots} pages")
        ratio = -(-self.frames // slots)
        counted = max(self.ways, 2)  # a 2-way twin is always fed the same stream
        if ratio * counted > MOST_TAGS or self.ways & (self.ways - 1):
            raise ValueError(
                "ways must be a power of two and ddr.size / slots x ways (at least 2) at most"
                f" {MOST_TAGS}, not {ratio} x {counted}"
            )

    def require_linux_pages(self, purpose: str) -> None:
        """Raise UsageError if Linux does not choose the frames, for a command that is about them."""
        if self.device is not None:
            raise UsageError(
                f"--machine: {self.name} is a {self.device}, whose driver places its pages, not Linux: there "
                f"is nothing to {purpose}; `pagelens place` says which objects are for its fast memory"
            )

    @property
    def frames(self) -> int:
        """The 4 KiB frames of DDR. In cache mode these are all that a program can have."""
        return self.ddr.size.value // FRAME_BYTES

    @property
    def page_bytes(self) -> int:
        """The size of the kernel's pages."""
        return self.pages.size.value if self.pages is not None else FRAME_BYTES

    @property
    def page_order(self) -> int:
        """How many times the kernel's page is doubled from 4 KiB on."""
        return (self.page_bytes // FRAME_BYTES).bit_length() - 1

    @property
    def low_pages(self) -> int:
        """The kernel's pages below 4 GiB, which are zone DMA32."""
        low = self.firmware.low_memory.value if self.firmware is not None else 4 << 30
        return low // self.page_bytes // FEWEST_FRAMES * FEWEST_FRAMES

    @property
    def bound_to_frames(self) -> list[str]:
        """The sections for which the place of a frame counts. Of its host's frames, a guest knows none."""
        return [name for name in ("dram", "memory_side_cache", "numa") if getattr(self, name)]

    @property
    def memory_side_size(self) -> Sourced[Bytes] | None:
        """The size of the memory-side cache; None without one. By default it is all of the fast memory."""
        if self.memory_side_cache is None:
            return None
        return self.memory_side_cache.size or (self.fast_memory or self.ddr).size

    @property
    def memory_side_bytes(self) -> int:
        """The bytes of the memory-side cache; 0 without one."""
        return self.memory_side_size.value if self.memory_side_size is not None else 0

    @property
    def slots(self) -> int:
        """The page-sized slots of the memory-side cache.

        Without such a cache they are the frames of the fast memory, or of the only one.
        """
        return (self.memory_side_bytes or (self.fast_memory or self.ddr).size.value) // FRAME_BYTES

    @property
    def ways(self) -> int:
        """The ways of the memory-side cache. 1 means direct-mapped."""
        return self.memory_side_cache.ways.value if self.memory_side_cache else 1

    def served_by(self, job_bytes: int) -> ServedBy:
        """Return what serves lines that miss all private caches.

        Fast memory serves them if it holds the whole job.
        """
        if self.memory_side_cache is not None:
            return "memory-side cache"
        fast = self.fast_memory
        return "fast memory" if fast is not None and job_bytes <= fast.size.value else "DDR"

    def caches_below(self, page_bits: int) -> tuple[PrivateCache, ...]:
        """Return the leading private caches whose index lies below the page shift. They run once per program.

        An L2 in front of an L3 is not among them, because the L3 also gets the clean lines that L2 evicts.
        """
        below: list[PrivateCache] = []
        for cache in self.private_caches:
            if cache.highest_index_bit >= page_bits or (cache is self.l2 and self.l3 is not None):
                break
            below.append(cache)
        return tuple(below)

    def __repr__(self) -> str:
        return "\n".join(picture_lines(self))

    __str__ = __repr__

    def with_ways(self, ways: int) -> "Machine":
        """Return the same machine with another associativity of its memory-side cache."""
        if self.memory_side_cache is None:
            raise UsageError(f"--ways: {self.name} has no memory-side cache; use its cache-mode file")
        if self.ideal:
            raise UsageError(
                f"--ways: {self.name} is fully associative; use the machine that it is the twin of"
            )
        if ways < 1 or ways > MOST_WAYS or ways & (ways - 1):
            raise UsageError(f"--ways: {ways} is not a power of two from 1 to {MOST_WAYS}")
        ratio = -(-self.frames // self.slots)
        if ratio * ways > MOST_TAGS:
            raise UsageError(
                f"--ways: {ways} is too many for {self.name}; at most {MOST_TAGS // ratio} with its memories"
            )
        stated = Sourced[Ways](value=ways, assumed=ASKED_FOR)
        cache = self.memory_side_cache.model_copy(update={"ways": stated})
        title = f"{self.title} (here: {ways}-way)" if ways != self.ways else self.title
        return self.model_copy(update={"memory_side_cache": cache, "title": title})

    def with_values(self, values: Mapping[str, Any], name: str | None = None) -> "Machine":
        """Return a machine that differs in some values, written as in a machine file.

        `m.with_values({"ddr.bandwidth": "40 GB/s", "cores.count": 8}, name="mine")` changes two of them. Each
        key names a table and a value (docs/machine-schema.md); `tlb.0.entries` is of the first [[tlb]].
        Raises UsageError for an unknown key, for an impossible value, and for values that do not fit the rest
        of the machine.
        """
        sections: dict[str, Any] = {
            type(self).model_fields[key].alias or key: stated for key, stated in self if stated is not None
        }
        for key, value in values.items():
            section, _, field = key.partition(".")
            table = sections.get(section)
            if _is_array(table):
                sections[section] = with_value_in_array(table, field, value, section)
                continue
            if not isinstance(table, Table):
                tables = [
                    name for name, each in sections.items() if isinstance(each, Table) or _is_array(each)
                ]
                raise UsageError(f"{key}: {self.name} has no such table; it has {', '.join(tables)}")
            sections[section] = with_value(table, field, value, section)
        if values:
            sections["title"] = f"{self.title} (here: {', '.join(values)} changed)"
        if name is not None:
            sections["name"] = name
        try:
            return Machine(**sections)
        except ValidationError as error:
            raise UsageError(f"{', '.join(values)}: {first_reason(error)}") from None

    def ideal_twin(self) -> "Machine":
        """Return the machine with a fully associative memory-side cache, on which no placement conflicts."""
        title = f"{self.title} (here: fully associative, its ideal twin)"
        return self.model_copy(update={"name": self.name + IDEAL_SUFFIX, "title": title, "ideal": True})


def _is_array(section: Any) -> TypeGuard[list[Table]]:
    """Return whether these are tables that stand several times in a file, as [[tlb]]."""
    return isinstance(section, list) and bool(section) and isinstance(section[0], Table)
