"""Runs a program with advice of `pagelens io explain` applied, and compares it with the program as it is.

The library ioapply/ makes large writes direct, divides them among threads, enlarges the buffers of stdio, and
sets properties of HDF5. docs/io.md says what it leaves alone. Hints for MPI-IO reach ROMIO by the file that
its variable ROMIO_HINTS names.
"""

from __future__ import annotations

import hashlib
import mmap
import os
import re
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass
from math import isqrt
from pathlib import Path
from statistics import median
from typing import NoReturn

import polars as pl

from pagelens.accesses.preloading import obstacles, preloaded
from pagelens.accesses.program import locate
from pagelens.errors import Failure, UsageError
from pagelens.files import write_whole
from pagelens.host.exec_program import become, with_default_signals
from pagelens.host.native_files import native_file
from pagelens.interrupts import ctrl_c_waits
from pagelens.io.hdf5_content import can_compare, content_digest, is_hdf5
from pagelens.io.kinds import KINDS
from pagelens.io.recording import Recording
from pagelens.io.what_if import LARGE
from pagelens.machine import measured_file
from pagelens.units import format_binary_size, parse_size

LEAST, MOST = 64 << 10, 1 << 30  # bytes from which on writes can be made direct
LEAST_BUFFER, MOST_BUFFER = 8 << 10, 64 << 20  # bytes of the buffers of stdio
MOST_THREADS = 16  # as in ioapply/parts.h
_DIRECT = "PAGELENS_IO_DIRECT"
_THREADS = "PAGELENS_IO_THREADS"
_BUFFER = "PAGELENS_IO_BUFFER"
_HDF5 = {"alignment": "PAGELENS_IO_HDF5_ALIGNMENT", "cache": "PAGELENS_IO_HDF5_CACHE"}
_HDF5_SLOTS = "PAGELENS_IO_HDF5_SLOTS"
_HDF5_LEAST, _HDF5_MOST = {"alignment": 2, "cache": 1 << 20}, 1 << 30  # bytes
_SLOT_BYTES = 1024  # of the cache, for each slot of its table, so that few chunks meet in one slot
_HINTS = "ROMIO_HINTS"
_HINT = re.compile(r"([a-z_]{1,64})=(\S{1,128})")
_SIZES = ("cb_buffer_size", "ind_rd_buffer_size", "ind_wr_buffer_size", "striping_unit")  # bytes
_READ_BYTES = 1 << 20
_UNREAD = "unread: "  # in place of a digest, before why


