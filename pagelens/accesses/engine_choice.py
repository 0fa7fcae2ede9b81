"""Chooses the engine that runs a traced program."""

from __future__ import annotations

import os
from pathlib import Path

from pagelens.accesses.compiled import CompiledIn, find_compiled_in, is_compiled
from pagelens.accesses.dynamorio import DynamoRio, find_dynamorio, has_dynamorio
from pagelens.accesses.emulator import Emulator, find_emulator
from pagelens.errors import UsageError

# In the order in which they are tried if a user names none. A program that was compiled for tracing traces
# itself, without an engine.
ENGINES = ("compiled", "dynamorio", "qemu")
ENGINE_VARIABLE = "PAGELENS_ENGINE"  # names the engine where --engine does not

_NOT_BUILT = (
    f"{ENGINE_VARIABLE} dynamorio: this installation has no DynamoRIO, so QEMU ran the program; "
    "make engine in a clone of pagelens builds it"
)


Engine = Emulator | DynamoRio | CompiledIn


def choose_engine(asked: str | None, program: Path) -> tuple[Engine, str | None]:
    """Return the engine, and a line for the user if it is not the one that the environment names.

    `asked` is the value of --engine, or None. Raises UsageError if no engine has that name, and Failure if
    the engine cannot run here.
    """
    name = asked or os.environ.get(ENGINE_VARIABLE)
    if name is not None and name not in ENGINES:
        option = "--engine" if asked else ENGINE_VARIABLE
        raise UsageError(f"{option} {name}: there is no such engine; choose one of {', '.join(ENGINES)}")
    if name == "compiled" or (name is None and is_compiled(program)):
        return find_compiled_in(), None
    if asked == "dynamorio" or (name != "qemu" and has_dynamorio()):
        return find_dynamorio(), None
    return find_emulator(), _NOT_BUILT if name == "dynamorio" else None
