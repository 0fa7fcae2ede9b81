"""The section [pipeline] of a machine: the time that a core needs for instructions whose data are in L1.

docs/core-model.md describes the model. Ports and latencies are those that uops.info (Abel, Reineke:
uops.info, ASPLOS 2019) and Fog (Instruction tables, agner.org/optimize) measure. OSACA and uiCA have similar
models.
"""

import re
from typing import Annotated, Any, NamedTuple

from pydantic import BeforeValidator, Field

from pagelens import _core
from pagelens.values.quantities import Sourced, Table, Unit

_PORTS = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ"


class PortUse(NamedTuple):
    """What one operation asks of a core."""

    cycles: int  # its latency
    ports: int  # a bit for each port that can execute it
    every: int = 1  # cycles from one to the next


def _parse_ports(text: Any) -> int:
    if not isinstance(text, str) or re.fullmatch(f"[{_PORTS}]+", text) is None or len(set(text)) < len(text):
        raise ValueError(f'{text!r} is no list of ports; write each by a digit or capital, as "0156"')
    return sum(1 << _PORTS.index(port) for port in text)


def _parse_use(text: Any) -> PortUse:
    found = re.fullmatch(f"([0-9]+) on ([{_PORTS}]+)(?: every ([0-9]+))?", str(text))
    cycles, every = (int(found[1]), int(found[3] or 1)) if found else (0, 0)
    if not found or not (1 <= cycles <= 255 and 1 <= every <= 255):
        raise ValueError(
            f'{text!r} is no latency and ports; write cycles from 1 to 255 and ports, as "3 on 1" or '
            '"13 on 0 every 4" where the next one can begin 4 cycles later'
        )
    return PortUse(cycles, _parse_ports(found[2]), every)


def _show_ports(ports: int) -> str:
    return "".join(name for number, name in enumerate(_PORTS) if ports >> number & 1)


def _show_use(use: PortUse) -> str:
    every = f" every {use.every}" if use.every > 1 else ""
    return f"{use.cycles} on {_show_ports(use.ports)}{every}"


Ports = Annotated[int, BeforeValidator(_parse_ports), Unit(_show_ports, 'ports, as "0156"')]
Use = Annotated[
    PortUse, BeforeValidator(_parse_use), Unit(_show_use, 'latency and ports, as "13 on 0 every 4"')
]
Few = Annotated[int, Field(gt=0, le=65_535)]  # more than any core has


