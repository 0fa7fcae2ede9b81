"""Progress on standard error: a bar with rate and remaining time, on a terminal only."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    Task,
    TextColumn,
    TimeRemainingColumn,
)
from rich.text import Text

from pagelens.ensemble.run import Progress as Report


class _Rate(ProgressColumn):
    """Of what is counted, a second."""

    def __init__(self, what: str) -> None:
        super().__init__()
        self._what = what

    def render(self, task: Task) -> Text:
        """The rate, once there is one."""
        return Text(f"{task.speed:.2f} {self._what}/s" if task.speed else "")


@contextmanager
def progress_bar(quiet: bool, what: str = "nodes") -> Iterator[Report]:
    """A reporter of how many are done; it shows nothing when quiet or without a terminal."""
    console = Console(stderr=True)
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        _Rate(what),
        TextColumn("left"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=console, transient=True, disable=quiet or not sys.stderr.isatty()) as bar:
        task = bar.add_task(what, total=None)

        def report(done: int, total: int) -> None:
            bar.update(task, completed=done, total=total)

        yield report
