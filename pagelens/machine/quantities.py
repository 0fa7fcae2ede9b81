"""The types of values in machine files: each has a unit and says where it comes from."""

from collections.abc import Callable
from typing import Annotated, Any, Generic, Self, TypeVar

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from pagelens.errors import UsageError
from pagelens.units import parse_frequency, parse_rate, parse_size, parse_time

LINE_BYTES = 64
FRAME_BYTES = 4096

T = TypeVar("T")


def _quantity(parse: Callable[[str], T]) -> BeforeValidator:
    def convert(text: Any) -> T:
        if not isinstance(text, str):
            raise ValueError(f'{text!r} has no unit; write a string such as "16 GiB", "90 GB/s", "170 ns"')
        try:
            return parse(text)
        except UsageError as error:
            raise ValueError(str(error)) from None

    return BeforeValidator(convert)


Positive = Annotated[int, Field(gt=0)]
PositiveFloat = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Bytes = Annotated[int, _quantity(parse_size), Field(gt=0, le=1 << 44)]
BytesPerSecond = Annotated[float, _quantity(parse_rate), Field(gt=0)]
Seconds = Annotated[float, _quantity(parse_time), Field(gt=0)]
Hertz = Annotated[float, _quantity(parse_frequency), Field(gt=0)]


class Table(BaseModel):
    """A table of a file: every key is known, every value has its type."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class Sourced(Table, Generic[T]):
    """A value and where it is from: exactly one of a document, a calibration input, an assumption."""

    value: T
    source: str | None = None
    input: str | None = None  # a measured figure that the model is calibrated on, hence never a prediction
    assumed: str | None = None

    @model_validator(mode="after")
    def _one_origin(self) -> Self:
        stated = [text for text in (self.source, self.input, self.assumed) if text]
        if len(stated) != 1:
            raise ValueError('state exactly one of source = "...", input = "..." or assumed = "..."')
        return self

    @property
    def label(self) -> str:
        """ "source", "input" or "assumed"."""
        return "source" if self.source else "input" if self.input else "assumed"
