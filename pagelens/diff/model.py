"""The model of a difference, which `pagelens diff --json` prints and the terminal shows."""

from typing import Literal

from pydantic import BaseModel, ConfigDict

SCHEMA_VERSION: Literal[1] = 1  # of the JSON; a version only adds

Verdict = Literal["same", "more", "less", "unsure", "only A", "only B"]


class _Record(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Setting(_Record):
    """A setting that differs between A and B."""

    name: str
    a: str
    b: str


class Row(_Record):
    """One figure in A and in B.

    `verdict` is "more" or "less" if B surely differs from A, and "unsure" if chance may have made the
    difference. A figure without an interval is a count, or a mean whose spread the input does not hold.
    """

    name: str
    a: float | None
    b: float | None
    ratio: float | None  # B over A
    ratio_low: float | None = None  # 95% interval
    ratio_high: float | None = None
    p: float | None = None  # the test's p-value, where there is a test
    verdict: Verdict
    worse: bool = False  # surely, and by more than the threshold
    better: bool = False
    note: str = ""


class Table(_Record):
    """Figures of one kind."""

    name: str  # such as "times" or "objects"
    title: str
    unit: Literal["s", "lines", "bytes", "count", "x", "rate", "ns", "share"]
    counted: bool  # rather than drawn from a distribution
    rows: list[Row]

    def row(self, name: str) -> Row:
        """Return the row of that name."""
        return next(row for row in self.rows if row.name == name)


class Difference(_Record):
    """The difference between two results of one kind."""

    schema_name: Literal["pagelens diff"] = "pagelens diff"
    schema_version: Literal[1] = SCHEMA_VERSION
    kind: Literal["explanations", "measurements", "traces"]
    a: str
    b: str
    sentences: list[str]  # the answer
    threshold: float  # smaller changes are neither worse nor better: 0.02 is 2%
    settings: list[Setting]
    tables: list[Table]

    @property
    def slower(self) -> bool:
        """Whether B is surely worse in any row, by more than the threshold."""
        return any(row.worse for table in self.tables for row in table.rows)

    @property
    def different(self) -> bool:
        """Whether B is surely worse or better in any row, by more than the threshold."""
        return self.slower or any(row.better for table in self.tables for row in table.rows)

    def table(self, name: str) -> Table:
        """Return the table of that name."""
        return next(table for table in self.tables if table.name == name)

    def __repr__(self) -> str:
        return "\n".join(self.sentences)

    __str__ = __repr__
