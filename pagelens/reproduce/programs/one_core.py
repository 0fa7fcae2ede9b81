"""Streams of one core: their time by this project's model, and by the rule of the ECM model.

ECM is the Execution-Cache-Memory model (Stengel et al., ICS 2015, arXiv:1410.5010; Hofmann et al., ARCS 2016,
arXiv:1511.03639). Loads that retire and transfers between levels take turns, and arithmetic goes on beside
both. This project's model lets all of them go on beside each other. Counts are for one line of each array.
"""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from pagelens.address.units import LINE_BYTES
from pagelens.machine import TRANSLATION_COUNTS, Machine, modelled_times

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
    """One core of a machine, with the widths that the machine file does not have."""

    machine: Machine
    vector_bytes: int
    from_l2: int  # bytes a cycle between L2 and L1
    from_l3: (
        int  # bytes a cycle between L3 and L2; in each direction at the same time if the L3 is a victim's
    )

    def modelled(self, kernel: StreamKernel, level: str) -> float:
        """Return the seconds by this project's model."""
        vectors = LINE_BYTES // self.vector_bytes
        instructions = vectors * (kernel.loads + kernel.stores + kernel.arithmetic)
        counts = {
            "instructions": instructions,
            "l2_accesses": kernel.fetched,
            "l2_misses": kernel.fetched * (level != "L2"),
            "l3_hits": kernel.fetched * (level == "L3"),
            "core_forwards": 0,
            "dram_reads": kernel.fetched * (level == "memory"),
            "dram_writes": kernel.evicted * (level == "memory"),
            "dram_time_s": 0,
            **dict.fromkeys(TRANSLATION_COUNTS, 0),
        }
        rows = {name: np.array([float(count)]) for name, count in counts.items()}
        return float(modelled_times(self.machine, rows, 1).time_s[0])

    def ecm(self, kernel: StreamKernel, level: str) -> float:
        """Return the seconds by the rule of the ECM model."""
        pipeline, clock = self.machine.pipeline, self.machine.cores.frequency.value
        assert pipeline is not None
        vectors = LINE_BYTES // self.vector_bytes
        loads = vectors * kernel.loads / pipeline.vector_load_ports.value.bit_count()
        stores = vectors * kernel.stores / pipeline.vector_store_data_ports.value.bit_count()
        arithmetic = vectors * kernel.arithmetic / pipeline.fused.value.ports.bit_count()
        moved = LINE_BYTES * (kernel.fetched + kernel.evicted)
        transfers = [moved / self.from_l2 / clock]
        if level != "L2":
            transfers.append(LINE_BYTES * self._lines_of_l3(kernel) / self.from_l3 / clock)
        if level == "memory":
            transfers.append(moved / self.machine.ddr.bandwidth.value)
        return ecm_seconds(max(stores, arithmetic) / clock, loads / clock, transfers)

    def _lines_of_l3(self, kernel: StreamKernel) -> int:
        """Return the lines between L2 and L3, in one direction if both work at the same time.

        As many lines leave L2 as come to it. A victim L3 takes all of them, also those from memory.
        """
        assert self.machine.l3 is not None
        victim = self.machine.l3.inclusion.value == "victim"
        return kernel.fetched if victim else kernel.fetched + kernel.evicted


def ecm_seconds(overlapping: float, retiring: float, transfers: Iterable[float]) -> float:
    """Return max(T_OL, T_nOL + the sum of the transfers), each in seconds (arXiv:1410.5010, section 2)."""
    return max(overlapping, retiring + sum(transfers))
