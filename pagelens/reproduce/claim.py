"""One claim: what was published, what comes out here, and whether the one is the other."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum

NEAR = 0.25


class Kind(StrEnum):
    """How a figure comes about, which decides whether it can be right or wrong."""

    INPUT = "input"  # a machine file states it
    DERIVED = "derived"  # arithmetic on inputs: another result would be an error of ours
    SHOWN = "shown"  # simulated, but nothing was published to hold it to, or it could not be otherwise here
    PREDICTED = "predicted"  # comes out of a simulation; only this counts


@dataclass(frozen=True)
class Value:
    """A figure as it is shown, and its numbers by name; a name ends in the number's unit, if it has one."""

    text: str
    numbers: Mapping[str, float]


def value(text: str, **numbers: float) -> Value:
    """As value("50% slower", slowdown=0.5)."""
    return Value(text, {name: float(number) for name, number in numbers.items()})


@dataclass(frozen=True)
class Row:
    """One claim of a study's document."""

    claim: str  # a sentence without its full stop
    source: str  # where in the document: a slide, figure or table
    kind: Kind
    published: Value
    obtained: Value
    holds: bool | None = None  # None: an input, or shown
    remark: str = ""  # why it does not come out, where that is known; or what has to be known of it

    def __post_init__(self) -> None:
        if (self.kind in (Kind.INPUT, Kind.SHOWN)) != (self.holds is None):
            raise ValueError(f"{self.claim!r}: inputs and what is shown neither hold nor fail, others do")


def near(obtained: float, published: float) -> bool:
    """Whether a figure (of "80% slower", 0.8) counts as the published one: within a quarter of it.

    For all documents that state a single figure; where one gives a range, that decides.
    """
    return abs(obtained / published - 1) <= NEAR


@dataclass(frozen=True)
class Score:
    """Of the predicted claims."""

    held: int
    failed: int

    @property
    def claims(self) -> int:
        """How many claims count."""
        return self.held + self.failed

    @property
    def in_words(self) -> str:
        """As "5 of 6 predicted claims hold, 1 does not"."""
        if not self.claims:
            return "no predicted claims"
        verb = "holds" if self.held == 1 else "hold"
        rest = f", {self.failed} {'does' if self.failed == 1 else 'do'} not" if self.failed else ""
        return f"{self.held} of {self.claims} predicted claims {verb}{rest}"


def score(rows: Iterable[Row]) -> Score:
    """Inputs and what is derived from them do not count."""
    predicted = [row for row in rows if row.kind is Kind.PREDICTED]
    held = sum(bool(row.holds) for row in predicted)
    return Score(held, len(predicted) - held)
