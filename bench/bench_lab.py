"""The lab's speed: a copy loop in a guest, counted access by access, beside the same loop uncounted.

What is compared is the user time of the thread that runs the guest's processor.
"""

import statistics
import tempfile
from pathlib import Path

from figures import compile_copy, figure

from pagelens.lab.emulator import Hardware
from pagelens.lab.initramfs import Initramfs
from pagelens.lab.measured import MeasuredGuest, MemorySide
from pagelens.machine import load_machine

RUNS = 3
COPY = ["/app/copy", "16", "60"]  # MiB, times
MEMORY, CACHE = 1 << 30, 512 << 20


def seconds(process: int) -> float:
    """User time of the busiest thread of a process, in seconds (proc(5), field 14, in ticks of 10 ms)."""
    stats = Path(f"/proc/{process}/task").glob("*/stat")
    return max(int(stat.read_text().rsplit(")", 1)[1].split()[11]) for stat in stats) / 100


def main() -> None:
    """Entry point."""
    root = Initramfs()
    with tempfile.TemporaryDirectory() as name:
        root.add_program(COPY[0], compile_copy(Path(name)))
    bare, counted, accesses = [], [], 0
    with MeasuredGuest(
        load_machine("cori-knl-cache"), MemorySide(CACHE // 4096), Hardware(MEMORY), "6.1", root
    ) as guest:
        for _ in range(RUNS):
            began = seconds(guest.pid)
            guest.run(*COPY)
            between = seconds(guest.pid)
            job = guest.job("copy", COPY)
            bare.append(between - began)
            counted.append(seconds(guest.pid) - between)
            accesses = job.phases[0].counts["accesses"]
    own, alone = statistics.median(counted), statistics.median(bare)
    note = f"{accesses / 1e6:.0f} M; {own:.2f} s, uncounted {alone:.2f} s"
    figure("lab: copy of 16 MiB", accesses / own / 1e6, "M accesses/s", ">= 100", note)
    figure("lab: copy of 16 MiB, time", own / alone, "x uncounted")


if __name__ == "__main__":
    main()
