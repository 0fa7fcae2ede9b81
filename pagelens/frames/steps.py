"""The steps of a node's history: the arguments of each step, and what it does to the node."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from itertools import pairwise
from typing import ClassVar

import numpy as np

from pagelens import _core
from pagelens.address.units import HUGE_PAGE_BYTES
from pagelens.errors import UsageError
from pagelens.frames.arguments import COUNT, MIX, SHARE, SIZE, SWITCH, Share, Value, choice
from pagelens.frames.live_node import KERNELS, LiveNode
from pagelens.frames.mix import JobMix, load_mix

OFFLINE_BLOCK_BYTES = 128 << 20  # a memory block of sysfs; with pages of 64 KiB, 512 MiB


CORI = load_mix("cori")


def _is(value: Value) -> Mapping[str, Value]:
    return {"value": value}


@dataclass(frozen=True)
class Step:
    """One step. Its fields are its arguments, in the order that counts if they have no names."""

    name: ClassVar[str]

    def run(self, node: LiveNode, random: _core.Random) -> None:
        """Change the node. `random` gives draws that belong to this step alone."""
        raise NotImplementedError

    @classmethod
    def arguments(cls) -> Mapping[str, Value]:
        """Return the kinds of the arguments by name, in their order."""
        return {known.name: known.metadata["value"] for known in fields(cls)}


@dataclass(frozen=True)
class Boot(Step):
    """Boots a fresh kernel: all memory is free, in order of address.

    `fake` cuts it into NUMA nodes the size of the cache. `kernel` is the version whose allocator it has.
    """

    name = "boot"
    shuffle: bool = field(default=False, metadata=_is(SWITCH))
    numas: int = field(default=1, metadata=_is(COUNT))
    fake: bool = field(default=False, metadata=_is(SWITCH))
    kernel: str = field(default=KERNELS[0], metadata=_is(choice({version: version for version in KERNELS})))

    def run(self, node: LiveNode, random: _core.Random) -> None:
        """Make the node fresh."""
        numas = max(1, node.frames // node.slots) if self.fake else self.numas
        if not 1 <= numas <= 64:
            raise UsageError(f"boot: numas = {numas} is not from 1 to 64")
        node.boot(numas, self.kernel)
        if self.shuffle:
            node.state.shuffle(random)


@dataclass(frozen=True)
class Age(Step):
    """Runs jobs, one after the other."""

    name = "age"
    jobs: int | None = field(default=None, metadata=_is(COUNT))
    mix: JobMix = field(default=CORI, metadata=_is(MIX))

    def run(self, node: LiveNode, random: _core.Random) -> None:
        """Run the jobs; without a count, as many as the mix draws for the node."""
        jobs = self.jobs if self.jobs is not None else _draw_jobs(self.mix, random)
        node.mix = self.mix.scaled(node.scale)
        node.jobs_since_boot += jobs
        node.state.age(jobs, node.mix.to_core(node.page_bytes), random)


@dataclass(frozen=True)
class Job(Step):
    """Runs one job of a given size."""

    name = "job"
    size: int = field(default=8 << 30, metadata=_is(SIZE))

    def run(self, node: LiveNode, random: _core.Random) -> None:
        """Run the job."""
        node.run_job(self.size * node.scale, random)


@dataclass(frozen=True)
class Run(Step):
    """Runs the program that is simulated, from its first page to its exit."""

    name = "run"

    def run(self, node: LiveNode, random: _core.Random) -> None:
        """Run a job of the program's size. The last `run` never comes here, because it is placed."""
        if node.job_bytes is None:
            raise UsageError("history: 'run' before the last step needs a program whose size is known")
        node.run_job(node.job_bytes, random)


