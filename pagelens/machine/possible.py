"""Checks for values that no machine can have, such as a slip of the unit or of the keyboard.

The ranges are wide on purpose. They hold whatever was built since the first processors with caches (1 MHz,
microseconds), and leave two orders of magnitude above today's fastest parts.
"""

from itertools import pairwise

from pagelens.machine.parts import Parts
from pagelens.machine.values import stated_values
from pagelens.units import format_rate, format_time

# The ranges by key, in SI units. `cores.` before a key restricts it to that section.
RANGES = {
    "cores.count": (1, 1 << 16),
    "frequency": (1e6, 1e11),
    "instructions_per_cycle": (1e-2, 1e3),  # a GPU's multiprocessor counts as a core
    "outstanding_lines": (1, 1 << 16),
    "bandwidth": (1e6, 1e16),
    "write_bandwidth": (1e6, 1e16),
    "width": (1e-2, 1e4),  # of the path between two caches
    "latency": (1e-11, 1e-3),
    "miss_latency": (1e-11, 1e-3),
    "rate": (1e6, 1e16),  # of a link between NUMA nodes, each way
    "back": (1e6, 1e16),
    "walkers": (1, 1 << 10),
    "walk_cycles": (1, 1e5),
    "mispredict_cycles": (1, 1e4),
    "page_fault.small": (1e-9, 1e-2),
    "page_fault.large": (1e-9, 1.0),
    "page_fault.zero": (1e-9, 1e-2),
    "page_fault.file": (1e-9, 1e-2),
}
# The fields of [numa] that have such a value for each pair of nodes, or for each node, and how it is shown.
_MATRICES = {
    "latencies": ("latency", format_time),
    "line_latencies": ("latency", format_time),
    "bandwidths": ("bandwidth", format_rate),
    "write_bandwidths": ("write_bandwidth", format_rate),
}


def is_possible(name: str, value: float) -> bool:
    """Return whether any machine can have this value, in SI units, for a key of a section."""
    low, high = RANGES[name]
    return low <= value <= high


def check_possible(machine: Parts) -> None:
    """Raise ValueError for a value that no machine has, and for an L1 that is larger than its L2."""
    for stated in stated_values(machine):
        limits = RANGES.get(stated.name) or RANGES.get(stated.key)
        if limits is None or limits[0] <= stated.value.value <= limits[1]:
            continue
        low, high = (stated.value.model_copy(update={"value": limit}).shown for limit in limits)
        raise ValueError(
            f"{stated.name} = {stated.value.shown}: no machine has that; from {low} to {high} is possible, "
            "so check the number and its unit"
        )
    if machine.numa is not None:
        for name, (key, shown) in _MATRICES.items():
            matrix = getattr(machine.numa, name)
            values = [value for row in matrix.value for value in row] if matrix is not None else []
            wrong = next((value for value in values if not is_possible(key, value)), None)
            if wrong is not None:
                low, high = map(shown, RANGES[key])
                raise ValueError(
                    f"numa.{name}: no machine has {shown(wrong)}; from {low} to {high} is possible, "
                    "so check the numbers and their unit"
                )
    first, second = machine.l1.size, machine.l2.size
    # A GPU's multiprocessor has no second cache, so its file states one through which lines only pass.
    if machine.device is None and first.value > second.value:
        raise ValueError(
            f"l1.size = {first.shown} is more than l2.size = {second.shown}; an L2 is at least as large, so "
            "check which is which"
        )


def check_order(machine: Parts) -> None:
    """Refuse a cache that is larger than memory, and one that is slower than what lies behind it."""
    l2, l3, ddr = machine.l2, machine.l3, machine.ddr
    for name, size in (("l2", l2.size), ("l3", l3.size if l3 is not None else None)):
        if size is not None and size.value > ddr.size.value:
            raise ValueError(
                f"{name}.size = {size.shown} is more than ddr.size = {ddr.size.shown}; check the numbers and "
                "their units"
            )
    stated = (("l2", l2.latency), ("l3", l3.latency if l3 is not None else None), ("ddr", ddr.latency))
    latencies = [(name, latency) for name, latency in stated if latency is not None]
    for (name, faster), (behind, slower) in pairwise(latencies):
        if faster.value >= slower.value:
            raise ValueError(
                f"{behind}.latency = {slower.shown} is not more than {name}.latency = {faster.shown}, and "
                f"{behind} lies behind {name}; check the numbers and their units"
            )
