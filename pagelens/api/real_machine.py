"""Reads and measures the machine that pagelens runs on."""

from contextlib import nullcontext
from typing import Any

from pagelens.audit import audit
from pagelens.conflicts import conflicts
from pagelens.machine import Machine, choose_machine
from pagelens.measure.session import Measurement, Request, measure_benchmark
from pagelens.progress import progress_bar

__all__ = ["audit", "conflicts", "measure"]


def measure(
    benchmark: str,
    *,
    trials: int = 20,
    page_size: str = "4k",
    cpus: str | None = None,
    machine: Machine | None = None,
    predict: bool | None = None,
    seed: int = 1,
    progress: bool = True,
    **settings: Any,
) -> Measurement:
    """Time a benchmark in memory that is mapped anew for each trial, each trial on two visits.

    `benchmark`: stream, latency, gups, l2sum, dgemm, cg or conflict; `settings` are its own, such as
    `n=2000896` of stream (docs/measure.md). `page_size`: "4k", "thp", "2m" or "1g", several with commas
    between. `machine` (by default this one) is for the prediction on the same frames, which root can see.
    `.measured.results` has a distribution for each page size and point. Measured. Raises UsageError for
    settings that the benchmark does not have, or memory that there is not.

    >>> measure("stream", n=20480, trials=1, predict=False, progress=False).settings["trials"]
    1
    """
    request = Request(
        benchmark,
        settings,
        machine or choose_machine(None).machine,
        trials=trials,
        page_size=page_size,
        cpus=cpus,
        predict=predict,
        seed=seed,
    )
    return measure_benchmark(
        request,
        lambda what: progress_bar(not what, what) if progress else nullcontext(lambda done, total: None),
    )
