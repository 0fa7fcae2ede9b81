"""Reads machine files; every error names the file and the line.

tomllib gives no positions, so the line of a key is found by a scan for its table header and its name: the
files are flat (tables of inline tables), which the schema enforces anyway. See
docs/decisions/machine-files.md.
"""

import difflib
import os
import re
import tomllib
from collections.abc import Mapping
from importlib import resources
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from pagelens.errors import UsageError
from pagelens.machine.schema import IDEAL_SUFFIX, Machine

MOST_BYTES = 1 << 20  # of a machine file
LONGEST_ERROR = 500  # characters


def list_machines() -> dict[str, Path]:
    """Name -> file of the machines that come with pagelens."""
    return {path.stem: path for path in sorted(machine_directory().glob("*.toml"))}


def machine_directory() -> Path:
    """Where the machine files lie: in the wheel beside the package, in a checkout at its root."""
    installed = Path(str(resources.files("pagelens"))) / "machines"
    return installed if installed.is_dir() else Path(__file__).resolve().parents[2] / "machines"


def load_machine(name_or_path: str | os.PathLike[str]) -> Machine:
    """The machine of that name, or of that TOML file (anything with a slash or the suffix .toml).

    NAME-ideal is the ideal twin of a machine in cache mode.
    """
    text = os.fspath(name_or_path)
    if "/" in text or text.endswith(".toml"):
        return read_machine_file(Path(text))
    known = list_machines()
    original = text.removesuffix(IDEAL_SUFFIX)
    if original != text and original in known:
        machine = read_machine_file(known[original])
        if machine.mode == "cache":
            return machine.ideal_twin()
    if text not in known:
        near = difflib.get_close_matches(text, known, n=3, cutoff=0.3)
        offer = f"the nearest are {', '.join(near)}" if near else f"known are {', '.join(known)}"
        raise UsageError(f"machine: '{text}' is unknown; {offer}; or give the path of a .toml file")
    return read_machine_file(known[text])


def read_machine_file(path: Path) -> Machine:
    """Reads one machine file."""
    try:
        with open(path, "rb") as file:
            raw = file.read(MOST_BYTES + 1)
    except OSError as error:
        raise UsageError(
            f"machine: cannot read '{path}' ({error.strerror}); give a name or a readable .toml"
        ) from None
    return parse_machine(raw, str(path))


def parse_machine(raw: bytes, where: str) -> Machine:
    """The machine stated by a file's bytes; `where` names the file in errors."""
    try:
        return _parse(raw, where)
    except UsageError as error:  # what it quotes from the file may hold anything
        text = "".join(c if c.isprintable() else " " for c in str(error))
        raise UsageError(text if len(text) <= LONGEST_ERROR else text[:LONGEST_ERROR] + " ...") from None


def _parse(raw: bytes, where: str) -> Machine:
    if len(raw) > MOST_BYTES:
        raise UsageError(f"{where}: more than {MOST_BYTES} bytes; a machine file is a few kilobytes of TOML")
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError as error:
        line = raw[: error.start].count(b"\n") + 1
        raise UsageError(f"{where}:{line}: not UTF-8 text; a machine file is TOML") from None
    try:
        data = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        message = str(error)
        at = re.search(r" \(at line (\d+), column \d+\)$", message)
        line = int(at[1]) if at else text.count("\n") + 1
        raise UsageError(f"{where}:{line}: not TOML: {message[: at.start()] if at else message}") from None
    except (RecursionError, ValueError) as error:  # nesting too deep; an integer of thousands of digits
        raise UsageError(f"{where}:1: not a machine file: {type(error).__name__}: {error}") from None
    try:
        return Machine.model_validate(data)
    except ValidationError as error:
        errors = error.errors(include_url=False)
        first = min(
            errors, key=lambda e: e["type"] != "extra_forbidden"
        )  # a misspelt key is also a missing one
        raise UsageError(_explain(first, text, where)) from None


def _explain(error: ErrorDetails, text: str, where: str) -> str:
    """One line: file, line, key, what is wrong and what is allowed."""
    location = tuple(str(part) for part in error["loc"])
    line = _line_of(text, location)
    key = ".".join(location) or "the file"
    match error["type"]:
        case "extra_forbidden":
            near = difflib.get_close_matches(location[-1], _keys_at(location[:-1]), n=1, cutoff=0.0)
            return f"{where}:{line}: unknown key '{key}'; the nearest known one is '{near[0]}'"
        case "missing":
            return (
                f"{where}:{line}: '{key}' is missing; add it (machines/cori-knl-cache.toml shows every key)"
            )
        case _:
            message = error["msg"].removeprefix("Value error, ")
            value = "" if isinstance(error["input"], Mapping | BaseModel) else f" (is {error['input']!r:.80})"
            return f"{where}:{line}: '{key}'{value}: {message}"


def _keys_at(location: tuple[str, ...]) -> list[str]:
    """The keys that the schema knows at a location of the file."""
    model: Any = Machine
    for part in location:
        annotation = model.model_fields[part].annotation
        candidates = [annotation, *getattr(annotation, "__args__", ())]
        model = next(c for c in candidates if isinstance(c, type) and issubclass(c, BaseModel))
    return [field.alias or name for name, field in model.model_fields.items()]


def _line_of(text: str, location: tuple[str, ...]) -> int:
    """The line (from 1) of the deepest part of `location` that the text names; 1 if none is."""
    table, found = "", 1
    for number, line in enumerate(text.splitlines(), 1):
        if header := re.match(r"\s*\[\s*([^\[\]]+?)\s*\]", line):
            table = header[1].strip("\"'")
            if location[:1] == (table,):
                found = number
        elif assignment := re.match(r"\s*[\"']?([A-Za-z0-9_-]+)[\"']?\s*=", line):
            path = (table, assignment[1]) if table else (assignment[1],)
            if location[: len(path)] == path:
                return number
    return found
