"""Finds the memories of a machine file that need a bandwidth of writes and state none."""

import re

from pagelens.machine.parts import Parts

# Memory that is no DRAM, and DRAM behind a link. Reads and writes differ there by more than the turnarounds
# of a bus.
NOT_A_DRAM_BUS = re.compile(r"optane|3d xpoint|persistent|\bcxl\b|\bpcie?\b|nvlink", re.IGNORECASE)


def missing_write_rates(machine: Parts) -> list[str]:
    """Return a sentence for each memory whose technology needs a bandwidth of writes that is not stated."""
    stated_by_nodes = machine.numa is not None and machine.numa.write_bandwidths is not None
    key = "numa.write_bandwidths" if machine.numa is not None else "{}.write_bandwidth"
    return [
        f"{name}.technology is {memory.technology.shown}, which may write more slowly or faster than it "
        f"reads; state {key.format(name)}, or its writes are as fast as its reads"
        for name, memory in (("fast_memory", machine.fast_memory), ("ddr", machine.ddr))
        if memory is not None
        and memory.technology is not None
        and NOT_A_DRAM_BUS.search(memory.technology.value)
        and memory.write_bandwidth is None
        and not stated_by_nodes
    ]
