"""Chooses the engine that runs a traced program."""

from __future__ import annotations

import os

from pagelens.accesses.dynamorio import DynamoRio, find_dynamorio, has_dynamorio
from pagelens.accesses.emulator import Emulator, find_emulator
from pagelens.errors import UsageError

ENGINES = ("dynamorio", "qemu")  # in the order in which they are tried if a user names none
ENGINE_VARIABLE = "PAGELENS_ENGINE"  # names the engine for commands without --engine

_NOT_BUILT = (
    f"{ENGINE_VARIABLE} dynamorio: this installation has no DynamoRIO, so QEMU ran the program; "
    "make engine in a clone of pagelens builds it"
)


def choose_engine(asked: str | None) -> tuple[Emulator | DynamoRio, str | None]:
    """Return the engine, and a line for the user if it is not the one that the environment names.

    `asked` is the value of --engine, or None. Raises UsageError if no engine has that name, and Failure if
    the engine cannot run here.
    """
    name = asked or os.environ.get(ENGINE_VARIABLE)
    if name is not None and name not in ENGINES:
        option = "--engine" if asked else ENGINE_VARIABLE
        raise UsageError(f"{option} {name}: there is no such engine; choose one of {', '.join(ENGINES)}")
    if asked == "dynamorio" or (name != "qemu" and has_dynamorio()):
        return find_dynamorio(), None
    return find_emulator(), _NOT_BUILT if name == "dynamorio" else None
