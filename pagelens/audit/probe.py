"""Probes memory as a job would get it: judges its frames, and those that each remedy would give."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

import numpy as np

from pagelens.audit.effect import Frames, Yardstick, large_share
from pagelens.audit.huge_page_supply import Supply
from pagelens.audit.model import SMALL, Audit, Probe, ProbedPlacement
from pagelens.frames import policies
from pagelens.frames.policies import Host
from pagelens.frames.policies import Job as PlacedJob
from pagelens.host.frame_map import FrameMap, read_spans
from pagelens.host.own_pages import frames_of, populated
from pagelens.host.system import System
from pagelens.host.virtual_machine import in_virtual_machine
from pagelens.machine import Machine

Report = Callable[[int, int], None]

MEASURED, REAL, MODEL = "measured", "free frames", "model"


@dataclass(frozen=True)
class Job:
    """The job to probe for: a size, and a kind of page."""

    size: int
    pages: str

    @property
    def frames(self) -> int:
        """The number of 4 KiB frames."""
        return self.size // SMALL


def take(job: Job, report: Report) -> Frames:
    """Return the frames that such a job gets now, in the order of its addresses.

    The user must be allowed to see frames. The memory is given back before this returns. Raises Failure.
    """
    with populated(job.size, job.pages, report) as (address, size):
        frames = frames_of(address, size)
    return frames[frames > 0]  # a page may be swapped out already


@dataclass(frozen=True)
class Ground:
    """The machine that frames are judged by, and the frames that a job could get."""

    audit: Audit
    machine: Machine
    foreign: bool  # the machine is not this one, so this one's NUMA nodes do not count
    spans: FrameMap  # this one's, without uses
    supply: Supply

    @staticmethod
    def of(audit: Audit, machine: Machine, foreign: bool, system: System, free: FrameMap | None) -> "Ground":
        """Return the ground for a machine.

        `free` is the frame map before the job took memory, or None if unknown.
        """
        spans = FrameMap(read_spans(system), np.empty(0, dtype=np.uint8))
        real = None if free is None else Supply.here(free, system.text("/proc/zoneinfo"), machine)
        return Ground(audit, machine, foreign, spans, real or Supply.by_rule(machine))

    def yardstick(self) -> Yardstick:
        """Return the yardstick, with NUMA nodes if each has a cache of its own."""
        caches = sum(node.side_cache is not None for node in self.audit.nodes)
        return Yardstick.of(self.machine, self.spans.node_of if caches > 1 and not self.foreign else None)

    def nodes(self, frames: Frames | None) -> dict[int, float]:
        """Return the share of a job on each NUMA node."""
        if frames is None or not self.spans.spans:
            return {}
        found, counts = np.unique(self.spans.node_of(frames), return_counts=True)
        return {int(node): float(count / len(frames)) for node, count in zip(found, counts, strict=True)}


def judge(job: Job, frames: Frames | None, ground: Ground, report: Report) -> Probe:
    """Judge the frames of the job, and the frames that each remedy would give."""
    yardstick = ground.yardstick()
    ways = list(_ways(job, frames, ground))
    placements, missing = [], []
    for done, way in enumerate(ways):
        report(done, len(ways))
        chosen = way.frames()
        if chosen is None:
            missing.append(way.title)
        else:
            effect = yardstick.effect(chosen)
            placements.append(
                ProbedPlacement(way.name, way.title, way.source, effect, large_share(chosen), way.remedy)
            )
    return Probe(
        size=job.size,
        pages=job.pages,
        machine=ground.machine.title,
        measured=frames is not None,
        verified=frames is not None and not ground.foreign and not in_virtual_machine(),
        nodes=ground.nodes(frames),
        placements=tuple(placements),
        notes=(*_notes(frames, ground, yardstick), *_not_to_be_had(missing)),
    )


def _not_to_be_had(titles: list[str]) -> Iterator[str]:
    if titles:
        yield f"The model finds no frames for a job of this size with: {'; '.join(titles)}."


def _notes(frames: Frames | None, ground: Ground, yardstick: Yardstick) -> Iterator[str]:
    title = ground.machine.title
    if yardstick.decides_nothing:
        yield (
            f"The effect of frames on {title} is unknown, because neither a memory-side cache nor a DRAM map "
            "nor a snoop filter is known. --machine names another machine to compare with."
        )
    if frames is None:
        yield (
            "This user may not see frame numbers (CAP_SYS_ADMIN), so no memory was taken. All rows are from "
            f"the model's rule, on frames of {title}. sudo shows the real ones."
        )
    elif not ground.supply.real:
        yield "Frame flags were not read, so the rows of remedies are from the model's rule."
    if frames is not None and ground.foreign:
        yield f"These are this machine's frames, judged as if they were frames of {title}."
    if frames is not None and in_virtual_machine():
        yield (
            "Unverified: the frames are those of a virtual machine. The host's addresses decide slots, banks "
            "and slices, and agree with the guest's addresses only below the host's page size."
        )


@dataclass(frozen=True)
class _Way:
    """A way to place the job. It may turn out to be impossible."""

    name: str
    title: str
    source: str
    frames: Callable[[], Frames | None]
    remedy: tuple[str, ...] = ()


def _ways(job: Job, frames: Frames | None, ground: Ground) -> Iterator[_Way]:
    pages, supply = job.frames, ground.supply
    source = REAL if supply.real else MODEL
    if frames is not None:
        yield _Way("probed", f"as it was, {job.pages} pages", MEASURED, lambda: frames)
    yield _Way("random", "4 KiB pages, random frames", source, lambda: supply.random(pages))
    placed = PlacedJob(job.size, ground.machine)
    host = Host(numa_nodes=tuple(node.number for node in ground.audit.nodes if node.processors != 0))
    for name, choose in supply.by_remedy(job.size).items():
        remedy = policies[name].remedy
        assert remedy is not None
        yield _Way(name, remedy.summary, source, partial(choose, pages), remedy.commands(placed, host))
    if frames is not None:
        yield _Way("half", "half the footprint", MEASURED, lambda: frames[: pages // 2])
    else:
        yield _Way("half", "half the footprint", source, lambda: supply.random(pages // 2))
