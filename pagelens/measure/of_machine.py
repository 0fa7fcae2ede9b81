"""What a machine file can only assume of this machine, from some seconds of measuring.

STREAM's copy says what memory moves, and a chase of pointers how long loads of each level take. How many
lines one core keeps outstanding follows from both by Little's law: lines in flight are the rate at which
they come times the time that each takes (Little: A Proof for the Queuing Formula L = lambda W, Oper. Res. 9
(1961), 383-387). A copy reads half of the bytes that it moves.
"""

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from math import sqrt

from pagelens.address.units import LINE_BYTES
from pagelens.machine import Machine
from pagelens.machine.detect.detected_value import Found, read
from pagelens.measure.session import Report, Request, measure_benchmark
from pagelens.units import format_rate, format_size, format_time

Sections = Mapping[str, Mapping[str, Found]]
Progress = Callable[[str], AbstractContextManager[Report]]
REPEATS = 5  # the best counts
_BEYOND_CACHES = 8  # times the last cache
_LEAST_BYTES, _MOST_BYTES = 64 << 20, 1 << 30  # of the chase through memory


def measured_sections(machine: Machine, progress: Progress) -> Sections:
    """Values of the machine that this runs on, by section and key; `machine` as it was detected.

    Raises UsageError where there is not enough memory, Interrupted on Ctrl-C.
    """

    def measure(benchmark: str, cpus: str | None, pages: str, **given: str) -> list[float]:
        request = Request(
            benchmark, given, machine, trials=1, page_size=pages, repeats=REPEATS, cpus=cpus,
            stir=False, retries=1, predict=False,
        )  # fmt: skip
        results = measure_benchmark(request, progress).measured.results
        return [result.values[0] for result in results]

    (all_cores,) = measure("stream", None, "4k", kernels="copy")
    (one_core,) = measure("stream", "0", "4k", kernels="copy")
    sizes = _footprints(machine)
    # On large pages, so that walks of page tables are not in it where the kernel has them.
    chases = measure("latency", "0", "thp", footprint=",".join(f"{size}B" for size in sizes.values()))
    latencies = dict(zip(sizes, chases, strict=True))
    first = latencies.pop("l1", None)
    found = {
        section: {"latency": read(format_time(1e-9 * ns, 3), _chase(sizes[section]))}
        for section, ns in latencies.items()
    }
    found["ddr"]["bandwidth"] = read(
        format_rate(1e9 * all_cores, 3), "measured here: STREAM's copy on all cores, all bytes moved"
    )
    outstanding = one_core * latencies["ddr"] / 2 / LINE_BYTES
    found["cores"] = {
        "outstanding_lines": read(
            max(1, round(outstanding)),
            "measured here, by Little's law: what a copy on one core reads, times the latency of memory",
        )
    }
    if first is not None and machine.pipeline is not None:
        cycles = machine.pipeline.load_cycles.value
        found["cores"]["frequency"] = read(
            f"{cycles / first:.3g} GHz",
            f"{_chase(sizes['l1'])}, in which a load takes {cycles} cycles",
        )
    return found


def _footprints(machine: Machine) -> dict[str, int]:
    """Bytes of the chase whose loads are served by each level, the memory last.

    L1 is among them where the machine file says how many cycles it takes.
    """
    second = machine.l2.size.value
    sizes = {"l1": machine.l1.size.value // 2} if machine.pipeline is not None else {}
    sizes["l2"] = second // 2
    last = second
    if machine.l3 is not None:
        last = machine.l3.size.value
        sizes["l3"] = int(sqrt(second * last))
    sizes["ddr"] = min(max(_BEYOND_CACHES * last, _LEAST_BYTES), _MOST_BYTES)
    return {level: size // LINE_BYTES * LINE_BYTES for level, size in sizes.items()}


def _chase(size: int) -> str:
    return f"measured here: a chase of pointers through {format_size(size)}"