@dataclass(frozen=True)
class Advice:
    """The advice that is applied to a program."""

    smallest: int | None = LARGE  # bytes from which on writes are made direct; None: none is
    hints: tuple[tuple[str, str], ...] = ()  # for ROMIO
    cores: tuple[int, ...] = ()  # the processors that it may use; (): all
    hdf5: tuple[tuple[str, int], ...] = ()  # properties of HDF5, in bytes: alignment, cache
    threads: int = 1  # that share a large direct write over data
    buffer: int | None = None  # bytes of the buffers of stdio; None: as they are

    def environment(self, before: Mapping[str, str]) -> dict[str, str]:
        """Return the program's environment. Raises Failure if the hints cannot be written."""
        changed = dict(before)
        if self.preloads:
            library = native_file("libpagelens_io_apply.so")
            changed["LD_PRELOAD"] = preloaded(before, library)
        if self.smallest is not None:
            changed[_DIRECT] = str(self.smallest)
            changed[_THREADS] = str(self.threads)
        if self.buffer is not None:
            changed[_BUFFER] = str(self.buffer)
        for name, value in self.hdf5:
            changed[_HDF5[name]] = str(value)
            if name == "cache":
                changed[_HDF5_SLOTS] = str(next_prime(value // _SLOT_BYTES))
        if self.hints:
            changed[_HINTS] = str(self._hints_file(before.get(_HINTS, "")))
        return changed

    @property
    def preloads(self) -> bool:
        """Whether the library must be loaded into the program."""
        return self.smallest is not None or self.buffer is not None or bool(self.hdf5)

    def apply_cores(self) -> None:
        """Bind this process, and all that it starts, to the processors of the advice."""
        if self.cores:
            os.sched_setaffinity(0, self.cores)

    def _hints_file(self, earlier: str) -> Path:
        """Write the hints, behind those that the user's own file has.

        The file stays, because the processes of mpirun read it whenever they open a file. Equal hints have
        the same file.
        """
        lines = [f"{key} {value}" for key, value in self.hints]
        try:
            if earlier:
                own = [line for line in Path(earlier).read_text().splitlines() if line.split()]
                keys = {key for key, _ in self.hints}
                lines = [*(line for line in own if line.split()[0] not in keys), *lines]
            text = "".join(f"{line}\n" for line in lines)
            name = hashlib.sha256(text.encode()).hexdigest()[:16]
            path = measured_file().with_name(f"romio-hints-{name}")
            path.parent.mkdir(parents=True, exist_ok=True)
            write_whole(path, lambda partial: partial.write_text(text))
        except (OSError, UnicodeDecodeError) as error:
            raise Failure(f"--hint: cannot write the file of hints ({error}); set ROMIO_HINTS") from None
        return path


def parse_hint(text: str) -> tuple[str, str]:
    """Return name and value of a hint such as cb_buffer_size=64MiB. Raises UsageError."""
    found = _HINT.fullmatch(text)
    if found is None:
        raise UsageError(f"--hint {text}: a name and a value, such as cb_buffer_size=64MiB")
    name, value = found.groups()
    if name in _SIZES and not value.isdigit():
        value = str(parse_size(value, f"--hint {name}"))
    return name, value


def parse_property(text: str) -> tuple[str, int]:
    """Return name and bytes of a property of HDF5 such as alignment=4KiB. Raises UsageError."""
    name, _, value = text.partition("=")
    if name not in _HDF5:
        raise UsageError(f"--hdf5 {text}: alignment=SIZE or cache=SIZE, such as cache=64MiB")
    size = parse_size(value, f"--hdf5 {name}")
    if not _HDF5_LEAST[name] <= size <= _HDF5_MOST:
        least = format_binary_size(_HDF5_LEAST[name])
        raise UsageError(f"--hdf5 {text}: {least} to 1 GiB, such as {name}=4MiB")
    return name, size


def parse_buffer(text: str) -> int:
    """Return the bytes of buffers such as 256KiB. Raises UsageError."""
    size = parse_size(text, "--buffer")
    if not LEAST_BUFFER <= size <= MOST_BUFFER:
        raise UsageError(f"--buffer {text}: 8 KiB to 64 MiB, such as 256KiB")
    return size


def next_prime(least: int) -> int:
    """Return the smallest prime that is not smaller. HDF5 advises a prime number of slots."""
    number = max(least, 2)
    while any(number % divisor == 0 for divisor in range(2, isqrt(number) + 1)):
        number += 1
    return number


@dataclass(frozen=True)
class Compared:
    """A program as it is and with the advice: medians of the runs, in seconds, and the files it wrote."""

    plain_cpu_s: float
    plain_wall_s: float
    applied_cpu_s: float
    applied_wall_s: float
    files: int
    hdf5: int  # of these, files of HDF5 whose contents were compared, and not their bytes
    unequal: tuple[str, ...]  # that differ between the two ways
    unsteady: tuple[str, ...]  # that differ from run to run as the program is
    unread: tuple[str, ...] = ()  # that could not be read after any run, and so were not compared
    overlap: bool = False  # a run of the faster way took as long as one of the slower way


def without_effect(words: Sequence[str]) -> list[str]:
    """Return one line for each reason why the library cannot reach the program."""
    return [f"{line}; it runs unchanged" for line in obstacles(locate(words[0]))]


def become_applied(words: Sequence[str], advice: Advice) -> NoReturn:
    """Run the program in place of this process, with the advice applied. Raises Failure."""
    program, environment = locate(words[0]), advice.environment(os.environ)
    advice.apply_cores()
    become(program, words, environment)


def written_files(recording: Recording) -> list[Path]:
    """Return the files that a program wrote and that are still there, in the order of their paths.

    Files that it mapped to write to them count, too, because nobody sees whether it did.
    """
    kind, result = pl.col("kind"), pl.col("result")
    moves = kind.is_in([KINDS[name] for name in ("write", "copy", "queued_write")]) & (result > 0)
    resizes = kind.is_in([KINDS["truncate"], KINDS["allocate"]]) & (result >= 0)
    writable = ((pl.col("flags") & mmap.MAP_SHARED) != 0) & ((pl.col("buffers") & mmap.PROT_WRITE) != 0)
    maps = (kind == KINDS["mmap"]) & (result >= 0) & writable
    wrote = recording.regular.filter(moves | resizes | maps)
    named = {Path(recording.header.files[number].path) for number in wrote["file"].unique().to_list()}
    return sorted(path for path in named if path.is_file())


def compare(
    words: Sequence[str],
    advice: Advice,
    rounds: int,
    files: Sequence[Path],
    progress: Callable[[int, int], None] | None = None,
) -> Compared:
    """Run the program both ways, in turn, and compare times and the bytes of the files that it wrote.

    With properties of HDF5, the bytes of its files differ. So what they hold is compared.

    The program must have run just before, as it is, so that its files are there. They are compared with those
    of the first run here, so that even one round finds files that differ from run to run. The output of the
    program is discarded. Raises Failure if a run fails.
    """
    times: tuple[list[tuple[float, float]], ...] = ([], [])
    by_content = {path for path in files if advice.hdf5 and is_hdf5(path)}
    if by_content and not can_compare():
        raise UsageError("--hdf5: to compare files of HDF5, install pagelens with its extra, hdf5")
    digests: tuple[list[dict[str, str]], ...] = ([_digests(files, by_content)], [])
    ways = ((dict(os.environ), None), (advice.environment(os.environ), advice.apply_cores))
    for number in range(rounds):
        for way, (environment, begin) in enumerate(ways):
            if progress is not None:
                progress(2 * number + way, 2 * rounds)
            times[way].append(_timed(words, environment, begin))
            digests[way].append(_digests(files, by_content))
    names = [str(path) for path in files]
    unsteady = tuple(name for name in names if len({of[name] for of in digests[0]}) > 1)
    unequal = tuple(
        name for name in names
        if name not in unsteady and any(of[name] != digests[0][0][name] for of in digests[1])
    )  # fmt: skip
    all_digests = digests[0] + digests[1]
    unread = {name for name in names if all(of[name].startswith(_UNREAD) for of in all_digests)}
    plain, applied = times
    walls, walls_applied = [wall for _, wall in plain], [wall for _, wall in applied]
    return Compared(
        plain_cpu_s=median(cpu for cpu, _ in plain),
        plain_wall_s=median(walls),
        applied_cpu_s=median(cpu for cpu, _ in applied),
        applied_wall_s=median(walls_applied),
        files=len(files),
        hdf5=sum(str(path) not in unread for path in by_content),
        unequal=tuple(name for name in unequal if name not in unread),
        unsteady=tuple(name for name in unsteady if name not in unread),
        unread=tuple(name for name in names if name in unread),
        overlap=max(walls) >= min(walls_applied) and max(walls_applied) >= min(walls),
    )


def _timed(
    words: Sequence[str], environment: Mapping[str, str], begin: Callable[[], None] | None
) -> tuple[float, float]:
    """Return the processor and wall seconds of a run. `begin` is called in its process first."""

    def in_child() -> None:
        with_default_signals()
        if begin is not None:
            begin()

    began = time.monotonic()
    with ctrl_c_waits():
        process = subprocess.Popen(
            words,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            preexec_fn=in_child,
        )
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise Failure(f"program {words[0]}: it ended with status {process.returncode}; see what it says")
    return used.ru_utime + used.ru_stime, time.monotonic() - began


def _digests(files: Sequence[Path], by_content: Set[Path]) -> dict[str, str]:
    return {str(path): _digest(path, path in by_content) for path in files}


def _digest(path: Path, by_content: bool) -> str:
    found = hashlib.sha256()
    try:
        if by_content:
            return content_digest(path)
        with path.open("rb") as file:
            while part := file.read(_READ_BYTES):
                found.update(part)
    except OSError as error:
        return f"{_UNREAD}{error.strerror or error}"
    return found.hexdigest()
