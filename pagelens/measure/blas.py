"""Finds the installed BLAS: the first of well-known names that the system's loader knows."""

import ctypes.util
from pathlib import Path

from pagelens.errors import UsageError

_NAMES = ("mkl_rt", "openblas", "blis", "flexiblas", "blas")  # the faster before the reference


def find_blas(name: str | None) -> str:
    """Return a library with `dgemm_`: the named one, or one that is found. Raises UsageError."""
    if name is not None:
        if "/" in name and not Path(name).is_file():
            raise UsageError(f"--blas {name}: there is no such file")
        return name
    for known in _NAMES:
        if found := ctypes.util.find_library(known):
            return found
    raise UsageError(
        "measure dgemm: no BLAS is found; install one (Debian: libopenblas0-pthread) or name it by --blas"
    )
