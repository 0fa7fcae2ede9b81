"""Nodes that a test can fill."""

from machine_roles import CACHE_MODE, TWO_SOCKETS

from pagelens.accesses.declared import Loops, Sweep
from pagelens.accesses.declared.loops import serial_first_touch, write
from pagelens.machine import Machine, load_machine, parse_machine

MIB = 1 << 20
# A machine of two NUMA nodes: caches that 16 MiB do not fit into, and matrices that are assumed.
TWO_NODES = (
    f'schema = 1\nbase = "{TWO_SOCKETS}"\n'
    + """\
name = "small"
title = "Small"
mode = "single"
[l2]
size = { value = "64 KiB", assumed = "small" }
[l3]
size = { value = "1584 KiB", assumed = "small" }
[snoop_filter]
sets = { value = 128, assumed = "small" }
[numa]
sizes = { value = ["1 GiB", "1 GiB"], assumed = "small" }
bandwidths = { value = ["105 34.3 GB/s", "34.3 105 GB/s"], assumed = "as measured of others" }
[ddr]
size = { value = "2 GiB", assumed = "small" }
bandwidth = { value = "210 GB/s", assumed = "the sum of the nodes" }
"""
)


def small(fast_bytes: int = 64 * MIB) -> Machine:
    """A KNL node with 1/256 of its memories and 4 cores."""
    machine = load_machine(CACHE_MODE)
    factor = fast_bytes / machine.fast_memory.size.value

    def shrunk(memory: str) -> object:
        stated = getattr(machine, memory)
        value = int(stated.size.value * factor)
        return stated.model_copy(update={"size": stated.size.model_copy(update={"value": value})})

    count = machine.cores.count.model_copy(update={"value": 4})
    cores = machine.cores.model_copy(update={"count": count})
    return machine.model_copy(
        update={"fast_memory": shrunk("fast_memory"), "ddr": shrunk("ddr"), "cores": cores}
    )


def two_nodes() -> Machine:
    """Return the machine of two NUMA nodes."""
    return parse_machine(TWO_NODES.encode(), "small.toml")


def initialised_by_one_thread() -> tuple[Sweep, ...]:
    """Return the sweeps in which one thread alone writes the array `serial` first."""
    first = Sweep("initialise", 4.0, write("serial"), first_touch=True)
    return tuple(serial_first_touch(Loops((), (first,), {})).sweeps)
