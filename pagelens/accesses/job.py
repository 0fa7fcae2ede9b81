"""A job of several traced processes, as the ranks of an MPI program are, as one workload.

Each process has its own pages, objects and threads. They run side by side (core/accesses/job.hpp), so they
share the caches, memories and frames of the node.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from pagelens import _core
from pagelens._core import Program, RankPaths
from pagelens.accesses.first_writers import FirstWriters
from pagelens.accesses.rank_binding import binding_notes, cores_of_threads, crowding, helpers, parse_binding
from pagelens.accesses.rank_meetings import NOWHERE, ends_before_others, never_come, united_places, waits
from pagelens.accesses.rank_rounds import Floats, JobRounds, common_rounds, waiting_paths
from pagelens.accesses.sampled_code import SPACE_PAGE_BITS, SampledCode, decode_samples
from pagelens.accesses.thread_load import working_cores
from pagelens.accesses.trace import TraceWorkload
from pagelens.accesses.trace_end import killed_in_words
from pagelens.accesses.trace_times import Gap, are_timed, first_gap
from pagelens.accesses.workload import KERNEL, Cut, ObjectInfo, Timeline, Workload
from pagelens.address.units import FRAME_BYTES
from pagelens.errors import UsageError
from pagelens.host.process_binding import write_list
from pagelens.machine.private_caches import PrivateCache
from pagelens.machine.rank_load import RankLoad
from pagelens.machine.schema import Machine

RESIDENT = "resident bytes"
MOST_OBJECTS = 1 << 16  # that an op can name (core/accesses/op.hpp)


@dataclass(frozen=True)
class OfRanks:
    """One count of every traced rank: the least, the median and the most."""

    least: float
    median: float
    most: float


@dataclass(frozen=True)
class RankWait:
    """How long a rank waits for others, as shares of the job's time."""

    rank: int
    share: float
    longest_for: int  # the rank for which it waits longest
    share_for: float  # of these


