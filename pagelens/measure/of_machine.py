"""Measures in some seconds what a machine file could otherwise only assume of this machine.

STREAM's copy measures the bandwidth of memory, sums those of the caches, and a chase of pointers how long
loads of each level take. The number of lines that one core keeps outstanding follows by Little's law from the
chase, and from a copy or a sum of memory, whichever reads more: lines in flight are the rate at which they
come times the time that each takes (Little: A Proof for the Queuing Formula L = lambda W, Oper. Res. 9
(1961), 383-387). How many lines are in flight that no prefetcher foresees follows in the same way from
RandomAccess.

A program may get less of the L3 than the system states. In a virtual machine the host can keep ways for other
guests (Intel's CAT, AMD's PQOS), and their data take room. Chases through shares of the stated size measure
how much there is.

What page walks, page faults and wrong guesses of branches cost is measured in pagelens/measure/tlb.py,
page_faults.py and branches.py, and how many instructions a core begins in a cycle in issue_rate.py.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from itertools import pairwise
from math import sqrt

from pagelens.address.units import FRAME_BYTES, HUGE_PAGE_BYTES, LINE_BYTES
from pagelens.errors import Failure
from pagelens.machine import Machine
from pagelens.machine.caches import L3
from pagelens.machine.detect.detected_value import Found, read
from pagelens.measure.branches import mispredict_section, pass_ns
from pagelens.measure.chases import chase_ns, updates_ns
from pagelens.measure.choices import cpus_of
from pagelens.measure.issue_rate import issue_rates, issue_width
from pagelens.measure.page_faults import file_pages_cost, page_cost, zero_page_cost
from pagelens.measure.path_widths import path_widths, sum_rate
from pagelens.measure.session import Report, Request, measure_benchmark
from pagelens.measure.tlb import Section, chased_pages, host_section, usable_arrays, walk_section
from pagelens.units import format_binary_size, format_rate, format_size, format_time

Sections = Mapping[str, Mapping[str, Found]]
Progress = Callable[[str], AbstractContextManager[Report]]
REPEATS = 5  # the best counts
_SHARES_OF_L3 = (1 / 8, 1 / 4, 3 / 8, 1 / 2, 3 / 4)  # through which the chase goes
_BEYOND_CACHES = 8  # times the last cache
_TIMES_L2 = 4  # at most, of the chase through the L3: a program may get less of it than is stated
_LEAST_BYTES, _MOST_BYTES = 64 << 20, 1 << 30  # of the chase through memory


def measured_sections(machine: Machine, progress: Progress) -> tuple[Sections, list[Section]]:
    """Return values of the machine that this runs on, by section and key. `machine` is what was detected.

    With them come all arrays of TLBs, if a program has less of them than is stated; else none.

    Raises UsageError if there is not enough memory, and Interrupted on Ctrl-C.
    """

    def measure(
        benchmark: str, cpus: str | None, pages: str, repeats: int = REPEATS, **given: str
    ) -> list[float]:
        request = Request(
            benchmark, given, machine, trials=1, page_size=pages, repeats=repeats, cpus=cpus,
            stir=False, retries=1, predict=False,
        )  # fmt: skip
        results = measure_benchmark(request, progress).measured.results
        return [result.values[0] for result in results]

    def chase(footprints: Sequence[int], pages: str = "thp", stride: int = LINE_BYTES) -> list[float]:
        # Large pages keep walks of page tables out of the measurement, if the kernel has such pages.
        with progress("chases of pointers"):
            return chase_ns(footprints, pages, stride)

    (all_cores,) = measure("stream", None, "4k", kernels="copy")
    (one_core,) = measure("stream", "0", "4k", kernels="copy")
    sizes: Mapping[str, int] = _footprints(machine)
    latencies = dict(zip(sizes, chase(list(sizes.values())), strict=True))
    check_latencies(latencies)
    first = latencies.pop("l1", None)
    found = {
        section: {"latency": read(format_time(1e-9 * ns, 3), _chase(sizes[section]))}
        for section, ns in latencies.items()
    }
    if machine.l2.shared_by.value == 1:  # one core alone may not use all of an L2 that several share
        sums = {level: sum_rate(sizes[level]) for level in ("l2", "l3") if level in sizes}
        rates = {level: (sizes[level], rate) for level, (rate, _) in sums.items()}
        widths = path_widths(machine, _frequency(machine, first), sums["l2"][1], rates)
        for level, width in widths.items():
            found[level]["width"] = width
    cores = min(machine.cores.count.value, len(cpus_of(None)))
    if cores > 1 and machine.numa is None:
        some = [(n, measure("stream", _first(n), "4k", kernels="copy")[0]) for n in between(cores)]
        by_cores = [(1, one_core), *some, (cores, all_cores)]
        found["ddr"]["by_cores"] = read(
            tuple((n, format_rate(1e9 * rate, 3)) for n, rate in by_cores),
            "measured here: STREAM's copy on so many cores, all bytes moved",
        )
    found["ddr"]["bandwidth"] = read(
        format_rate(1e9 * all_cores, 3), "measured here: STREAM's copy on all cores, all bytes moved"
    )
    if machine.l3 is not None:
        through = [int(share * machine.l3.size.value) // LINE_BYTES * LINE_BYTES for share in _SHARES_OF_L3]
        beyond = [size for size in through if size > sizes["l3"]]
        points = [(sizes["l3"], latencies["l3"]), *zip(beyond, chase(beyond) if beyond else [], strict=True)]
        found["l3"] |= usable_ways(machine.l3, points, latencies["ddr"])
    summed = 1e-9 * sum_rate(sizes["ddr"])[0]
    found["cores"] = {
        "outstanding_lines": read(
            lines_in_flight(one_core, summed, latencies["ddr"]),
            "measured here, by Little's law: what a copy or a sum on one core reads, times the latency of "
            "memory",
        )
    }
    with progress("instructions in a cycle"):
        rate = issue_width(machine.cores.instructions_per_cycle, issue_rates())
    if rate is not None:
        found["cores"]["instructions_per_cycle"] = rate
    if machine.pipeline is not None:
        table = 1 << sizes["ddr"].bit_length() - 1
        with progress("random updates"):
            updates = updates_ns(table)
        found["pipeline"] = {
            "load_misses": read(
                max(1, round(latencies["ddr"] / updates)),
                f"measured here, by Little's law: updates at random in {format_binary_size(table)} on one "
                "core, times the latency of memory",
            )
        }
    arrays: list[Section] = []
    if machine.page_walk is not None:
        pages = chased_pages(machine)
        through = [FRAME_BYTES * number for number in pages]
        on_small, on_large = (chase(through, size, FRAME_BYTES) for size in ("4k", "thp"))
        longer = [small - large for small, large in zip(on_small, on_large, strict=True)]
        points = list(zip(pages, longer, strict=True))
        found |= walk_section(points, _frequency(machine, first))
        if machine.hypervisor and not machine.bound_to_frames and "page_walk" in found:
            of_host = host_section(points, on_large[-1], latencies["l2"])
            found["page_walk"] |= of_host.get("page_walk", {})
        arrays = usable_arrays(machine.tlb, points)
    found |= _page_faults()
    if first is not None and machine.pipeline is not None:
        of_branches = mispredict_section(
            machine.pipeline, pass_ns(random=False), pass_ns(random=True), _frequency(machine, first)
        )
        found["pipeline"] |= of_branches.get("pipeline", {})
        found["cores"]["frequency"] = read(
            f"{1e-9 * _frequency(machine, first):.3g} GHz",
            f"{_chase(sizes['l1'])}, in which a load takes {machine.pipeline.load_cycles.value} cycles",
        )
    return found, arrays


def check_latencies(of_levels: Mapping[str, float]) -> None:
    """Raise Failure if a level took no longer than the one before it, nearest first: nanoseconds."""
    for (nearer, before), (level, ns) in pairwise(of_levels.items()):
        if ns <= before:
            raise Failure(
                f"--measure: loads took {ns:.3g} ns in {level} and {before:.3g} ns in {nearer}, which is "
                "nearer, so other work disturbed them; measure again on an idle machine"
            )


def lines_in_flight(copied: float, summed: float, memory_ns: float) -> int:
    """Return the lines that a core keeps in flight, from the GB/s of a copy and of a sum of memory.

    The copy reads half of the bytes that it moves, because its stores bypass the caches.
    """
    return max(1, round(max(copied / 2, summed) * memory_ns / LINE_BYTES))


def between(cores: int) -> list[int]:
    """Return the powers of two between one core and all."""
    return [1 << n for n in range(1, cores.bit_length()) if 1 << n < cores]


def _first(count: int) -> str:
    """Return the first processors that this process may run on, as --cpus takes them."""
    return ",".join(map(str, cpus_of(None)[:count]))


def _page_faults() -> dict[str, dict[str, Found]]:
    """Return what the kernel's work for a page costs, by the sizes of pages that it hands out."""
    sizes = {"small": FRAME_BYTES, "large": HUGE_PAGE_BYTES}
    costs = {key: (page_cost(size, REPEATS), size) for key, size in sizes.items()}
    found = {
        key: read(
            format_time(cost, 3),
            f"measured here: fresh memory, written once in each {format_binary_size(size)} and given back",
        )
        for key, (cost, size) in costs.items()
        if cost is not None
    }
    if "small" not in found:
        return {}
    if (zero := zero_page_cost(REPEATS)) is not None:
        found["zero"] = read(format_time(zero, 3), "measured here: fresh memory, read once in each 4 KiB")
    of_file = "measured here: a mapped library, read once in each 64 KiB and unmapped"
    found["file"] = read(format_time(file_pages_cost(REPEATS), 3), of_file)
    return {"page_fault": found}


