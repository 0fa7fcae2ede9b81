"""pagelens: how the physical frames under a program's pages decide its speed.

    import pagelens as pl

    ensemble = pl.simulate(pl.workload("stream-triad", size="17.6GB"), pl.machine("cori-knl-cache"))
    pl.explain(ensemble)

`import pagelens` loads nothing else: each name below is imported when it is used first.
docs/api.md describes all of them.
"""

import sys
from collections.abc import Callable
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pagelens.accesses.trace_recorder import TraceRecorder
    from pagelens.accesses.workload import Workload
    from pagelens.api import (
        Ensemble,
        Explanation,
        JobCost,
        audit,
        conflicts,
        diff,
        explain,
        import_trace,
        job_cost,
        machine,
        machines,
        measure,
        place,
        record,
        simulate,
        trace,
        traces,
        try_assumed,
        workload,
    )
    from pagelens.diff import Difference
    from pagelens.errors import Failure, Interrupted, PagelensError, UsageError
    from pagelens.frames import Costs, JobMix, Policy, parse_history
    from pagelens.frames.policies import policies
    from pagelens.machine import Machine
    from pagelens.study import StudyResult, study

    __version__: str

_MODULES = {
    "pagelens.api": (
        "Ensemble", "Explanation", "JobCost", "audit", "conflicts", "diff", "explain", "import_trace",
        "job_cost", "machine", "machines", "measure", "place", "record", "simulate", "trace", "traces",
        "try_assumed", "workload",
    ),
    "pagelens.accesses.trace_recorder": ("TraceRecorder",),
    "pagelens.accesses.workload": ("Workload",),
    "pagelens.diff.model": ("Difference",),
    "pagelens.errors": ("Failure", "Interrupted", "PagelensError", "UsageError"),
    "pagelens.frames": ("Costs", "JobMix", "Policy", "parse_history", "policies"),
    "pagelens.machine": ("Machine",),
    "pagelens.study": ("StudyResult",),
}  # fmt: skip
_HOME = {name: module for module, names in _MODULES.items() for name in names}
# These functions have the names of packages, which therefore can be called (docs/decisions/api.md). Each is
# of the module on the right.
_CALLED = dict.fromkeys(
    ("audit", "conflicts", "diff", "explain", "machine", "measure", "place"), "pagelens.api"
) | {"study": "pagelens.study"}

__all__ = [
    "Costs",
    "Difference",
    "Ensemble",
    "Explanation",
    "Failure",
    "Interrupted",
    "JobCost",
    "JobMix",
    "Machine",
    "PagelensError",
    "Policy",
    "StudyResult",
    "TraceRecorder",
    "UsageError",
    "Workload",
    "audit",
    "conflicts",
    "diff",
    "explain",
    "import_trace",
    "job_cost",
    "machine",
    "machines",
    "measure",
    "parse_history",
    "place",
    "policies",
    "record",
    "simulate",
    "study",
    "trace",
    "traces",
    "try_assumed",
    "workload",
]


def __getattr__(name: str) -> Any:
    """Import what `name` stands for. `__version__` takes a moment, too."""
    if name == "__version__":
        from importlib.metadata import version

        return version("pagelens")
    if name in _CALLED:
        return import_module(f"pagelens.{name}")
    if name in _HOME:
        return getattr(import_module(_HOME[name]), name)
    raise AttributeError(f"module 'pagelens' has no attribute {name!r}")


def __dir__() -> list[str]:
    """Return the names that the package offers."""
    return [*__all__, "__version__"]


class _Callable(ModuleType):
    """A package that is also a function: `pagelens.measure("stream")` calls `pagelens.api.measure`."""

    @property
    def __wrapped__(self) -> Callable[..., Any]:
        """The function, which `help` and notebooks describe in place of the package."""
        name = self.__name__.rpartition(".")[2]
        found: Callable[..., Any] = getattr(import_module(_CALLED[name]), name)
        return found

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        return self.__wrapped__(*arguments, **named)


class _Package(ModuleType):
    """Makes those packages callable when the import system binds them here."""

    def __setattr__(self, name: str, value: object) -> None:
        if name in _CALLED and isinstance(value, ModuleType):
            value.__class__ = _Callable
        super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Package