class JobWorkload(Workload):
    """A job of so many `ranks`, each of which is one of the traces, in turn.

    Raises UsageError for fewer ranks than traces, and for more objects than can be told apart.
    """

    source = "trace"

    def __init__(self, traces: Sequence[TraceWorkload], ranks: int | None = None) -> None:
        super().__init__()
        self.traces = list(traces)
        self.processes = len(self.traces) if ranks is None else ranks
        if not 1 <= len(self.traces) <= self.processes:
            raise UsageError(
                f"ranks: {self.processes} is less than the {len(self.traces)} traces; leave some of them out"
            )
        self.numbers = _numbers(self.traces)
        self._of_rank = [self.traces[rank % len(self.traces)] for rank in range(self.processes)]
        self.name = "+".join(dict.fromkeys(trace.name for trace in self.traces))
        self.digest = hashlib.sha256(repr([trace.digest for trace in self._of_rank]).encode()).hexdigest()
        self.in_step = len({tuple(_regions_in_order(trace)) for trace in self.traces}) == 1
        self.phases = self.traces[0].phases if self.in_step else [self.traces[0].phases[0]]
        self._parts = [trace.survey.rounds for trace in self.traces]
        self._rounds = common_rounds(
            [(parts, self._phases_of(trace)) for parts, trace in zip(self._parts, self.traces, strict=True)]
        )
        meetings = [parts[1] for parts in self._parts]
        named = [(of, trace.trace.places) for of, trace in zip(meetings, self.traces, strict=True)]
        self._places = united_places(named)
        self._is_missed = ends_before_others(meetings, self._places)
        self._is_absent = never_come(named, self.numbers)
        self._is_cut = [
            is_missed or is_absent or trace.trace.damage is not None
            for is_missed, is_absent, trace in zip(self._is_missed, self._is_absent, self.traces, strict=True)
        ]
        self.objects, self._object_numbers = _united_objects(self.traces)
        self.large_blocks = [page for trace in self.traces for page in trace.large_blocks]
        self._cores = [cores_of_threads(trace.survey.instructions) for trace in self.traces]
        self._cores_of_trace = [1 + max(cores) for cores in self._cores]
        self.threads = sum(
            self._cores_of_trace[rank % len(self.traces)] for rank in range(self.processes)
        )  # but for helpers
        self.footprint_bytes = sum(trace.footprint_bytes for trace in self._of_rank)
        self._file_numbers = _united_files(self.traces)
        self.shared_bytes = FRAME_BYTES * len({page for numbers in self._file_numbers for page in numbers})
        self.share_seen = _share_seen(self.traces)
        self.cut_by = " ".join(
            _united_words(self.numbers, [[of.cut_by] * bool(of.cut_by) for of in self.traces])
        )
        self.instruction_set = self.traces[0].instruction_set
        fetched = sum(trace.survey.lines_fetched for trace in self._of_rank)
        zero = sum(trace.survey.lines_of_zero_page for trace in self._of_rank)
        self.share_of_zero_page = zero / max(1, fetched)
        self.warnings = [*self._missing(), *_united_words(self.numbers, [of.warnings for of in self.traces])]
        self.statements = self._statements()
        self.binding, self.crowding = [], 1.0
        if self.processes > 1:  # else no launcher bound it
            bound = [parse_binding(trace.trace.bound, trace.survey.instructions) for trace in self.traces]
            self.binding, self.crowding = binding_notes(bound), crowding(bound)

    @property
    def has_samples(self) -> bool:  # type: ignore[override]
        """Whether every trace has samples of the executed instructions."""
        return all(trace.has_samples for trace in self.traces)

    @cached_property
    def samples(self) -> SampledCode | None:  # type: ignore[override]
        """The decoded samples of all traces. They are decoded when they are first used."""
        return decode_samples([trace.sampled(self._phases_of(trace)) for trace in self.traces])

    @cached_property
    def first_writers(self) -> FirstWriters:  # type: ignore[override]
        """The code that writes pages first in all traces, by object."""
        found: defaultdict[int, Counter[str]] = defaultdict(Counter)
        for trace, numbers in zip(self.traces, self._object_numbers, strict=True):
            for index, places in trace.first_writers.items():
                found[numbers[index]].update(places)
        return found

    @property
    def may_be_in_turn(self) -> bool:
        """Whether the traces are of different programs, and do not say that these ran side by side."""
        programs = {trace.name for trace in self.traces}
        files = [trace.trace for trace in self.traces]
        stated = any(file.rank for file in files) or self._rounds.meetings or are_timed(files)
        return len(programs) > 1 and not stated and not self._rounds.has_waits.any()

    @cached_property
    def gap(self) -> Gap | None:
        """The time between traces of runs one after another; None: they may have run side by side."""
        return first_gap([trace.trace for trace in self.traces])

    def filled(self, ranks: int) -> JobWorkload:
        """Return a job of so many ranks. Where they are more, they are copies of the traced ones in turn."""
        return self if ranks == self.processes else JobWorkload(self.traces, ranks)

    def of_ranks(self) -> dict[str, OfRanks]:
        """Return what differs between the traced ranks: instructions, lines and bytes, counted."""
        every = {
            "instructions": [float(sum(trace.survey.instructions)) for trace in self.traces],
            "lines fetched into L1": [float(trace.survey.lines_fetched) for trace in self.traces],
            RESIDENT: [float(trace.footprint_bytes) for trace in self.traces],
        }
        return {
            name: OfRanks(min(counts), float(np.median(counts)), max(counts))
            for name, counts in every.items()
        }

    def check_offset(self, machine: Machine, offset_bytes: int) -> None:
        """Raise UsageError if blocks of a process cannot be moved apart."""
        for trace in self.traces:
            trace.check_offset(machine, offset_bytes)

    @cached_property
    def rank_load(self) -> RankLoad:  # type: ignore[override]
        """How unevenly the ranks are busy in each phase: by instructions, and by lines past the filter."""
        return self._job_rounds.load()

    @cached_property
    def _job_rounds(self) -> JobRounds:
        threads = np.array(self._cores_of_trace, dtype=np.float64)
        copies = np.bincount(np.arange(self.processes) % len(self.traces))

        def paths(instructions: Floats, lines: Floats) -> RankPaths:
            return waiting_paths(self._rounds, self._parts, self._places, working, instructions, lines, known)

        of_traces = [
            working_cores(trace.survey, cores, self._phases_of(trace))
            for trace, cores in zip(self.traces, self._cores_of_trace, strict=True)
        ]
        by_instructions, by_lines = (np.stack(each, axis=1) for each in zip(*of_traces, strict=True))
        working = by_instructions, by_lines
        known = self._rounds.known(self._is_cut)
        return JobRounds(self._rounds, len(self.phases), threads, working, copies, paths, known)

    def waits(self, issue: Floats, stalls: Floats) -> list[RankWait]:
        """Return how long each traced rank waits for others: modelled.

        `issue` and `stalls` are the seconds [phase] that the slowest core is busy with instructions, and
        waits for lines.
        """
        load = self.rank_load
        issue, stalls = load.of_mean(issue, stalls)
        total = load.slowest(issue, stalls).sum()
        shares = self._job_rounds.waits(issue, stalls) / total if total > 0 else np.zeros((1, 1))
        return [
            RankWait(self.numbers[rank], row.sum(), self.numbers[int(row.argmax())], row.max())
            for rank, row in enumerate(shares)
            if row.any()
        ]

    def timeline(self, cut: Cut) -> Timeline:
        """Refuse, because the course of a run is that of one process."""
        raise UsageError(f"{self.name}: is {len(self.traces)} traces; name one trace")

    def _compile(
        self,
        machine: Machine,
        caches: tuple[PrivateCache, ...],
        page_bits: int,
        in_order: bool,
        offset_bytes: int,
        cancel: _core.CancelFlag | None,
    ) -> Program:
        programs = {
            id(trace): trace.lines_in_order(machine, offset_bytes, cancel)
            if in_order
            else trace.compile(machine, page_bits, offset_bytes, cancel)
            for trace in self.traces
        }
        numbers = [place for known in self._places for place in known.of_job if place != NOWHERE]
        count = 1 + max(numbers, default=0)
        every = []
        for rank, trace in enumerate(self._of_rank):
            copy, number = divmod(rank, len(self.traces))
            known = self._places[number]
            # Copies wait for copies.
            of_job = [place if place == NOWHERE else place + copy * count for place in known.of_job]
            every.append(
                _core.Process(
                    programs[id(trace)],
                    self._object_numbers[number],
                    self._phases_of(trace),
                    self._file_numbers[number],
                    of_job,
                    known.first_turns,
                    self._rounds.first[number],
                    self._cores[number],
                )
            )
        return _core.job_of(every, len(self.objects), len(self.phases), self._rounds.meeting)

    def _phases_of(self, trace: TraceWorkload) -> list[int]:
        """Return the job's number of each phase of a trace."""
        if not self.in_step:
            return [0] * len(trace.phases)
        return [self.phases.index(name) for name in trace.phases]

    def copies_in_words(self, copies: int) -> list[str]:
        """Say which ranks of so many copies of this job were not traced; nothing if all were."""
        traced = len(self.traces)
        others = copies * self.processes - traced
        if not others:
            return []
        which = (
            f"The other one is a copy of rank {self.numbers[0]}."
            if others == 1
            else (f"The other {others} are copies of them, in turn.")
        )
        return [f"{traced} {'ranks were' if traced > 1 else 'rank was'} traced. {which}"]

    def _missing(self) -> list[str]:
        """Say which traces begin after those of other ranks, or end before them."""
        rounds, last = self._rounds, len(self._rounds.phases) - 1
        found = []
        for rank, trace, first, end, is_cut, is_missed, is_absent in zip(
            self.numbers,
            self.traces,
            rounds.first,
            rounds.last,
            self._is_cut,
            self._is_missed,
            self._is_absent,
            strict=True,
        ):
            if first:
                found.append(f"rank {rank} begins after {first:,} of {last:,} meetings")
            met = f" after {end:,} of {last:,} meetings" if end < last else ""
            if killed := killed_in_words(trace.trace):
                found.append(f"rank {rank} {killed}{met and ','}{met}")
            elif met:
                found.append(f"rank {rank} ends{met}")
            elif is_absent and not is_missed:
                found.append(f"rank {rank} ends before it sends what others wait for, or begins after that")
            elif is_cut and len(self.traces) > 1:
                found.append(f"rank {rank} ends while others still wait for it")
        if not found:
            return []
        return [
            f"Not all ranks were traced over the same part of the run: {'; '.join(found)}. What is missing "
            "of a rank's work takes no time here, and is not counted as waiting."
        ]

    def _statements(self) -> list[str]:
        if self.processes == 1:
            return self._of_helpers("of the program", "", "the")
        found = []
        meetings = self._rounds.meetings
        calls = "1 collective call" if meetings == 1 else f"{meetings:,} collective calls"
        where = [f"in {calls} of all ranks"] if meetings else []
        if len(self.phases) > 1:
            where.append("where a region begins or ends")
        if not self.in_step:
            found.append("The ranks pass through different regions, so only the whole run can be explained.")
        waited = sum(waits(parts[1]) for parts in self._parts) if self._rounds.has_waits.any() else 0
        often = "once" if waited == 1 else f"{waited:,} times"
        some = f"wait {often} for messages and for some of the others in collective calls"
        if where and waited:
            found.append(f"Ranks are taken to meet {' and '.join(where)}, and to {some}.")
        elif where:
            found.append(f"Ranks are taken to meet {' and '.join(where)}, and to run freely between.")
        elif waited:
            found.append(f"Ranks are taken to {some}, and to run freely between.")
        elif self.in_step:
            found.append(
                "Ranks are taken to run freely side by side, because no regions are marked and the traces "
                "have no collective calls of all ranks."
            )
        else:
            found.append("The ranks are taken to run freely.")
        programs = defaultdict(list)
        for rank, trace in zip(self.numbers, self.traces, strict=True):
            programs[trace.name].append(rank)
        if len(programs) > 1:
            each = "; ".join(f"{name}: {_ranks(ranks)}" for name, ranks in programs.items())
            found.append(f"The ranks run different programs ({each}).")
            if self.may_be_in_turn:
                found.append(
                    "Nothing in the traces says that they ran side by side. If they ran one after another, "
                    "explain each trace alone."
                )
        return found + self._of_helpers("of all ranks", ", such as MPI libraries start", "its rank's")

    def _of_helpers(self, of_whom: str, such_as: str, whose: str) -> list[str]:
        helping = sum(helpers(trace.survey.instructions) for trace in self._of_rank)
        if not helping:
            return []
        are, who = ("is a helper", "it") if helping == 1 else ("are helpers", "each")
        return [
            f"Of the {self.threads + helping} threads {of_whom}, {helping} {are}{such_as}: {who} executes "
            f"less than 10% of the instructions of {whose} busiest thread. In the model, a helper has no "
            "core of its own, but shares that of this thread."
        ]


