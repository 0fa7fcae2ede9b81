"""The program to trace, found and checked as the kernel would run it."""

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
    """What the emulator has to run: an x86-64 file, the argv[0] it is given, and its arguments."""

    path: Path
    argv0: str
    arguments: tuple[str, ...]
    static: bool


def find_program(command: Sequence[str]) -> GuestProgram:
    """The program that `command` runs; a script is run by its interpreter. Raises UsageError."""
    name = command[0]
    path = _locate(name)
    argv0, arguments = name, list(command[1:])
    for _ in range(_SCRIPT_DEPTH):
        with path.open("rb") as file:
            start = file.readline(256)
        if not start.startswith(b"#!"):
            break
        words = os.fsdecode(start[2:]).strip().split(maxsplit=1)
        if not words:
            raise UsageError(
                f"program {name}: its first line names no interpreter; write one, like #!/bin/sh"
            )
        arguments = [*words[1:], str(path), *arguments]
        argv0 = words[0]
        path = _locate(argv0)
    return GuestProgram(path, argv0, tuple(arguments), _is_static(path, name))


def _locate(name: str) -> Path:
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
    if not os.access(path, os.R_OK):
        raise UsageError(f"program {name}: it is not readable, which the emulator needs; chmod +r {name}")
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
