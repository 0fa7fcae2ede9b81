"""Finds qemu-x86_64 and the two libraries that turn it into a tracer."""

from __future__ import annotations

import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from elftools.common.exceptions import ELFError
from elftools.elf.elffile import ELFFile

from pagelens import _core
from pagelens.errors import Failure

_INSTALL = "run make engine in a clone of pagelens, or on Debian 12 apt-get install qemu-user"
_OLDEST = (7, 2)  # the first whose plugin interface was tried
_NEWEST = (8, 2)  # 9.0 loads no plugins of this interface, which is version 1


@dataclass(frozen=True, slots=True)
class Emulator:
    """The paths of the user-mode emulator, the plugin and the interposer."""

    qemu: Path
    plugin: Path
    hooks: Path
    wide_reads: bool  # it reads 16 bytes for some operands of 4 or 8, such as a scalar FMA's


def find_emulator() -> Emulator:
    """Return the emulator in PATH and the libraries of this package. Raises Failure."""
    found = shutil.which("qemu-x86_64")
    if found is None:
        raise Failure(f"qemu-x86_64 is not in PATH; {_INSTALL}")
    qemu = Path(found)
    try:
        version = subprocess.run([qemu, "--version"], capture_output=True, text=True, check=False).stdout
    except OSError as error:
        raise Failure(f"{qemu} does not run ({error.strerror}); {_INSTALL}") from None
    match = re.search(r"version (\d+)\.(\d+)", version)
    number = (int(match[1]), int(match[2])) if match else (0, 0)
    if not _OLDEST <= number <= _NEWEST:
        said = version.partition("\n")[0] or "no version"
        raise Failure(f"{qemu} is '{said}', and QEMU 7.2 to 8.2 is needed; {_INSTALL}")
    try:
        with qemu.open("rb") as file:
            dynamic = any(ELFFile(file).iter_segments("PT_INTERP"))
    except (OSError, ELFError):
        raise Failure(f"{qemu} is not a program that can be looked into (a script?); {_INSTALL}") from None
    if not dynamic:
        raise Failure(f"{qemu} is linked statically and loads no plugins; {_INSTALL}")
    libraries = Path(_core.__file__).parent / "lib"
    emulator = Emulator(
        qemu,
        libraries / "libpagelens_tracer.so",
        libraries / "libpagelens_hooks.so",
        wide_reads=number == (7, 2),  # seen there; others are taken at their word
    )
    for library in (emulator.plugin, emulator.hooks):
        if not library.is_file():
            raise Failure(f"{library} is missing; install pagelens again: pip install .")
    return emulator
