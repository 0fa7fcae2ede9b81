"""Runs commands and reads files on this machine. A guest of the lab offers the same calls."""

import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from pagelens.errors import Failure


@dataclass(frozen=True, slots=True)
class Finished:
    """How a program on this machine or in a guest ended."""

    status: int  # exit status; -n if signal n killed it
    output: str  # stdout and stderr, interleaved

    def checked(self) -> str:
        """Return the output. Raises Failure if the status is not 0."""
        if self.status != 0:
            raise Failure(f"a command in the guest failed with status {self.status}: {self.output.strip()}")
        return self.output


class CommandRunner(Protocol):
    """A machine that runs commands as root and reads files: this one, or a guest of the lab."""

    def run(self, program: str, *arguments: str) -> Finished:
        """Run a program to its end."""

    def shell(self, script: str) -> Finished:
        """Run a POSIX shell script."""

    def get(self, name: str) -> bytes:
        """Return the content of a file."""


class ThisMachine:
    """The machine that pagelens runs on."""

    def run(self, program: str, *arguments: str) -> Finished:
        """Run a program to its end. Its output includes stderr."""
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
        """Run a POSIX shell script."""
        return self.run("sh", "-c", script)

    def get(self, name: str) -> bytes:
        """Return the content of a file. Raises Failure if it cannot be read."""
        try:
            return Path(name).read_bytes()
        except OSError as error:
            raise Failure(f"cannot read {name}: {error.strerror}") from None
