"""Readers of saved explanations and measurements, for `pagelens diff`.

They read only the fields that a difference needs. So they accept every version of explanations since 2, and
fields that this version does not know.
"""

import json
from pathlib import Path
from typing import Any, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from pagelens.accesses.trace import is_trace
from pagelens.errors import Failure, UsageError
from pagelens.explain.model import SCHEMA_VERSION
from pagelens.spelling import printable

OLDEST_EXPLANATION = 2
MEASUREMENT_VERSION = 1
_FILES = ("explanation.json", "measure.json")


class _Saved(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore", allow_inf_nan=False)


Model = TypeVar("Model", bound=_Saved)


class SavedProgram(_Saved):
    """The program of an explanation."""

    name: str
    footprint_bytes: int
    threads: int
    ranks: int
    phase: str | None = None
    share_seen: float | None = None


class SavedInput(_Saved):
    """One value of the machine file that the result depends on."""

    name: str
    value: str


class SavedMachine(_Saved):
    """The machine of an explanation."""

    name: str
    served_by: str
    inputs: list[SavedInput] = []


class SavedSample(_Saved):
    """The simulated nodes of an explanation."""

    nodes: int
    seed: int
    sampled_slots: str = ""
    sampled_lines: str = ""
    version: str = ""


class SavedDistribution(_Saved):
    """The times of the nodes under one policy."""

    policy: str
    median_s: float
    median_low_s: float
    median_high_s: float
    times_s: list[float] = Field(min_length=1)


class SavedPart(_Saved):
    """The seconds that one mechanism costs."""

    mechanism: str
    seconds: float


class SavedAttribution(_Saved):
    """The time of one policy, divided among the mechanisms."""

    policy: str
    nodes: str
    time_s: float
    unburdened_s: float
    parts: list[SavedPart]


class SavedObject(_Saved):
    """The counts of one object under one policy."""

    policy: str
    name: str
    accesses: float
    misses: float


class SavedRemedy(_Saved):
    """What a policy gains over the baseline."""

    policy: str
    gain_median: float
    verdict: str = ""


class SavedExplanation(_Saved):
    """An explanation of version OLDEST_EXPLANATION or later."""

    program: SavedProgram
    machine: SavedMachine
    sample: SavedSample
    baseline: str
    distributions: list[SavedDistribution] = Field(min_length=1)
    attributions: list[SavedAttribution] = []
    objects: list[SavedObject] = []
    remedies: list[SavedRemedy] = []


class SavedResult(_Saved):
    """The values measured at one point, on pages of one size."""

    page_size: str
    point: dict[str, Any]
    values: list[float] = Field(min_length=1)


class SavedTrial(_Saved):
    """One page map, and whether others' work disturbed its measurement."""

    disturbed: bool = False


class SavedMeasurement(_Saved):
    """The result of `pagelens measure`."""

    kernel: str
    title: str
    unit: str
    more_is_better: bool
    counted: str = ""
    memory_bytes: int
    settings: dict[str, Any] = {}
    ran: dict[str, Any] = {}
    system: dict[str, Any] = {}
    trials: list[SavedTrial] = []
    results: list[SavedResult] = Field(min_length=1)


def kind_of(path: Path) -> tuple[Literal["trace", "explanation", "measurement"], Path]:
    """Return the kind of result at `path`, and the file that holds it.

    A folder stands for the explanation or measurement in it. Raises UsageError if nothing there can be
    compared.
    """
    if path.is_dir():
        found = [path / name for name in _FILES if (path / name).is_file()]
        if not found:
            raise UsageError(f"{printable(path)}: the folder has no {' or '.join(_FILES)}; name a result")
        if len(found) > 1:
            raise UsageError(
                f"{printable(path)}: the folder has {' and '.join(_FILES)}; name one of the files"
            )
        path = found[0]
    if not path.exists():
        raise UsageError(f"{printable(path)}: there is no such file; name a result, its folder or a trace")
    if is_trace(path):
        return "trace", path
    data = _read(path)
    return ("measurement" if data.get("schema") == "pagelens measure" else "explanation"), path


def read_explanation(source: Path | dict[str, Any]) -> SavedExplanation:
    """Return the explanation of a file, or of the JSON object that such a file holds.

    Raises UsageError if it is none.
    """
    data = _read(source) if isinstance(source, Path) else source
    name = printable(source) if isinstance(source, Path) else "explanation"
    version = data.get("schema_version")
    if not isinstance(version, int) or isinstance(version, bool):
        raise UsageError(f"{name}: is no explanation and no measurement; give JSON of `explain` or `measure`")
    if version > SCHEMA_VERSION:
        raise UsageError(
            f"{name}: has schema_version {version}, and {SCHEMA_VERSION} is the newest known; update pagelens"
        )
    if version < OLDEST_EXPLANATION:
        raise UsageError(
            f"{name}: has schema_version {version}; {OLDEST_EXPLANATION} to {SCHEMA_VERSION} can be read, so "
            "explain the trace again"
        )
    return _checked(SavedExplanation, data, name)


def read_measurement(path: Path) -> SavedMeasurement:
    """Return the measurement that a file holds. Raises UsageError if it holds none."""
    data, name = _read(path), printable(path)
    if data.get("version") != MEASUREMENT_VERSION:
        version = data.get("version")
        raise UsageError(
            f"{name}: has version {version!r}, and {MEASUREMENT_VERSION} is known; update pagelens"
        )
    if data.get("kernel") is None:
        raise UsageError(f"{name}: is no measurement over page maps; such are compared")
    return _checked(SavedMeasurement, data, name)


def _checked(model: type[Model], data: dict[str, Any], name: str) -> Model:
    try:
        return model.model_validate(data)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"]))
        raise UsageError(
            f"{name}: {where}: {first['msg'].lower()}; the file is damaged, make it again"
        ) from None


def _read(path: Path) -> dict[str, Any]:
    name = printable(path)
    try:
        data = json.loads(path.read_bytes())
    except OSError as error:
        raise Failure(f"{name}: {error.strerror}; name a file that can be read") from None
    except (ValueError, RecursionError):
        raise UsageError(f"{name}: is neither JSON nor a trace; name what `pagelens` wrote") from None
    if not isinstance(data, dict):
        raise UsageError(f"{name}: holds no JSON object; name what `pagelens` wrote")
    return data
