"""Computes what a run would take if a value that the machine file only assumes were different.

Only values of the time model are tried: rates, latencies and widths that turn counts into seconds. They
change no count, so trying them takes no replay. The number of lines that a core keeps outstanding also
decides the order in which DRAM serves them, but that order is left as it is.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from pagelens.machine import Machine, NumaLoad, RankLoad, modelled_times
from pagelens.machine.pipeline import PIPELINE_NUMBERS
from pagelens.machine.schema import ServedBy
from pagelens.machine.transfers import Columns
from pagelens.machine.values import stated_values
from pagelens.replay.core_model import CoreModel
from pagelens.replay.run import IfAssumed
from pagelens.values.quantities import Sourced

FACTORS = (1 / 3, 1 / 2, 2 / 3, 3 / 2, 2.0, 3.0)  # of an assumed value whose range is not stated
STEPS = 3  # to each end of a stated range
_OF_TIME_MODEL = frozenset(
    {
        "bandwidth",
        "write_bandwidth",
        "latency",
        "miss_latency",
        "frequency",
        "instructions_per_cycle",
        "outstanding_lines",
        "width",
    }
    | {"walkers", "walk_cycles", "stlb_hit_cycles"}
    | {"small", "large", "zero", "file"}  # of [page_fault]
    | {"latencies", "bandwidths", "write_bandwidths"}  # matrices of NUMA nodes, tried as a whole
    | set(PIPELINE_NUMBERS)
)


def assumed_values(machine: Machine) -> Mapping[str, Sourced[Any]]:
    """Return the values of the time model that are `assumed`, by names such as "ddr.bandwidth".

    On several NUMA nodes the matrices count instead of what [ddr] states of all nodes together.
    """
    return {
        stated.name: stated.value
        for stated in stated_values(machine)
        if stated.value.label == "assumed"
        and is_of_time_model(stated.key)
        and (machine.numa is None or stated.section != "ddr")
    }


def times_if_assumed(
    machine: Machine,
    counts: Columns,
    cores_used: int,
    served_by: ServedBy,
    frequency_factor: float,
    core: CoreModel | None = None,
    numa: NumaLoad | None = None,
    ranks: RankLoad | None = None,
) -> IfAssumed:
    """Return seconds [p] by value and factor, from the counts of one run."""
    return {
        (name, factor): modelled_times(
            changed,
            counts,
            cores_used,
            served_by,
            frequency_factor,
            core.on(changed) if core is not None else None,
            numa,
            ranks,
        ).time_s
        for name, factor, changed in _changed(machine)
    }


def factors_of(sourced: Sourced[Any]) -> tuple[float, ...]:
    """Return the factors by which an assumed value is tried, in order: within its range if it has one."""
    if sourced.range is None:
        return FACTORS
    low, high = (end / sourced.value for end in sourced.range)
    down = [low ** ((STEPS - step) / STEPS) for step in range(STEPS)] if low < 1 else []
    up = [high ** ((step + 1) / STEPS) for step in range(STEPS)] if high > 1 else []
    return (*down, *up)


def is_of_time_model(key: str) -> bool:
    """Return whether a value only turns counts into seconds, so that another one takes no replay."""
    return key in _OF_TIME_MODEL


def _changed(machine: Machine) -> Iterator[tuple[str, float, Machine]]:
    for name, sourced in assumed_values(machine).items():
        section, key = name.rsplit(".", 1)
        table = getattr(machine, section)
        for factor in factors_of(sourced):
            value = scaled(sourced, factor)
            of_table = table.model_copy(update={key: sourced.model_copy(update={"value": value})})
            yield name, factor, machine.model_copy(update={section: of_table})


def scaled(sourced: Sourced[Any], factor: float) -> Any:
    """Return the value times the factor. A count stays a whole number of at least 1.

    Of a matrix, every element is multiplied.
    """
    if isinstance(sourced.value, tuple):
        return tuple(tuple(factor * value for value in row) for row in sourced.value)
    value = factor * sourced.value
    return max(1, round(value)) if isinstance(sourced.value, int) else value
