"""The result of a measurement of files: what operations took in each of its rounds."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import median
from typing import Any

from pagelens.host.stalls import FEWEST
from pagelens.measure.files.series import Sample, Times, times_of
from pagelens.measure.files.system import FileSystem

MOMENTS_LEFT_OUT = 8  # of so many moments, the worst one does not count


@dataclass
class Measured:
    """The result of the measurement. Samples are of all rounds, and their medians count."""

    folder: Path
    file_system: FileSystem
    samples: dict[str, dict[int, list[Sample]]] = field(default_factory=dict)  # by kind and size
    in_flight: dict[tuple[str, int, int], list[Sample]] = field(default_factory=dict)  # kind, size, depth
    calls: dict[str, list[Sample]] = field(default_factory=dict)  # sync, opening, creating, call
    paces: dict[str, list[float]] = field(default_factory=dict)  # seconds a byte
    interrupt_core: int | None = None  # the processor that takes all interrupts of the storage
    other_core_s: list[float] = field(default_factory=list)  # processor seconds that a wait elsewhere adds
    writers: int = 1
    writers_apart: float = 1.0  # rate of all over that of one
    two_writers_apart: float | None = None  # the same of two, where there are more
    writers_together: float = 1.0
    moments: dict[str, list[float]] = field(default_factory=dict)  # processor seconds of the same loops
    stalls: list[float] = field(default_factory=list)  # of touches of idle memory, in seconds
    notes: list[str] = field(default_factory=list)

    def keep(self, kind: str, size: int, samples: Iterable[Sample]) -> None:
        """Keep what transfers of that kind and size took."""
        self.samples.setdefault(kind, {}).setdefault(size, []).extend(samples)

    def keep_in_flight(self, kind: str, size: int, depth: int, samples: Iterable[Sample]) -> None:
        """Keep what direct transfers took while `depth` of them were in flight."""
        self.in_flight.setdefault((kind, size, depth), []).extend(samples)

    def keep_call(self, name: str, samples: Iterable[Sample]) -> None:
        """Keep what a call without a size took."""
        self.calls.setdefault(name, []).extend(samples)

    def keep_pace(self, name: str, seconds: float, size: int) -> None:
        """Keep how long so many bytes took."""
        self.paces.setdefault(name, []).append(max(seconds, 1e-6) / size)

    @property
    def costs(self) -> dict[str, dict[int, Times]]:
        """The times of transfers, by kind and size."""
        return {
            kind: {size: times_of(samples) for size, samples in by_size.items()}
            for kind, by_size in self.samples.items()
        }

    @property
    def seconds(self) -> dict[str, Times]:
        """The times of calls without a size."""
        return {name: times_of(samples) for name, samples in self.calls.items()}

    @property
    def rates(self) -> dict[str, float]:
        """The medians of rates, in bytes a second."""
        return {name: 1 / median(paces) for name, paces in self.paces.items()}

    @property
    def spread(self) -> float:
        """The longest over the shortest time that the same loop took at different moments.

        The worst of eight moments does not count, because it may be a single disturbance.
        """
        of = (sorted(times) for times in self.moments.values())
        return max((times[-1 - len(times) // MOMENTS_LEFT_OUT] / times[0] for times in of), default=1.0)

    @property
    def memory_stall_s(self) -> float | None:
        """The median of the stalls in which the host of a virtual machine maps memory, if there are any."""
        return median(self.stalls) if len(self.stalls) >= FEWEST else None

    def to_json(self) -> dict[str, Any]:
        """Return the result by name, with times in seconds and rates in bytes a second."""
        return {
            "schema": "pagelens measure io",
            "version": 1,
            "folder": str(self.folder),
            "file_system": vars(self.file_system),
            "costs": {
                kind: {size: vars(times) for size, times in of.items()} for kind, of in self.costs.items()
            },
            "in_flight": [
                {"kind": kind, "size": size, "depth": depth, **vars(times_of(samples))}
                for (kind, size, depth), samples in self.in_flight.items()
            ],
            "seconds": {name: vars(times) for name, times in self.seconds.items()},
            "rates": self.rates,
            "interrupt_core": self.interrupt_core,
            "other_core_s": self.other_core_s,
            "writers": self.writers,
            "writers_apart": self.writers_apart,
            "two_writers_apart": self.two_writers_apart,
            "writers_together": self.writers_together,
            "moments": self.moments,
            "memory_stall_s": self.memory_stall_s,
            "notes": self.notes,
        }


def pooled(measurements: Sequence[Measured]) -> Measured:
    """Return several measurements of one folder as one, such as those between the runs of programs."""
    found = replace(
        measurements[-1], samples={}, in_flight={}, calls={}, paces={}, moments={}, other_core_s=[], stalls=[]
    )
    for each in measurements:
        found.stalls.extend(each.stalls)
        found.other_core_s.extend(each.other_core_s)
        for kind, by_size in each.samples.items():
            for size, samples in by_size.items():
                found.keep(kind, size, samples)
        for key, samples in each.in_flight.items():
            found.keep_in_flight(*key, samples)
        for name, samples in each.calls.items():
            found.keep_call(name, samples)
        for into, of in ((found.paces, each.paces), (found.moments, each.moments)):
            for name, values in of.items():
                into.setdefault(name, []).extend(values)
    return found
