"""Finds the program to trace, and checks it as the kernel would before running it."""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from elftools.elf.elffile import ELFFile

from pagelens.errors import UsageError

_SCRIPT_DEPTH = 4  # scripts for scripts, as in the kernel (BINPRM_MAX_RECURSION)


@dataclass(frozen=True, slots=True)
class GuestProgram:
    """What the engine has to run: an x86-64 file, its argv[0] and its arguments."""

    path: Path
    argv0: str
    arguments: tuple[str, ...]
    static: bool


def find_program(command: Sequence[str]) -> GuestProgram:
    """Return the program that `command` runs. A script is run by its interpreter. Raises UsageError."""
    name = command[0]
    path = _readable(name)
    argv0, arguments = name, list(command[1:])
    for _ in range(_SCRIPT_DEPTH):
        words = interpreter(path)
        if words is None:
            break
        if not words:
            raise UsageError(
                f"program {name}: its first line names no interpreter; write one, like #!/bin/sh"
            )
        arguments = [*words[1:], str(path), *arguments]
        argv0 = words[0]
        path = _readable(argv0)
    return GuestProgram(path, argv0, tuple(arguments), _is_static(path, name))


def interpreter(path: Path) -> list[str] | None:
    """Return the interpreter and its argument, if any, of a script's first line; None if it is no script."""
    with path.open("rb") as file:
        start = file.readline(256)
    return os.fsdecode(start[2:]).strip().split(maxsplit=1) if start.startswith(b"#!") else None


def locate(name: str) -> Path:
    """Return the file that a shell would run. Raises UsageError if it cannot be run."""
    found = name if "/" in name else shutil.which(name)
    if found is None:
        raise UsageError(f"program {name}: not in PATH; give its path, like ./{name}")
    path = Path(found)
    if not path.exists():
        raise UsageError(f"program {name}: there is no such file; give the path of an x86-64 program")
    if not path.is_file():
        raise UsageError(f"program {name}: it is not a file; give the path of an x86-64 program")
    if not os.access(path, os.X_OK):
        raise UsageError(f"program {name}: it is not executable; chmod +x {name}")
    return path


def _readable(name: str) -> Path:
    path = locate(name)
    if not os.access(path, os.R_OK):
        raise UsageError(f"program {name}: it is not readable, which the engine needs; chmod +r {name}")
    return path


def _is_static(path: Path, name: str) -> bool:
    try:
        with path.open("rb") as file:
            elf = ELFFile(file)
            if elf["e_machine"] != "EM_X86_64" or elf.elfclass != 64:
                raise UsageError(
                    f"program {name}: built for {elf.get_machine_arch()}, {elf.elfclass} bits; "
                    "the tracer runs x86-64 programs of 64 bits"
                )
            return not any(elf.iter_segments("PT_INTERP"))
    except UsageError:
        raise
    except Exception:  # whatever pyelftools makes of a file that is no program
        raise UsageError(
            f"program {name}: neither an x86-64 program nor a script that begins with #!"
        ) from None
