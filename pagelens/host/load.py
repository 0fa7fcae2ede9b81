"""Measures what else runs on the machine: foreign load, and time that a hypervisor takes for others.

See Linux's Documentation/filesystems/proc.rst (/proc/stat) and getrusage(2).
"""

import os
import resource
import time
from dataclasses import dataclass
from pathlib import Path

# If others keep more processors busy than this, a visit is disturbed, because both share the memory.
MOST_FOREIGN = 0.1
MOST_STOLEN = 0.02
_TICKS = os.sysconf("SC_CLK_TCK")
_BUSY = (0, 1, 2, 5, 6)  # user, nice, system, irq, softirq
_STEAL = 7


@dataclass(frozen=True)
class Load:
    """The load beside a measurement.

    `foreign_cpus` and `stolen_cpus` are means: 1 is one processor kept busy.
    """

    elapsed_s: float
    foreign_cpus: float | None  # None if /proc/stat cannot be read
    stolen_cpus: float | None  # a virtual machine was ready to run, and did not
    preemptions: int  # how often others took a processor from this process's threads

    @property
    def others(self) -> float:
        """How many processors others kept busy, as far as that is known."""
        return (self.foreign_cpus or 0.0) + (self.stolen_cpus or 0.0)

    @property
    def disturbed(self) -> bool:
        """Whether others' work may have cost time.

        /proc/stat counts in ticks, so differences below two ticks mean nothing.
        """
        if self.foreign_cpus is None or self.stolen_cpus is None:
            return False
        grain = 2 / _TICKS / self.elapsed_s if self.elapsed_s > 0 else 0.0
        return self.foreign_cpus > MOST_FOREIGN + grain or self.stolen_cpus > MOST_STOLEN + grain


class LoadMeter:
    """Counts from when it is made. `stop` returns the load since then."""

    def __init__(self, stat: Path = Path("/proc/stat")) -> None:
        self._stat = stat
        self._busy = _times(stat)
        self._own, self._preemptions = _own()
        self._begin = time.monotonic()

    def stop(self) -> Load:
        """Return the load since the beginning. A meter may be stopped more than once."""
        elapsed = time.monotonic() - self._begin
        own, preemptions = _own()
        now = _times(self._stat)
        if self._busy is None or now is None or elapsed <= 0:
            return Load(elapsed, None, None, preemptions - self._preemptions)
        busy, stolen = ((after - before) / _TICKS for before, after in zip(self._busy, now, strict=True))
        foreign = max(0.0, busy - (own - self._own))
        return Load(elapsed, foreign / elapsed, max(0.0, stolen) / elapsed, preemptions - self._preemptions)


def _times(stat: Path) -> tuple[int, int] | None:
    """Return ticks of all processors together: busy ones, and those stolen by the hypervisor."""
    try:
        first = stat.read_text(errors="replace").split("\n", 1)[0].split()
        if not first or first[0] != "cpu":
            return None
        ticks = [int(word) for word in first[1:]]
        return sum(ticks[index] for index in _BUSY), ticks[_STEAL]
    except (OSError, ValueError, IndexError):
        return None


def _own() -> tuple[float, int]:
    """Return the processor time of this process and of programs that it has waited for; its preemptions."""
    used, waited = (resource.getrusage(of) for of in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return used.ru_utime + used.ru_stime + waited.ru_utime + waited.ru_stime, used.ru_nivcsw
