"""Reads hardware counters through perf_event_open(2), with libpfm4's names.

Events of a core are counted on each processor that is measured. Those of a shared unit (`*_unc_*`) are
counted on every one of its numbers, for the whole machine, so they include other programs' events. Disturbed
visits are repeated.
"""

import ctypes
import errno
import fcntl
import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress

import numpy as np
from numpy.typing import NDArray

_LIBRARY = "libpfm.so.4"
_PERF_EVENT_OPEN = 298  # x86-64
_ENABLE, _DISABLE = 0x2400, 0x2401  # linux/perf_event.h, PERF_EVENT_IOC_*
_ATTR_BYTES = 128
_DISABLED = 1  # first bit of the flags of perf_event_attr
_EXTENDED = 2  # PFM_OS_PERF_EVENT_EXT
_USER_AND_KERNEL = 0x9  # PFM_PLM0 | PFM_PLM3
_FORMAT = 3  # PERF_FORMAT_TOTAL_TIME_ENABLED and _RUNNING
_MOST_UNITS = 64  # of a kind, in a processor

Floats = NDArray[np.float64]


class _Encoding(ctypes.Structure):
    """pfm_perf_encode_arg_t of libpfm4."""

    _fields_ = (
        ("attr", ctypes.c_void_p),
        ("name", ctypes.c_void_p),
        ("size", ctypes.c_size_t),
        ("index", ctypes.c_int),
        ("cpu", ctypes.c_int),
        ("flags", ctypes.c_int),
        ("padding", ctypes.c_int),
    )


class Names:
    """The names of events in libpfm4. Raises OSError if the library is not installed."""

    def __init__(self) -> None:
        self._library = ctypes.CDLL(_LIBRARY)
        if self._library.pfm_initialize() != 0:
            raise OSError(errno.ENOSYS, "libpfm4 knows no counter of this processor")

    def attribute(self, event: str) -> bytes | None:
        """Return the perf_event_attr of an event, or None if this processor has no such event or unit."""
        status, attribute = self.encode(event)
        return attribute if status == 0 else None

    def encode(self, event: str) -> tuple[int, bytes]:
        """Return libpfm4's status (PFM_SUCCESS is 0) and the attribute."""
        attribute = ctypes.create_string_buffer(_ATTR_BYTES)
        encoding = _Encoding(ctypes.addressof(attribute), None, ctypes.sizeof(_Encoding), 0, -1, 0, 0)
        status = self._library.pfm_get_os_event_encoding(
            event.encode(), _USER_AND_KERNEL, _EXTENDED, ctypes.byref(encoding)
        )
        return int(status), attribute.raw


class HardwareCounters:
    """Counts while a function runs. `missing` says which counters are missing, and why."""

    def __init__(self, wanted: Mapping[str, Sequence[str]], cpus: Sequence[int]) -> None:
        self._files: dict[str, list[int]] = {}
        self.missing = ""
        if not wanted:
            self.missing = "the machine file names no hardware counters"
            return
        try:
            names = Names()
        except OSError:
            self.missing = "hardware counters need libpfm4 (Debian package libpfm4)"
            return
        for name, events in wanted.items():
            try:
                if files := [file for event in events for file in _opened(names, event, cpus)]:
                    self._files[name] = files
            except OSError as error:
                self.missing = _reason(error)
        if not self._files:
            self.missing = self.missing or "this processor, or virtual machine, has no hardware counters"

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the counters."""
        return tuple(self._files)

    def count(self, run: Callable[[], Floats]) -> tuple[Floats, dict[str, float]]:
        """Run a function. Return its counts, scaled up if counters had to share a register."""
        every = [file for files in self._files.values() for file in files]
        before = {file: _read(file) for file in every}
        for file in every:
            _control(file, _ENABLE)
        try:
            result = run()
        finally:
            for file in every:
                _control(file, _DISABLE)
        since = {file: _read(file) - before[file] for file in every}
        return result, {
            name: float(sum(_scaled(since[file]) for file in files)) for name, files in self._files.items()
        }

    def close(self) -> None:
        """Give the counters back."""
        for files in self._files.values():
            for file in files:
                os.close(file)
        self._files = {}


def _opened(names: Names, event: str, cpus: Sequence[int]) -> list[int]:
    unit, _, rest = event.partition("::")
    if not unit.endswith("*"):
        attribute = names.attribute(event)
        return [] if attribute is None else [_open(attribute, cpu) for cpu in cpus]
    every = (names.attribute(f"{unit[:-1]}{number}::{rest}") for number in range(_MOST_UNITS))
    return [_open(attribute, cpus[0]) for attribute in every if attribute is not None]


def _open(attribute: bytes, cpu: int) -> int:
    """Open a counter of everything that runs on a processor, not yet counting. Raises OSError."""
    raw = bytearray(attribute)
    raw[4:8] = _ATTR_BYTES.to_bytes(4, "little")
    raw[32:40] = _FORMAT.to_bytes(8, "little")  # read_format
    raw[40] |= _DISABLED
    libc = ctypes.CDLL(None, use_errno=True)
    buffer = (ctypes.c_char * _ATTR_BYTES).from_buffer(raw)
    file = libc.syscall(_PERF_EVENT_OPEN, buffer, -1, cpu, -1, 0)
    if file < 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
    return int(file)


def _control(file: int, request: int) -> None:
    with suppress(OSError):
        fcntl.ioctl(file, request, 0)


def _read(file: int) -> Floats:
    """Return the value, and the times for which it was enabled and running. A reset leaves these times."""
    return np.frombuffer(os.read(file, 24), dtype=np.uint64).astype(np.float64)


def _scaled(since: Floats) -> float:
    value, enabled, running = since.tolist()
    return value * enabled / running if running > 0 else float("nan")  # it never had a register


def _reason(error: OSError) -> str:
    if error.errno in (errno.EACCES, errno.EPERM):
        return "hardware counters are not allowed: as root, sysctl kernel.perf_event_paranoid=0"
    if error.errno in (errno.ENOENT, errno.ENOSYS, errno.ENODEV, errno.EOPNOTSUPP):
        return "this processor, or virtual machine, has no hardware counters"
    return f"hardware counters cannot be opened ({error.strerror})"
