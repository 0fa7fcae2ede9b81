"""Progress on standard error: which study of how many, and its parts; on a terminal only."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from pagelens.reproduce.context import Progress as Report
from pagelens.reproduce.runner import Begin


@contextmanager
def progress_bar(studies: int, quiet: bool) -> Iterator[Begin]:
    """Shows nothing when quiet or when standard error is no terminal."""
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("parts,"),
        TimeElapsedColumn(),
    )
    console = Console(stderr=True)
    with Progress(*columns, console=console, transient=True, disable=quiet or not sys.stderr.isatty()) as bar:
        task = bar.add_task("studies", total=None)
        begun = 0

        def begin(name: str) -> Report:
            nonlocal begun
            begun += 1
            bar.update(task, description=f"{begun} of {studies}: {name}", completed=0, total=None)
            return lambda done, total: bar.update(task, completed=done, total=total)

        yield begin
