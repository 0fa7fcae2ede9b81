"""`pagelens site measure`: checks this node within a stated time, when a check is due.

It runs in the Epilog, when the node takes no other job. It asks the scheduler nothing.
"""

import re
import threading
import time
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from pagelens import _probes
from pagelens.audit.fragmentation import LARGE_ORDER, read_zones, suitable_blocks, unusable_index
from pagelens.audit.model import GIGANTIC, LARGE, MemoryNode
from pagelens.audit.read import read_audit
from pagelens.errors import Failure
from pagelens.host.kernel_settings import read_kernel
from pagelens.host.load import LoadMeter
from pagelens.host.system import System
from pagelens.machine import Machine, parse_machine
from pagelens.machine.detect import detect
from pagelens.measure.benchmarks import stream
from pagelens.measure.choices import cpus_of
from pagelens.measure.experiment import Settings
from pagelens.measure.pages import PAGE_SIZES
from pagelens.measure.session import last_level_bytes
from pagelens.site.check import NAME, VERSION, Check
from pagelens.site.node_state import load_state, other_jobs
from pagelens.site.program_memory import left_by
from pagelens.site.spool import put
from pagelens.units import format_binary_size

REPEATS = 3  # of each kernel; the best counts, as STREAM's rules have it
_OF_CACHE = 0.75  # of a memory-side cache, what the arrays fill: misses are then conflicts (12 of 16 GiB)
_OF_FREE = 0.5  # of the free memory, the most that is taken
_LAST = "last-check"  # when the last one was, in the node's state folder

# What boards state if they have no number of their own.
_NO_BOARD = re.compile(r"(?i)^(0+|f+|[0f-]+|03000200-0400-0500-0006-000700080009|not .*|to be filled.*|)$")


@dataclass(frozen=True)
class CheckRequest:
    """What is checked, and where its record goes."""

    node: str
    spool: Path
    state: Path  # folder
    job: str = ""
    kind: str = ""  # the site's name for this hardware
    every_s: float = 3600.0
    budget_s: float = 20.0
    root: Path = Path("/")
    force: bool = False  # also where none is due, or other jobs run
    forget_after_s: float = 172_800.0  # the value of [prolog]
    memory: int | None = None  # bytes of STREAM's three arrays


def measure_node(request: CheckRequest, clock: Callable[[], float] = time.time) -> Path | str:
    """Return the record's file, or why there is none. Raises Failure if the record cannot be written."""
    if not re.fullmatch(NAME, request.node):
        raise Failure(f"measure: '{request.node[:80]}' is no node's name; set SLURMD_NODENAME or --node")
    system = System(request.root)
    uptime = _uptime(system)
    boot = system.text("/proc/sys/kernel/random/boot_id")
    stamp = request.state / _LAST
    if not request.force and not _due(stamp, boot, uptime, request.every_s):
        return f"not due: the last check was less than {request.every_s:g} s ago"
    others = other_jobs(load_state(request.state, system), system, request.job, request.forget_after_s)
    if others and not request.force:
        return f"not now: job {', '.join(others)} runs here, too, and a check would disturb it"
    check = _check(request, system, boot, uptime, clock())
    try:
        written = put(request.spool, check)
        stamp.parent.mkdir(parents=True, exist_ok=True)
        stamp.write_text(f"{boot} {uptime}\n")  # after the record: a crash between measures once more
    except OSError as error:
        raise Failure(f"measure: cannot keep the record ({error.strerror or error}); it is lost") from error
    return written


def _due(stamp: Path, boot: str, uptime: float, every_s: float) -> bool:
    """Return whether a check is due, by the time since the boot, because the clock may step."""
    try:
        of_boot, last = stamp.read_text().split()
        return of_boot != boot or not 0 <= uptime - float(last) < every_s
    except (OSError, ValueError):
        return True


def _uptime(system: System) -> float:
    try:
        return float(system.text("/proc/uptime").split()[0])
    except (IndexError, ValueError):
        raise Failure("measure: /proc/uptime cannot be read, so the node's age is not known") from None


