"""Runs studies again with other inputs, and says which claims survive that.

The inputs are the seed, and both ends of each range that the machine files of a study state for an assumed
value. One is changed at a time.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from pagelens.machine import Machine, range_ends
from pagelens.reproduce.claim import NEAR, Kind, Row, Tried
from pagelens.reproduce.context import Changes, StudyContext
from pagelens.reproduce.study import Findings, Study

SEEDS = 2  # beside the one that was asked for
BAND = 2.0  # published figures from half to twice the obtained one are plausible before anybody looks


@dataclass(frozen=True)
class Variation:
    """One input that is changed."""

    seed: int
    changes: Changes  # of machines, by their name


def with_ranges(study: Study, seed: int) -> Study:
    """Return the study with `tried` in its predicted rows. It runs once more for each variation."""

    def run(context: StudyContext) -> Findings:
        found = study.run(context)
        again = [
            study.run(
                StudyContext(
                    context.scale,
                    each.seed,
                    context.directory / "ranges" / str(number),
                    context.progress,
                    context.cancel,
                    each.changes,
                    varied=True,
                )
            )
            for number, each in enumerate(list(_variations(seed, context.machines)))
        ]
        return Findings(
            tuple(
                replace(row, tried=_tried([row, *(_same(row, each.rows) for each in again)]))
                if row.kind is Kind.PREDICTED
                else row
                for row in found.rows
            ),
            found.figures,
        )

    return replace(study, run=run)


def _variations(seed: int, machines: Mapping[str, Machine]) -> Iterator[Variation]:
    for step in range(1, SEEDS + 1):
        yield Variation(seed + step, {})
    for name, machine in machines.items():
        for stated, _, written in range_ends(machine):
            yield Variation(seed, {name: {stated.name: written}})


def _same(row: Row, rows: Sequence[Row]) -> Row:
    """Return the row of the same claim. Claims have the same words and order in each run of a study."""
    return next(other for other in rows if (other.claim, other.source) == (row.claim, row.source))


def _tried(rows: Sequence[Row]) -> Tried:
    name = next(iter(rows[0].obtained.numbers), "")

    def figure(row: Row) -> float:
        return row.obtained.numbers.get(name, math.nan)

    ordered = sorted(rows, key=lambda row: (figure(row), row.obtained.text))  # text may tell more than it
    lowest, highest = ordered[0], ordered[-1]
    published = rows[0].published.numbers.get(name)
    return Tried(
        inputs=len(rows),
        contradicted=sum(not row.holds for row in rows),
        low=figure(lowest),
        high=figure(highest),
        low_text=lowest.obtained.text,
        high_text=highest.obtained.text,
        between=published is not None and figure(lowest) < published < figure(highest),
        power=_power(rows[0], name, figure(lowest), figure(highest)),
    )


def _power(row: Row, name: str, low: float, high: float) -> float | None:
    """Return the share of plausible published figures that would have contradicted the range.

    Plausible are figures from half to twice the obtained one, evenly in the logarithm. The range is as wide
    as `near` makes it. A claim without a single published figure has no such share.
    """
    if name not in row.published.numbers or low <= 0:
        return None
    obtained = row.obtained.numbers[name]
    least = max(math.log(low / (1 + NEAR) / obtained), -math.log(BAND))
    most = min(math.log(high / (1 - NEAR) / obtained), math.log(BAND))
    return 1 - (most - least) / (2 * math.log(BAND))
