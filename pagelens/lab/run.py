"""A program in a guest with a history: what each of its runs meets, counted access by access."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from pagelens.accesses.program import GuestProgram, find_program
from pagelens.errors import Failure, UsageError
from pagelens.lab.emulator import Hardware, find_qemu
from pagelens.lab.history import Plan, PlannedStep, Planner
from pagelens.lab.initramfs import Initramfs
from pagelens.lab.kernels import DEFAULT_KERNEL, Kernel, find_kernel
from pagelens.lab.measured import Job, MeasuredGuest, MemorySide, Phase
from pagelens.lab.modules import build_module
from pagelens.lab.nodes import ZONESORT, GuestNode
from pagelens.lab.sources import zonesort_sources
from pagelens.machine import Machine, cache_mode_times
from pagelens.machine.schema import FRAME_BYTES, MOST_TAGS

PAGES = ("4KiB", "thp", "2MiB", "1GiB")

_FOLDER = "/app"  # of the program in the guest
_HUGE = {"2MiB": ("2M", 2 << 20), "1GiB": ("1G", 1 << 30)}  # name on the kernel's command line, bytes
_KILLED = 137  # a shell's status for SIGKILL, which the kernel sends when memory is out
_BUDDYINFO = re.compile(r"Node (\d+), zone +(\w+) +([\d ]+)")

Counts = Mapping[str, int]


@dataclass(frozen=True)
class Request:
    """What to run, and in what guest."""

    command: Sequence[str]
    machine: Machine
    memory_bytes: int
    cache_bytes: int  # of all nodes' memory-side caches together
    history: str = "run"
    kernel: str = DEFAULT_KERNEL
    ways: int = 1
    nodes: int = 1
    cpus: int = 1
    pages: str = "4KiB"
    pool_bytes: int = 0  # of huge pages, with `pages` 2MiB or 1GiB; 0: half of memory
    files: Sequence[Path] = ()  # put beside the program
    seed: int = 1


@dataclass(frozen=True)
class Counted:
    """A run of the program, or a region in it."""

    name: str
    counts: Counts
    time_s: float  # modelled
    serial_time_s: float

    @property
    def hit_share(self) -> float:
        """Of the lines read and written at the memory-side cache, those it had."""
        accesses = self.counts["msc_reads"] + self.counts["msc_writes"]
        return 1 - self.counts["msc_misses"] / accesses if accesses else 1.0


@dataclass(frozen=True)
class ProgramRun:
    """One `run` of the history."""

    status: int
    output: str
    resident_pages: int  # when most were
    conflict_share: float
    total: Counted
    regions: list[Counted]


@dataclass(frozen=True)
class StepDone:
    """A step of the history, and what it left."""

    text: str
    buddyinfo: dict[str, list[int]]  # "node 0 DMA32": free blocks of each order; of a run before it
    run: ProgramRun | None = None


@dataclass(frozen=True)
class Result:
    """All steps."""

    request: Request
    release: str  # of the kernel
    steps: list[StepDone] = field(default_factory=list)


def run(request: Request, report: Callable[[StepDone], None], output: Callable[[bytes], None]) -> Result:
    """Boots the guest and goes through the history; `output` gets what the program prints.

    Raises UsageError for what cannot be, Failure for what does not work out.
    """
    find_qemu()  # before anything is fetched for it
    machine, kernel = request.machine, find_kernel(request.kernel)
    if machine.memory_side_cache is None:
        raise UsageError(f"--machine {machine.name}: it has no memory-side cache; choose one in cache mode")
    program = find_program(request.command)
    plan = Planner(request.memory_bytes, machine.ddr.size.value, request.seed).plan(request.history)
    nodes = max(request.nodes, plan.boot.numas)
    hardware = Hardware(request.memory_bytes, nodes, request.cpus)
    memory_side = _memory_side(request, hardware)
    root = _root(request, program, plan, kernel)
    done = Result(request, kernel.release)
    append = _kernel_options(request, plan)
    with MeasuredGuest(machine, memory_side, hardware, kernel, root, append) as guest:
        node = GuestNode(guest)
        for step in plan.steps:
            done.steps.append(_step(step, node, request, program, output))
            report(done.steps[-1])
    return done


def _step(
    step: PlannedStep,
    node: GuestNode,
    request: Request,
    program: GuestProgram,
    output: Callable[[bytes], None],
) -> StepDone:
    if not step.is_run:
        step.act(node)
        return StepDone(step.text, _buddyinfo(node.guest))
    before = _buddyinfo(node.guest)
    words = [f"{_FOLDER}/{program.path.name}", *program.arguments]
    if request.pages in _HUGE:
        words = ["env", f"GLIBC_TUNABLES=glibc.malloc.hugetlb={_HUGE[request.pages][1]}", *words]
    printed = bytearray()

    def take(data: bytes) -> None:
        printed.extend(data)
        output(data)

    job = node.guest.job(step.text, words, take)
    if job.status == _KILLED and "Out of memory" in node.guest.console:
        raise Failure(
            f"{request.command[0]} needs more memory than the guest has; raise --memory "
            f"{request.memory_bytes >> 20}MiB"
        )
    return StepDone(
        step.text, before, _program_run(job, printed.decode(errors="replace"), node.guest, request)
    )


def _program_run(job: Job, output: str, guest: MeasuredGuest, request: Request) -> ProgramRun:
    if not job.phases:
        raise Failure(f"{request.command[0]} began, but the guest reported nothing of it")
    cores = max(request.cpus, guest.hardware.nodes)
    whole: dict[str, int] = {}
    for phase in job.phases:
        for name, count in phase.counts.items():
            whole[name] = whole.get(name, 0) + count
    conflicts = guest.memory_side.conflicts(job.frames, guest.hardware.node_begins)
    total = _counted(Phase(job.phases[0].name, whole), guest.machine, cores)
    regions = [_counted(phase, guest.machine, cores) for phase in job.phases if "/" in phase.name]
    share = conflicts / job.frames.size if job.frames.size else 0.0
    return ProgramRun(job.status, output, int(job.frames.size), share, total, regions)


def _counted(phase: Phase, machine: Machine, cores: int) -> Counted:
    counts = {**phase.counts, "ddr_reads": phase.counts["msc_misses"]}
    times = cache_mode_times(machine, counts, cores)
    return Counted(phase.name.rpartition("/")[2], counts, float(times.time_s), float(times.serial_time_s))


def _memory_side(request: Request, hardware: Hardware) -> MemorySide:
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


def _root(request: Request, program: GuestProgram, plan: Plan, kernel: Kernel) -> Initramfs:
    root = Initramfs()
    root.add_program(f"{_FOLDER}/{program.path.name}", program.path)
    for file in request.files:
        root.add(f"{_FOLDER}/{file.name}", file)
    plan.add_to(root, kernel)
    if any(step.text.startswith("zonesort") for step in plan.steps):
        root.add(ZONESORT, build_module(zonesort_sources(), kernel))
    return root


def _kernel_options(request: Request, plan: Plan) -> str:
    words = [f"transparent_hugepage={'always' if request.pages == 'thp' else 'never'}"]
    if request.pages in _HUGE:
        name, size = _HUGE[request.pages]
        count = (request.pool_bytes or request.memory_bytes // 2) // size
        if count == 0:
            raise UsageError(f"--pages {request.pages}: the pool holds none; raise --pool or --memory")
        words.append(f"hugepagesz={name} hugepages={count}")
    if plan.boot.shuffle:
        words.append("page_alloc.shuffle=1")
    if plan.boot.fake:
        words.append(f"numa=fake={max(1, request.memory_bytes // request.cache_bytes)}")
    return " ".join(words)


def _buddyinfo(guest: MeasuredGuest) -> dict[str, list[int]]:
    text = guest.run("cat", "/proc/buddyinfo").checked()
    return {
        f"node {node} {zone}": [int(count) for count in counts.split()]
        for node, zone, counts in _BUDDYINFO.findall(text)
    }
