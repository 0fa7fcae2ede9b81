"""Turns linker symbols into names as people write them: without argument lists and without clones' marks."""

import ctypes
import re
from functools import cache, lru_cache
from typing import Any

_CLONE_MARKS = re.compile(r"(?:\.(?:constprop|isra|part|cold|lto_priv|_omp_fn|\d+))+$")
_FORTRAN_MODULE = re.compile(r"^__(\w+?)_MOD_(\w+)$")

# Operators (also those that convert to a type) and the unnamed namespace hold brackets or spaces that do not
# nest.
_ATOM = re.compile(r"operator(?:\(\)|[<>=-]+ ?| [^(]+)|\(anonymous namespace\)")


@cache
def _runtime() -> Any:
    """Return the C++ runtime that the extension module is linked with, which has the compiler's demangler."""
    library = ctypes.CDLL("libstdc++.so.6")
    library.__cxa_demangle.restype = ctypes.c_void_p
    library.__cxa_demangle.argtypes = (
        [ctypes.c_char_p] + [ctypes.c_void_p] * 2 + [ctypes.POINTER(ctypes.c_int)]
    )
    libc = ctypes.CDLL(None)
    libc.free.argtypes = [ctypes.c_void_p]
    return library.__cxa_demangle, libc.free


@lru_cache(maxsize=65536)
def demangle(symbol: str) -> str:
    """Return the source name of a linker symbol, such as `Mesh::refine` for `_ZN4Mesh6refineEi`.

    The name has no argument list. A name that is not mangled comes back as it is.
    """
    symbol = _CLONE_MARKS.sub("", symbol)
    if fortran := _FORTRAN_MODULE.match(symbol):
        return "::".join(fortran.groups())
    if not symbol.startswith("_Z"):
        return symbol
    cxa_demangle, free = _runtime()
    status = ctypes.c_int()
    text = cxa_demangle(symbol.encode(), None, None, ctypes.byref(status))
    if not text:
        return symbol
    name = ctypes.string_at(text).decode(errors="replace")
    free(text)
    return _without_arguments(name)


def _without_arguments(name: str) -> str:
    """Cut a demangled name at its argument list, and drop the return type that templates show."""
    depth = start = position = 0
    while position < len(name):
        if atom := _ATOM.match(name, position):
            position = atom.end()
            continue
        letter = name[position]
        if letter in "<[{":
            depth += 1
        elif letter in ">]}":
            depth -= 1
        elif depth == 0 and letter == "(":
            return name[start:position]
        elif depth == 0 and letter == " ":
            start = position + 1
        position += 1
    return name[start:]
