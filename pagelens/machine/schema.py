"""What a machine file states: a node's cores, caches and memories."""

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from pagelens.errors import UsageError
from pagelens.machine.quantities import (
    FRAME_BYTES,
    LINE_BYTES,
    Bytes,
    BytesPerSecond,
    Hertz,
    Positive,
    PositiveFloat,
    Seconds,
    Sourced,
    Table,
)

MOST_WAYS = 16  # of a memory-side cache (core/machine/memory_side.hpp)
IDEAL_SUFFIX = "-ideal"  # names the ideal twin of a machine in cache mode
MOST_TAGS = 126  # frames that may share a slot: the core keeps a tag in seven bits, 0 is empty

FEWEST_FRAMES = 1024  # of a node: the largest free block of its allocator


class Cores(Table):
    """The processor cores of the node."""

    count: Sourced[Positive]
    frequency: Sourced[Hertz]
    instructions_per_cycle: Sourced[PositiveFloat]
    outstanding_lines: Sourced[Positive]  # line fetches that one core keeps in flight


class PrivateCache(Table):
    """A set-associative LRU cache of 64 B lines, private to `shared_by` neighbouring cores."""

    size: Sourced[Bytes]
    ways: Sourced[Positive]
    shared_by: Sourced[Positive]

    @property
    def sets(self) -> int:
        """Number of sets, a power of two."""
        return self.size.value // (LINE_BYTES * self.ways.value)

    @property
    def highest_index_bit(self) -> int:
        """The highest address bit in the set index (bits count from 0; the lowest is 6)."""
        return 5 + (self.sets.bit_length() - 1)

    @model_validator(mode="after")
    def _power_of_two_sets(self) -> Self:
        sets = self.sets
        if sets * LINE_BYTES * self.ways.value != self.size.value or sets & (sets - 1):
            raise ValueError(f"size / (64 B x {self.ways.value} ways) must be a power of two, not {sets}")
        if sets < FRAME_BYTES // LINE_BYTES:
            raise ValueError(f"at least 64 sets (one page of lines), not {sets}")
        return self


class MemorySideCache(Table):
    """The cache that fast memory is for DDR; its size is that of the fast memory."""

    ways: Sourced[Annotated[int, Field(ge=1, le=MOST_WAYS)]]
    miss_latency: Sourced[Seconds]  # of a load that misses it


class Memory(Table):
    """One memory of the node."""

    size: Sourced[Bytes]
    bandwidth: Sourced[BytesPerSecond]  # raw: all bytes moved
    latency: Sourced[Seconds]


class Machine(Table):
    """A node: cores, private caches, and two memories, one of them a cache for the other or of its own."""

    version: Literal[1] = Field(alias="schema")
    name: str
    title: str
    mode: Literal["cache", "flat"]
    ideal: bool = False  # its memory-side cache is fully associative (docs/decisions/ideal-twin.md)
    cores: Cores
    l1: PrivateCache
    l2: PrivateCache
    memory_side_cache: MemorySideCache | None = None
    fast_memory: Memory
    ddr: Memory

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if (self.mode == "cache") != (self.memory_side_cache is not None):
            raise ValueError('mode = "cache" needs a [memory_side_cache] table, mode = "flat" has none')
        if self.ideal and self.mode == "flat":
            raise ValueError('ideal = true needs mode = "cache"')
        if self.frames < FEWEST_FRAMES:
            raise ValueError(f"ddr.size must be at least 4 MiB, not {self.ddr.size.value} B")
        if self.mode == "cache":
            slots = self.slots
            if slots & (slots - 1) or slots < 1024:
                raise ValueError(
                    f"fast_memory.size must be a power of two of at least 4 MiB, not {self.slots} pages"
                )
            ratio = -(-self.frames // slots)
            counted = max(self.ways, 2)  # a 2-way twin is always fed the same stream
            if ratio * counted > MOST_TAGS or self.ways & (self.ways - 1):
                raise ValueError(
                    "ways must be a power of two and ddr.size / fast_memory.size x ways (at least 2) at most"
                    f" {MOST_TAGS}, not {ratio} x {counted}"
                )
        return self

    @property
    def frames(self) -> int:
        """4 KiB frames of DDR: in cache mode all that a program can have."""
        return self.ddr.size.value // FRAME_BYTES

    @property
    def slots(self) -> int:
        """Page-sized places of the fast memory."""
        return self.fast_memory.size.value // FRAME_BYTES

    @property
    def ways(self) -> int:
        """Ways of the memory-side cache (1: direct-mapped)."""
        return self.memory_side_cache.ways.value if self.memory_side_cache else 1

    @property
    def private_caches(self) -> tuple[PrivateCache, ...]:
        """In the order a line meets them."""
        return (self.l1, self.l2)

    def caches_below(self, page_bits: int) -> tuple[PrivateCache, ...]:
        """The leading private caches whose index lies below the page shift: run once per program."""
        below: list[PrivateCache] = []
        for cache in self.private_caches:
            if cache.highest_index_bit >= page_bits:
                break
            below.append(cache)
        return tuple(below)

    def with_ways(self, ways: int) -> "Machine":
        """The same machine with another associativity of its memory-side cache."""
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
        stated = Sourced[Annotated[int, Field(ge=1, le=MOST_WAYS)]](
            value=ways, assumed="asked for by the user"
        )
        cache = self.memory_side_cache.model_copy(update={"ways": stated})
        title = f"{self.title} (here: {ways}-way)" if ways != self.ways else self.title
        return self.model_copy(update={"memory_side_cache": cache, "title": title})

    def ideal_twin(self) -> "Machine":
        """The same machine with a fully associative memory-side cache, on which no placement conflicts."""
        title = f"{self.title} (here: fully associative, its ideal twin)"
        return self.model_copy(update={"name": self.name + IDEAL_SUFFIX, "title": title, "ideal": True})