def _regions_in_order(trace: TraceWorkload) -> list[str]:
    return [trace.phases[number] for number in trace.survey.phase_order.tolist()]


def _united_objects(traces: Sequence[TraceWorkload]) -> tuple[list[ObjectInfo], list[list[int]]]:
    """Return the objects of all traces, and the number of each [trace][object] among them.

    Objects of several traces are one if they have the same name. If a trace has a name several times, its
    first is the others' first, and so on.
    """
    found: dict[tuple[str, int], list[ObjectInfo]] = {}
    numbers: list[list[int]] = []
    index: dict[tuple[str, int], int] = {}
    for trace in traces:
        seen: defaultdict[str, int] = defaultdict(int)
        of_trace = []
        for known in trace.objects:
            key = (known.name, seen[known.name])
            seen[known.name] += 1
            found.setdefault(key, []).append(known)
            of_trace.append(index.setdefault(key, len(index)))
        numbers.append(of_trace)
    if len(index) > MOST_OBJECTS:
        raise UsageError(
            f"the traces have {len(index)} objects in all; at most {MOST_OBJECTS} can be told apart: "
            "give fewer traces"
        )
    united = [_united(number, members) for number, members in enumerate(found.values())]
    assert numbers[0][KERNEL] == KERNEL
    return united, numbers


