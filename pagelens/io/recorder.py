"""Runs a program with the recorder preloaded, and turns what it leaves into a recording."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from pagelens.accesses.preloading import obstacles, preloaded
from pagelens.accesses.program import locate
from pagelens.errors import Failure, UsageError
from pagelens.host.exec_program import cannot_run, with_default_signals
from pagelens.host.native_files import native_file
from pagelens.host.output_name import checked_output, expand_rank
from pagelens.host.perf_events import events_ready
from pagelens.host.program_signals import SignalsHandedOn
from pagelens.io.folios import with_folios
from pagelens.io.importers.strace import STRACE_OPTIONS, read_strace
from pagelens.io.raw_log import read_raw_logs
from pagelens.io.recording import SUFFIX, Header, Recording, read_recording
from pagelens.io.resolve import resolve

_POLL_S = 0.5


@dataclass(frozen=True)
class Recorded:
    """A recording, its file, and how the program ended."""

    recording: Recording
    path: Path
    exit_status: int  # -n: killed by signal n
    notes: tuple[str, ...]  # how it was recorded, if not as usual


def record_program(
    words: Sequence[str], output: str, progress: Callable[[float, int], None] | None = None
) -> Recorded:
    """Run the program to its end, in this terminal and folder, and write its recording to `output`.

    `progress(seconds, bytes)` is called now and then. Raises UsageError or Failure before the program runs,
    and Failure after it if nothing could be recorded.
    """
    program = locate(words[0])
    name = expand_rank(output or f"{Path(words[0]).name}{SUFFIX}", os.environ)
    path = checked_output(name.replace("%p", str(os.getpid()))).absolute()
    raw = path.with_name(f"{path.name}.raw")
    why = list(obstacles(program))
    with _folder(raw), events_ready():
        environment, command = (
            (recording_environment(raw), list(words))
            if not why
            else (dict(os.environ), _under_strace(words, raw, why[0]))
        )
        began = time.monotonic_ns()
        status = _run(command, environment, raw, progress)
        header = Header(
            source="strace" if why else "recorder",
            command=list(words),
            folder=os.getcwd(),
            elapsed_ns=time.monotonic_ns() - began,
        )
        recording = _strace_recording(raw, header) if why else resolve(read_raw_logs(raw), header)
        recording = with_folios(recording)
        recording.write(path)
    notes = [f"{line}; strace recorded it, at some 50 us a call" for line in why]
    return Recorded(recording, path, status, tuple(notes))


def open_recording(path: Path) -> Recording:
    """Return the recording in a file, or in a folder of raw logs that a killed `pagelens io record` left."""
    if not path.is_dir():
        return read_recording(path)
    logs = read_raw_logs(path)
    if not logs:
        raise UsageError(f"recording: {path} has no raw logs of `pagelens io record`; name a {SUFFIX} file")
    return resolve(logs, Header(source="recorder", notes=["the recorder was ended before the program"]))


class _folder:
    """A new folder, which is removed when all that it holds is in the recording."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __enter__(self) -> None:
        try:
            shutil.rmtree(self.path, ignore_errors=True)
            self.path.mkdir()
        except OSError as error:
            raise Failure(
                f"--output: cannot make {self.path} ({error.strerror}); free some space or name another file"
            ) from None

    def __exit__(self, kind: object, *_: object) -> None:
        if kind is None or not any(self.path.iterdir()):
            shutil.rmtree(self.path, ignore_errors=True)


def recording_environment(raw: Path) -> dict[str, str]:
    """Return this process's environment, and in it what lets a program record itself into that folder."""
    preload = preloaded(os.environ, native_file("libpagelens_io.so"))
    return {**os.environ, "LD_PRELOAD": preload, "PAGELENS_IO": str(raw)}


def _under_strace(words: Sequence[str], raw: Path, why: str) -> list[str]:
    strace = shutil.which("strace")
    if strace is None:
        raise Failure(f"{why}; strace can record it: apt-get install strace")
    return [strace, *STRACE_OPTIONS, "-o", str(raw / "strace"), *words]


def _strace_recording(raw: Path, header: Header) -> Recording:
    with open(raw / "strace", "rb") as file:
        return read_strace(file, header, is_trace=True)


def _run(
    command: Sequence[str],
    environment: Mapping[str, str],
    raw: Path,
    progress: Callable[[float, int], None] | None,
) -> int:
    began = time.monotonic()
    with SignalsHandedOn() as signals:
        try:
            process = subprocess.Popen(
                command, env=environment, close_fds=False, preexec_fn=with_default_signals
            )
        except OSError as error:
            raise cannot_run(command[0], error) from None
        signals.begin(process, begun=lambda: True)
        while True:
            try:
                return process.wait(_POLL_S if progress else None)
            except subprocess.TimeoutExpired:
                size = sum(each.stat().st_size for each in raw.iterdir())
                if progress:
                    progress(time.monotonic() - began, size)
