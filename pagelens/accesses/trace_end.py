"""Why a trace has no more of its program's run, and what a user can do about that."""

from __future__ import annotations

import errno
import os
import signal
from pathlib import Path

from pagelens import _core
from pagelens.accesses.trace_times import seconds_traced
from pagelens.host.memory_kills import FullMemory
from pagelens.units import format_time

_FAILED = "so this is a run that failed; mend the program"
_OF_SIGNAL: dict[int, str] = {
    signal.SIGINT: "as Ctrl-C does",
    signal.SIGHUP: "as the end of a terminal does; start it with nohup",
    signal.SIGTERM: "as timeout and batch systems do at a time limit (give it more time or less work), "
    "and as pools of processes do with workers that are done",
    signal.SIGXCPU: "at its limit of processor time; raise the limit (ulimit -t)",
    signal.SIGKILL: "as the kernel does where memory is full, and batch systems at a limit; "
    "give it more memory and time, or less work",
    **dict.fromkeys((signal.SIGSEGV, signal.SIGBUS, signal.SIGABRT, signal.SIGFPE, signal.SIGILL), _FAILED),
}


def end_of_killed(number: int, full: FullMemory, time_ns: int = 0) -> _core.TraceEnd:
    """Return the end of a program that a signal killed before the tracer could write the end.

    The number of a signal that is not known is 0.
    """
    if number == signal.SIGKILL and full != FullMemory.NO:
        return _core.TraceEnd(_core.EndKind.memory, full == FullMemory.YES, time_ns)
    return _core.TraceEnd(_core.EndKind.signal, number, time_ns)


def state_end(path: Path, end: _core.TraceEnd) -> None:
    """Write into a trace what ended it, unless it says so itself, or cannot be read or written."""
    try:
        trace = _core.Trace(path)
    except _core.TraceError:
        return
    if trace.end is None and trace.damage is not None:
        _core.append_end(path, trace.damage.position, end)


def end_in_words(end: _core.TraceEnd | None) -> str:
    """Return what ended a recording, and the remedy, if it is not the program's end: a clause."""
    if end is None:
        return "the trace does not say what ended it, as those of older versions"
    match end.kind:
        case _core.EndKind.budget:
            return f"the budget of {end.detail:,} accesses was used up; --accesses N sets it, and 0 is none"
        case _core.EndKind.file:
            return f"the trace could not grow ({os.strerror(end.detail)}); {remedy_of(end.detail)}"
        case _core.EndKind.memory:
            who = "the kernel" if end.detail else "probably the kernel"
            return f"{who} ended the program because memory was full; give it more memory or a smaller input"
        case _core.EndKind.signal:
            return f"{name_of_signal(end.detail)} ended the program{_why_killed(end.detail)}"
    return "the program ran to its end"


def cut_in_words(trace: _core.Trace) -> str:
    """Return why a trace has only a part of its run, if it has: sentences."""
    sentences = []
    if trace.chosen:
        sentences.append(f"{trace.chosen} chose this part.")
    if trace.end is None:
        sentences.append(
            "The trace does not say why, as those of older versions: a budget (--accesses), a chosen part or "
            "a full disk cuts a trace."
        )
    elif trace.end.kind in (_core.EndKind.budget, _core.EndKind.file):
        words = end_in_words(trace.end)
        sentences.append(f"{words[0].upper()}{words[1:]}.")
    return " ".join(sentences)


def remedy_of(error: int) -> str:
    """Return what a user can do about a file that could not be written."""
    return {
        errno.ENOSPC: "free some space, choose another folder or lower --accesses",
        errno.EDQUOT: "free some of your quota, choose another folder or lower --accesses",
        errno.EFBIG: "raise the limit of a file's size (ulimit -f) or lower --accesses",
        errno.EIO: "the disk or its file system failed; choose another folder",
    }.get(error, "choose another folder")


def killed_in_words(trace: _core.Trace) -> str:
    """Return what killed a program before the tracer could write the end, and when; empty if nothing did."""
    if trace.damage is None or trace.end is None:
        return ""
    by = "the kernel" if trace.end.kind == _core.EndKind.memory else name_of_signal(trace.end.detail)
    when = f" after {format_time(seconds, 2)} of tracing" if (seconds := seconds_traced(trace)) else ""
    return f"was killed by {by}{when}, and its accesses end there"


def name_of_signal(number: int) -> str:
    """Return the name of a signal, such as SIGTERM. 0 is one that is not known."""
    try:
        return signal.Signals(number).name if number else "a signal"
    except ValueError:  # a real-time signal
        return f"signal {number}"


def _why_killed(number: int) -> str:
    why = _OF_SIGNAL.get(number)
    return f", {why}" if why else ""
