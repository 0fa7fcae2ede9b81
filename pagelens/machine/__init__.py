"""Machines: files with units and sources, and the model that turns counts into time."""

from pagelens.machine.chosen import HERE, MACHINE_FILE, Chosen, choose_machine, measured_file
from pagelens.machine.core_times import CoreTimes
from pagelens.machine.cores import Cores
from pagelens.machine.drawing import list_lines, machine_lines
from pagelens.machine.io import (
    JOINED_PIECE,
    LARGE_AFTER_WORK,
    SMALL_AFTER_WORK,
    SMALL_JOINED_PIECE,
    Costs,
    InFlight,
    Io,
)
from pagelens.machine.memories import Memory, MemorySideCache
from pagelens.machine.numa_load import NumaLoad
from pagelens.machine.page_fault import FAULT_COUNTS, READ_FAULT_COUNTS
from pagelens.machine.private_caches import PrivateCache
from pagelens.machine.rank_load import RankLoad
from pagelens.machine.reader import (
    list_machines,
    load_machine,
    parse_machine,
    read_machine_file,
)
from pagelens.machine.schema import Machine
from pagelens.machine.time import (
    TRANSLATION_COUNTS,
    Times,
    modelled_times,
    tiered_times,
)
from pagelens.machine.topology import Topology
from pagelens.machine.values import range_ends, stated_values
from pagelens.machine.write_rates import missing_write_rates
from pagelens.values.directory import machine_directory
from pagelens.values.quantities import Sourced

__all__ = [
    "FAULT_COUNTS",
    "HERE",
    "JOINED_PIECE",
    "LARGE_AFTER_WORK",
    "MACHINE_FILE",
    "READ_FAULT_COUNTS",
    "SMALL_AFTER_WORK",
    "SMALL_JOINED_PIECE",
    "TRANSLATION_COUNTS",
    "Chosen",
    "CoreTimes",
    "Cores",
    "Costs",
    "InFlight",
    "Io",
    "Machine",
    "Memory",
    "MemorySideCache",
    "NumaLoad",
    "PrivateCache",
    "RankLoad",
    "Sourced",
    "Times",
    "Topology",
    "choose_machine",
    "list_lines",
    "list_machines",
    "load_machine",
    "machine_directory",
    "machine_lines",
    "measured_file",
    "missing_write_rates",
    "modelled_times",
    "parse_machine",
    "range_ends",
    "read_machine_file",
    "stated_values",
    "tiered_times",
]