class Pipeline(Table):
    """How one core executes instructions. Ports have any names of one digit or capital."""

    window: Sourced[Few] = Field(description="instructions in flight at most: the reorder buffer")
    retire_width: Sourced[Few] = Field(description="instructions that leave it in a cycle")
    scheduler: Sourced[Few] = Field(
        description="instructions at most that wait for operands or a port: the reservation stations"
    )
    vector_scheduler: Sourced[Few] | None = Field(
        default=None, description="the same of vector operations, if they have entries of their own"
    )
    integer_results: Sourced[Few] | None = Field(
        default=None,
        description="results to general registers in flight at most: the physical registers beyond those of "
        "the program; without it, as many as the window has",
    )
    decode_width: Sourced[Few] = Field(
        description="instructions decoded in a cycle that the cache of decoded ones does not hold"
    )
    op_cache: Sourced[Few] | None = Field(
        default=None, description="instructions that the cache of decoded ones holds, if there is one"
    )
    code_cache: Sourced[Few] = Field(description="lines of 64 B in the L1 of instructions")
    load_cycles: Sourced[Few] = Field(
        description="the cycles from a load's address to its data, if L1 has them"
    )
    vector_load_cycles: Sourced[Few] = Field(description="the same of a load to a vector register")
    forward_cycles: Sourced[Few] = Field(
        description="the cycles from the data of a store to a load that takes them before they are in L1"
    )
    add_to_add_cycles: Sourced[Few] | None = Field(
        default=None,
        description="the cycles from a floating-point addition to one that takes its result, if these are "
        "fewer than to other operations",
    )
    mispredict_cycles: Sourced[Few] = Field(
        description="the cycles from the execution of a mispredicted branch to the dispatch of the next "
        "instruction"
    )
    load_misses: Sourced[Few] = Field(
        description="lines in flight, at most, that L1 does not have: its line fill buffers"
    )
    load_ports: Sourced[Ports] = Field(description="ports that can begin a load")
    vector_load_ports: Sourced[Ports] = Field(description="the part of these for vector registers")
    store_ports: Sourced[Ports] = Field(description="ports that can take the address of a store")
    store_data_ports: Sourced[Ports] = Field(description="ports that can take its data")
    vector_store_data_ports: Sourced[Ports] = Field(description="the same of vector registers")
    integer: Sourced[Use] = Field(description="additions, logic, comparisons")
    select: Sourced[Use] = Field(description="moves and values by flags: cmov, set")
    shift: Sourced[Use] = Field(description="shifts, rotations, tests of bits")
    multiply: Sourced[Use] = Field(description="integer multiplications, searches for a bit")
    divide: Sourced[Use] = Field(description="integer divisions of up to 32 bits")
    long_divide: Sourced[Use] = Field(description="integer divisions of 64 bits")
    branch: Sourced[Use] = Field(description="conditional and indirect branches")
    fp_add: Sourced[Use] = Field(description="floating-point additions, minima, comparisons")
    fp_multiply: Sourced[Use] = Field(description="floating-point multiplications")
    fused: Sourced[Use] = Field(description="multiplications with an addition")
    fp_divide: Sourced[Use] = Field(description="floating-point divisions (double precision)")
    root: Sourced[Use] = Field(description="square roots (double precision)")
    fp_compare: Sourced[Use] = Field(description="comparisons and tests of vector registers to flags")
    vector: Sourced[Use] = Field(description="logic and integer additions of vectors")
    vector_shift: Sourced[Use] = Field(description="shifts of vectors")
    vector_multiply: Sourced[Use] = Field(description="integer multiplications of vectors")
    shuffle: Sourced[Use] = Field(description="shuffles within 16 bytes")
    cross_lane: Sourced[Use] = Field(description="shuffles across 16 bytes, broadcasts")
    convert: Sourced[Use] = Field(description="conversions between kinds of numbers")
    crossing: Sourced[Use] = Field(description="a move from a general to a vector register or back")

    def cycles_of_loads(self, integer: int, vector: int) -> float:
        """Return the cycles for which so many loads keep their ports busy, if they are evenly spread."""
        ports = self.load_ports.value | self.vector_load_ports.value
        every = (integer + vector) / ports.bit_count()
        return max(every, vector / self.vector_load_ports.value.bit_count())

    def shape(self, width: int) -> _core.PipelineShape:
        """Return the parameters of the core model, with `width` instructions dispatched in a cycle."""
        shape = _core.PipelineShape()
        shape.width, shape.retire_width = width, self.retire_width.value
        shape.window, shape.scheduler = self.window.value, self.scheduler.value
        shape.vector_scheduler = 0 if self.vector_scheduler is None else self.vector_scheduler.value
        shape.integer_results = 0 if self.integer_results is None else self.integer_results.value
        shape.load_cycles, shape.vector_load_cycles = self.load_cycles.value, self.vector_load_cycles.value
        shape.forward_cycles, shape.mispredict_cycles = (
            self.forward_cycles.value, self.mispredict_cycles.value,
        )  # fmt: skip
        shape.add_to_add_cycles = 0 if self.add_to_add_cycles is None else self.add_to_add_cycles.value
        shape.outstanding = self.load_misses.value
        shape.load_ports, shape.vector_load_ports = self.load_ports.value, self.vector_load_ports.value
        shape.store_ports, shape.store_data_ports = self.store_ports.value, self.store_data_ports.value
        shape.vector_store_data_ports = self.vector_store_data_ports.value
        for operation, name in enumerate(_OPERATIONS, start=1):
            shape.set_operation(operation, *_in_order(getattr(self, name).value))
        shape.set_operation(_SLOW, *_in_order(PortUse(20, self.integer.value.ports, 10)))
        return shape


# Fields that are plain numbers, for which other values can be tried.
PIPELINE_NUMBERS = (
    "window", "retire_width", "scheduler", "vector_scheduler", "integer_results", "decode_width", "op_cache",
    "code_cache", "load_cycles", "vector_load_cycles", "forward_cycles", "add_to_add_cycles",
    "mispredict_cycles", "load_misses",
)  # fmt: skip
# The numbers are those of Operation in core/machine/pipeline.hpp, from 1 on.
_OPERATIONS = (
    "integer", "select", "shift", "multiply", "divide", "long_divide", "branch", "fp_add", "fp_multiply",
    "fused", "fp_divide", "root", "fp_compare", "vector", "vector_shift", "vector_multiply", "shuffle",
    "cross_lane", "convert", "crossing",
)  # fmt: skip
_SLOW = len(_OPERATIONS) + 1  # microcode: some dozen operations, each waiting for the one before


def _in_order(use: PortUse) -> tuple[int, int, int]:
    return use.ports, use.cycles, use.every
