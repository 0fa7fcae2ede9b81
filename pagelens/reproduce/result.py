"""The findings of a run of studies, as data for the page, the terminal and --json."""

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

import pagelens
from pagelens.reproduce.claim import Kind, Row, Score, Tried, Value, score
from pagelens.reproduce.context import Scale
from pagelens.reproduce.study import Findings, Study

VERSION = 4  # of the JSON


@dataclass(frozen=True)
class Reproduction:
    """Studies that ran, with their findings. Equal ones give equal pages."""

    scale: Scale
    seed: int
    command: str  # the command that repeats it
    studies: tuple[tuple[Study, Findings], ...] = ()
    missing: tuple[str, ...] = ()  # asked for, but not done yet

    @property
    def rows(self) -> Iterator[Row]:
        """The rows of all studies."""
        for _, findings in self.studies:
            yield from findings.rows

    @property
    def score(self) -> Score:
        """The score of all studies."""
        return score(self.rows)

    def with_findings(self, study: Study, findings: Findings) -> "Reproduction":
        """Return this result with one more study."""
        return Reproduction(
            self.scale,
            self.seed,
            self.command,
            (*self.studies, (study, findings)),
            tuple(name for name in self.missing if name != study.name),
        )

    def to_json(self) -> dict[str, Any]:
        """Return the result as docs/reproduce.md describes it."""
        return {
            "version": VERSION,
            "pagelens": pagelens.__version__,
            "scale": self.scale.value,
            "seed": self.seed,
            "score": _score(self.score),
            "missing": list(self.missing),
            "studies": [
                {
                    "name": study.name,
                    "title": study.title,
                    "source": study.source,
                    "note": study.note,
                    "score": _score(score(findings.rows)),
                    "rows": [_row(row) for row in findings.rows],
                    "figures": [figure.key for figure in findings.figures],
                }
                for study, findings in self.studies
            ],
        }


def _score(found: Score) -> dict[str, int]:
    return {"held": found.held, "failed": found.failed}


def _row(row: Row) -> dict[str, Any]:
    return {
        "claim": row.claim,
        "source": row.source,
        "kind": row.kind.value,
        "published": _value(row.published),
        "obtained": _value(row.obtained),
        "holds": row.holds,
        "remark": row.remark,
        "decided_by": row.decided_by,
        "tried": None if row.tried is None else {**asdict(row.tried), "verdict": row.tried.verdict.value},
    }


def row_from_json(data: dict[str, Any]) -> Row:
    """Return the row that `Reproduction.to_json` wrote as this element of `rows`."""
    tried = data["tried"] and {key: each for key, each in data["tried"].items() if key != "verdict"}
    return Row(
        claim=data["claim"],
        source=data["source"],
        kind=Kind(data["kind"]),
        published=Value(**data["published"]),
        obtained=Value(**data["obtained"]),
        holds=data["holds"],
        remark=data["remark"],
        tried=Tried(**tried) if tried else None,
        decided_by=data["decided_by"],
    )


def _value(shown: Value) -> dict[str, Any]:
    return {"text": shown.text, "numbers": dict(shown.numbers)}


def verdict(row: Row) -> str:
    """Return the verdict in a word. Only a predicted claim can hold or fail."""
    if row.holds is None:
        return row.kind.value
    if row.tried is not None:
        return row.tried.verdict.value
    if row.kind is Kind.DERIVED:
        return "derived" if row.holds else "derived, wrong"
    return "holds" if row.holds else "does not hold"
