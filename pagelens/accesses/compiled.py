"""Programs that were compiled for tracing: flags for their compiler, and the libraries that trace them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from elftools.elf.elffile import ELFFile

from pagelens import _core
from pagelens.accesses.preloading import preloaded
from pagelens.errors import Failure, UsageError

COMPILERS = ("gcc", "clang", "clang-lto")

_LIBRARIES = Path(_core.__file__).parent / "lib"
_HEADER = Path(_core.__file__).parent / "include/pagelens_inline.h"
_LINKED = "libpagelens_compiled.so"


@dataclass(frozen=True, slots=True)
class CompiledIn:
    """The paths of the library that traces a compiled program from within, and of its interposer."""

    library: Path
    hooks: Path

    def environment(self, inherited: Mapping[str, str], options: str) -> dict[str, str]:
        """Return the environment that the program starts with. What it starts in turn inherits it."""
        preload = preloaded(inherited, self.hooks, self.library)
        return {**inherited, "LD_PRELOAD": preload, "PAGELENS_TRACER": options}


def compile_flags(compiler: str) -> list[str]:
    """Return the flags that prepare a program for tracing. They serve for compiling and for linking.

    Raises UsageError if the compiler's name is none of `COMPILERS`.
    """
    # -fsanitize=thread reaches the compiler proper alone, so that the linker adds no library of its own.
    # clang inserts no calls at accesses of more than 16 bytes, so vectors must not be wider.
    clang = [
        *("-Xclang", "-fsanitize=thread"),
        *("-mllvm", "-tsan-instrument-func-entry-exit=0"),
        "-mprefer-vector-width=128",
        "-Wno-unused-command-line-argument",
    ]
    instrument = {
        "gcc": [f"-specs={_LIBRARIES / 'gcc.specs'}"],
        "clang": clang,
        "clang-lto": [*clang, "-flto", "-fuse-ld=lld", "-include", str(_HEADER)],
    }
    if compiler not in instrument:
        raise UsageError(f"compiler {compiler}: it is not known; name one of {', '.join(COMPILERS)}")
    link = f"-Wl,--push-state,--no-as-needed,-l{_LINKED.removeprefix('lib').removesuffix('.so')},--pop-state"
    return ["-g", *instrument[compiler], f"-L{_LIBRARIES}", f"-Wl,-rpath,{_LIBRARIES}", link]


def is_compiled(program: Path) -> bool:
    """Return whether the program was linked with the flags of `compile_flags`."""
    try:
        with program.open("rb") as file:
            segments: Any = ELFFile(file).iter_segments("PT_DYNAMIC")
            return any(tag.needed == _LINKED for part in segments for tag in part.iter_tags("DT_NEEDED"))
    except Exception:  # whatever pyelftools makes of a file that is no program
        return False


def find_compiled_in() -> CompiledIn:
    """Return the libraries of this package. Raises Failure."""
    found = CompiledIn(
        _LIBRARIES / "libpagelens_compiled_tracer.so", _LIBRARIES / "libpagelens_compiled_hooks.so"
    )
    if not found.library.is_file():
        raise Failure(
            f"--engine compiled: {found.library.name} is not part of this installation; install pagelens anew"
        )
    return found
