"""The machine file's values as a flat list, each with where it comes from."""

from collections.abc import Callable, Iterator

from pydantic import BaseModel

from pagelens.explain.model import Input
from pagelens.machine import Machine, Sourced
from pagelens.units import format_binary_size, format_rate, format_time

_FORMATS: dict[str, Callable[[float], str]] = {
    "size": format_binary_size,
    "bandwidth": format_rate,
    "latency": format_time,
    "miss_latency": format_time,
    "frequency": lambda hertz: f"{hertz / 1e9:g} GHz",
}


def machine_inputs(machine: Machine) -> list[Input]:
    """Every sourced value of the machine, in the order of its file."""
    return list(_walk(machine, ""))


def _walk(table: BaseModel, prefix: str) -> Iterator[Input]:
    for name in type(table).model_fields:
        value = getattr(table, name)
        if isinstance(value, Sourced):
            form = _FORMATS.get(name, _plain)
            yield Input(
                name=prefix + name,
                value=form(value.value),
                origin=value.label,
                note=value.source or value.input or value.assumed or "",
            )
        elif isinstance(value, BaseModel):
            yield from _walk(value, f"{prefix}{name}.")


def _plain(number: float) -> str:
    return f"{number:g}"
