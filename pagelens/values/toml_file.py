"""Reads TOML files into a model. Every error names the file, the line and the key.

tomllib gives no positions, so a scan for the table header and the key finds the line. This works because the
files are flat (tables, and arrays of tables, of inline values), which the schemas enforce. See
docs/decisions/machine-files.md. The values of a model can lie in several files, one over the other. An error
names the file that has the key.
"""

import re
import tomllib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from pagelens.errors import UsageError
from pagelens.spelling import nearest

MOST_BYTES = 1 << 20  # of such a file
LONGEST_ERROR = 500  # characters
_KEY = r"""(?:[A-Za-z0-9_-]+|"[^"]*"|'[^']*')"""
_ASSIGNMENT = re.compile(rf"\s*({_KEY}(?:\s*\.\s*{_KEY})*)\s*=")

Model = TypeVar("Model", bound=BaseModel)


def read_bytes(path: Path, kind: str, most: int = MOST_BYTES) -> bytes:
    """Return the bytes of a file, but not many more than it may have.

    `kind` is what the file is, for errors.
    """
    try:
        with open(path, "rb") as file:
            return file.read(most + 1)
    except OSError as error:
        raise UsageError(
            f"{kind}: cannot read '{path}' ({error.strerror}); give a name or a readable .toml"
        ) from None


@dataclass(frozen=True)
class Document:
    """A file that is TOML. `where` names it in errors."""

    where: str
    text: str
    data: dict[str, Any]

    def at(self, *location: str) -> str:
        """Return "file:line" of a key, which is named by its tables and its own name."""
        return f"{self.where}:{_line_of(self.text, location)}"


def parse_toml(model: type[Model], raw: bytes, where: str, example: str, most: int = MOST_BYTES) -> Model:
    """Return what a file's bytes state.

    `where` names the file in errors, `example` one that has every key.
    """
    return validate(model, [read_document(raw, where, most)], example)


def read_document(raw: bytes, where: str, most: int = MOST_BYTES) -> Document:
    """Return the file's bytes as a TOML document of at most `most` bytes. Raises UsageError."""
    with _one_line():
        return _document(raw, where, most)


def validate(model: type[Model], layers: Sequence[Document], example: str) -> Model:
    """Return what the files state together, each over those after it.

    A key of a table comes from the first file that has it. Arrays of tables are taken whole.
    """
    merged: dict[str, Any] = {}
    for layer in reversed(layers):
        for key, value in layer.data.items():
            below = merged.get(key)
            both = isinstance(value, dict) and isinstance(below, dict)
            merged[key] = {**below, **value} if both and below else value
    with _one_line():
        try:
            return model.model_validate(merged)
        except ValidationError as error:
            errors = error.errors(include_url=False)
            first = min(
                errors, key=lambda e: e["type"] != "extra_forbidden"
            )  # a misspelt key is also a missing one
            raise UsageError(_explain(model, first, layers, example)) from None


@contextmanager
def _one_line() -> Iterator[None]:
    """Make errors within the context one line of bearable length.

    What they quote from a file may hold anything.
    """
    try:
        yield
    except UsageError as error:
        text = "".join(c if c.isprintable() else " " for c in str(error))
        raise UsageError(text if len(text) <= LONGEST_ERROR else text[:LONGEST_ERROR] + " ...") from None


def _document(raw: bytes, where: str, most: int) -> Document:
    if len(raw) > most:
        usual = "kilobytes" if most == MOST_BYTES else "megabytes"
        raise UsageError(f"{where}: more than {most} bytes; such a file is a few {usual} of TOML")
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError as error:
        line = raw[: error.start].count(b"\n") + 1
        raise UsageError(f"{where}:{line}: not UTF-8 text, which TOML is") from None
    try:
        return Document(where, text, tomllib.loads(text))
    except tomllib.TOMLDecodeError as error:
        message = str(error)
        at = re.search(r" \(at line (\d+), column \d+\)$", message)
        line = int(at[1]) if at else text.count("\n") + 1
        raise UsageError(f"{where}:{line}: not TOML: {message[: at.start()] if at else message}") from None
    except (RecursionError, ValueError) as error:  # nesting too deep; an integer of thousands of digits
        raise UsageError(f"{where}:1: not such a file: {type(error).__name__}: {error}") from None


def _explain(model: type[BaseModel], error: ErrorDetails, layers: Sequence[Document], example: str) -> str:
    """Return one line with file, line and key, what is wrong, and what is allowed."""
    location = tuple(str(part) for part in error["loc"])
    document = layers[0]  # a missing key can be added there
    if error["type"] != "missing":
        document = max(layers, key=lambda layer: _depth(layer.data, error["loc"]))  # of equals the first
    where = f"{document.where}:{_line_of(document.text, location)}"
    key = ".".join(location) or "the file"
    match error["type"]:
        case "extra_forbidden":
            near = nearest(location[-1], _keys_at(model, location[:-1]))
            return f"{where}: unknown key '{key}'; did you mean {near}?"
        case "missing":
            return f"{where}: '{key}' is missing; add it ({example} shows every key)"
        case _:
            message = error["msg"].removeprefix("Value error, ")
            value = (
                "" if isinstance(error["input"], Mapping | BaseModel) else f" (is {_shown(error['input'])})"
            )
            return f"{where}: '{key}'{value}: {message}"


def _depth(data: Any, location: Sequence[int | str]) -> int:
    """Return how many parts of a location the file has."""
    for depth, part in enumerate(location):
        try:
            data = data[part]
        except (KeyError, IndexError, TypeError):
            return depth
    return len(location)


def _shown(value: Any) -> str:
    try:
        return f"{value!r:.80}"
    except ValueError:
        return "a number of thousands of digits"


def _keys_at(model: Any, location: tuple[str, ...]) -> list[str]:
    """Return the keys that the schema knows at a location of the file."""
    for part in location:
        if part.isdigit():
            continue  # one of an array
        annotation = model.model_fields[_field_of(model, part)].annotation
        candidates = [annotation, *getattr(annotation, "__args__", ())]
        model = next(c for c in candidates if isinstance(c, type) and issubclass(c, BaseModel))
    return [field.alias or name for name, field in model.model_fields.items()]


def _field_of(model: type[BaseModel], key: str) -> str:
    return next(name for name, field in model.model_fields.items() if (field.alias or name) == key)


def _line_of(text: str, location: tuple[str, ...]) -> int:
    """Return the line (from 1) of the deepest part of `location` that the text names; 1 if it names none."""
    location = tuple(part for key in location for part in _parts_of(key))
    table: tuple[str, ...] = ()
    found, seen = 1, Counter[str]()
    for number, line in enumerate(text.splitlines(), 1):
        if header := re.match(r"\s*(\[?)\[\s*([^\[\]]+?)\s*\]", line):
            name = header[2].strip("\"'")
            table = (name, str(seen[name])) if header[1] else _parts_of(name)
            seen[name] += 1
            if location[: len(table)] == table:
                found = number
        elif assignment := _ASSIGNMENT.match(line):
            path = (*table, *_parts_of(assignment[1]))
            if location[: len(path)] == path:
                return number
    return found


def _parts_of(key: str) -> tuple[str, ...]:
    """Return the names of a key that is dotted, quoted or both."""
    return tuple(part.strip(" \t\"'") for part in key.split("."))
