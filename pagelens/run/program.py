"""The program to run with the library preloaded, and what would keep the library out of it."""

import errno
import os
import signal
import stat
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NoReturn

from elftools.common.exceptions import ELFError
from elftools.elf.elffile import ELFFile

from pagelens.accesses.program import interpreter, locate
from pagelens.errors import Failure
from pagelens.run.preload import Preload


def obstacles(path: Path) -> Iterator[str]:
    """Why the library will not be loaded, a line each; nothing where it will be."""
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


def shared_libraries(program: Path) -> list[Path]:
    """What the loader will load with a program, by ldd; nothing where it cannot say."""
    try:
        listed = subprocess.run(
            ["ldd", program], capture_output=True, text=True, check=False, env={**os.environ, "LC_ALL": "C"}
        ).stdout
    except OSError:
        return []
    words = ((line.partition("=>")[2] or line).split(" (")[0].strip() for line in listed.splitlines())
    return [Path(word) for word in words if word.startswith("/")]


def _has_rights_of_its_own(path: Path) -> bool:
    """Whether the kernel will say AT_SECURE to the loader: ld.so(8)."""
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


def start(path: Path, words: Sequence[str], settings: Preload) -> NoReturn:
    """Runs the program in place of this process, with the library preloaded if there is anything to do.

    Raises Failure if the library is missing or the kernel refuses.
    """
    environment = dict(os.environ)
    if settings != Preload():
        environment = settings.environment(os.environ)
        for line in obstacles(path):
            tell(f"{line}; it runs without the library")
    sys.stdout.flush()
    sys.stderr.flush()
    for number in (signal.SIGPIPE, signal.SIGXFSZ):  # which Python ignores
        signal.signal(number, signal.SIG_DFL)
    try:
        os.execve(path, list(words), environment)
    except OSError as error:
        raise Failure(
            f"program {words[0]}: cannot be run ({error.strerror}); is it built for here?"
        ) from None


def tell(line: str) -> None:
    """One line on stderr."""
    print(f"pagelens run: {line}", file=sys.stderr)
