"""What a study has found: one table, a row for each point and policy."""

import importlib
import itertools
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl

from pagelens.errors import Failure
from pagelens.files import write_table
from pagelens.study.design import Values
from pagelens.study.inputs import Value, as_number
from pagelens.study.points import Points
from pagelens.study.rows import ROWS
from pagelens.study.store import PointStore
from pagelens.study.study_file import StudyFile

POINT = "point"
TABLE = "study.parquet"
NOT_IN_XARRAY = ("times_s", "bound_by")  # nodes may be of another number at each point; a text is no figure


@dataclass(frozen=True)
class StudyResult:
    """The rows of all points that are done, and what was varied.

    `table` has a row for each point and policy: the inputs that vary, in bytes, bytes a second, seconds or
    hertz where they have a unit, and the columns that docs/study.md lists. `missing` counts the points that
    have not been simulated.
    """

    file: StudyFile
    values: list[Values]  # the values of every point, as they were stated
    table: pl.DataFrame
    missing: int
    directory: Path

    @property
    def varied(self) -> list[str]:
        """Return the inputs that have more than one value."""
        return self.file.varied

    @property
    def baseline(self) -> str:
        """Return the policy that gains are over."""
        names = self.table["policy"].unique(maintain_order=True).to_list()
        return "aged" if "aged" in names or not names else str(names[0])

    def to_pandas(self) -> Any:
        """`table` as a pandas DataFrame. Raises Failure where pandas is not installed."""
        _require("pandas", "to_pandas")
        return self.table.to_pandas()

    def to_xarray(self) -> Any:
        """`table` as an xarray Dataset: of a grid with a dimension for each input that varies, and `policy`.

        A sample has the dimensions `point` and `policy`, and its inputs are coordinates of `point`. What is
        missing is NaN. Raises Failure where xarray is not installed.
        """
        xarray = _require("xarray", "to_xarray")
        inputs = {name: self.table[name].unique(maintain_order=True).to_list() for name in self.varied}
        policies = {"policy": self.table["policy"].unique(maintain_order=True).to_list()}
        axes = (inputs if self.file.sample is None else {POINT: list(range(len(self.values)))}) | policies
        every = pl.DataFrame(
            list(itertools.product(*axes.values())),
            schema={name: self.table.schema[name] for name in axes},
            orient="row",
        )
        rows = every.join(self.table, on=list(axes), how="left", maintain_order="left")
        shape = tuple(map(len, axes.values()))
        columns = [name for name in ROWS if name != "policy" and name not in NOT_IN_XARRAY]
        data = {
            name: (tuple(axes), rows[name].cast(pl.Float64).to_numpy().reshape(shape)) for name in columns
        }
        coordinates: dict[str, Any] = dict(axes)
        if self.file.sample is not None:
            stated = _inputs(self.varied, self.values)
            coordinates |= {name: (POINT, stated[name].to_list()) for name in self.varied}
        return xarray.Dataset(data, coords=coordinates)

    def __repr__(self) -> str:
        done = len(self.values) - self.missing
        return f"<StudyResult: {self.file.title}: {done} of {len(self.values)} points>"


def result_of(points: Points, store: PointStore, directory: Path, write: bool = True) -> StudyResult:
    """Return the result of the points that are done, and `write` its table beside them. Raises Failure."""
    file, values = points.stated.file, [point.values for point in points.all]
    done = [point for point in points.all if point.key in store]
    inputs = _inputs(file.varied, values)
    rows = [
        store.read(point.key).with_columns(pl.lit(point.number, pl.UInt32).alias(POINT)) for point in done
    ]
    found = pl.concat(rows) if rows else ROWS.to_frame().with_columns(pl.lit(0, pl.UInt32).alias(POINT))
    table = inputs.join(found, on=POINT, how="inner", maintain_order="left")
    if write:
        write_table(directory / TABLE, table)
    return StudyResult(file, values, table, len(values) - len(done), directory)


def _inputs(varied: list[str], values: list[Values]) -> pl.DataFrame:
    """Return a row for each point; a column is of numbers if all values of its input are, else of texts."""
    columns: Mapping[str, list[Value]] = {name: [each[name] for each in values] for name in varied}
    numbers = {name: [as_number(value) for value in of] for name, of in columns.items()}
    return pl.DataFrame(
        {POINT: pl.Series(range(len(values)), dtype=pl.UInt32)}
        | {
            name: pl.Series(list(map(str, of)) if None in numbers[name] else numbers[name], strict=False)
            for name, of in columns.items()
        }
    )


def _require(package: str, method: str) -> Any:
    try:
        return importlib.import_module(package)
    except ImportError:
        raise Failure(f"{method}: needs the package '{package}'; pip install {package}") from None
