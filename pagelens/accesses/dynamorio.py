"""DynamoRIO and its client, the engine that runs traced programs on the processor itself."""

from __future__ import annotations

import ctypes
import os
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from pagelens import _core
from pagelens.errors import Failure

_ADDR_NO_RANDOMIZE = 0x0040000  # personality(2)

# By default DynamoRIO translates blocks that run often again, as traces. This took half of the time of
# programs with much code and made loops no faster, so it is off. A program that the client does not follow
# runs without DynamoRIO. The client's own calls, which read files and compress, need more stack than the
# default.
_OPTIONS = "-no_follow_children -disable_traces -stack_size 256K -signal_stack_size 64K -code_api"


@dataclass(frozen=True, slots=True)
class DynamoRio:
    """The paths of the engine, its client and the interposer."""

    library: Path
    client: Path
    hooks: Path

    def environment(
        self, inherited: Mapping[str, str], program: Path, client_options: str, preload: str
    ) -> dict[str, str]:
        """Return the environment that the engine starts with.

        The client hides its part of it from the program.
        """
        return {
            **inherited,
            "LD_PRELOAD": preload,
            "DYNAMORIO_EXE_PATH": str(program),
            "DYNAMORIO_OPTIONS": f"{_OPTIONS} -client_lib {shlex.quote(f'{self.client};0;')}",
            "PAGELENS_TRACER": client_options,
        }


_LIBRARIES = Path(_core.__file__).parent / "lib"


def has_dynamorio() -> bool:
    """Return whether this package was built with the engine."""
    return (_LIBRARIES / "libdynamorio.so").is_file()


def find_dynamorio() -> DynamoRio:
    """Return the engine of this package. Raises Failure."""
    engine = DynamoRio(
        _LIBRARIES / "libdynamorio.so",
        _LIBRARIES / "libpagelens_client.so",
        _LIBRARIES / "libpagelens_hooks.so",
    )
    for library in (engine.library, engine.client):
        if not library.is_file():
            raise Failure(
                f"--engine dynamorio: {library.name} is not part of this installation; "
                "run make engine in a clone of pagelens, or leave the option out"
            )
    if not os.access(engine.library, os.X_OK):
        raise Failure(
            f"engine dynamorio: {engine.library} may not be executed, for example because its file system is "
            "mounted noexec; install pagelens elsewhere, or take --engine qemu"
        )
    return engine


def place_alike_each_time() -> None:
    """Ask the kernel for the same addresses in each run, if it allows that.

    Call this in the process that becomes the program.
    """
    ctypes.CDLL(None).personality(_ADDR_NO_RANDOMIZE)
