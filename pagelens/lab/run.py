"""Runs a program in a guest with a history, and counts every access of each of its runs."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from pagelens.accesses.program import GuestProgram, find_program
from pagelens.address.units import FRAME_BYTES
from pagelens.errors import Failure, UsageError
from pagelens.host.huge_page_pools import pool_folder
from pagelens.lab.allocator_state import add_state_module
from pagelens.lab.emulator import Hardware, NumaSpeed, find_qemu
from pagelens.lab.guest import LIMIT_S
from pagelens.lab.guest_node import GuestNode
from pagelens.lab.history import Schedule, ScheduledStep, Scheduler
from pagelens.lab.initramfs import Initramfs
from pagelens.lab.kernels import DEFAULT_KERNEL, Kernel, find_kernel
from pagelens.lab.measured import Job, MeasuredGuest, MemorySide, NodeLines, Phase
from pagelens.lab.planned_program import REPORT, PlanOnNodes, add_planned
from pagelens.machine import TRANSLATION_COUNTS, Machine, modelled_times
from pagelens.machine.memories import MOST_TAGS

PAGES = ("4KiB", "thp", "2MiB", "1GiB")

_FOLDER = "/app"  # of the program in the guest
_HUGE = {"2MiB": ("2M", 2 << 20), "1GiB": ("1G", 1 << 30)}  # name on the kernel's command line, bytes
_KILLED = 137  # a shell's status for SIGKILL, which the kernel sends when memory is out
_BUDDYINFO = re.compile(r"Node (\d+), zone +(\w+) +([\d ]+)")

Counts = dict[str, int]


@dataclass(frozen=True)
class Request:
    """What to run, and in which guest."""

    command: Sequence[str]
    machine: Machine
    memory_bytes: int
    cache_bytes: int  # the memory-side caches of all nodes together
    history: str = "run"
    kernel: str = DEFAULT_KERNEL
    ways: int = 1
    nodes: int = 1
    speeds: Sequence[NumaSpeed] = ()  # the speed of each node's memory that the firmware states
    cpus: int = 1
    pages: str = "4KiB"
    pool_bytes: int = 0  # huge pages set aside at boot, with `pages` 2MiB or 1GiB
    files: Sequence[Path] = ()  # put beside the program
    placement: PlanOnNodes | None = None  # where its objects lie on the nodes
    seed: int = 1
    limit_s: float = LIMIT_S  # processor time that a run may take


@dataclass(frozen=True)
class Counted:
    """The counts of a run of the program, or of a region in it."""

    name: str
    counts: Counts
    nodes: Sequence[NodeLines]  # the lines of each NUMA node
    time_s: float | None  # modelled; None without a memory-side cache, as it is unknown which memory is fast
    serial_time_s: float | None

    @property
    def hit_share(self) -> float:
        """The share of lines at the memory-side cache that it had; 0 without a cache."""
        if self.time_s is None:
            return 0.0
        accesses = self.counts["msc_reads"] + self.counts["msc_writes"]
        return 1 - self.counts["msc_misses"] / accesses if accesses else 1.0


@dataclass(frozen=True)
class ProgramRun:
    """One `run` of the history."""

    status: int
    output: str
    resident_pages: int  # its pages at the peak
    huge_parts: list[int]  # the number of these pages in each large page of 2 MiB
    conflict_share: float
    total: Counted
    regions: list[Counted]
    plan: dict[str, Any] | None = None  # places of planned objects: `plan` of docs/run.md


@dataclass(frozen=True)
class StepDone:
    """A step of the history, and the state that it left."""

    text: str
    buddyinfo: dict[str, list[int]]  # "node 0 DMA32": free blocks of each order; of a run before it
    run: ProgramRun | None = None


@dataclass(frozen=True)
class Result:
    """The results of all steps."""

    request: Request
    release: str  # the kernel's release
    steps: list[StepDone] = field(default_factory=list)


class ProgramLab:
    """A guest with a program in it, and the history that it will go through.

        with ProgramLab(request) as lab:
            done = [lab.step(step) for step in lab.schedule.steps]

    Raises UsageError for a request that is impossible, Failure for what goes wrong later.
    """

    def __init__(self, request: Request, pictured: bool = False) -> None:
        """Start the guest. With `pictured`, the state of its allocator will be taken."""
        find_qemu()  # before anything is fetched for it
        self.request = request
        machine, kernel = request.machine, find_kernel(request.kernel)
        if not machine.memory_side_bytes and request.cache_bytes:
            name = machine.name
            raise UsageError(
                f"--machine {name}: no memory-side cache; choose one in cache mode, or --cache 0B"
            )
        self._program = find_program(request.command)
        self.schedule = Scheduler(request.memory_bytes, machine.ddr.size.value, request.seed).read(
            request.history
        )
        for step in self.schedule.steps:
            if step.text.startswith("zonesort") and not request.cache_bytes:
                raise UsageError(f"--cache 0B: {step.text} sorts for a cache; name the size of one")
        if self.schedule.boot.fake and not request.cache_bytes:
            raise UsageError("--cache 0B: fake nodes are as large as a cache; name the size of one")
        nodes = max(request.nodes, self.schedule.boot.numas)
        if request.speeds and nodes != len(request.speeds):
            raise UsageError(
                f"--numa: states {len(request.speeds)} nodes, and boot has numas={nodes}; state one count"
            )
        hardware = Hardware(request.memory_bytes, nodes, request.cpus, speeds=request.speeds)
        memory_side = _memory_side(request, hardware)
        root, self._words = _root(request, self._program, self.schedule, kernel)
        if pictured:
            add_state_module(root, kernel)
        append = _kernel_options(request, self.schedule)
        self.guest = MeasuredGuest(machine, memory_side, hardware, kernel, root, append, request.limit_s)
        self._node = GuestNode(self.guest)

    def __enter__(self) -> Self:
        self.guest.__enter__()
        try:
            self.schedule.prepare(self.guest)
            self._prepare_huge_pages()
        except BaseException:
            self.guest.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.guest.close()

    def _prepare_huge_pages(self) -> None:
        """Check that the pool was set aside, and allow 2 MiB pages to programs that ask for them."""
        if self.request.pages not in _HUGE:
            return
        size = _HUGE[self.request.pages][1]
        folder, wanted = pool_folder(size), _pool_pages(self.request)
        got = int(self.guest.shell(f"cat {folder}/nr_hugepages").checked())
        if got < wanted:
            raise Failure(
                f"the guest's kernel set {got} of {wanted} pages of {self.request.pages} aside at boot; "
                f"raise --memory {self.request.memory_bytes >> 20}MiB"
            )
        if self.request.pages == "2MiB":
            most = self.request.memory_bytes // size
            self.guest.shell(f"echo {most} > {folder}/nr_overcommit_hugepages").checked()

    def step(self, step: ScheduledStep, output: Callable[[bytes], None] = lambda _: None) -> StepDone:
        """Do a step of the history in the guest. `output` gets what the program prints."""
        if step.is_run:
            before = _buddyinfo(self.guest)
            return StepDone(step.text, before, self._run(step.text, output))
        step.act(self._node)
        return StepDone(step.text, _buddyinfo(self.guest))

    def _run(self, name: str, output: Callable[[bytes], None]) -> ProgramRun:
        request = self.request
        words = [*self._words, *self._program.arguments]
        if request.pages in _HUGE:
            words = ["env", f"GLIBC_TUNABLES={_huge_heap(request.pages)}", *words]
        printed = bytearray()

        def take(data: bytes) -> None:
            printed.extend(data)
            output(data)

        job = self.guest.job(name, words, take)
        if job.status == _KILLED and "Out of memory" in self.guest.console:
            raise Failure(
                f"{request.command[0]} needs more memory than the guest has; raise --memory "
                f"{request.memory_bytes >> 20}MiB"
            )
        done = _program_run(job, printed.decode(errors="replace"), self.guest, request)
        return replace(done, plan=self._where_objects_lay()) if request.placement else done

    def _where_objects_lay(self) -> dict[str, Any] | None:
        """Return where the objects lay, or None if the program ended without a report, as by a signal."""
        if self.guest.run("test", "-e", REPORT).status != 0:
            return None
        report = json.loads(self.guest.get(REPORT))
        self.guest.run("rm", REPORT).checked()
        return dict(report["plan"]) if report["plan"] else None


def run_history(
    request: Request, report: Callable[[StepDone], None], output: Callable[[bytes], None]
) -> Result:
    """Boot the guest and go through the history. `output` gets what the program prints."""
    with ProgramLab(request) as lab:
        done = Result(request, lab.guest.kernel.release)
        for step in lab.schedule.steps:
            done.steps.append(lab.step(step, output))
            report(done.steps[-1])
    return done


def _huge_heap(pages: str) -> str:
    """Return the tunables of glibc's malloc for huge pages (its manual, "Memory Allocation Tunables").

    Small blocks come from the heap, which then consists of huge pages. Blocks above a threshold get mappings
    of their own, with small pages, unless a tunable forbids such mappings.
    """
    words = [f"hugetlb={_HUGE[pages][1]}", *(["mmap_max=0"] if pages == "1GiB" else [])]
    return ":".join(f"glibc.malloc.{word}" for word in words)


def _program_run(job: Job, output: str, guest: MeasuredGuest, request: Request) -> ProgramRun:
    if not job.phases:
        raise Failure(f"{request.command[0]} began, but the guest reported nothing of it")
    cores = max(request.cpus, guest.hardware.nodes)
    conflicts = guest.memory_side.conflicts(job.frames, guest.hardware.node_begins)
    cached = guest.memory_side.slots > 0
    total = _counted(_whole(job.phases), guest.machine if cached else None, cores)
    regions = [
        _counted(phase, guest.machine if cached else None, cores) for phase in job.phases if "/" in phase.name
    ]
    share = conflicts / job.frames.size if job.frames.size else 0.0
    pages, parts = int(job.frames.size), job.huge_parts.tolist()
    return ProgramRun(job.status, output, pages, parts, share, total, regions)


def _whole(phases: Sequence[Phase]) -> Phase:
    """Return the whole program as one phase: its regions, and what lies outside of them."""
    counts: dict[str, int] = {}
    for phase in phases:
        for name, count in phase.counts.items():
            counts[name] = counts.get(name, 0) + count
    nodes = [sum(of_node, NodeLines(0, 0)) for of_node in zip(*(p.nodes for p in phases), strict=True)]
    return Phase(phases[0].name, counts, nodes)


def _counted(phase: Phase, machine: Machine | None, cores: int) -> Counted:
    """Return the counts of a phase, with modelled times if `machine` has a memory-side cache."""
    name = phase.name.rpartition("/")[2]
    if machine is None:
        counts = phase.counts | {
            "ddr_reads": phase.counts["msc_reads"],
            "ddr_writes": phase.counts["msc_writes"],
        }
        return Counted(name, counts, phase.nodes, None, None)
    counts = phase.counts | {"ddr_reads": phase.counts["msc_misses"]}
    times = modelled_times(
        machine, counts | dict.fromkeys(TRANSLATION_COUNTS, 0), cores
    )  # guests have no TLBs
    return Counted(name, counts, phase.nodes, float(times.time_s), float(times.serial_time_s))


def _memory_side(request: Request, hardware: Hardware) -> MemorySide:
    if request.cache_bytes == 0:
        return MemorySide(0)
    unit = (4 << 20) * hardware.nodes * request.ways
    if request.cache_bytes < unit or request.cache_bytes % unit:
        raise UsageError(
            f"--cache {request.cache_bytes >> 20}MiB: a multiple of 4 MiB for each node and way, "
            f"here of {unit >> 20}MiB"
        )
    memory_side = MemorySide(request.cache_bytes // hardware.nodes // FRAME_BYTES, request.ways)
    if hardware.frames_end // (memory_side.slots // request.ways) >= MOST_TAGS:
        raise UsageError(
            f"--cache {request.cache_bytes >> 20}MiB: too small for this memory, of which at most "
            f"{MOST_TAGS} frames may share a set; raise it"
        )
    return memory_side


def _root(
    request: Request, program: GuestProgram, schedule: Schedule, kernel: Kernel
) -> tuple[Initramfs, list[str]]:
    """Return the guest's root, and the words that run the program there."""
    root, name = Initramfs(), f"{_FOLDER}/{program.path.name}"
    words = [name]
    if request.placement is None:
        root.add_program(name, program.path)
    else:
        placement = request.placement
        words = add_planned(root, name, program.path, placement.plan, placement.tiers, REPORT)
    for file in request.files:
        root.add(f"{_FOLDER}/{file.name}", file)
    schedule.add_to(root, kernel)
    return root, words


