"""The machine that a remedy works on: this one, or a guest of the lab, which offers the same three calls."""

import os
import subprocess
from pathlib import Path
from typing import Protocol

from pagelens.errors import Failure, UsageError
from pagelens.lab.guest import Finished


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
