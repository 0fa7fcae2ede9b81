"""Writes a trace file from accesses in numpy arrays, for importers of other tools' traces."""

from __future__ import annotations

import operator
import os
from collections.abc import Hashable, Iterator, Sequence
from contextlib import contextmanager
from types import TracebackType
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pagelens import _core
from pagelens.errors import Failure, UsageError


class TraceRecorder:
    """Writes the trace file `path` from accesses that you hand over in numpy arrays.

    The file is like one of `pagelens trace`: `trace`, `pagelens explain` and `pagelens trace-info` read it,
    and the counts of caches are as exact. It has the name `path` once `close` is called, or the `with` block
    ends; until then it is PATH.partial. If the block ends by an exception, no file is left.

    `program` and `arguments` are the command whose accesses these are. `any_tlb` keeps the uses of pages
    exact for fully associative TLBs and large pages too, in a larger file. A page that is read before it is
    written is the kernel's page of zeros; with `pages_exist`, the program had all its pages before the trace
    began. Threads are numbers from 0 to 4095. They run side by side, and are merged by their counts of
    instructions; `sync` orders them.

    The methods raise UsageError for values that cannot be recorded, and Failure where the file cannot be
    written.

    >>> with TraceRecorder("rows.trace", "rows") as recorder:
    ...     recorder.allocate(0, 0x10000, 8 * 4096, "rows")
    ...     recorder.access(0, 0x10000 + 8 * np.arange(4096), sizes=8, stores=True)
    >>> trace("rows.trace").footprint_bytes
    32768
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        program: str,
        arguments: Sequence[str] = (),
        *,
        producer: str = "pagelens.TraceRecorder",
        any_tlb: bool = False,
        pages_exist: bool = False,
    ) -> None:
        self.accesses = 0  # recorded so far
        self._threads: dict[Hashable, int] = {}  # by name
        self._warnings: set[str] = set()
        with _pagelens_errors():
            self._recorder = _core.TraceRecorder(
                os.fspath(path), producer, program, arguments, any_tlb, pages_exist
            )

    def thread(self, name: Hashable) -> int:
        """Return the number of the thread of that name. A new name gets the next number.

        It serves traces that name threads by the system's identifiers. The first name, such as
        `recorder.thread(4711)`, is thread 0.
        """
        return self._threads.setdefault(name, len(self._threads))

    def access(
        self,
        thread: int,
        addresses: ArrayLike,
        sizes: ArrayLike = 8,
        stores: ArrayLike = False,
        instructions: ArrayLike = 1,
    ) -> None:
        """Record loads and stores of a thread in their order.

        `addresses` is an array of virtual addresses below 2^57, one an access. The others have as many
        values, or one for all: `sizes` in bytes, from 1 on; `stores` is True for a store and False for a
        load; `instructions` counts those since the access before, this one included. If one value cannot be
        recorded, nothing of the call is.
        """
        column = _column("addresses", addresses, np.uint64)
        with _pagelens_errors():
            self._recorder.access(
                _number("thread", thread, 32),
                column,
                _column("sizes", sizes, np.uint32),
                _column("stores", stores, np.bool_),
                _column("instructions", instructions, np.uint32),
            )
        self.accesses += column.size

    def execute(self, thread: int, instructions: int) -> None:
        """Count instructions that access no memory."""
        with _pagelens_errors():
            self._recorder.execute(_number("thread", thread, 32), _number("instructions", instructions, 64))

    def allocate(self, thread: int, address: int, size: int, name: str) -> None:
        """Give `size` bytes at `address` a name. All memory of one name is one object of the results."""
        with _pagelens_errors():
            self._recorder.allocate(
                _number("thread", thread, 32),
                _number("address", address, 64),
                _number("size", size, 64),
                name,
            )

    def free(self, thread: int, address: int) -> None:
        """End the block that was allocated at `address`. Its pages stay with the program."""
        with _pagelens_errors():
            self._recorder.free(_number("thread", thread, 32), _number("address", address, 64))

    def unmap(self, thread: int, address: int, size: int) -> None:
        """Give the pages that lie wholly in these bytes back to the kernel."""
        with _pagelens_errors():
            self._recorder.unmap(
                _number("thread", thread, 32), _number("address", address, 64), _number("size", size, 64)
            )

    def map_file(self, thread: int, address: int, size: int, name: str, offset: int = 0) -> None:
        """Say that these bytes show the file `name` from byte `offset` on, which is a multiple of 4096.

        Pages that the program only reads there belong to the kernel's page cache, and all ranks share them.
        """
        with _pagelens_errors():
            self._recorder.map_file(
                _number("thread", thread, 32),
                _number("address", address, 64),
                _number("size", size, 64),
                name,
                _number("offset", offset, 64),
            )

    def phase(self, thread: int, name: str | None) -> None:
        """Let the thread enter the phase `name`. None ends its present phase."""
        with _pagelens_errors():
            self._recorder.phase(_number("thread", thread, 32), name or "")

    def sync(self, thread: int) -> None:
        """Order threads. What this thread does next comes after what others did before their last `sync`."""
        with _pagelens_errors():
            self._recorder.sync(_number("thread", thread, 32))

    def wait(self, thread: int, processes: int = 0, before: int = 0) -> None:
        """Let the thread wait for other processes until `go_on`. What it executes there is no work.

        If none of so many `processes` goes on before all have come, as in a barrier of MPI, they meet here.
        They have met so often `before`, which tells where a trace begins that has only a part of the run.
        """
        with _pagelens_errors():
            self._recorder.wait(
                _number("thread", thread, 32),
                _number("processes", processes, 32),
                _number("before", before, 32),
            )

    def meet(
        self, thread: int, place: str, turn: int, *, comes: bool, waits: bool, sends: bool = False
    ) -> None:
        """Let a thread that waits meet some other processes at a place, which they give the same name.

        A process `comes` to it, or `waits` there until all processes that ever come have done this turn, or
        both, as in a collective call. Turns count from 0 on. Messages from one rank to another are a place:
        the sender comes, and the receiver waits. A sender that waits for its receiver, too, `sends`. If the
        traces contradict each other, so that no process could go on, those that send do.
        """
        with _pagelens_errors():
            self._recorder.meet(
                _number("thread", thread, 32), place, _number("turn", turn, 32), comes, waits, sends
            )

    def go_on(self, thread: int) -> None:
        """End the waiting of a thread."""
        with _pagelens_errors():
            self._recorder.go_on(_number("thread", thread, 32))

    def warn(self, text: str) -> None:
        """Keep a warning in the file, for all who read it. The same text is kept once."""
        if text in self._warnings:
            return
        self._warnings.add(text)
        with _pagelens_errors():
            self._recorder.warn(text)

    def close(self) -> None:
        """Write what is left and give the file its name. Nothing can be recorded afterwards."""
        with _pagelens_errors():
            self._recorder.close()

    def __enter__(self) -> TraceRecorder:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self.close()
        else:
            self._recorder.discard()


@contextmanager
def _pagelens_errors() -> Iterator[None]:
    try:
        yield
    except ValueError as error:
        raise UsageError(str(error)) from None
    except _core.TraceError as error:
        raise Failure(str(error)) from None


def _number(name: str, value: int, bits: int) -> int:
    number = operator.index(value)
    if not 0 <= number < 1 << bits:
        raise UsageError(f"{name}: {number} is out of range; give 0 to 2^{bits} - 1")
    return number


def _column(name: str, values: ArrayLike, kind: type[Any]) -> NDArray[Any]:
    """Return the values as an array of that type. Raises UsageError if that would change a value."""
    array = np.atleast_1d(np.asarray(values))
    if array.ndim != 1:
        raise UsageError(f"{name}: the array has {array.ndim} dimensions; give one")
    if array.dtype != kind and array.size:
        if array.dtype.kind not in "biu":
            raise UsageError(f"{name}: {array.dtype} is not a type of whole numbers; give {kind.__name__}")
        most = 1 if kind is np.bool_ else np.iinfo(kind).max
        if (least := array.min()) < 0 or array.max() > most:
            wrong = least if least < 0 else array.max()
            raise UsageError(f"{name}: {wrong} is out of range; give 0 to {most}")
    return np.ascontiguousarray(array, kind)
