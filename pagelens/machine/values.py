"""Lists all that a machine file states, value by value."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel

from pagelens.machine.parts import Parts
from pagelens.values.quantities import Sourced, Table


@dataclass(frozen=True)
class Stated:
    """One value: its section ("l1", "tlb.0"), its key, and what the file states there."""

    section: str
    key: str
    value: Sourced[Any]

    @property
    def name(self) -> str:
        """The name of the value, such as "l1.size"."""
        return f"{self.section}.{self.key}"


def stated_values(machine: Parts) -> Iterator[Stated]:
    """Yield every sourced value of the machine, in the order of the schema."""
    for section, content in machine.sections.items():
        if isinstance(content, Table):
            yield from _of(section, content)
        else:
            for number, table in enumerate(content):
                yield from _of(f"{section}.{number}", table)


def _of(section: str, table: BaseModel) -> Iterator[Stated]:
    for key in type(table).model_fields:
        value = getattr(table, key)
        if isinstance(value, Sourced):
            yield Stated(section, key, value)
