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


def range_ends(machine: Parts) -> Iterator[tuple[Stated, float, str | float]]:
    """Yield each end of each stated range that is not the value itself, as a number and as a file writes it.

    Values of array sections are left out, because each part of an array has its own.
    """
    for stated in stated_values(machine):
        if "." in stated.section:
            continue
        for end in stated.value.range or []:
            if end != stated.value.value:
                shown = stated.value.model_copy(update={"value": end}).shown
                yield stated, end, shown if shown[-1].isalpha() else end


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
