"""The memories of a node, and the cache that fast memory can be for slow memory."""

from typing import Annotated

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from pagelens.address.units import LINE_BYTES
from pagelens.values.quantities import Bytes, BytesPerSecond, Seconds, Sourced, Table

MOST_WAYS = 16  # of a memory-side cache (core/machine/memory_side.hpp)
MOST_TAGS = 126  # frames that may share a slot: the core keeps a tag in seven bits, 0 is empty

Floats = NDArray[np.float64]
LowBytes = Annotated[Bytes, Field(ge=32 << 20, le=4 << 30)]
Ways = Annotated[int, Field(ge=1, le=MOST_WAYS)]


class Memory(Table):
    """One memory of the node."""

    technology: Sourced[str] | None = Field(default=None, description='its kind, as "6 x DDR4-2400"')
    size: Sourced[Bytes]
    bandwidth: Sourced[BytesPerSecond] = Field(description="raw: all bytes moved")
    write_bandwidth: Sourced[BytesPerSecond] | None = Field(
        default=None, description="the bandwidth of writes alone; without it, they are as fast as reads"
    )
    latency: Sourced[Seconds] = Field(
        description="the latency of a load that misses all caches, on an idle node"
    )

    @property
    def write_cost(self) -> float:
        """How many reads take as long as one write."""
        return 1.0 if self.write_bandwidth is None else self.bandwidth.value / self.write_bandwidth.value

    def seconds(self, reads: Floats, writes: Floats) -> Floats:
        """Return how long this memory moves so many lines.

        Where writes have a bandwidth of their own, they take turns with reads, as both use the same device.
        """
        if self.write_bandwidth is None:
            return LINE_BYTES * (reads + writes) / self.bandwidth.value
        return LINE_BYTES * (reads / self.bandwidth.value + writes / self.write_bandwidth.value)


class MemorySideCache(Table):
    """Fast memory as a cache of the other memory: all of it in mode "cache", a part in mode "hybrid"."""

    size: Sourced[Bytes] | None = Field(
        default=None, description="the part of fast_memory that is the cache, in hybrid mode"
    )
    ways: Sourced[Ways]
    miss_latency: Sourced[Seconds] = Field(description="the latency of a load that misses it")


class Firmware(Table):
    """The addresses that firmware gives to memory."""

    low_memory: Sourced[LowBytes] = Field(
        description="the memory below 4 GiB, which is zone DMA32; devices have the addresses above it, and "
        "the rest of memory begins at 4 GiB"
    )
