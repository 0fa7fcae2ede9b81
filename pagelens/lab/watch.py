"""Tells whether an emulator still makes progress, by what it does and not by the clock.

A working guest sends a word now and then: the agent's beats, its output, or the console. A guest hangs if it
used much processor time without a word, or slept long without using any. On a busy machine both take longer,
so a slow guest is not taken for a dead one.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

SILENT_CPU_S = 90.0  # processor time; a beat comes every 2 s of guest time
ASLEEP_LOOKS = 120  # looks, a second apart, at an emulator that neither runs nor wants to
_IDLE_CPU_S = 0.2  # between two looks: timer ticks, no work

_TICKS_PER_S = os.sysconf("SC_CLK_TCK")


@dataclass
class Watch:
    """Follows one process by its /proc folder."""

    pid: int
    proc: Path = Path("/proc")
    silent_cpu_s: float = SILENT_CPU_S
    asleep_looks: int = ASLEEP_LOOKS
    _heard_at_cpu_s: float = 0.0
    _last_cpu_s: float = 0.0
    _asleep: int = 0

    def heard(self) -> None:
        """Note that the guest gave a sign of life."""
        self._heard_at_cpu_s = self.cpu_s()
        self._asleep = 0

    def look(self) -> str | None:
        """Say why the guest counts as hung, if it does. Call this once per second of silence."""
        now = self.cpu_s()
        runs = now - self._last_cpu_s > _IDLE_CPU_S or self._wants_to_run()
        self._asleep = 0 if runs else self._asleep + 1
        self._last_cpu_s = now
        if now - self._heard_at_cpu_s > self.silent_cpu_s:
            return f"it ran for {now - self._heard_at_cpu_s:.0f} s of processor time without a word"
        if self._asleep > self.asleep_looks:
            return f"it has been asleep for {self._asleep} s"
        return None

    def cpu_s(self) -> float:
        """Return the processor time of all threads of the process, in seconds."""
        try:
            fields = (self.proc / str(self.pid) / "stat").read_text().rpartition(")")[2].split()
        except OSError:
            return self._last_cpu_s
        return (int(fields[11]) + int(fields[12])) / _TICKS_PER_S  # utime, stime (proc(5))

    def _wants_to_run(self) -> bool:
        for status in (self.proc / str(self.pid) / "task").glob("*/stat"):
            try:
                if status.read_text().rpartition(")")[2].split()[0] in "RD":
                    return True
            except OSError:
                continue
        return False
