"""One program under every tool that sees its accesses, beside the program alone."""

import re
import resource
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

sys.path.append(str(Path(__file__).parents[1]))
from contest import Contest, Contestant, Done
from figures import compile_copy

from pagelens.accesses.dynamorio import find_dynamorio, has_dynamorio
from pagelens.accesses.emulator import find_emulator

MIB, TIMES = 1, 8
ACCESSES = 2 * TIMES * MIB << 17  # of the loop, without the libraries


def _timed(command: Sequence[str | Path]) -> float | None:
    """Return the processor seconds of a command; None where it is not installed."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    try:
        done = subprocess.run(list(map(str, command)), capture_output=True, text=True, check=False)
    except FileNotFoundError:
        return None
    if done.returncode not in (0, 7):  # the program's own status
        raise SystemExit(f"peers: {command[0]}: {done.stderr[-300:]}")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def _done(seconds: float | None, **counts: int) -> Done | None:
    return None if seconds is None else Done(seconds, counts)


class Program:
    """The program, its files, and how each tool runs it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.command = [str(compile_copy(folder)), str(MIB), str(TIMES)]

    def alone(self) -> Done | None:
        """Run it alone."""
        return _done(_timed(self.command))

    def emulated(self) -> Done | None:
        """Run it under QEMU, without a plugin."""
        return _done(_timed([find_emulator().qemu, *self.command]))

    def translated(self) -> Done | None:
        """Run it under DynamoRIO, without a client."""
        if not has_dynamorio():
            return None
        settings = [f"DYNAMORIO_EXE_PATH={self.command[0]}", "DYNAMORIO_OPTIONS=-no_follow_children"]
        return _done(_timed(["env", *settings, find_dynamorio().library, *self.command[1:]]))

    def traced(self, engine: str) -> Done | None:
        """Trace it as `pagelens trace` does, into a file."""
        if engine == "dynamorio" and not has_dynamorio():
            return None
        trace = self.folder / "copy.trace"
        options = ["--engine", engine, "-o", trace]
        return _done(_timed([sys.executable, "-m", "pagelens", "trace", *options, "--", *self.command]))

    def nulgrind(self) -> Done | None:
        """Run it under valgrind without a tool."""
        return _done(_timed(["valgrind", "--tool=none", *self.command]))

    def lackey(self) -> Done | None:
        """Write every access as text."""
        out = self.folder / "copy.lackey"
        options = ["--tool=lackey", "--trace-mem=yes", f"--log-file={out}"]
        seconds = _timed(["valgrind", *options, *self.command])
        if seconds is None:
            return None
        kinds = re.findall(rb"^ ([LSM]) ", out.read_bytes(), re.MULTILINE)
        return _done(seconds, accesses=len(kinds))

    def cachegrind(self) -> Done | None:
        """Count misses of two levels."""
        out = self.folder / "copy.cachegrind"
        options = ["--tool=cachegrind", "--cache-sim=yes", f"--cachegrind-out-file={out}"]
        seconds = _timed(["valgrind", *options, "--D1=32768,8,64", "--LL=1048576,16,64", *self.command])
        if seconds is None:
            return None
        text = out.read_text()
        names = re.search(r"^events: (.*)$", text, re.MULTILINE)
        sums = re.search(r"^summary: (.*)$", text, re.MULTILINE)
        assert names is not None
        assert sums is not None
        counted = dict(zip(names[1].split(), map(int, sums[1].split()), strict=True))
        return _done(seconds, accesses=counted["Dr"] + counted["Dw"])

    def dhat(self) -> Done | None:
        """Profile heap blocks by their accesses."""
        out = self.folder / "copy.dhat"
        return _done(_timed(["valgrind", "--tool=dhat", f"--dhat-out-file={out}", *self.command]))

    def files(self) -> dict[str, str]:
        """Write the traces that builds of others read, and return their names by the format's."""
        trace = self.folder / "files.trace"
        _timed([sys.executable, "-m", "pagelens", "trace", "-o", trace, "--", *self.command])
        found = {"program": shlex.join(self.command)}
        for form in ("dramsim3", "ramulator", "champsim", "v2p"):
            found[form] = str(self.folder / f"copy.{form}")
            _timed(
                [sys.executable, "-m", "pagelens", "trace-export", trace, "--format", form, "-o", found[form]]
            )
        return found


def contests(builds: Sequence[str]) -> list[Contest]:
    """Return the contest of tools that run a program, with those builds, each stated as NAME=COMMAND.

    A command may name {program}, {dramsim3}, {ramulator}, {champsim} and {v2p}: the program, and its traces.
    """
    folder = tempfile.TemporaryDirectory()
    program = Program(Path(folder.name))
    trace = "pagelens trace, with the start of Python"
    contestants = [
        Contestant("the program alone", program.alone, "sees nothing"),
        Contestant("QEMU without a plugin", program.emulated, "sees nothing"),
        Contestant("DynamoRIO without a client", program.translated, "sees nothing"),
        Contestant("valgrind without a tool", program.nulgrind, "sees nothing"),
        Contestant(f"{trace}, QEMU", lambda: program.traced("qemu"), ""),
        Contestant(f"{trace}, DynamoRIO", lambda: program.traced("dynamorio"), ""),
        Contestant("lackey", program.lackey, "no caches, no objects, one thread"),
        Contestant("cachegrind", program.cachegrind, "no frames, no objects, one core, no time"),
        Contestant("DHAT", program.dhat, "no caches, no order of accesses; the heap alone"),
    ]
    files = program.files() if builds else {}
    for stated in builds:
        name, _, command = stated.partition("=")
        words = shlex.split(command.format(**files))
        contestants.append(Contestant(name, lambda words=words: _done(_timed(words)), "as the user built it"))
    _keep.append(folder)
    return [Contest(f"copy of {MIB} MiB, {TIMES} times", "accesses", ACCESSES, contestants, "accesses")]


_keep: list[object] = []  # folders live as long as the contests
