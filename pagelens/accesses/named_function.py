"""Finds where a function begins, by the name that a user gives it, in a program or its libraries."""

import shutil
import subprocess
from collections.abc import Iterator
from contextlib import closing
from itertools import islice
from pathlib import Path

from pagelens.accesses.demangle import demangle
from pagelens.accesses.elf_file import ElfFile, Symbol
from pagelens.errors import UsageError
from pagelens.spelling import resembling

_MOST_COMPARED = 20_000  # names with which a mistyped one is compared, for some tenths of a second


def find_function(program: Path, name: str) -> tuple[Path, int]:
    """Return the file, program or library, that has function `name`, and the address in it where it begins.

    `name` is that of the linker, or as the source has it: `Mesh::refine`, with or without its arguments.
    Raises UsageError if there is no such function, or if several share the name.
    """
    path = program.resolve()
    files = [path, *_libraries(path)]
    for file in files:
        for symbol in _defined(file):
            if symbol.name == name:
                return file, symbol.address
    plain = name.partition("(")[0].strip() if "operator" not in name else name
    for file in files:
        found = {
            symbol.address: symbol.name
            for symbol in _defined(file)
            if symbol.name != plain and demangle(symbol.name) == plain and "." not in symbol.name
        }
        if len(found) > 1:
            raise UsageError(
                f"--from-function {name}: {len(found)} functions of {file.name} have this name; give that "
                f"of the linker: {', '.join(sorted(found.values()))}"
            )
        if found:
            return file, next(iter(found))
    names = {demangle(symbol.name) for symbol in islice(_defined(path), _MOST_COMPARED)}
    near = ", ".join(resembling(plain, sorted(names)))
    raise UsageError(
        f"--from-function {name}: neither {path.name} nor its libraries have such a function; "
        + (f"did you mean {near}?" if near else "`nm -C` lists those that a program has")
    )


def _defined(file: Path) -> Iterator[Symbol]:
    with closing(ElfFile(file)) as elf:
        yield from (symbol for symbol in elf.functions() if symbol.address != 0)  # 0: defined elsewhere


def _libraries(path: Path) -> list[Path]:
    """Return the shared libraries that the loader finds for a program; none for a static one."""
    loader = shutil.which("ldd")
    if loader is None:
        return []
    listed = subprocess.run([loader, path], capture_output=True, text=True, check=False).stdout
    found = (line.partition("=>")[2].split(" (")[0].strip() for line in listed.splitlines())
    return [Path(name).resolve() for name in found if name.startswith("/")]