def _united_files(traces: Sequence[TraceWorkload]) -> list[list[int]]:
    """Return the job's number of each page [trace][index] of the page cache.

    Traces have pages in common if they state the same file. What a trace does not state is its own.
    """
    index: dict[tuple[object, int], int] = {}
    numbers = []
    for number, trace in enumerate(traces):
        stated = {file: (device, inode) for file, device, inode in trace.trace.files}
        keys = [
            (stated.get(page >> SPACE_PAGE_BITS, (number, page)), page % (1 << SPACE_PAGE_BITS))
            for page in trace.survey.cached_pages.tolist()
        ]
        numbers.append([index.setdefault(key, len(index)) for key in keys])
    return numbers


def _united(index: int, members: Sequence[ObjectInfo]) -> ObjectInfo:
    sites = dict.fromkeys(site for known in members for site in (known.site, *known.other_sites) if site)
    first, *others = [*sites] or [()]
    return replace(
        members[0],
        index=index,
        bytes=round(sum(known.bytes for known in members) / len(members)),
        lines=sum(known.lines for known in members),
        stored=sum(known.stored for known in members),
        births=sum(known.births for known in members),
        ranks=len(members),
        site=first,
        other_sites=tuple(others),
    )


def _share_seen(traces: Sequence[TraceWorkload]) -> float | None:
    """Return the traced share of the instructions of all ranks, or None if that of one is not known."""
    traced = run = 0
    for trace in traces:
        summary = trace.trace.summary
        if summary is None or not summary.total_instructions:
            return None
        traced, run = traced + summary.instructions, run + summary.total_instructions
    return min(1.0, traced / run)


def _numbers(traces: Sequence[TraceWorkload]) -> list[int]:
    """Return the rank of each trace in its job: what all traces state, or else their places from 0 on."""
    stated = [int(trace.trace.rank) for trace in traces if re.fullmatch("[0-9]{1,9}", trace.trace.rank)]
    return stated if len(set(stated)) == len(traces) else list(range(len(traces)))


def _united_words(numbers: Sequence[int], words: Sequence[Sequence[str]]) -> list[str]:
    """Return what is said of each rank once, with the ranks that it is said of where these are not all."""
    ranks: defaultdict[str, list[int]] = defaultdict(list)
    for rank, said in zip(numbers, words, strict=True):
        for text in dict.fromkeys(said):
            ranks[text].append(rank)
    return [text if len(of) == len(words) else f"{_ranks(of)}: {text}" for text, of in ranks.items()]


def _ranks(ranks: Sequence[int]) -> str:
    """Return ranks as text: `rank 3`, `ranks 0-3, 7`."""
    words = write_list(ranks).replace(",", ", ")
    return f"rank{'s' if len(ranks) > 1 else ''} {words}"
