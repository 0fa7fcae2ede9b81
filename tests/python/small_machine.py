"""A node that a test can fill."""

from pagelens.machine import Machine, load_machine

MIB = 1 << 20


def small(fast_bytes: int = 64 * MIB) -> Machine:
    """A KNL node with 1/256 of its memories and 4 cores."""
    machine = load_machine("cori-knl-cache")
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
