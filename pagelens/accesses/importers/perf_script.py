"""Reads samples of perf: `perf script -F tid,event,addr`, with phys_addr behind it if that was recorded.

     4711 cpu/mem-loads,ldlat=30/P:     7fe718bb4110        1c0034110
     4711 cpu/mem-stores/P:     7fe718bb2a80        1c0032a80

A sample is one access in some thousands, so caches cannot be counted from it. It shows which pages a program
uses, and how its threads share them. Events with `store` in their names are stores. `pagelens conflicts`
reads the physical addresses of the same text.
"""

import re
from typing import BinaryIO

from pagelens.accesses.importer import BadLine, Importer
from pagelens.accesses.text_lines import IMPOSSIBLE, line_batches
from pagelens.accesses.trace_recorder import TraceRecorder

SAMPLE = re.compile(
    rb"[ \t]*(?P<thread>[0-9]{1,9})[ \t]+(?P<event>\S.*?):[ \t]+(?P<address>[0-9a-f]{1,16})"
    rb"(?:[ \t]+[0-9a-f]{1,16})?[ \t]*"
)
REMEDY = "write the samples with perf script -F tid,event,addr,phys_addr"
ABOVE = (1 << 57) - (1 << 32)  # no access of a program begins there
KERNEL = 1 << 63


def _read(stream: BinaryIO, recorder: TraceRecorder) -> None:
    for first, lines in line_batches(stream):
        of_threads: dict[int, tuple[list[int], list[bool]]] = {}
        for number, line in enumerate(lines, first):
            if not line.strip() or line.startswith(b"#"):
                continue
            if (match := SAMPLE.fullmatch(line)) is None:
                raise BadLine(number, line, REMEDY)
            address = int(match["address"], 16)
            if address == 0 or address >= KERNEL:  # perf did not find it, or it is the kernel's
                continue
            if address >= ABOVE:
                raise BadLine(number, line, IMPOSSIBLE)
            addresses, stores = of_threads.setdefault(recorder.thread(int(match["thread"])), ([], []))
            addresses.append(address)
            stores.append(b"store" in match["event"])
        for thread, (addresses, stores) in of_threads.items():
            recorder.access(thread, addresses, 1, stores)
            recorder.warn("its accesses are samples: pages are those seen, and caches cannot be counted")


IMPORTER = Importer(
    "perf-script",
    "perf script -F tid,event,addr,phys_addr",
    _read,
    "Samples show pages, and counts of caches mean nothing.",
    pages_exist=True,
)
