"""Preloads libraries into programs, and checks what would keep them out."""

import errno
import os
import stat
from collections.abc import Iterator, Mapping
from pathlib import Path

from elftools.common.exceptions import ELFError
from elftools.elf.elffile import ELFFile

from pagelens.accesses.program import interpreter, locate


def preloaded(before: Mapping[str, str], *libraries: Path) -> str:
    """Return LD_PRELOAD of an environment with these libraries before those that were there."""
    return ":".join(filter(None, [*map(str, libraries), before.get("LD_PRELOAD", "")]))


def obstacles(path: Path) -> Iterator[str]:
    """Yield one line for each reason why the loader will not load the library."""
    name = path.name
    if os.access(path, os.R_OK) and (words := interpreter(path)):
        path = locate(words[0])
    if _has_rights_of_its_own(path):
        yield f"{name} is setuid, setgid or has capabilities: the loader preloads nothing into it"
    try:
        with path.open("rb") as file:
            elf = ELFFile(file)
            if elf["e_machine"] != "EM_X86_64" or elf.elfclass != 64:
                built = f"{elf.get_machine_arch()}, {elf.elfclass} bits"
                yield f"{name} is built for {built}; the library for x86-64"
            elif not any(elf.iter_segments("PT_INTERP")):
                yield f"{name} is linked statically, and loads no library; link it dynamically"
    except (OSError, ELFError):
        return  # not to be looked into: the kernel will say


def _has_rights_of_its_own(path: Path) -> bool:
    """Return whether the kernel will say AT_SECURE to the loader (ld.so(8))."""
    try:
        info = path.stat()
        other = (info.st_mode & stat.S_ISUID and info.st_uid != os.geteuid()) or (
            info.st_mode & stat.S_ISGID and info.st_gid != os.getegid()
        )
        return bool(other) or (os.geteuid() != 0 and _capabilities(path) != b"")
    except OSError:
        return False


def _capabilities(path: Path) -> bytes:
    try:
        return os.getxattr(path, "security.capability")
    except OSError as error:
        if error.errno in (errno.ENODATA, errno.ENOTSUP):
            return b""
        raise
