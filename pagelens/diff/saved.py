"""What is compared, as it lies in a file: explanations, measurements, and what kind a path is of.

Only what a difference needs is read, so explanations of every version since 2 can be compared, and those
that have more fields than this version knows.
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
    """Of an explanation."""

    name: str
    footprint_bytes: int
    threads: int
    ranks: int
    phase: str | None = None
    share_seen: float | None = None


class SavedInput(_Saved):
    """A value of the machine file."""

    name: str
    value: str


class SavedMachine(_Saved):
    """Of an explanation."""

    name: str
    served_by: str
    inputs: list[SavedInput] = []


class SavedSample(_Saved):
    """Of an explanation."""

    nodes: int
    seed: int
    sampled_slots: str = ""
    sampled_lines: str = ""
    version: str = ""


class SavedDistribution(_Saved):
    """Of one policy."""

    policy: str
    median_s: float
    median_low_s: float
    median_high_s: float
    times_s: list[float] = Field(min_length=1)


class SavedPart(_Saved):
    """Of an attribution."""

    mechanism: str
    seconds: float


class SavedAttribution(_Saved):
    """What is read of one policy; only lists of parts are."""

    policy: str
    nodes: str
    time_s: float
    unburdened_s: float
    parts: list[SavedPart]


class SavedObject(_Saved):
    """Of one policy."""

    policy: str
    name: str
    accesses: float
    misses: float


class SavedRemedy(_Saved):
    """Gains of a policy."""

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
    """A point of a measurement on pages of one size."""

    page_size: str
    point: dict[str, Any]
    values: list[float] = Field(min_length=1)


class SavedMeasurement(_Saved):
    """What `pagelens measure` found."""

    kernel: str
    title: str
    unit: str
    more_is_better: bool
    counted: str = ""
    memory_bytes: int
    settings: dict[str, Any] = {}
    ran: dict[str, Any] = {}
    system: dict[str, Any] = {}
    results: list[SavedResult] = Field(min_length=1)


def kind_of(path: Path) -> tuple[Literal["trace", "explanation", "measurement"], Path]:
    """What lies at `path`, and in which file; a folder is that of an explanation or a measurement.

    Raises UsageError where it is nothing that can be compared.
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
    """From a file, or from the object that it would hold. Raises UsageError for what is none."""
    data = _read(source) if isinstance(source, Path) else source
    name = printable(source) if isinstance(source, Path) else "explanation"
    version = data.get("schema_version")
    if not isinstance(version, int) or isinstance(version, bool):
        raise UsageError(f"{name}: is no explanation and no measurement; give what `pagelens` wrote as JSON")
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
    """From a file. Raises UsageError for what is none."""
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