@dataclass(frozen=True)
class Io(Step):
    """Reads or writes files."""

    name = "io"
    size: int = field(default=1 << 30, metadata=_is(SIZE))
    how: bool = field(default=True, metadata=_is(choice({"buffered": True, "direct": False})))
    numa: int = field(default=0, metadata=_is(COUNT))

    def run(self, node: LiveNode, random: _core.Random) -> None:
        """Fill the page cache if the I/O is buffered. Direct I/O leaves no page behind.

        The pages are those of the NUMA node whose cores read or write, as long as it has any.
        """
        topology = node.machine.topology
        if self.numa >= topology.rows:
            raise UsageError(f"io: numa = {self.numa} is none of the {topology.rows} NUMA nodes with cores")
        if self.how:
            cpu = sum(topology.cores[: self.numa])
            node.state.buffered_io(round(self.size * node.scale) // node.page_bytes, cpu)


@dataclass(frozen=True)
class DropCaches(Step):
    """Frees the page cache, except for stragglers that stay."""

    name = "drop_caches"
    left: Share | None = field(default=None, metadata=_is(SHARE))
    pinned: Share | None = field(default=None, metadata=_is(SHARE))

    def run(self, node: LiveNode, random: _core.Random) -> None:
        """Drop the cache. Stragglers are counted in pages, so that their number is the same at any grain."""
        mix = node.mix
        left = self.left.of(node.frames) if self.left else _draw_stragglers(mix, node.frames, random)
        pinned = self.pinned.of(node.frames) if self.pinned else round(left * mix.pinned_share)
        node.state.drop_caches(left, min(pinned, left), random)


@dataclass(frozen=True)
class Compact(Step):
    """Compacts all zones."""

    name = "compact"

    def run(self, node: LiveNode, random: _core.Random) -> None:
        """Move what can move to the top of each zone."""
        node.state.compact()


@dataclass(frozen=True)
class Drain(Step):
    """Empties the per-cpu lists, as offlining memory or alloc_contig_range() does."""

    name = "drain"

    def run(self, node: LiveNode, random: _core.Random) -> None:
        """Empty the lists of all CPUs."""
        node.state.memory.drain()


@dataclass(frozen=True)
class Zonesort(Step):
    """Sorts the free lists."""

    name = "zonesort"
    rule: str = field(
        default="ours", metadata=_is(choice({word: word for word in ("ours", "intel", "address")}))
    )
    evacuate: bool = field(default=True, metadata=_is(SWITCH))

    def run(self, node: LiveNode, random: _core.Random) -> None:
        """Sorts for this machine's cache."""
        if self.rule == "address":
            node.state.sort_by_address()
        elif self.rule == "intel":
            node.state.sort_by_buckets(node.slots)
        else:
            node.state.sort_for_cache(node.slots, self.evacuate)


@dataclass(frozen=True)
class Shuffle(Step):
    """Keeps the largest free blocks in random order from now on."""

    name = "shuffle"

    def run(self, node: LiveNode, random: _core.Random) -> None:
        """Shuffles now, and whenever blocks are freed later."""
        node.state.shuffle(random)


@dataclass(frozen=True)
class Hold(Step):
    """Takes nearly all free memory, and keeps single pages scattered over it for good.

    If they are not pinned, compaction and zonesort can move them.
    """

    name = "hold"
    pages: Share = field(default=Share(of_memory=0.001), metadata=_is(SHARE))
    pinned: bool = field(default=False, metadata=_is(SWITCH))

    def run(self, node: LiveNode, random: _core.Random) -> None:
        """Take whole units of the grain, keep one frame of some, and free the rest."""
        memory, grain = node.state.memory, node.grain
        order = grain.bit_length() - 1  # whole units, of which a frame is kept
        everywhere = (1 << 64) - 1
        taken = memory.alloc(
            0, order, _core.MigrateType.movable, everywhere, memory.free_frames // grain, _core.Mark.low
        )
        kept = scattered(taken.size, self.pages.of(node.frames), random)
        memory.free(0, np.delete(taken, kept), order)
        for unit in taken[kept].tolist():
            rest = np.arange(unit, unit + grain, dtype=np.uint32)
            stays = random.below(grain)
            memory.free(0, np.delete(rest, stays), 0)
            if self.pinned:
                memory.pin(rest[stays : stays + 1])


@dataclass(frozen=True)
class Hugetlb(Step):
    """Sets aside a pool of 2 MiB pages."""

    name = "hugetlb"
    size: int = field(default=1 << 30, metadata=_is(SIZE))

    def run(self, node: LiveNode, random: _core.Random) -> None:
        """Fill the pool. The kernel compacts when it finds no page for it."""
        if node.machine.page_order > 0:
            raise UsageError("history: 'hugetlb' is modelled for kernels with pages of 4 KiB alone")
        pages = -(-round(self.size * node.scale) // HUGE_PAGE_BYTES)
        numas = list(range(node.state.memory.numas))
        while pages and numas:  # one each in turn; what a node does not have comes from the others
            parts = [pages // len(numas) + (at < pages % len(numas)) for at in range(len(numas))]
            got = [node.state.fill_huge_pool(numa, part) for numa, part in zip(numas, parts, strict=True)]
            pages -= sum(got)
            gave_all = [
                (part, numa) for numa, part, given in zip(numas, parts, got, strict=True) if given == part
            ]
            numas = [numa for _, numa in sorted(gave_all)]


@dataclass(frozen=True)
class Offline(Step):
    """Takes memory blocks offline, the highest first, as many as possible."""

    name = "offline"
    size: int = field(default=1 << 30, metadata=_is(SIZE))

    def run(self, node: LiveNode, random: _core.Random) -> None:
        """Goes from the top of memory downwards."""
        wanted = round(self.size * node.scale) // node.page_bytes
        block = max(OFFLINE_BLOCK_BYTES // node.page_bytes, 8192)
        at = node.frames // block * block
        while wanted > 0 and at >= 2 * block:
            at -= block
            if node.take_offline(at, at + block):
                wanted -= block


@dataclass(frozen=True)
class Online(Step):
    """Brings back the blocks that went offline."""

    name = "online"

    def run(self, node: LiveNode, random: _core.Random) -> None:
        """Brings the blocks back in order of address."""
        node.bring_online()


STEPS: Mapping[str, type[Step]] = {
    step.name: step
    for step in (
        Boot, Age, Job, Run, Io, DropCaches, Compact, Drain, Zonesort, Shuffle, Hold, Hugetlb, Offline,
        Online,
    )
}  # fmt: skip


def scattered(places: int, count: int, random: _core.Random) -> list[int]:
    """Return `count` of `places` indices, ascending: a random one of each of `count` equal parts."""
    ends = [part * places // count for part in range(count + 1)] if count else []
    return [begin + random.below(end - begin) for begin, end in pairwise(ends) if end > begin]


def _draw_jobs(mix: JobMix, random: _core.Random) -> int:
    """Draw the number of jobs since the node's boot, geometric with the stated mean."""
    stays = mix.mean_jobs_since_boot / (1 + mix.mean_jobs_since_boot)
    return int(math.log(1 - random.uniform()) / math.log(stays)) if stays > 0 else 0


def _draw_stragglers(mix: JobMix, frames: int, random: _core.Random) -> int:
    """Draw how many pages stay when the page cache is dropped, log-uniform."""
    most = max(mix.fewest_stragglers, mix.largest_straggler_share * frames)
    return round(random.log_uniform(mix.fewest_stragglers, most))
