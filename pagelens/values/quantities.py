"""The types of values in machine files. Each has a unit and states its origin."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any, Generic, Literal, Self, TypeVar

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from pagelens.errors import UsageError
from pagelens.units import (
    format_binary_size,
    format_rate,
    format_time,
    parse_frequency,
    parse_rate,
    parse_size,
    parse_time,
)

T = TypeVar("T")


@dataclass(frozen=True)
class Unit:
    """How values of a type are written. It is found in the type's metadata."""

    show: Callable[[Any], str]
    kind: str  # the kind's name in the schema's reference


def _quantity(parse: Callable[[str], T]) -> BeforeValidator:
    def convert(text: Any) -> T:
        if not isinstance(text, str):
            raise ValueError(f'{text!r} has no unit; write a string such as "16 GiB", "90 GB/s", "170 ns"')
        try:
            return parse(text)
        except UsageError as error:
            raise ValueError(str(error)) from None

    return BeforeValidator(convert)


_SIZE = Unit(lambda value: format_binary_size(value, 6), 'size, as "16 GiB"')
_RATE = Unit(lambda value: format_rate(value, 6), 'rate, as "90 GB/s"')
_TIME = Unit(lambda value: format_time(value, 6), 'time, as "154 ns"')
_FREQUENCY = Unit(lambda value: f"{value / 1e9:g} GHz", 'frequency, as "1.4 GHz"')

Positive = Annotated[int, Field(gt=0)]
Natural = Annotated[int, Field(ge=0)]
PositiveFloat = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Bytes = Annotated[int, _quantity(parse_size), _SIZE, Field(gt=0, le=1 << 44)]
BytesPerSecond = Annotated[float, _quantity(parse_rate), _RATE, Field(gt=0)]
Seconds = Annotated[float, _quantity(parse_time), _TIME, Field(gt=0)]
Hertz = Annotated[float, _quantity(parse_frequency), _FREQUENCY, Field(gt=0)]


class Table(BaseModel):
    """A table of a file. Every key is known, and every value has its type."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class Sourced(Table, Generic[T]):
    """A value with its origin, which is a document, a calibration input, or an assumption."""

    value: T
    source: str | None = None
    input: str | None = None  # a measured figure that the model is calibrated on, hence never a prediction
    assumed: str | None = None
    range: list[T] | None = None  # the least and the largest value that an assumed number can well have

    @model_validator(mode="after")
    def _one_origin(self) -> Self:
        stated = [text for text in (self.source, self.input, self.assumed) if text]
        if len(stated) != 1:
            raise ValueError('state exactly one of source = "...", input = "..." or assumed = "..."')
        return self

    @model_validator(mode="after")
    def _range_holds_the_value(self) -> Self:
        if self.range is None:
            return self
        if not self.assumed:
            raise ValueError("a range is of an assumed value; leave it out, or give the reason as assumed")
        ends: list[Any] = self.range
        if len(ends) != 2 or not all(isinstance(end, int | float) for end in ends):
            raise ValueError('a range is two numbers, as range = ["60 GB/s", "110 GB/s"]')
        if not ends[0] <= self.value <= ends[1] or ends[0] == ends[1]:
            raise ValueError("the value must lie between the two ends of its range")
        return self

    @property
    def label(self) -> Literal["source", "input", "assumed"]:
        """The kind of origin: "source", "input" or "assumed"."""
        return "source" if self.source else "input" if self.input else "assumed"

    @property
    def origin(self) -> str:
        """The document, the calibration figure, or the reason of the assumption."""
        return self.source or self.input or self.assumed or ""

    @property
    def shown(self) -> str:
        """The value with its unit, as a file could state it."""
        metadata = type(self).model_fields["value"].metadata
        unit = next((item for item in metadata if isinstance(item, Unit)), None)
        if unit is not None:
            return unit.show(self.value)
        return f"{self.value:g}" if isinstance(self.value, float) else str(self.value)
