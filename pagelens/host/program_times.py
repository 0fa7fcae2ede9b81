"""Measures the time of a program on this machine, as the kernel accounts for it."""

import os
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from time import perf_counter

from pagelens.errors import Failure


@dataclass(frozen=True)
class ProgramTime:
    """One run of a program, in seconds. The time of its children counts once it has waited for them."""

    elapsed_s: float
    processor_s: float
    of_kernel_s: float  # the part of the processor time that the kernel used on the program's behalf


def time_program(
    words: Sequence[str], runs: int, environment: Mapping[str, str] | None = None
) -> list[ProgramTime]:
    """Run the program `runs` times, each time as a new process, whose pages get other frames.

    It reads nothing from standard input, and what it prints goes nowhere. One run before these brings its
    files into memory. Raises Failure where the program does not start, or does not end with status 0.
    """
    return [_run(words, environment) for _ in range(runs + 1)][1:]


def _run(words: Sequence[str], environment: Mapping[str, str] | None) -> ProgramTime:
    begin = perf_counter()
    try:
        process = subprocess.Popen(
            words,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
    except OSError as error:
        raise Failure(f"{words[0]} was not timed: {error.strerror}") from None
    try:
        _, status, usage = os.wait4(process.pid, 0)
    except BaseException:
        process.kill()
        process.wait()
        raise
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != 0:
        raise Failure(f"{words[0]} was not timed: it ended with status {process.returncode}")
    return ProgramTime(perf_counter() - begin, usage.ru_utime + usage.ru_stime, usage.ru_stime)
