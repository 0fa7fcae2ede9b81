"""Chooses the engine that runs a traced program."""

from __future__ import annotations

import os

from pagelens.accesses.dynamorio import DynamoRio, find_dynamorio, has_dynamorio
from pagelens.accesses.emulator import Emulator, find_emulator
from pagelens.errors import UsageError

ENGINES = ("dynamorio", "qemu")  # the first that there is runs programs for users who name none
ENGINE_VARIABLE = "PAGELENS_ENGINE"  # for commands without --engine

_NOT_BUILT = (
    f"{ENGINE_VARIABLE} dynamorio: this installation has no DynamoRIO, so QEMU ran the program; "
    "make engine in a clone of pagelens builds it"
)


def choose_engine(asked: str | None) -> tuple[Emulator | DynamoRio, str | None]:
    """Return the engine, and a line for the user where it is not the one that the environment names.

    `asked` is the value of --engine, or None. Raises UsageError or Failure.
    """
    name = asked or os.environ.get(ENGINE_VARIABLE)
    if name is not None and name not in ENGINES:
        option = "--engine" if asked else ENGINE_VARIABLE
        raise UsageError(f"{option} {name}: there is no such engine; choose one of {', '.join(ENGINES)}")
    if asked == "dynamorio" or (name != "qemu" and has_dynamorio()):
        return find_dynamorio(), None
    return find_emulator(), _NOT_BUILT if name == "dynamorio" else None
