"""The context in which a study runs its parts: scale, seed, cores, and a way to stop."""

import os
import threading
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any, TypeVar

from pagelens import _core
from pagelens.accesses.workload import Workload
from pagelens.errors import Interrupted
from pagelens.machine import Machine, load_machine
from pagelens.replay import Simulation

Progress = Callable[[float, int], None]  # parts done, parts in all
Changes = Mapping[str, Mapping[str, Any]]  # values by machine, as Machine.with_values takes them
Part = TypeVar("Part")
Result = TypeVar("Result")


class Scale(StrEnum):
    """How much is simulated. The claims are the same at every scale."""

    FULL = "full"
    QUICK = "quick"


def _nothing(done: float, total: int) -> None:
    pass


@dataclass(frozen=True)
class StudyContext:
    """The context of one study. Results do not depend on the number of cores."""

    scale: Scale
    seed: int
    directory: Path  # keeps what a later run of this study can use; it may not exist yet
    progress: Progress = _nothing  # reports on the map or the ensemble that runs
    cancel: _core.CancelFlag = field(default_factory=_core.CancelFlag)
    changes: Changes = field(default_factory=dict)
    varied: bool = False  # whether an input is changed, so that only predicted rows are looked at
    machines: dict[str, Machine] = field(default_factory=dict)  # that the study has asked for, by name
    # Keyed by identity, which keeps them alive.
    _simulations: dict[tuple[int, int], Simulation] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def machine(self, name: str) -> Machine:
        """Return a machine that comes with pagelens, with the values that this run changes."""
        machine = load_machine(name)
        if changes := self.changes.get(name):
            machine = machine.with_values(changes)
        with self._lock:
            return self.machines.setdefault(name, machine)

    def simulation(self, workload: Workload, machine: Machine) -> Simulation:
        """Return one copy of the workload on all cores of the machine.

        The same two objects always get the same simulation.
        """
        with self._lock:
            key = (id(workload), id(machine))
            if key not in self._simulations:
                cores = machine.cores.count.value
                self._simulations[key] = Simulation(
                    workload,
                    machine,
                    1,
                    seed=self.seed,
                    cores_used=cores,
                    past_caches=True,
                    only_differences=True,
                )
            return self._simulations[key]

    def pick(self, full: Result, quick: Result) -> Result:
        """Return one of the two values, by the scale."""
        return full if self.scale is Scale.FULL else quick

    def beside(self, mixes: tuple[str, ...]) -> tuple[str, ...]:
        """Return the job mixes that are shown beside the one that decides: none where an input is changed."""
        return () if self.varied else mixes

    def map(self, function: Callable[[Part], Result], parts: Iterable[Part]) -> list[Result]:
        """Apply `function` to every part, in one thread per core, and return the results in the parts' order.

        `function` should release the GIL. Raises Interrupted once the study is cancelled. A part that runs
        longer than about a second should look at `cancel` itself, and raise _core.Cancelled.
        """
        given = list(parts)
        results: dict[int, Result] = {}
        self.progress(0, len(given))
        pool = ThreadPoolExecutor(len(os.sched_getaffinity(0)), thread_name_prefix="pagelens-study")
        futures: dict[Future[Result], int] = {}
        try:
            futures = {pool.submit(function, part): number for number, part in enumerate(given)}
            for future in as_completed(futures):
                results[futures[future]] = future.result()
                self.progress(len(results), len(given))
                if self.cancel:
                    break
        except _core.Cancelled:
            pass  # `cancel` says so, too
        finally:
            for future in futures:
                future.cancel()
            pool.shutdown(wait=True, cancel_futures=True)
        if self.cancel:
            raise Interrupted("stopped")
        return [results[number] for number in range(len(given))]