def _frequency(machine: Machine, load_ns: float | None) -> float:
    """Return the clock in Hz, from the time of a load that hits L1 if its cycles are known."""
    if load_ns is None or machine.pipeline is None:
        return machine.cores.frequency.value
    return machine.pipeline.load_cycles.value / (1e-9 * load_ns)


def usable_ways(l3: L3, points: Sequence[tuple[int, float]], memory_ns: float) -> dict[str, Found]:
    """Return `size` and `ways` of the part of the L3 that a chase finds; empty if that is most of it.

    `points` are ascending footprints in bytes with their ns per load. The first lies within the L3. The
    usable size is where half of the loads reach the memory, by linear interpolation between two footprints.
    It is rounded to whole ways, as a host allots them.
    """
    half_ns = (points[0][1] + memory_ns) / 2
    for (below, below_ns), (above, above_ns) in pairwise(points):
        if above_ns > half_ns:
            usable = below + (above - below) * max(0.0, half_ns - below_ns) / (above_ns - below_ns)
            break
    else:
        return {}
    ways = max(1, round(l3.ways.value * usable / l3.size.value))
    if ways == l3.ways.value:
        return {}
    source = (
        f"measured here: in a chase of pointers through more, most loads miss; the system states "
        f"{format_binary_size(l3.size.value)} in {l3.ways.value} ways"
    )
    size = l3.size.value // l3.ways.value * ways
    return {"size": read(format_binary_size(size, 6), source), "ways": read(ways, source)}


def _footprints(machine: Machine) -> dict[str, int]:
    """Return the footprints in bytes of chases whose loads are served by each level, the memory last.

    L1 is among them if the machine file says how many cycles it takes.
    """
    second = machine.l2.size.value
    sizes = {"l1": machine.l1.size.value // 2} if machine.pipeline is not None else {}
    sizes["l2"] = second // 2
    last = second
    if machine.l3 is not None:
        last = machine.l3.size.value
        sizes["l3"] = min(int(sqrt(second * last)), _TIMES_L2 * second)
    sizes["ddr"] = min(max(_BEYOND_CACHES * last, _LEAST_BYTES), _MOST_BYTES)
    return {level: size // LINE_BYTES * LINE_BYTES for level, size in sizes.items()}


def _chase(size: int) -> str:
    return f"measured here: a chase of pointers through {format_size(size)}"
