"""One progress bar for commands and notebooks, on standard error; silent in pipes and in batch jobs."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec

from rich.console import Console, RenderableType
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    Task,
    TaskProgressColumn,
    TextColumn,
    TimeRemainingColumn,
)
from rich.text import Text


class _Rate(ProgressColumn):
    """The number of things done in a second."""

    def __init__(self, what: str) -> None:
        super().__init__()
        self._what = what

    def render(self, task: Task) -> Text:
        """Return the rate, once there is one."""
        return Text(f"{task.speed:.2f} {self._what}/s" if task.speed else "")


class _Noted(Progress):
    """A progress bar with lines of text below it."""

    note = ""

    def get_renderables(self) -> Iterator[RenderableType]:
        """Return the bar, and the lines if there are any."""
        yield self.make_tasks_table(self.tasks)
        if self.note:
            yield Text(self.note)


class Bar:
    """The bar of one piece of work. Call it with (done, total) whenever more is done."""

    def __init__(self, progress: _Noted, what: str, patience_s: float) -> None:
        self._progress, self._patience_s = progress, patience_s
        self._task = progress.add_task(what, total=None)
        self._began = time.monotonic()

    @property
    def seen(self) -> bool:
        """Whether anybody can see it."""
        return not self._progress.disable

    def __call__(self, done: float, total: int) -> None:
        """Show that `done` of `total` are done."""
        self._show()
        self._progress.update(self._task, completed=done, total=total)

    def begin(self, part: str) -> None:
        """Show that the next part of the work begins. Its count starts at 0."""
        self._show()
        self._progress.update(self._task, description=part, completed=0, total=None)

    def say(self, lines: str) -> None:
        """Show lines of text below the bar, in place of those before."""
        self._progress.note = lines

    def traced(self, seconds: float, size: int) -> None:
        """Show how long a program has been traced, in seconds, and how large its trace is, in bytes."""
        self.begin(f"tracing: {seconds:.0f} s, {size / 1e6:.1f} MB")

    def recorded(self, seconds: float, size: int) -> None:
        """Show the progress of a program whose operations on files are recorded."""
        self.begin(f"recording: {seconds:.0f} s, {size / 1e6:.1f} MB")

    def _show(self) -> None:
        if time.monotonic() - self._began >= self._patience_s:
            self._progress.start()


@contextmanager
def progress_bar(
    quiet: bool = False, what: str = "nodes", percent: bool = False, patience_s: float = 0.0
) -> Iterator[Bar]:
    """Show the bar of some work. `what` names the things that are counted, or the work itself with `percent`.

    The bar appears after `patience_s` seconds, and goes away at the end. Nothing is shown if `quiet`, or if
    standard error is neither a terminal nor a notebook.
    """
    counted = (MofNCompleteColumn(), _Rate(what), TextColumn("left"))
    console = _console()
    progress = _Noted(
        TextColumn("{task.description}"),
        BarColumn(),
        *((TaskProgressColumn(),) if percent else counted),
        TimeRemainingColumn(),
        console=console,
        transient=True,
        redirect_stdout=False,
        redirect_stderr=False,
        disable=quiet or not (console.is_terminal or console.is_jupyter),
    )
    try:
        yield Bar(progress, what, patience_s)
    finally:
        progress.stop()


def _console() -> Console:
    """Return the console on standard error.

    A notebook shows bars as widgets, or as a line of text if ipywidgets is missing.
    """
    console = Console(stderr=True)
    if console.is_jupyter and find_spec("ipywidgets") is None:
        return Console(stderr=True, force_jupyter=False, force_terminal=True, width=80)
    return console
