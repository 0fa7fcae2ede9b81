"""The machine that a remedy works on: this one, or a guest of the lab, which offers the same three calls."""

import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol

from pagelens.errors import Failure, UsageError
from pagelens.lab.guest import Finished
from pagelens.units import format_binary_size

NODES = "/sys/devices/system/node"
_MOST_CACHE = 1 << 40  # far beyond any; what is kept of its slots still fits in memory


class System(Protocol):
    """Runs commands as root and reads files; pagelens.lab.guest.Guest is one."""

    def run(self, program: str, *arguments: str) -> Finished:
        """Runs a program to its end."""

    def shell(self, script: str) -> Finished:
        """Runs a POSIX shell script."""

    def get(self, name: str) -> bytes:
        """The content of a file."""


class ThisMachine:
    """The machine that pagelens runs on."""

    def run(self, program: str, *arguments: str) -> Finished:
        """Runs a program to its end; what it writes on stderr is in the output, too."""
        done = subprocess.run(
            [program, *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            check=False,
        )
        return Finished(done.returncode, done.stdout)

    def shell(self, script: str) -> Finished:
        """Runs a POSIX shell script."""
        return self.run("sh", "-c", script)

    def get(self, name: str) -> bytes:
        """The content of a file."""
        try:
            return Path(name).read_bytes()
        except OSError as error:
            raise Failure(f"cannot read {name}: {error.strerror}") from None


@contextmanager
def uninterrupted() -> Iterator[None]:
    """Ctrl-C, and what else would end this process, waits until the end of the block."""
    came: list[int] = []
    before = {
        number: signal.signal(number, lambda received, _: came.append(received))
        for number in (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM)
        if signal.getsignal(number) is not signal.SIG_IGN
    }
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        for arrived in came:
            signal.raise_signal(arrived)


def require_cache(cache_bytes: int, whole: int) -> None:
    """Raises UsageError unless a cache of so many bytes holds `whole` bytes a whole number of times."""
    if not 0 < cache_bytes <= _MOST_CACHE or cache_bytes % whole:
        raise UsageError(
            f"--cache {cache_bytes} bytes: a multiple of {format_binary_size(whole)}, "
            f"at most {format_binary_size(_MOST_CACHE)}"
        )


def require_node(system: System, node: int) -> None:
    """Raises UsageError unless the machine has the node."""
    listed = system.shell(f"cd {NODES} && echo node[0-9]*")
    names = listed.output.split() if listed.status == 0 else []
    if f"node{node}" not in names:
        known = ", ".join(sorted(name.removeprefix("node") for name in names)) or "none that are known"
        raise UsageError(f"--node {node}: there is no such node; this machine has {known}")


def require_real_frames(virtual_allowed: bool, cpuinfo: Path = Path("/proc/cpuinfo")) -> None:
    """Raises UsageError unless run by root where the frames that the kernel sees are those of the memory."""
    if os.geteuid() != 0:
        raise UsageError("the kernel shows and moves frames for root only; run it as root")
    flags = next((line for line in cpuinfo.read_text().splitlines() if line.startswith("flags")), "")
    if "hypervisor" in flags.split() and not virtual_allowed:
        raise UsageError(
            "this is a virtual machine, its frames are not those of the memory: their order changes nothing; "
            "run it on the host, or add --virtual where the guest's memory is pinned in one piece"
        )
