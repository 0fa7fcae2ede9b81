"""Checks before a program starts whether the system lets an engine run it."""

from __future__ import annotations

import mmap
import resource
from pathlib import Path

from pagelens.errors import Failure

_OWN_MEMORY = Path("/proc/self/maps")


def check_system() -> None:
    """Raise Failure if no engine can run programs on this system."""
    if not _OWN_MEMORY.exists():
        raise Failure("/proc is not mounted, and tracing reads it; run: mount -t proc proc /proc")
    try:
        mmap.mmap(-1, mmap.PAGESIZE, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC).close()
    except OSError as error:
        raise Failure(
            f"this system lets no program execute what it has written ({error.strerror}), and tracing "
            "translates programs; allow it (SELinux: deny_execmem off; systemd: MemoryDenyWriteExecute=no), "
            "or trace elsewhere and explain the trace here"
        ) from None


def limit_of_memory() -> str:
    """Return a hint for a user whose engine ended early, where ulimit -v is a possible cause."""
    soft, _ = resource.getrlimit(resource.RLIMIT_AS)
    if soft == resource.RLIM_INFINITY:
        return ""
    return f"; ulimit -v is {soft >> 10}, and an engine needs more addresses: ulimit -v unlimited"
