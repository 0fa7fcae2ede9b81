"""A study: one document's claims, and the run that compares them with the model."""

from collections.abc import Callable
from dataclasses import dataclass

from pagelens.report.drawing import Drawing
from pagelens.reproduce.claim import Row
from pagelens.reproduce.context import StudyContext


@dataclass(frozen=True)
class Findings:
    """The findings of a study, in the order in which they are shown.

    A figure's key is unique among all studies.
    """

    rows: tuple[Row, ...]
    figures: tuple[Drawing, ...]


@dataclass(frozen=True)
class Study:
    """A study. `run` depends only on the scale and seed of its context."""

    name: str
    title: str
    source: str  # author, title, where and when it was published
    run: Callable[[StudyContext], Findings]
    note: str = ""  # says what all of its rows rest on: machine files, stated assumptions
