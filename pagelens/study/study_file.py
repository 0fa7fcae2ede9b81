"""A study as its file states it: docs/study.md explains every key."""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import BeforeValidator, Field, field_validator, model_validator

from pagelens.errors import UsageError
from pagelens.study.inputs import Input, parse_input
from pagelens.values.quantities import Table
from pagelens.values.toml_file import Document, read_bytes, read_document, validate

EXAMPLE = "docs/study.md"
OF_A_POINT = ("machine", "workload", "size", "trace", "ranks", "history", "age")  # others: machine values
MOST_POINTS = 100_000

Answer = Literal["time", "gain", "spread"]


class Sample(Table):
    """Points drawn from the whole space of the inputs, instead of a grid."""

    method: Literal["sobol", "latin-hypercube", "saltelli"]
    points: int = Field(ge=2, le=MOST_POINTS)  # of "saltelli", those of the base sample

    @model_validator(mode="after")
    def _is_balanced(self) -> Self:
        if self.method != "latin-hypercube" and self.points & (self.points - 1):
            raise ValueError(f"points = {self.points}: a Sobol sample needs a power of two, such as 64")
        return self


def _flat(stated: Any) -> Any:
    """`ddr.bandwidth = ...` is a table within a table in TOML; here it is one key with dots.

    So is `tlb.0.entries`, which is three tables deep.
    """
    if not isinstance(stated, dict):
        return stated
    flat: dict[str, Any] = {}
    for key, value in stated.items():
        if not isinstance(value, dict) or "." in key or key in OF_A_POINT:
            flat[key] = value
            continue
        for inner, each in value.items():
            of_array = inner.isdecimal() and isinstance(each, dict)
            flat |= (
                {f"{key}.{inner}.{last}": v for last, v in each.items()}
                if of_array
                else {f"{key}.{inner}": each}
            )
    return flat


def _input(stated: Any) -> Input:
    return stated if isinstance(stated, Input) else parse_input(stated)


class StudyFile(Table):
    """What is varied, what is compared at each point, and how surely."""

    version: Literal[1] = Field(alias="schema")
    title: str = Field(min_length=1)
    policies: list[str] = Field(default=["aged"], min_length=1)
    nodes: Annotated[int, Field(gt=0, le=100_000)] | None = None  # without it, as many as the precision needs
    precision: Annotated[float, Field(gt=0, le=1)] | None = None
    seed: Annotated[int, Field(ge=0, lt=1 << 63)] = 1
    phase: str | None = None
    answer: Answer | None = None  # without it the gain, or the time if there is one policy
    sample: Sample | None = None
    inputs: Annotated[dict[str, Annotated[Input, BeforeValidator(_input)]], BeforeValidator(_flat)]

    @field_validator("policies")
    @classmethod
    def _policies_differ(cls, policies: list[str]) -> list[str]:
        twice = [name for name in policies if policies.count(name) > 1]
        if twice:
            raise ValueError(f"{twice[0]!r} is listed twice; leave one out")
        return policies

    @property
    def varied(self) -> list[str]:
        """Return the inputs that have more than one value, in the order of the file."""
        return [name for name, each in self.inputs.items() if each.varies]

    @property
    def asked(self) -> Answer:
        """Return what the study is about."""
        return self.answer or ("gain" if len(self.policies) > 1 else "time")


@dataclass(frozen=True)
class Stated:
    """A study with the places of its keys, and the folder from which its files are named."""

    file: StudyFile
    document: Document
    folder: Path
    path: Path | None  # None if it was stated in Python

    @property
    def name(self) -> str:
        """Return the name of the folder of results."""
        return self.path.stem if self.path is not None else "study"

    def refused(self, name: str, why: object) -> UsageError:
        """Return the error for an input or another key, with its place in the file."""
        location = (name,) if name in StudyFile.model_fields else ("inputs", name)
        return UsageError(f"{self.document.at(*location)}: '{'.'.join(location)}': {why}")


def read_study(study: str | os.PathLike[str] | Mapping[str, Any]) -> Stated:
    """Read a study from a TOML file, or from a mapping with the same keys. Raises UsageError."""
    if isinstance(study, Mapping):
        document = Document("study", "", {"schema": 1, "title": "a study", **study})
        folder, path = Path(), None
    else:
        path = Path(study)
        document = read_document(read_bytes(path, "study"), str(path))
        folder = path.parent
    return Stated(validate(StudyFile, [document], EXAMPLE), document, folder, path)