def _pool_pages(request: Request) -> int:
    """Return how many huge pages the kernel sets aside at boot. 1 GiB pages are available only so."""
    if request.pages not in _HUGE:
        return 0
    size = _HUGE[request.pages][1]
    pool_bytes = request.pool_bytes or (request.memory_bytes // 2 if request.pages == "1GiB" else 0)
    if pool_bytes < size and (request.pool_bytes or request.pages == "1GiB"):
        raise UsageError(f"--pages {request.pages}: the pool holds none; raise --pool or --memory")
    return pool_bytes // size


def _kernel_options(request: Request, schedule: Schedule) -> str:
    words = [f"transparent_hugepage={'always' if request.pages == 'thp' else 'never'}"]
    if pool := _pool_pages(request):
        words.append(f"hugepagesz={_HUGE[request.pages][0]} hugepages={pool}")
    if schedule.boot.shuffle:
        words.append("page_alloc.shuffle=1")
    if schedule.boot.fake:
        words.append(f"numa=fake={max(1, request.memory_bytes // request.cache_bytes)}")
    return " ".join(words)


def _buddyinfo(guest: MeasuredGuest) -> dict[str, list[int]]:
    text = guest.run("cat", "/proc/buddyinfo").checked()
    return {
        f"node {node} {zone}": [int(count) for count in counts.split()]
        for node, zone, counts in _BUDDYINFO.findall(text)
    }
