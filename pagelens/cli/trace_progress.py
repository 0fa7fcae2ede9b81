"""Progress of a tracing on standard error: one line that is written over, on a terminal only."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def trace_progress(wanted: bool = True) -> Iterator[Callable[[float, int], None] | None]:
    """A reporter of (seconds, bytes) for `trace_program`; none where nothing is to be shown."""
    if not wanted or not sys.stderr.isatty():
        yield None
        return
    try:
        yield _show
    finally:
        print("\r\x1b[K", end="", file=sys.stderr, flush=True)


def _show(seconds: float, size: int) -> None:
    print(f"\r\x1b[Ktracing: {seconds:.0f} s, {size / 1e6:.1f} MB", end="", file=sys.stderr, flush=True)
