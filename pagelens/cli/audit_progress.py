"""A bar on standard error for what takes more than two seconds; on a terminal only."""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

PATIENCE_S = 2.0


@contextmanager
def progress(what: str) -> Iterator[Callable[[int, int], None]]:
    """A function to be told (done, total)."""
    columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TimeRemainingColumn())
    bar = Progress(*columns, console=Console(stderr=True), transient=True, disable=not sys.stderr.isatty())
    task = bar.add_task(what, total=None)
    began = time.monotonic()

    def report(done: int, total: int) -> None:
        if time.monotonic() - began > PATIENCE_S:
            bar.start()
        bar.update(task, completed=done, total=total)

    try:
        yield report
    finally:
        bar.stop()
