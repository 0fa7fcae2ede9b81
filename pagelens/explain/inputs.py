"""The machine file's values as a flat list, each with where it comes from."""

from collections.abc import Iterator

from pydantic import BaseModel

from pagelens.explain.model import Input
from pagelens.machine import Machine, Sourced


def machine_inputs(machine: Machine) -> list[Input]:
    """Every sourced value of the machine, in the order of its file."""
    return list(_walk(machine, ""))


def _walk(table: BaseModel, prefix: str) -> Iterator[Input]:
    for name in type(table).model_fields:
        value = getattr(table, name)
        if isinstance(value, Sourced):
            yield Input(name=prefix + name, value=value.shown, origin=value.label, note=value.origin)
        elif isinstance(value, BaseModel):
            yield from _walk(value, f"{prefix}{name}.")
        elif isinstance(value, list):
            for number, item in enumerate(value):
                if isinstance(item, BaseModel):
                    yield from _walk(item, f"{prefix}{name}.{number}.")