def _check(request: CheckRequest, system: System, boot: str, uptime: float, now: float) -> Check:
    machine = parse_machine(detect(system).to_toml().encode(), "machine")
    found = read_audit(system, machine, None)  # before STREAM takes memory
    zones = read_zones(system)
    blocks = [sum(column) for column in zip(*(zone.free_blocks for zone in zones), strict=False)]
    pools = {pool.page_size: pool for pool in found.huge_pages}
    kernels: dict[str, float] = {}
    disturbed, notes = False, list[str]()
    if system.captured:
        notes.append("a captured tree: STREAM was not run")
    else:
        kernels, disturbed, notes = _stream(request, machine, _cache_bytes(found.nodes, machine))
    return Check(
        version=VERSION,
        id=uuid.uuid4().hex,
        node=request.node,
        board=_board(system),
        boot=boot,
        hardware=request.kind or _hardware(found.machine, found.nodes),
        mode=_mode(found.nodes, machine),
        time=now,
        uptime=uptime,
        job=request.job if re.fullmatch(r"[A-Za-z0-9_.+-]{0,64}", request.job) else "",
        kernels=kernels,
        disturbed=disturbed,
        free_blocks=blocks,
        unusable=unusable_index(blocks, LARGE_ORDER) if blocks else None,
        huge_2m=_more(pools.get(LARGE), suitable_blocks(blocks, LARGE_ORDER)),
        huge_1g=_more(pools.get(GIGANTIC), None),
        turnover=read_kernel(system).turnover,
        snoop_filter=found.snoop_filter_share,
        programs=left_by(request.state, request.job),
        notes=notes,
    )


def _more(pool: object, otherwise: int | None) -> int | None:
    more: int | None = getattr(pool, "more_now", None)
    return more if more is not None else otherwise


def _board(system: System) -> str:
    """Return the board's number, which stays when a node is renamed. Only root can read it."""
    for name in ("product_uuid", "board_serial"):
        text = system.text(f"/sys/class/dmi/id/{name}")
        if not _NO_BOARD.fullmatch(text):
            return re.sub(r"[^\x20-\x7e]", "", text)[:64]
    return ""


def _hardware(title: str, nodes: Sequence[MemoryNode]) -> str:
    memory = sum(node.size or 0 for node in nodes)
    size = f", {format_binary_size(memory, 2)}" if memory else ""
    return f"{title}{size}"[:200]


def _cache_bytes(nodes: Sequence[MemoryNode], machine: Machine) -> int | None:
    """Return the size of the memory-side cache in front of this node's memory."""
    for node in nodes:
        if node.side_cache is not None:
            return node.side_cache.size
    return machine.memory_side_bytes or None


def _mode(nodes: Sequence[MemoryNode], machine: Machine) -> str:
    """Return how the memory is set up: cache, flat or one kind.

    The text ends with the number of NUMA nodes.
    """
    side = any(node.side_cache is not None for node in nodes) or machine.memory_side_bytes > 0
    fast = any(node.faster for node in nodes)
    kind = "cache" if side else "flat" if fast else "one memory"
    return f"{kind}, {len(nodes)} NUMA node{'s' if len(nodes) != 1 else ''}"


def _stream(
    request: CheckRequest, machine: Machine, cache: int | None
) -> tuple[dict[str, float], bool, list[str]]:
    """Return bytes a second of STREAM's kernels, and what went wrong.

    The frames are those that the kernel hands out now.
    """
    cpus = cpus_of(None)
    room = int(_OF_FREE * _probes.available_bytes())
    wanted = request.memory or (int(_OF_CACHE * cache) if cache else None)
    n = None if wanted is None else max(512, min(wanted, room) // 24 // 512 * 512)
    plan = stream(Settings(cpus, REPEATS, 0, last_level_bytes(cpus, machine), n=n))
    notes = []
    if wanted is not None and wanted > room:
        notes.append(f"the arrays are smaller than wanted: {format_binary_size(room)} could be had")
    if plan.memory_bytes > room:
        return {}, False, [f"STREAM was not run: only {format_binary_size(room)} of memory can be taken"]
    found: dict[str, float] = {}
    failed: list[BaseException] = []
    meter = LoadMeter()

    def run() -> None:
        try:
            memory = PAGE_SIZES["4k"].map(plan.memory_bytes, cpus, plan.arrays)
            try:
                for point in reversed(plan.points):  # triad, which nodes are compared by, comes first
                    found[str(point.labels["kernel"])] = float(point.amount / point.run(memory).min())
            finally:
                memory.release()
        except (_probes.Stopped, Failure, OSError, ValueError) as error:
            failed.append(error)

    _probes.request_stop(False)
    thread = threading.Thread(target=run, name="pagelens-check", daemon=True)
    thread.start()
    thread.join(request.budget_s)
    if thread.is_alive():
        _probes.request_stop(True)
        thread.join(request.budget_s)
        notes.append(f"STREAM was stopped after {request.budget_s:g} s")
    elif failed:
        notes.append(re.sub(r"[\x00-\x1f\x7f]", " ", f"STREAM failed: {failed[0]}")[:200])
    return dict(found), meter.stop().disturbed, notes
