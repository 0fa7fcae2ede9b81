"""The memories of a node, and the cache that fast memory can be for slow memory."""

from typing import Annotated

from pydantic import Field

from pagelens.values.quantities import Bytes, BytesPerSecond, Seconds, Sourced, Table

MOST_WAYS = 16  # of a memory-side cache (core/machine/memory_side.hpp)
MOST_TAGS = 126  # frames that may share a slot: the core keeps a tag in seven bits, 0 is empty

Ways = Annotated[int, Field(ge=1, le=MOST_WAYS)]


class Memory(Table):
    """One memory of the node."""

    technology: Sourced[str] | None = Field(default=None, description='its kind, as "6 x DDR4-2400"')
    size: Sourced[Bytes]
    bandwidth: Sourced[BytesPerSecond] = Field(description="raw: all bytes moved")
    latency: Sourced[Seconds] = Field(
        description="the latency of a load that misses all caches, on an idle node"
    )


class MemorySideCache(Table):
    """Fast memory as a cache of the other memory: all of it in mode "cache", a part in mode "hybrid"."""

    size: Sourced[Bytes] | None = Field(
        default=None, description="the part of fast_memory that is the cache, in hybrid mode"
    )
    ways: Sourced[Ways]
    miss_latency: Sourced[Seconds] = Field(description="the latency of a load that misses it")
