"""Finds which machines need a replay of their own, when one is replayed without each set of its mechanisms.

Most mechanisms cost most programs nothing, and then a machine without them counts what another one counts.
Which ones do is known from a sample: an eighth of the lines goes through the caches of all these machines, in
whole sets, which do not influence each other. A machine is replayed only if its time lies further than
NEARLY from that of each machine that is replayed. Otherwise it counts what the nearest of them counts, plus
the difference between both in the sample; a line of DRAM costs the same on both.

In the same way a node counts what another node counts (`Reference`), if the sample takes nearly as long on
both. The sample has all pages, and so the NUMA nodes that its lines go between. It has no DRAM. Where rows of
DRAM could decide the time, the sample of a node is a third of the stretches instead, with all their lines, if
caches are large. Else the node is replayed.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from pagelens.machine import FAULT_COUNTS, Times
from pagelens.replay.numa import NumaLines, shifted_lines
from pagelens.replay.run import Floats, Removed
from pagelens.replay.stretches import CACHES, PAST_CACHES, TRANSLATION, Counts, Estimates
from pagelens.replay.whole_node import NodeCounts

# Lines of each page, by their place in it: one in each eighth of the page, and one of each remainder modulo
# 8, so that walks with a stride of 2, 4 or 8 lines have their share. As there are 2^n of them, the sample of
# a fully associative cache has whole sets.
PLACES = (5, 10, 23, 24, 35, 46, 49, 60)
SETS = sum(1 << place for place in PLACES)
SHARE = len(PLACES) / 64
NEARLY = 0.01  # of the time; no difference that is called one is as small (explain/verdict.py)
# DRAM may take so many times as long on one node as on another under the same policy. For two programs on
# two machines, it took up to 1.06 times as long.
ROWS_APART = 1.5
SERIAL_NEARLY = 0.05  # of the serial time, for which no node is called slow
FAIR = 0.1  # by which the sample may be off in the lines that pass L2, and in those of memory
_JUDGED = ("l2_misses", "dram_lines")

NodeTimes = Callable[[Counts, NumaLines | None], Times]  # from counts, and the lines between NUMA nodes


@dataclass(frozen=True)
class Nearest:
    """Each set of mechanisms has another one whose machine is replayed in its place, or itself."""

    of: Mapping[Removed, Removed]

    @property
    def replayed(self) -> Sequence[Removed]:
        """The sets whose machines are replayed."""
        return [removed for removed, nearest in self.of.items() if removed == nearest]


@dataclass(frozen=True)
class Reference:
    """The counts of a node, and those of its sample. Other nodes are compared with it."""

    node: int
    alike: str | None  # nodes with the same frames count the same (`Placement.alike`)
    whole: NodeCounts
    sample: NodeCounts | None  # None where a sample cannot say how long a node takes, or saves little
    of_stretches: bool = False  # the sample is some stretches, and not an eighth of the lines

    def of(self, sample: NodeCounts, times: NodeTimes) -> NodeCounts | None:
        """Return the counts of a node from its sample, or None if they cannot be told from it.

        They cannot if the sample takes another time than the reference's, or if the reference's own sample
        counts something else than all of its lines do.
        """
        whole, its = self.whole, self.sample
        assert its is not None
        if self.of_stretches:
            return self._of_stretches(sample, times)
        if not is_fair(whole.whole, its.whole) or self.could_hide(its, times) > NEARLY:
            return None
        own = shifted(whole.whole, its.whole, sample.whole)
        numa = shifted_lines(whole.numa, its.numa, sample.numa)
        counts = whole.whole.with_row(0)
        seconds = times(counts, whole.numa)
        if not _are_near(seconds, times(counts, its.numa)):  # its lines go between other NUMA nodes
            return None
        if not _are_near(seconds, times(own.with_row(0), numa)) or rows_decide(own, numa, times):
            return None
        reads, writes = (
            np.maximum(of_whole + (other - before) / SHARE, 0.0)
            for of_whole, other, before in (
                (whole.object_reads, sample.object_reads, its.object_reads),
                (whole.object_writes, sample.object_writes, its.object_writes),
            )
        )
        return replace(
            whole,
            whole=own,
            left_out=shifted(whole.left_out, its.left_out, sample.left_out),
            object_reads=reads,
            object_writes=writes,
            huge_pages=sample.huge_pages,
            small_fallbacks=sample.small_fallbacks,
            numa=numa,
        )

    def _of_stretches(self, sample: NodeCounts, times: NodeTimes) -> NodeCounts | None:
        whole, its = self.whole, self.sample
        assert its is not None
        own = shifted_by_stretches(whole.whole, its.whole, sample.whole)
        numa = shifted_lines(whole.numa, its.numa, sample.numa)
        if not _are_near(times(whole.whole.with_row(0), whole.numa), times(own.with_row(0), numa)):
            return None
        return replace(
            whole,
            whole=own,
            left_out=shifted_by_stretches(whole.left_out, its.whole, sample.whole),
            object_reads=np.maximum(whole.object_reads + sample.object_reads - its.object_reads, 0.0),
            object_writes=np.maximum(whole.object_writes + sample.object_writes - its.object_writes, 0.0),
            huge_pages=sample.huge_pages,
            small_fallbacks=sample.small_fallbacks,
            numa=numa,
        )

    def could_hide(self, its: NodeCounts, times: NodeTimes) -> float:
        """Return how much longer nodes could take that the sample sees no difference of, as a share.

        Lines that L2 is asked for, beyond those that the sample stands for, may be lines of a few hot places.
        They hit L2 here, and may all come from memory where frames conflict.
        """
        counts = self.whole.whole.with_row(0)
        unseen = np.abs(its.counts["l2_references"] / SHARE - counts["l2_references"])
        slowest = {**counts, **{name: counts[name] + unseen for name in PAST_CACHES}}
        return _apart(times(counts, self.whole.numa), times(slowest, self.whole.numa))


def is_fair(whole: Estimates, sample: Estimates) -> bool:
    """Say whether the sample of the machine as it is counts what the whole counts."""
    for name in _JUDGED:
        expected, found = (_lines(of)[name].sum() for of in (whole, sample))
        if abs(found / SHARE - expected) > FAIR * expected:
            return False
    return True


def rows_decide(whole: Estimates, numa: NumaLines | None, times: NodeTimes) -> bool:
    """Say whether nodes could take another time because their rows of DRAM differ.

    The serial time contains that of DRAM, so it always differs a little. Only the time is judged.
    """
    counts = whole.with_row(0)
    if "dram_time_s" not in counts:
        return False
    dearer = {**counts, "dram_time_s": ROWS_APART * counts["dram_time_s"]}
    expected = float(times(counts, numa).time_s.sum())
    return float(times(dearer, numa).time_s.sum()) > (1 + NEARLY) * expected


def nearest(
    as_it_is: Estimates, samples: Mapping[Removed, Estimates], times: Callable[[Counts], Times]
) -> Nearest:
    """Choose the machines that are replayed. `samples` come in the order of the number of mechanisms."""
    seconds = {
        removed: times(shifted(as_it_is, samples[()], sample).with_row(0))
        for removed, sample in samples.items()
    }
    chosen: dict[Removed, Removed] = {}
    for removed in samples:
        near = {of: _apart(seconds[of], seconds[removed]) for of in chosen if chosen[of] == of}
        best = min(near, key=near.__getitem__, default=removed)
        chosen[removed] = best if near and near[best] <= NEARLY else removed
    return Nearest(chosen)


def shifted(replayed: Estimates, its_sample: Estimates, sample: Estimates) -> Estimates:
    """Return what a machine counts, from a replay of another one and a sample of both."""
    before, after = its_sample.counts, sample.counts
    counts = {
        name: np.maximum(replayed.counts[name] + (after[name] - before[name]) / SHARE, 0.0)
        for name in (*CACHES, *FAULT_COUNTS)
    }
    counts |= {name: after[name] for name in TRANSLATION}  # of all lines
    moved = sum(counts[name] for name in ("dram_reads", "dram_writes"))
    rows = []
    for row in replayed.rows:
        lines = row["reads"] + row["writes"]
        more = np.divide(moved, lines, out=np.ones_like(lines), where=lines > 0)
        rows.append({name: values * more for name, values in row.items()})
    return Estimates(replayed.phase, counts, rows)


def shifted_by_stretches(replayed: Estimates, before: Estimates, after: Estimates) -> Estimates:
    """Return what a node counts, from a replay of another one and the same stretches of both, by phase."""

    def moved(counts: Counts, its: Counts, own: Counts) -> Counts:
        return {
            name: np.maximum(values + (own[name] - its[name])[replayed.phase], 0.0)
            for name, values in counts.items()
        }

    rows = [moved(*of) for of in zip(replayed.rows, before.rows, after.rows, strict=True)]
    return Estimates(replayed.phase, moved(replayed.counts, before.counts, after.counts), rows)


def _lines(of: Estimates) -> Counts:
    return {**of.counts, "dram_lines": of.counts["dram_reads"] + of.counts["dram_writes"]}


def _apart(one: Times, other: Times) -> float:
    """Return by how much the times of both bounds differ, as a share of the whole time."""
    return max(_share(one.time_s, other.time_s), _share(one.serial_time_s, other.serial_time_s))


def _are_near(one: Times, other: Times) -> bool:
    """Say whether two nodes take equally long."""
    serial = _share(one.serial_time_s, other.serial_time_s)
    return _share(one.time_s, other.time_s) <= NEARLY and serial <= SERIAL_NEARLY


def _share(one: Floats, other: Floats) -> float:
    return float(np.abs(one - other).sum() / one.sum())
