"""Finds the programs and libraries that are compiled and installed with this package."""

from pathlib import Path

from pagelens import _core
from pagelens.errors import Failure


def native_file(name: str) -> Path:
    """Return the path of a file in pagelens/lib. Raises Failure if it is missing."""
    path = Path(_core.__file__).parent / "lib" / name
    if not path.exists():
        raise Failure(f"{path} is missing; install pagelens again: pip install .")
    return path
