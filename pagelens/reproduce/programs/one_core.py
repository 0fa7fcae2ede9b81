"""Streams of one core: their time by this project's model.

In memory the model lets lines in flight decide. The Execution-Cache-Memory model (Stengel et al., ICS 2015,
arXiv:1410.5010) lets the transfers of memory take turns with those between caches instead, so its time of
such a stream is given, too. Counts are for one line of each array.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from pagelens.address.units import LINE_BYTES
from pagelens.machine import TRANSLATION_COUNTS, CoreTimes, Machine, Times, modelled_times
from pagelens.machine.core_times import DENSITIES

LEVELS = ("L2", "L3", "memory")


@dataclass(frozen=True)
class StreamKernel:
    """A loop over arrays of doubles. Its numbers are for one vector, or one line, of each array."""

    loads: int
    stores: int
    arithmetic: int
    fetched: int  # lines, with those that are only stored to
    evicted: int  # lines
    counted: int  # arrays in the benchmark's bytes


# The loops of likwid-bench: s += a, a = b, a = s a, a += s b, a = b + c d.
KERNELS = {
    "load": StreamKernel(loads=1, stores=0, arithmetic=1, fetched=1, evicted=0, counted=1),
    "copy": StreamKernel(loads=1, stores=1, arithmetic=0, fetched=2, evicted=1, counted=2),
    "update": StreamKernel(loads=1, stores=1, arithmetic=1, fetched=1, evicted=1, counted=2),
    "daxpy": StreamKernel(loads=2, stores=1, arithmetic=1, fetched=2, evicted=1, counted=3),
    "triad": StreamKernel(loads=3, stores=1, arithmetic=1, fetched=4, evicted=1, counted=4),
}


@dataclass(frozen=True)
class Core:
    """One core of a machine, whose loops have vectors of `vector_bytes`.

    `clock` is in Hz; None stands for that of the machine file.
    """

    of: Machine
    vector_bytes: int
    clock: float | None = None

    @cached_property
    def machine(self) -> Machine:
        """The machine at the clock."""
        if self.clock is None:
            return self.of
        return self.of.with_values({"cores.frequency": f"{self.clock / 1e9} GHz"})

    def times(self, kernel: StreamKernel, level: str) -> Times:
        """Return the times for one line of each array."""
        instructions, core = self._core(kernel)
        of_memory = level == "memory"
        counts = {
            "instructions": instructions,
            "l1_fetches": kernel.fetched,
            "l1_write_backs": kernel.evicted,
            "l2_accesses": kernel.fetched,
            "l2_misses": kernel.fetched * (level != "L2"),
            "l2_write_backs": kernel.evicted * (level != "L2"),
            "l3_hits": kernel.fetched * (level == "L3"),
            "core_forwards": 0,
            "dram_reads": kernel.fetched * of_memory,
            "dram_writes": kernel.evicted * of_memory,
            "dram_time_s": 0,
            **dict.fromkeys(TRANSLATION_COUNTS, 0),
        }
        rows = {name: np.array([float(count)]) for name, count in counts.items()}
        return modelled_times(self.machine, rows, 1, core=core)

    def modelled(self, kernel: StreamKernel, level: str) -> float:
        """Return the seconds by this project's model."""
        return float(self.times(kernel, level).time_s[0])

    def at_once(self, kernel: StreamKernel, level: str) -> float:
        """Return the seconds if loads and lines between caches went on at the same time."""
        return float(self.times(kernel, level).at_once_time_s[0])

    def from_memory_in_turn(self, kernel: StreamKernel) -> float:
        """Return the seconds from memory if its transfers took turns with all others."""
        resources = self.times(kernel, "memory").resources
        return float(max(resources["issue"][0], resources["caches"][0] + resources["DDR"][0]))

    def _core(self, kernel: StreamKernel) -> tuple[int, CoreTimes]:
        """Return the instructions of the loop, and what a core takes for them if its data are in L1."""
        pipeline = self.machine.pipeline
        assert pipeline is not None
        vectors = LINE_BYTES // self.vector_bytes
        instructions = vectors * (kernel.loads + kernel.stores + kernel.arithmetic)
        loads = pipeline.cycles_of_loads(0, vectors * kernel.loads)
        longest = max(
            instructions / self.machine.cores.instructions_per_cycle.value,
            loads,
            vectors * kernel.stores / pipeline.vector_store_data_ports.value.bit_count(),
            vectors * kernel.arithmetic / pipeline.fused.value.ports.bit_count(),
        )
        levels = np.zeros((1, len(LEVELS)))
        return instructions, CoreTimes(
            cycles=np.array([longest / instructions]),
            load_cycles=np.array([loads / instructions]),
            mispredicted=np.zeros(1),
            past_filter=levels,
            irregular=levels,  # prefetchers foresee all lines
            irregular_stores=levels,
            overlap=np.ones((1, len(LEVELS), len(DENSITIES))),
        )
