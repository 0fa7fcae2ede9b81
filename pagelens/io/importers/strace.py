"""Reads text of `strace -f -ttt -T -y`.

`-f` may be missing. So may `-y`: files then have the names with which the trace opens them. strace tells no
processor time, no address and no processor. It treats threads as processes.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from typing import IO, Any

from pagelens.errors import UsageError
from pagelens.io.importers.builder import RecordingBuilder
from pagelens.io.recording import Header, Recording

_CALLS = (
    "open", "openat", "creat", "close", "read", "write", "pread64", "pwrite64", "readv", "writev", "preadv",
    "pwritev", "preadv2", "pwritev2", "lseek", "fsync", "fdatasync", "fadvise64", "ftruncate", "fallocate",
    "dup", "dup2", "dup3", "fcntl", "copy_file_range", "sendfile",
)  # fmt: skip
# -s 0 keeps the contents of buffers out of the trace, because they are private.
STRACE_OPTIONS = ("--seccomp-bpf", "-f", "-ttt", "-T", "-y", "-s", "0", "-e", f"trace={','.join(_CALLS)}")

_UNKNOWN = ["cpu_ns", "address", "cpu"]
_LONGEST_LINE = 1 << 16
_FIRST_LINES = 200  # in which a call must stand, or it is another kind of file
_LINE = re.compile(
    r"(?:\[pid\s+(?P<pid_a>\d{1,10})\] |(?P<pid>\d{1,10})\s+)?"
    r"(?P<time>\d{1,12}\.\d{1,9}|\d\d:\d\d:\d\d(?:\.\d{1,9})?) (?P<rest>.*)"
)
_CALL = re.compile(
    r"(?P<name>\w+)\((?P<arguments>.*)\)\s+= (?P<result>-?\d{1,19}|0x[0-9a-f]{1,16}|\?)(?P<after>.*)$"
)
_RESUMED = re.compile(r"<\.\.\. (\w+) resumed>\s?(.*)")
_DURATION = re.compile(r"<(\d{1,9}\.\d{1,9})>\s*$")
_DESCRIPTOR = re.compile(r"(-?\d{1,10})(?:<(.*)>)?$", re.DOTALL)
_NUMBERS = {"pread64": (2, 3), "pwrite64": (2, 3), "read": (2, None), "write": (2, None)}
_FLAGS = {
    "O_WRONLY": os.O_WRONLY, "O_RDWR": os.O_RDWR, "O_CREAT": os.O_CREAT, "O_TRUNC": os.O_TRUNC,
    "O_APPEND": os.O_APPEND, "O_DIRECT": os.O_DIRECT, "O_SYNC": os.O_SYNC, "O_DSYNC": os.O_DSYNC,
}  # fmt: skip
_ADVICE = {
    "POSIX_FADV_RANDOM": 1,
    "POSIX_FADV_SEQUENTIAL": 2,
    "POSIX_FADV_WILLNEED": 3,
    "POSIX_FADV_DONTNEED": 4,
}


def read_strace(stream: IO[bytes], header: Header, is_trace: bool = False) -> Recording:
    """Return the recording of a trace. Raises UsageError for any other file.

    What is known to be a trace may have no call on a file.
    """
    calls = _Calls(header)
    unfinished: dict[int, tuple[float, str]] = {}
    found = number = 0
    for number, line in enumerate(_lines(stream), 1):
        if (head := _LINE.match(line)) is None:
            if number >= _FIRST_LINES and not found:
                break
            continue
        process = int(head["pid"] or head["pid_a"] or 0)
        began, text = _seconds(head["time"]), head["rest"]
        if text.endswith("<unfinished ...>"):
            unfinished[process] = began, text.removesuffix("<unfinished ...>")
            continue
        if (resumed := _RESUMED.match(text)) is not None:
            if process not in unfinished:
                continue
            began, first = unfinished.pop(process)
            text = first + resumed[2]
        if (call := _CALL.match(text)) is not None and call["name"] in _CALLS:
            found += calls.take(process, began, call)
    if not found and not is_trace:
        raise UsageError(
            f"strace log: no call on a file with its time in {number} lines; make it with "
            "`strace -f -ttt -T -y -o FILE`"
        )
    return calls.builder.build()


def _lines(stream: IO[bytes]) -> Iterator[str]:
    while line := stream.readline(_LONGEST_LINE):
        yield line.decode("utf-8", "backslashreplace").rstrip("\n")


def _seconds(text: str) -> float:
    if ":" not in text:
        return float(text)
    hours, minutes, seconds = text.split(":")
    return int(hours) * 3600 + int(minutes) * 60 + float(seconds)


class _Calls:
    """Takes in calls, and follows which file and position each descriptor has."""

    def __init__(self, header: Header) -> None:
        self.builder = RecordingBuilder(header.model_copy(update={"source": "strace"}), _UNKNOWN)
        self._paths: dict[int, str] = {}  # by descriptor, where strace does not say
        self._flags: dict[int, int] = {}
        self._positions: dict[tuple[int, str], list[int]] = {}  # descriptors that `dup` made share one

    def take(self, process: int, began: float, call: re.Match[str]) -> bool:
        """Add a call. Return whether it was an operation on a file."""
        arguments = _split(call["arguments"])
        shown = call["result"]
        duration = _DURATION.search(call["after"])
        times = {
            "start_ns": round(began * 1e9),
            "wall_ns": round(float(duration[1]) * 1e9) if duration else 0,
            "process": process,
            "thread": process,
        }
        self.builder.process(process)
        try:
            result = -1 if shown == "?" else int(shown, 0)
            return self._operation(call["name"], arguments, result, call["after"], times)
        except (ValueError, IndexError):  # arguments that are not those of the call
            return False

    def _operation(
        self, name: str, arguments: list[str], result: int, after: str, times: dict[str, Any]
    ) -> bool:
        if name in ("open", "openat", "creat"):
            return self._open(name, arguments, result, after, times)
        descriptor, path = self._descriptor(arguments[0])
        common = {**times, "descriptor": descriptor, "result": result, **self._of(descriptor, path)}
        key = descriptor, path
        if name in ("read", "write", "readv", "writev"):
            position = self._position(key)
            start = position[0]
            position[0] += max(0, result)
            size = _whole(arguments[2]) if name in ("read", "write") else max(0, result)
            self.builder.add(name.removesuffix("v"), size=size, offset=start, **common)
        elif name in ("pread64", "pwrite64"):
            kind = name[1:].removesuffix("64")
            self.builder.add(kind, size=_whole(arguments[2]), offset=_whole(arguments[3]), **common)
        elif name.startswith(("preadv", "pwritev")):
            kind = "read" if "read" in name else "write"
            self.builder.add(kind, size=max(0, result), offset=_whole(arguments[3]), **common)
        elif name == "lseek":
            if result >= 0:
                self._position(key)[0] = result
            self.builder.add("seek", offset=max(-1, result), **common)
        elif name in ("dup", "dup2", "dup3"):
            self._paths[result] = path
            self._flags[result] = self._flags.get(descriptor, 0)
            self._positions[result, path] = self._position(key)
            self.builder.add("dup", **common)
        elif name == "close":
            self.builder.add("close", **common)
            self._positions.pop(key, None)
            self._paths.pop(descriptor, None)
        elif name == "fcntl":
            if len(arguments) < 3 or arguments[1] != "F_SETFL":
                return False
            self._flags[descriptor] = _flags(arguments[2])
            self.builder.add("setfl", flags=self._flags[descriptor], **common)
        elif name == "fadvise64":
            advice = _ADVICE.get(arguments[3], 0)
            self.builder.add(
                "advise", offset=_whole(arguments[1]), size=_whole(arguments[2]), flags=advice, **common
            )
        elif name in ("copy_file_range", "sendfile"):
            self.builder.add("copy", size=_whole(arguments[-1 if name == "sendfile" else 4]), **common)
        else:
            kinds = {
                "fsync": "sync",
                "fdatasync": "datasync",
                "ftruncate": "truncate",
                "fallocate": "allocate",
            }
            size = _whole(arguments[-1]) if name in ("ftruncate", "fallocate") else 0
            self.builder.add(kinds[name], size=size, **common)
        return True

    def _open(self, name: str, arguments: list[str], result: int, after: str, times: dict[str, Any]) -> bool:
        path = arguments[1 if name == "openat" else 0].strip('".')
        words = arguments[2 if name == "openat" else 1] if name != "creat" else "O_CREAT|O_WRONLY|O_TRUNC"
        if result >= 0:
            if (shown := re.match(r"<(.*?)>(?: <|\s*$)", after)) is not None:
                path = shown[1]
            self._paths[result], self._flags[result] = path, _flags(words)
            self._positions[result, path] = [0]
        of = self._of(result, path) if result >= 0 else {}
        self.builder.add("open", descriptor=result, result=result, **{**times, **of, "flags": _flags(words)})
        return True

    def _position(self, key: tuple[int, str]) -> list[int]:
        return self._positions.setdefault(key, [0])

    def _descriptor(self, text: str) -> tuple[int, str]:
        match = _DESCRIPTOR.match(text)
        if match is None:
            raise ValueError
        number = int(match[1])
        return number, match[2] or self._paths.get(number, f"descriptor {number}")

    def _of(self, descriptor: int, path: str) -> dict[str, Any]:
        kind = (
            "pipe" if path.startswith("pipe:")
            else "socket" if path.startswith(("socket:", "TCP", "UDP", "UNIX"))
            else "device" if path.startswith("/dev/") else "file"
        )  # fmt: skip
        flags = self._flags.get(descriptor, 0)
        return {
            "file": self.builder.file(path, type=kind),
            "direct": bool(flags & os.O_DIRECT),
            "synchronous": bool(flags & os.O_DSYNC),
            "append": bool(flags & os.O_APPEND),
        }


def _split(text: str) -> list[str]:
    """Return the arguments of a call. Commas in strings, names and brackets do not end an argument."""
    parts, depth, quoted, start = [], 0, False, 0
    for at, character in enumerate(text):
        if character == '"' and text[at - 1 : at] != "\\":
            quoted = not quoted
        elif quoted:
            continue
        elif character in "<[{(":
            depth += 1
        elif character in ">]})":
            depth -= 1
        elif character == "," and depth <= 0:
            parts.append(text[start:at].strip())
            start = at + 1
    parts.append(text[start:].strip())
    return parts


def _whole(text: str) -> int:
    return int(text[:20], 0)


def _flags(text: str) -> int:
    value = 0
    for word in text.split("|"):
        value |= _FLAGS.get(word.strip(), 0)
    return value
