"""The values that a study gives one of its inputs: a list of them, or a range."""

import math
from dataclasses import dataclass
from typing import Any, Literal, Self

from pydantic import Field, ValidationError, model_validator

from pagelens.spelling import nearest
from pagelens.units import FREQUENCY_UNITS, RATE_UNITS, SIZE_UNITS, TIME_UNITS, split_quantity
from pagelens.values.quantities import Table

Value = str | int | float
DIGITS = 4  # significant ones of a value within a range
MOST_STEPS = 10_000


class Range(Table):
    """A range goes from one value to another: numbers, or texts with one unit such as "60 GB/s"."""

    low: Value = Field(alias="from")
    high: Value = Field(alias="to")
    # The steps of a grid; a sample takes any value.
    steps: int | None = Field(default=None, ge=2, le=MOST_STEPS)
    scale: Literal["linear", "log"] = "linear"

    @model_validator(mode="after")
    def _is_a_range(self) -> Self:
        (low, unit), (high, other) = _split(self.low), _split(self.high)
        if unit != other:
            raise ValueError(f"from {self.low} to {self.high}: write both ends with the same unit")
        if not low < high:
            raise ValueError(f"from {self.low} to {self.high}: 'from' must be less than 'to'")
        if self.scale == "log" and low <= 0:
            raise ValueError(f"from {self.low}: a logarithmic scale needs a value above 0")
        return self

    def at(self, share: float) -> Value:
        """Return the value at a share of the way, from 0 to 1; whole between whole numbers without a unit.

        Both ends are as stated, and others are rounded to DIGITS within them.
        """
        (low, unit), (high, _) = _split(self.low), _split(self.high)
        number = low if share == 0 else high if share == 1 else self._between(low, high, share)
        if isinstance(self.low, int) and isinstance(self.high, int):
            return round(number)
        rounded = float(f"{number:.{DIGITS}g}")
        if number in (low, high) or not low < rounded < high:
            return self.low if number - low < high - number else self.high
        return f"{rounded:.12g} {unit}" if unit else rounded

    def drawn(self, share: float) -> Value:
        """Return the value at a share of a sample. All whole numbers have equal parts, the ends too."""
        if isinstance(self.low, int) and isinstance(self.high, int):
            number = round(self._between(self.low - 0.5, self.high + 0.5, share))
            return min(max(number, self.low), self.high)
        return self.at(share)

    def _between(self, low: float, high: float, share: float) -> float:
        if self.scale == "log":
            return math.exp(math.log(low) + share * (math.log(high) - math.log(low)))
        return low + share * (high - low)


@dataclass(frozen=True)
class Input:
    """The values of one input: those that are listed, or a range."""

    listed: tuple[Value, ...] = ()
    range: Range | None = None

    @property
    def varies(self) -> bool:
        """Return whether there is more than one value."""
        return self.range is not None or len(self.listed) > 1

    def levels(self) -> tuple[Value, ...]:
        """Return the values of a grid. Raises ValueError for a range without steps."""
        if self.range is None:
            return self.listed
        if self.range.steps is None:
            raise ValueError("a range of a grid needs steps; add steps = 5, or a [sample]")
        last = self.range.steps - 1
        return tuple(dict.fromkeys(self.range.at(step / last) for step in range(self.range.steps)))

    def at(self, share: float) -> Value:
        """Return the value at a share from 0 to 1 of a sample; each listed value has an equal part."""
        if self.range is not None:
            return self.range.drawn(share)
        return self.listed[min(int(share * len(self.listed)), len(self.listed) - 1)]


def parse_input(stated: Any) -> Input:
    """Return what a file states of an input: a value, a list, or a table with the keys of a Range.

    Raises ValueError.
    """
    if isinstance(stated, dict):
        try:
            return Input(range=Range.model_validate(stated))
        except ValidationError as error:
            every = error.errors(include_url=False)
            first = min(every, key=lambda each: each["type"] != "extra_forbidden")  # a typo is missing, too
            key = str(first["loc"][0]) if first["loc"] else ""
            message = first["msg"].removeprefix("Value error, ")
            if first["type"] == "extra_forbidden":
                known = [field.alias or name for name, field in Range.model_fields.items()]
                message = f"a range has no such key; did you mean {nearest(key, known)}?"
            raise ValueError(f"{key}: {message}" if key else message) from None
    values = stated if isinstance(stated, list) else [stated]
    if not values:
        raise ValueError("the list is empty; state a value at least")
    for value in values:
        if isinstance(value, bool) or not isinstance(value, str | int | float):
            raise ValueError(f"{value!r:.80}: a value is a text or a number; so are those of a list")
        if isinstance(value, str) and "\0" in value:
            raise ValueError(f"{value!r:.80}: no name has a character 0")
        if isinstance(value, float) and not math.isfinite(value):
            raise ValueError(f"{value}: write a finite number")
    by_quantity: dict[Value, Value] = {}
    for value in values:
        number = as_number(value)
        quantity = value if number is None else number
        if quantity in by_quantity:
            same = by_quantity[quantity]
            told = f"{value!r} is listed twice" if same == value else f"{same!r} and {value!r} are equal"
            raise ValueError(f"{told}; leave one out")
        by_quantity[quantity] = value
    return Input(listed=tuple(values))


def as_number(value: Value) -> float | int | None:
    """Return the value in bytes, bytes a second, seconds or hertz, or as it is; None for another text."""
    if not isinstance(value, str):
        return value
    found = split_quantity(value)
    if found is None or not found[1]:
        return None
    number, unit = found
    for units in (SIZE_UNITS, RATE_UNITS, TIME_UNITS, FREQUENCY_UNITS):
        folded = {known.lower(): scale for known, scale in units.items()}
        if unit.lower() in folded:
            scaled = number * folded[unit.lower()]
            return round(scaled) if units is SIZE_UNITS else scaled
    return None


def _split(value: Value) -> tuple[float, str]:
    if not isinstance(value, str):
        return value, ""
    found = split_quantity(value)
    if found is None:
        raise ValueError(f"{value!r} is no number with a unit, such as '60 GB/s'")
    return found
