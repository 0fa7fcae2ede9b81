"""Finds what would keep the preload library out of the program."""

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

from pagelens.accesses.preloading import obstacles
from pagelens.host.exec_program import become
from pagelens.run.preload import Preload


def shared_libraries(program: Path) -> list[Path]:
    """Return the libraries that the loader will load with a program, by ldd; none if ldd cannot say."""
    try:
        listed = subprocess.run(
            ["ldd", program], capture_output=True, text=True, check=False, env={**os.environ, "LC_ALL": "C"}
        ).stdout
    except OSError:
        return []
    words = ((line.partition("=>")[2] or line).split(" (")[0].strip() for line in listed.splitlines())
    return [Path(word) for word in words if word.startswith("/")]


def start(path: Path, words: Sequence[str], settings: Preload) -> NoReturn:
    """Run the program in place of this process, with the library preloaded if there is anything to do.

    Raises Failure if the library is missing or the kernel refuses.
    """
    environment = dict(os.environ)
    if settings != Preload():
        environment = settings.environment(os.environ)
        for line in obstacles(path):
            tell(f"{line}; it runs without the library")
    become(path, words, environment)


def tell(line: str) -> None:
    """Write one line to stderr."""
    print(f"pagelens run: {line}", file=sys.stderr)
