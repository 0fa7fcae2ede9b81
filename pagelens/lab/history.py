"""Plans a history (docs/frames.md) for a lab.

Each step becomes something that a guest and a model can both do.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from pagelens import _core
from pagelens.address.units import FRAME_BYTES
from pagelens.errors import UsageError
from pagelens.frames.language import parse_history
from pagelens.frames.mix import JobMix
from pagelens.frames.steps import (
    Age,
    Boot,
    Compact,
    DropCaches,
    Hold,
    Hugetlb,
    Io,
    Job,
    Offline,
    Online,
    Run,
    Step,
    Zonesort,
    scattered,
)
from pagelens.lab.aged_node import AgedNode
from pagelens.lab.cached_file import add_file_modules, make_file
from pagelens.lab.guest import Guest
from pagelens.lab.guest_node import GuestNode, add_sort_module, work_file
from pagelens.lab.initramfs import Initramfs
from pagelens.lab.jobs import JobShape, hold_work, job_work
from pagelens.lab.kernels import Kernel
from pagelens.lab.memory_work import READ, Steps, Work

# The part of a guest's memory that no job may take: the kernel, its root, and what it keeps for itself.
_KERNEL_BYTES = 192 << 20


@dataclass(frozen=True)
class ScheduledStep:
    """One step: its text, and what it does to a node, be it a guest or a model."""

    text: str
    act: Callable[[AgedNode], None] = field(repr=False)
    is_run: bool = False
    in_guest: bool = False  # no model does it


@dataclass
class Schedule:
    """A whole history, with the work that a guest needs in its root."""

    boot: Boot
    steps: list[ScheduledStep]
    work: dict[str, Steps]
    sorts: set[str] = field(default_factory=set)  # rules by which it sorts

    def add_to(self, root: Initramfs, kernel: Kernel) -> None:
        """Put the work, and what it needs, into a guest's root."""
        for name, steps in self.work.items():
            root.add(work_file(name), steps.tobytes())
        for rule in self.sorts:
            add_sort_module(root, kernel, rule)
        if self._reads:
            add_file_modules(root, kernel)

    def prepare(self, guest: Guest) -> None:
        """Prepare a guest after boot, before its state is taken: this takes memory for good."""
        if self._reads:
            make_file(guest)

    @property
    def _reads(self) -> bool:
        return any((steps[:, 0] == READ).any() for steps in self.work.values())


class Scheduler:
    """Plans histories for guests of one size. All draws come from the seed."""

    def __init__(self, memory_bytes: int, full_bytes: int, seed: int) -> None:
        """Take the guest's size and `full_bytes`, the memory of the machine that job mixes are stated for."""
        self._memory_bytes = memory_bytes
        self._scale = memory_bytes / full_bytes
        self._seed = seed
        self._histories = 0
        self._file_pages = itertools.count()

    def read(self, text: str, name: str = "--history") -> Schedule:
        """Raise UsageError for what a guest cannot do."""
        history = self._histories
        self._histories += 1
        boot, *steps = parse_history(text, name)
        assert isinstance(boot, Boot)
        if boot.kernel != Boot.kernel:
            raise UsageError(
                f"{name}: boot: kernel = {boot.kernel}: a lab boots that of --kernel; leave it out"
            )
        schedule = Schedule(
            boot,
            [],
            {},
            sorts={step.rule for step in steps if isinstance(step, Zonesort)},
        )
        for place, (step, words) in enumerate(zip(steps, _texts(text), strict=True)):
            random = _core.Random(self._seed, history, place, _core.Stream.history)
            works = {f"{history}-{place}-{i}": work.steps for i, work in enumerate(self._works(step, random))}
            schedule.work |= works
            is_run, in_guest = isinstance(step, Run), isinstance(step, Hugetlb | Offline | Online)
            schedule.steps.append(ScheduledStep(words, _action(step, works), is_run, in_guest))
        return schedule

    def _works(self, step: Step, random: _core.Random) -> Iterator[Work]:
        """Yield the work of a step that takes memory."""
        if isinstance(step, Age):
            if step.jobs is None:
                raise UsageError("--history: age in a lab has to say how many jobs, as age(jobs=3)")
            mix = step.mix.scaled(self._scale)
            for _ in range(step.jobs):
                size = random.log_uniform(mix.smallest_job_bytes, mix.largest_job_bytes)
                yield self._job(size, mix, random)
        elif isinstance(step, Job):
            mix = Age().mix.scaled(self._scale)
            yield self._job(step.size, mix, random)
        elif isinstance(step, Hold):
            frames = self._memory_bytes // FRAME_BYTES
            taken = self._most(Age().mix)
            kept = scattered(taken // FRAME_BYTES, step.pages.of(frames), random)
            yield hold_work(taken, kept, step.pinned)
        elif isinstance(step, Io) and step.how:
            work = Work()
            work.read(self._take_file(step.size // FRAME_BYTES), step.size // FRAME_BYTES)
            yield work

    def _job(self, size: float, mix: JobMix, random: _core.Random) -> Work:
        shape = JobShape(mix.processes, mix.longest_turn_pages, mix.cache_interval_pages)
        return job_work(int(min(size, self._most(mix))), shape, random, self._file_pages)

    def _most(self, mix: JobMix) -> int:
        return int(self._memory_bytes * (1 - mix.kept_free_share)) - _KERNEL_BYTES

    def _take_file(self, pages: int) -> int:
        begin = next(self._file_pages)
        self._file_pages = itertools.count(begin + pages)
        return begin


def _texts(history: str) -> list[str]:
    words = [" ".join(part.split()) for part in history.split(";") if part.strip()]
    return words[1:] if words[0].partition("(")[0].strip() == Boot.name else words


def _action(step: Step, works: dict[str, Steps]) -> Callable[[AgedNode], None]:
    def work(node: AgedNode) -> None:
        for name, steps in works.items():
            node.work(name, steps)

    def hold(node: AgedNode) -> None:
        for name, steps in works.items():
            node.hold(name, steps)

    match step:
        case Age() | Job() | Io():
            return work
        case Hold():
            return hold
        case DropCaches(left=None, pinned=None):
            return lambda node: node.drop_caches()
        case DropCaches():
            raise UsageError("--history: in a lab drop_caches leaves what the kernel leaves; say no share")
        case Compact():
            return lambda node: node.compact()
        case Zonesort(rule=rule, evacuate=evacuate):
            return lambda node: node.zonesort(rule, evacuate)
        case Hugetlb(size=size):
            return _in_guest(lambda guest: guest.hugetlb(size))
        case Offline(size=size):
            return _in_guest(lambda guest: guest.offline(size))
        case Online():
            return _in_guest(GuestNode.online)
        case Run():
            return lambda node: None
    raise UsageError(f"--history: a lab has no step '{step.name}'; page shuffling is boot(shuffle=on)")


def _in_guest(act: Callable[[GuestNode], None]) -> Callable[[AgedNode], None]:
    """Return a step that no model does (see ScheduledStep.in_guest)."""

    def acted(node: AgedNode) -> None:
        assert isinstance(node, GuestNode)
        act(node)

    return acted
