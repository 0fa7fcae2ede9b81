"""One claim: the published figure, the figure of the model, and whether the two agree."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum

NEAR = 0.25  # a figure is near a published one within this share of it


class Kind(StrEnum):
    """Where a figure comes from. This decides whether it can be right or wrong."""

    INPUT = "input"  # a machine file states it
    DERIVED = "derived"  # it follows from inputs by arithmetic, so that another result would be our error
    SHOWN = (
        "shown"  # it is simulated, but an unpublished input decides it, or nothing was published to compare
    )
    PREDICTED = "predicted"  # it comes out of a simulation; only this kind counts


@dataclass(frozen=True)
class Value:
    """A figure as text, and its numbers by name. A name ends in its number's unit, if it has one."""

    text: str
    numbers: Mapping[str, float]


def value(text: str, **numbers: float) -> Value:
    """Return a figure, as in `value("50% slower", slowdown=0.5)`."""
    return Value(text, {name: float(number) for name, number in numbers.items()})


class Verdict(StrEnum):
    """The range of a predicted claim when its inputs are varied within their ranges."""

    HELD = "held"  # with all of them
    FAILED = "failed"  # with all of them
    UNDECIDED = "undecided"  # the inputs decide, or the range is too wide to have failed


@dataclass(frozen=True)
class Tried:
    """The outcome of one row with other seeds, and at both ends of its machines' assumed ranges."""

    inputs: int  # with those that the study states
    contradicted: int  # of these, how many make the claim fail
    low: float  # of the row's first number
    high: float
    low_text: str  # the obtained figure as the row states it, where that number is lowest
    high_text: str
    between: bool  # the published figure lies between low and high, so inputs between may give it
    power: float | None  # the share of plausible published figures that the range excludes

    @property
    def verdict(self) -> Verdict:
        """The verdict over all inputs."""
        if self.contradicted == self.inputs and not self.between:
            return Verdict.FAILED
        too_wide = self.power is not None and self.power <= 0
        return Verdict.UNDECIDED if self.contradicted or too_wide else Verdict.HELD

    @property
    def in_words(self) -> str:
        """The outcome in sentences."""
        if self.verdict is not Verdict.UNDECIDED:
            outcome = f"{self.verdict.capitalize()} with all {self.inputs} inputs tried"
        elif self.contradicted == self.inputs:
            outcome = f"Undecided: the published figure lies between those of the {self.inputs} inputs tried"
        elif self.contradicted:
            outcome = f"Undecided: the claim fails with {self.contradicted} of {self.inputs} inputs tried"
        else:
            outcome = f"Undecided: no published figure could have failed with the {self.inputs} inputs tried"
        figures = f"Obtained: from {self.low_text} to {self.high_text}."
        if self.low_text == self.high_text:
            figures = "All give the same figure."
        power = "" if self.power is None else f" The claim's power is {self.power:.0%}."
        return f"{outcome}. {figures}{power}"


@dataclass(frozen=True)
class Row:
    """One claim of a study's document.

    If a shown row has a published figure that could be compared, `decided_by` says why it is not: which input
    nobody has published, and what comes out over the range of that input.

    Raises ValueError if an input or a shown row states `holds`, if another kind does not, and if a row that
    is not shown has `decided_by`.
    """

    claim: str  # a sentence without its full stop
    source: str  # the place in the document: a slide, figure or table
    kind: Kind
    published: Value
    obtained: Value
    holds: bool | None = None  # None for the kinds `input` and `shown`, which can neither hold nor fail
    remark: str = ""  # why the claim does not hold, where that is known, or what a reader must know of it
    tried: Tried | None = None  # with other inputs, if these were asked for
    decided_by: str = ""  # the unpublished input that decides a shown figure, and the range over that input

    def __post_init__(self) -> None:
        if (self.kind in (Kind.INPUT, Kind.SHOWN)) != (self.holds is None):
            raise ValueError(f"{self.claim!r}: inputs and what is shown neither hold nor fail, others do")
        if self.decided_by and self.kind is not Kind.SHOWN:
            raise ValueError(f"{self.claim!r}: only what is shown is decided by an unpublished input")
        if self.holds is not None:  # comparing numpy's numbers gives numpy's bool, which JSON does not know
            object.__setattr__(self, "holds", bool(self.holds))


def near(obtained: float, published: float) -> bool:
    """Return whether a figure counts as the published one, which means within a quarter of it.

    All studies use this where a document states a single figure. Where it states a range, the range decides.
    """
    return abs(obtained / published - 1) <= NEAR


@dataclass(frozen=True)
class Score:
    """How many predicted claims hold, and how many do not."""

    held: int
    failed: int

    @property
    def claims(self) -> int:
        """The number of claims that count."""
        return self.held + self.failed

    @property
    def in_words(self) -> str:
        """The score as text, such as "5 of 6 predicted claims hold, 1 does not"."""
        if not self.claims:
            return "no predicted claims"
        verb = "holds" if self.held == 1 else "hold"
        rest = f", {self.failed} {'does' if self.failed == 1 else 'do'} not" if self.failed else ""
        return f"{self.held} of {self.claims} predicted claims {verb}{rest}"


def tally(rows: Iterable[Row]) -> Mapping[Verdict, int]:
    """Count the predicted rows by verdict. A row without other inputs is held or has failed."""
    found = [
        row.tried.verdict if row.tried is not None else Verdict.HELD if row.holds else Verdict.FAILED
        for row in rows
        if row.kind is Kind.PREDICTED
    ]
    return {verdict: found.count(verdict) for verdict in Verdict}


def score(rows: Iterable[Row]) -> Score:
    """Count the predicted rows. No other kind counts."""
    predicted = [row for row in rows if row.kind is Kind.PREDICTED]
    held = sum(bool(row.holds) for row in predicted)
    return Score(held, len(predicted) - held)
