"""Keeps the kernel ready to open perf events."""

import ctypes
import os
import struct
from collections.abc import Iterator
from contextlib import contextmanager

_PERF_EVENT_OPEN = 298  # x86-64
_SOFTWARE, _DUMMY = 1, 9  # linux/perf_event.h
_EXCLUDE_KERNEL_AND_HYPERVISOR = 1 << 5 | 1 << 6
_BYTES, _FLAGS_AT = 128, 40
_CLOEXEC = 8


@contextmanager
def events_ready() -> Iterator[None]:
    """Let processes open perf events in microseconds while this context is entered.

    The first event of a machine takes some 15 ms, because the kernel changes its own code for it. So one
    event that counts nothing is kept open. If events are not allowed, nothing happens.
    """
    attributes = bytearray(_BYTES)
    struct.pack_into("<IIQ", attributes, 0, _SOFTWARE, _BYTES, _DUMMY)
    struct.pack_into("<Q", attributes, _FLAGS_AT, _EXCLUDE_KERNEL_AND_HYPERVISOR)
    libc = ctypes.CDLL(None)
    event = libc.syscall(
        _PERF_EVENT_OPEN, (ctypes.c_char * _BYTES).from_buffer(attributes), 0, -1, -1, _CLOEXEC
    )
    try:
        yield
    finally:
        if event >= 0:
            os.close(event)
