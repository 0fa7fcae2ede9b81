"""Programs as users have them, each run alone and under an engine of the tracer.

A program is a file of `tests/real`. Its first line describes it. The lines `needs:`, `module:` and
`processor:` name the commands, the modules of Debian's Python and the processor's features without which it
is left out. A line `qemu:` or `dynamorio:` says why an engine cannot run it. `prepare` is run once, by
itself; `run` is what is compared.
"""

from __future__ import annotations

import hashlib
import os
import re
import resource
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from pagelens.accesses.trace import open_trace

FOLDER = Path(__file__).parents[1] / "real"
_PROCESSOR = Path("/proc/cpuinfo")
LIMIT_S = 600  # a guard against hangs, far above what any of them takes


@dataclass(frozen=True)
class RealProgram:
    """A program of `tests/real`, by the name of its file."""

    name: str

    @property
    def file(self) -> Path:
        """The shell functions that prepare and run it."""
        return FOLDER / f"{self.name}.sh"

    @property
    def title(self) -> str:
        """What it is, in one line."""
        return self.file.read_text().partition("\n")[0].removeprefix("# ")

    @property
    def missing(self) -> list[str]:
        """What this machine lacks for it."""
        features = _PROCESSOR.read_text().split()
        return [
            *(c for c in self._stated("needs").split() if shutil.which(c) is None),
            *(m for m in self._stated("module").split() if not _has_module(m)),
            *(f"a processor with {f}" for f in self._stated("processor").split() if f not in features),
        ]

    def refusal(self, engine: str) -> str:
        """Return why an engine cannot run it, or an empty text."""
        return self._stated(engine)

    def _stated(self, key: str) -> str:
        return " ".join(re.findall(rf"^# {key}: (.*)$", self.file.read_text(), re.MULTILINE))


def _has_module(name: str) -> bool:
    command = ["/usr/bin/python3", "-c", f"import {name}"]
    return subprocess.run(command, capture_output=True, check=False).returncode == 0


@dataclass(frozen=True)
class Outcome:
    """What a run left: all of it is the same with and without the tracer, but for the times."""

    status: int  # of the shell; negative: the signal that ended a run which took too long
    output: str
    errors: str  # without the tracer's own lines
    files: dict[str, str]  # their digests

    def differences(self, other: Outcome) -> str:
        """Describe what differs from another run, in a few lines."""
        said = [
            f"{name}: {getattr(self, name)!r:.300} instead of {getattr(other, name)!r:.300}"
            for name in ("status", "output", "errors")
            if getattr(self, name) != getattr(other, name)
        ]
        names = sorted(n for n in {*self.files, *other.files} if self.files.get(n) != other.files.get(n))
        return "\n".join([*said, *(["files: " + ", ".join(names[:5])] if names else [])])


@dataclass(frozen=True)
class Run:
    """A run, what it cost, and the traces that it left."""

    outcome: Outcome
    processor_s: float  # of all its processes
    clock_s: float
    accesses: list[int]  # of each trace
    problems: list[str]  # of the traces

    @property
    def traced(self) -> int:
        """The accesses in all traces."""
        return sum(self.accesses)


def programs() -> list[RealProgram]:
    """Return all programs, by name."""
    return [RealProgram(file.stem) for file in sorted(FOLDER.glob("*.sh"))]


def prepare(program: RealProgram, folder: Path) -> None:
    """Make what a program needs, in a new folder. Raises CalledProcessError."""
    folder.mkdir()
    _driver(program, "prepare", folder, "").check_returncode()


def run(program: RealProgram, prepared: Path, folder: Path, engine: str | None) -> Run:
    """Run a program in a copy of its prepared folder. Give the same name each time, because it may show."""
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(prepared, folder, symlinks=True)
    traces = folder.with_name(folder.name + ".traces")
    shutil.rmtree(traces, ignore_errors=True)
    traces.mkdir()
    pagelens = Path(sys.executable).parent / "pagelens"
    trace = f"{pagelens} trace --engine {engine} -o {traces}/%p.trace --" if engine else ""
    before, begin = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    done = _driver(program, "run", folder, trace)
    after, end = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    errors = "".join(line for line in done.stderr.splitlines(True) if not line.startswith("pagelens: "))
    files = {
        str(file.relative_to(folder)): hashlib.sha256(file.read_bytes()).hexdigest()
        for file in sorted(folder.rglob("*"))
        if file.is_file() and not file.is_symlink()
    }
    accesses, problems = _read(traces)
    return Run(
        Outcome(done.returncode, done.stdout, errors, files),
        after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime,
        end - begin,
        accesses,
        problems,
    )


def _driver(program: RealProgram, what: str, folder: Path, trace: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "TRACE": trace, "SOURCES": str(FOLDER / "sources"), "LC_ALL": "C"}
    for name in ("PAGELENS_ENGINE", "LD_PRELOAD", "MALLOC_PERTURB_"):
        environment.pop(name, None)
    with subprocess.Popen(
        ["bash", str(FOLDER / "driver"), str(program.file), what],
        cwd=folder,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        errors="replace",
        start_new_session=True,
    ) as process:
        try:
            output, errors = process.communicate(timeout=LIMIT_S)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            output, errors = process.communicate()
    return subprocess.CompletedProcess(process.args, process.returncode, output, errors)


def _read(folder: Path) -> tuple[list[int], list[str]]:
    """Return the accesses of each trace, and what is wrong with the traces."""
    accesses, problems = [], []
    for file in sorted(folder.iterdir()):
        if file.suffix != ".trace":
            problems.append(f"{file.name} was left")
            continue
        trace = open_trace(file)
        accesses.append(int(trace.trace.summary.accesses))
        problems += [f"{file.name}: {warning}" for warning in trace.warnings]
    return accesses, problems
