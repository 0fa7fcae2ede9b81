"""The memories of a node, and the cache that fast memory can be for slow memory."""

from itertools import pairwise
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray
from pydantic import BeforeValidator, Field

from pagelens.address.units import LINE_BYTES
from pagelens.errors import UsageError
from pagelens.machine.rank_load import RankLoad
from pagelens.units import format_rate, parse_rate
from pagelens.values.quantities import Bytes, BytesPerSecond, Seconds, Sourced, Table, Unit

MOST_WAYS = 16  # of a memory-side cache (core/machine/memory_side.hpp)
MOST_TAGS = 126  # frames that may share a slot: the core keeps a tag in seven bits, 0 is empty

Floats = NDArray[np.float64]
LowBytes = Annotated[Bytes, Field(ge=32 << 20, le=4 << 30)]
Ways = Annotated[int, Field(ge=1, le=MOST_WAYS)]


def _parse_rates(rows: Any) -> Any:
    """Return pairs of cores and bytes a second, from rows such as [2, "20 GB/s"]."""
    if isinstance(rows, tuple):
        return rows
    wrong = (
        'write rows of cores and their rate together, as [[1, "12 GB/s"], [4, "40 GB/s"]], the least first'
    )
    if not isinstance(rows, list) or not all(isinstance(row, list) and len(row) == 2 for row in rows):
        raise ValueError(wrong)
    try:
        pairs = tuple((cores, parse_rate(rate)) for cores, rate in rows if isinstance(rate, str))
    except UsageError as error:
        raise ValueError(str(error)) from None
    counts = [cores for cores, _ in pairs if type(cores) is int and cores > 0]
    ascend = all(low < high for low, high in pairwise(counts))
    if not pairs or len(counts) < len(rows) or not ascend or any(rate <= 0 for _, rate in pairs):
        raise ValueError(wrong)
    return pairs


_RATES = Unit(
    lambda pairs: ", ".join(f"{cores}: {format_rate(rate, 6)}" for cores, rate in pairs),
    'rows of cores and their rate, as [[1, "12 GB/s"], [4, "40 GB/s"]]',
)
RatesByCores = Annotated[tuple[tuple[int, float], ...], BeforeValidator(_parse_rates), _RATES]


class Memory(Table):
    """One memory of the node."""

    technology: Sourced[str] | None = Field(default=None, description='its kind, as "6 x DDR4-2400"')
    size: Sourced[Bytes]
    bandwidth: Sourced[BytesPerSecond] = Field(description="raw: all bytes moved")
    write_bandwidth: Sourced[BytesPerSecond] | None = Field(
        default=None,
        description="the bandwidth of writes alone, which take turns with reads; without it, writes are as "
        "fast as reads, as on the bus of any DRAM but for its turnarounds; memory of another kind (Optane) "
        "and memory behind a link (CXL, PCIe) needs it",
    )
    by_cores: Sourced[RatesByCores] | None = Field(
        default=None,
        description="the bandwidth that fewer cores reach together, of the only memory of a machine of one "
        "NUMA node; without it, any number of cores can have all of it",
    )
    latency: Sourced[Seconds] = Field(
        description="the latency of a load that misses all caches, on an idle node"
    )

    def share_of_cores(self, cores: Floats | float) -> Floats:
        """Return which share of the bandwidth so many cores reach together, by linear interpolation."""
        if self.by_cores is None:
            return np.ones(np.shape(cores))
        counts, rates = zip(*self.by_cores.value, strict=True)
        return np.asarray(np.minimum(1.0, np.interp(cores, counts, rates) / self.bandwidth.value))

    def longer_for_cores(self, cores: int, ranks: RankLoad | None) -> Floats | float:
        """Return how many times as long lines take that so many cores move, than at the full bandwidth.

        In a part of the run in which fewer of them work, they have the bandwidth of these alone. There is one
        value for each row of `ranks`.
        """
        if ranks is None or self.by_cores is None:
            return 1 / self.share_of_cores(cores)
        return np.array(
            [
                max((shares / self.share_of_cores(cores * at_a_time)).sum(), 1.0)
                for shares, at_a_time in ranks.working()
            ]
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
