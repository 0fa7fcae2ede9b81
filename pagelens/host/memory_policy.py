"""Binds a thread's new pages to a NUMA node, and asks the kernel on which node pages lie."""

import ctypes
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import numpy as np
from numpy.typing import NDArray

from pagelens.errors import Failure

_SET_MEMPOLICY, _MOVE_PAGES = 238, 279  # their numbers on x86-64
_MPOL_DEFAULT, _MPOL_BIND = 0, 2  # linux/mempolicy.h
_MOST_NODES = 1024  # that a mask of the kernel can have
_BATCH = 1 << 14  # pages of one call
_libc = ctypes.CDLL(None, use_errno=True)


def binder(node: int) -> Callable[[], bool]:
    """Return a function that binds the pages which its thread touches first from then on to `node`.

    The function returns whether the kernel did so. A child can call it before it becomes another program.
    """
    mask = (ctypes.c_ulong * (_MOST_NODES // 64))()
    mask[node // 64] = 1 << node % 64
    call, mode, bits = _libc.syscall, _MPOL_BIND, _MOST_NODES + 1
    return lambda: not call(_SET_MEMPOLICY, mode, mask, bits)


@contextmanager
def bound_to(node: int) -> Iterator[None]:
    """Bind the pages that this thread touches first within the context to a NUMA node.

    Raises Failure if the kernel refuses.
    """
    if not binder(node)():
        raise Failure(f"node {node}: its memory cannot be bound; a cpuset or a container may not allow it")
    try:
        yield
    finally:
        _libc.syscall(_SET_MEMPOLICY, _MPOL_DEFAULT, None, 0)


def nodes_of_pages(addresses: NDArray[np.uint64]) -> NDArray[np.int32]:
    """Return the NUMA node of the page at each address of this process; below 0 if it is in none."""
    found = np.full(len(addresses), -1, dtype=np.int32)
    for start in range(0, len(addresses), _BATCH):
        some = np.ascontiguousarray(addresses[start : start + _BATCH], dtype=np.uint64)
        status = np.full(len(some), -1, dtype=np.int32)
        failed = _libc.syscall(
            ctypes.c_long(_MOVE_PAGES),
            ctypes.c_long(0),
            ctypes.c_ulong(len(some)),
            ctypes.c_void_p(some.ctypes.data),
            ctypes.c_void_p(None),
            ctypes.c_void_p(status.ctypes.data),
            ctypes.c_long(0),
        )
        if not failed:
            found[start : start + _BATCH] = status
    return found
