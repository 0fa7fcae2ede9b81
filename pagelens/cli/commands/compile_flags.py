"""`pagelens compile-flags`: Print the flags that compile a program so that it traces itself."""

from __future__ import annotations

import shlex
from typing import Annotated, Literal

import typer

from pagelens.accesses import compile_flags as flags_of

EXAMPLES = """Examples:

  gcc -O2 $(pagelens compile-flags) app.c -o app && pagelens explain -- ./app

  make CFLAGS="-O2 $(pagelens compile-flags clang)" CC=clang
"""

app = typer.Typer(add_completion=False)


@app.command(epilog=EXAMPLES)
def compile_flags(
    compiler: Annotated[
        Literal["gcc", "clang", "clang-lto"],
        typer.Argument(help="gcc (also g++, gfortran), clang (also clang++), or clang-lto, which needs lld."),
    ] = "gcc",
) -> None:
    """Print the flags that compile a program so that it traces itself.

    Give them to the compiler and to the linker. The program then runs as before,
    and `pagelens trace` and `pagelens explain` need no engine for it.
    """
    print(shlex.join(flags_of(compiler)))
