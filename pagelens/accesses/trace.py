"""Trace files as workloads. A file is opened, surveyed once, and compiled for machines."""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from functools import cached_property
from pathlib import Path, PurePosixPath

import numpy as np

from pagelens import _core
from pagelens._core import Program
from pagelens.accesses.first_writers import FirstWriters, first_writers
from pagelens.accesses.rank_meetings import strangers_warning
from pagelens.accesses.region_names import region_text
from pagelens.accesses.sampled_code import SampledCode, SampledTrace, decode_samples
from pagelens.accesses.site_groups import group_sites
from pagelens.accesses.symbols import LoadedModule, Symbolizer, Variable
from pagelens.accesses.thread_load import thread_load
from pagelens.accesses.trace_end import cut_in_words, end_in_words
from pagelens.accesses.workload import (
    ALL_SETS,
    Cut,
    FirstProgram,
    ObjectInfo,
    SampledLines,
    Timeline,
    Workload,
)
from pagelens.address.units import FRAME_BITS, FRAME_BYTES, LINE_BYTES
from pagelens.errors import Failure, UsageError
from pagelens.machine.private_caches import PrivateCache
from pagelens.machine.rank_load import RankLoad
from pagelens.machine.schema import Machine
from pagelens.spelling import printable

_REGIONS = {"kernel": "[kernel: page clearing]", "heap": "[heap]", "stack": "[stack]", "mapping": "[mmap]"}


MOMENTS = 1024  # of a run, about: what lives within one is taken to live together
LIKELY_INSTRUCTIONS = 1 << 30
TOUCHING = 8  # in a sample of lines, one instruction in so many touches pages

TRACE_MAGIC = b"\x89PLTR\r\n\x1a"  # core/accesses/trace_format.hpp


def is_trace(path: Path) -> bool:
    """Return whether a file begins as a trace does, or has the name of one."""
    try:
        with path.open("rb") as file:
            return file.read(len(TRACE_MAGIC)) == TRACE_MAGIC or path.suffix == ".trace"
    except OSError:
        return path.suffix == ".trace"


CutOf = Callable[["TraceWorkload"], Cut]
ReadingProgress = Callable[[float, int], None]  # how much of the trace is read, and all of it
_LOOK_S = 0.2  # seconds between two looks at how much is read


def open_trace(
    path: str | Path,
    cut_of: CutOf | None = None,
    first: FirstProgram | None = None,
    progress: ReadingProgress | None = None,
) -> TraceWorkload:
    """Return the workload of a trace file. A file that is cut short is used with a warning.

    One walk surveys the trace. It can also make what is asked for next: the timeline of a cut (if the tracer
    recorded how long the run was), or the first program. `progress` hears now and then how much of a trace
    that was not cut short is read. Raises Failure if the file cannot be used,
    UsageError if it is not exact for that machine, and whatever `cut_of` raises.
    """
    try:
        trace = _core.Trace(path)
    except _core.TraceError as error:
        raise Failure(f"trace {printable(path)}: {error}") from None
    return TraceWorkload(Path(path), trace, cut_of, first, progress)


class TraceWorkload(Workload):
    """A traced program. The whole trace is surveyed once, when it is opened."""

    source = "trace"

    def __init__(
        self,
        path: Path,
        trace: _core.Trace,
        cut_of: CutOf | None = None,
        first: FirstProgram | None = None,
        progress: ReadingProgress | None = None,
    ) -> None:
        super().__init__()
        self._cancel = _core.CancelFlag()  # of walks through the trace
        self._cuts: dict[tuple[tuple[PrivateCache, ...], int, int], _core.CompiledTrace] = {}
        self._in_order: dict[PrivateCache, Program] = {}  # made before it was asked for, by L1
        self.path = path
        self.trace = trace
        self.warnings = [*trace.warnings, *strangers_warning(trace.places)]
        self.threads = max(1, trace.threads)
        # This comes before the names, which take a while, because it may refuse the trace.
        cut = cut_of(self) if cut_of is not None else None
        modules = _modules(trace)
        with Symbolizer(modules, self.warnings.append) as symbols:
            variables = symbols.variables(FRAME_BYTES)  # those that can have pages of their own
            trace.set_variables([(known.address, known.size) for known in variables])
            sites = {site.id: site.return_addresses for site in trace.call_sites if not site.name}
            groups = group_sites(sites, symbols, trace.program)
            trace.group_call_sites(groups)
            with ThreadPoolExecutor(1, thread_name_prefix="pagelens-trace") as pool:
                try:
                    walk = pool.submit(self._survey, cut, first)
                    names = _Names(trace, modules, symbols, variables, groups, self.warnings.append)
                    self.digest = _digest(path, variables, groups)
                    self.survey = self._result(walk, progress)
                except BaseException:  # Ctrl-C, which other threads do not see
                    self._cancel.set()
                    raise
        self.name = PurePosixPath(trace.program).name or printable(path.stem)
        self.large_blocks = self.survey.large_blocks[:, 0].tolist()
        self.phases = [region_text(name) for name in self.survey.phases]
        self.footprint_bytes = self.survey.peak_pages * FRAME_BYTES
        self.shared_bytes = self.survey.file_pages * FRAME_BYTES
        self.share_of_zero_page = self.survey.lines_of_zero_page / max(1, self.survey.lines_fetched)
        self.share_seen = _share_seen(trace.summary)
        self.instruction_set = "x86-64" if trace.producer.startswith("pagelens tracer ") else None
        self.warnings += self.survey.warnings
        self.cut_by = cut_in_words(trace) if (self.share_seen or 1) < 1 else ""
        if (damage := trace.damage) is not None:
            what = damage.what if trace.end is None else end_in_words(trace.end)
            self.warnings.append(
                f"{printable(path)} is not complete: {what} (byte {damage.position}); used up to there"
            )
        elif trace.end is not None and trace.end.kind == _core.EndKind.signal:
            self.warnings.append(f"{printable(path)}: {end_in_words(trace.end)}")
        self.objects = names.objects(self.survey)

    @property
    def has_samples(self) -> bool:  # type: ignore[override]
        """Whether the tracer recorded samples of the executed instructions."""
        return bool(self.trace.samples)

    @cached_property
    def samples(self) -> SampledCode | None:  # type: ignore[override]
        """The decoded samples. They are decoded when they are first used."""
        return decode_samples([self.sampled()])

    @cached_property
    def first_writers(self) -> FirstWriters:  # type: ignore[override]
        """The code that writes pages first, by object. It is named when it is first used."""
        with Symbolizer(_modules(self.trace)) as symbols:
            return first_writers(self.trace, self.survey, symbols)

    def sampled(self, phases: Sequence[int] | None = None) -> SampledTrace:
        """Return what decodes the trace's samples. `phases` gives a job's number of each phase."""
        numbers = reversed(list(enumerate(self.trace.phase_ids, start=1)))
        index = {phase: number if phases is None else phases[number] for number, phase in numbers}
        large_blocks = np.asarray(self.survey.large_blocks)
        return SampledTrace(self.trace, self.survey.instructions, index, large_blocks)

    def timeline(self, cut: Cut) -> Timeline:
        """Cut the run by instructions and where marked phases begin.

        The program itself is not compiled again.
        """
        if (key := _key(cut)) not in self._cuts:
            summary = self.trace.summary
            instructions = summary.instructions if summary is not None else sum(self.survey.instructions)
            self._cuts[key] = self.trace.compile(self._cut_options(cut, instructions), self._cancel)
        program = self._cuts[key]
        return Timeline(
            program,
            [self.phases[number] for number in program.interval_phases],
            self.survey.live_bytes.astype(np.float64),
            _sampled_lines(program, cut.sets) if cut.sets != ALL_SETS else None,
        )

    def lines_in_order(
        self, machine: Machine, offset_bytes: int = 0, cancel: _core.CancelFlag | None = None
    ) -> Program:
        """Return every line below the L1 in its order, as every workload does.

        If the survey made this program already, it is handed out once, because it is large.
        """
        with self._lock:
            made = self._in_order.pop(machine.l1, None) if not offset_bytes else None
        return super().lines_in_order(machine, offset_bytes, cancel) if made is None else made

    def _result(self, walk: Future[_core.Survey], progress: ReadingProgress | None) -> _core.Survey:
        """Wait for the survey, and tell now and then how much of the trace is read."""
        while progress is not None and not wait([walk], _LOOK_S).done:
            if share := self._cancel.share:  # a trace that is cut short does not say how long it is
                progress(share, 1)
        return walk.result()

    def _survey(self, cut: Cut | None, first: FirstProgram | None) -> _core.Survey:
        """Survey the trace, and make in the same walk what will be asked for next."""
        moment, summary = _instructions_of_moment(self.trace), self.trace.summary
        if cut is not None and summary is not None:
            options = self._cut_options(cut, summary.instructions)
            survey, self._cuts[_key(cut)] = self.trace.survey_and_compile(moment, options, self._cancel)
        elif first is not None:
            l1, caches = first.machine.l1, first.machine.caches_below(FRAME_BITS)
            options = (
                self._options(first.machine, (l1,), l1.highest_index_bit + 1, True, self._padding(0))
                if first.in_order
                else self._options(first.machine, caches, FRAME_BITS, False, self._padding(0))
            )
            survey, program = self.trace.survey_and_compile(moment, options, self._cancel)
            if first.in_order:
                self._in_order[l1] = program
            else:
                self._programs[caches, 0] = program
        else:
            survey = self.trace.survey(moment, self._cancel)
        return survey

    def _cut_options(self, cut: Cut, instructions: int) -> _core.CompileOptions:
        """Return the options that cut a run of so many instructions."""
        caches = cut.machine.caches_below(FRAME_BITS)
        interval = max(1, instructions // cut.intervals)
        return _core.CompileOptions(
            self._parts(cut.machine, caches), FRAME_BITS, False, _core.Padding([], 0), interval, cut.sets,
            TOUCHING,
        )  # fmt: skip

    def _offset_unit(self, machine: Machine) -> int:
        """Return the bytes by which blocks can move while the trace stays exact.

        The filter hid only hits. They stay hits if the blocks keep their sets in the smallest family of L1s
        that the trace is exact for and that this L1 belongs to.
        """
        l1 = (machine.l1.sets, machine.l1.ways.value)
        families = [sets for sets, ways in self.trace.exact_for if l1[0] >= sets and l1[1] >= ways]
        return max(FRAME_BYTES, LINE_BYTES * min(families, default=0))

    def _compile(
        self,
        machine: Machine,
        caches: tuple[PrivateCache, ...],
        page_bits: int,
        in_order: bool,
        offset_bytes: int,
        cancel: _core.CancelFlag | None,
    ) -> _core.CompiledTrace:
        padding = self._padding(offset_bytes)
        options = self._options(machine, caches, page_bits, in_order, padding)
        return self.trace.compile(options, self._cancel if cancel is None else cancel)

    def _options(
        self,
        machine: Machine,
        caches: tuple[PrivateCache, ...],
        page_bits: int,
        in_order: bool,
        padding: _core.Padding,
    ) -> _core.CompileOptions:
        return _core.CompileOptions(self._parts(machine, caches), page_bits, in_order, padding)

    @cached_property
    def rank_load(self) -> RankLoad | None:  # type: ignore[override]
        """How unevenly the threads are busy in each phase; None: there is one."""
        return thread_load(self.survey, self.threads)

    def _parts(self, machine: Machine, caches: tuple[PrivateCache, ...]) -> list[tuple[int, int, int]]:
        """Return the part of each cache that one program has.

        Raises UsageError unless the trace is exact for the L1.
        """
        l1 = (machine.l1.sets, machine.l1.ways.value)
        if caches and not self.trace.is_exact_for(l1):
            raise UsageError(
                f"machine {machine.name}: its L1 has {_shape(l1)}, but {self.path} is exact only for L1s of "
                f"{describe_family(self.trace.exact_for)}; {self._remedy(l1)}, or use --workload"
            )
        return [_share(cache, self.threads) for cache in caches]

    def _remedy(self, l1: tuple[int, int]) -> str:
        """Return what a user can do whose trace is not exact for an L1. Older traces serve fewer of them."""
        served = any(l1[0] >= sets and l1[1] >= ways for sets, ways in _core.traced_l1s())
        return "trace the program again" if served else "choose another machine"


def _key(cut: Cut) -> tuple[tuple[PrivateCache, ...], int, int]:
    """Return a key that is equal for cuts with the same program."""
    return cut.machine.caches_below(FRAME_BITS), cut.intervals, cut.sets


def _modules(trace: _core.Trace) -> list[LoadedModule]:
    return [LoadedModule(m.path, m.build_id, m.base, m.start, m.size) for m in trace.modules]


def _digest(path: Path, variables: Sequence[Variable], groups: Mapping[int, int]) -> str:
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256")
    digest.update(repr(variables).encode())
    if groups:
        digest.update(repr(groups).encode())
    return digest.hexdigest()


def _sampled_lines(program: _core.CompiledTrace, sets: int) -> SampledLines:
    seen, kept, touched, users = program.sampled
    return SampledLines(
        sets,
        seen.reshape(program.phases, -1).astype(np.float64),
        kept.reshape(program.phases, -1).astype(np.float64),
        touched.astype(np.float64),
        users.reshape(program.objects, -1).sum(axis=1, dtype=np.uint32),
    )


def _share(cache: PrivateCache, threads: int) -> tuple[int, int, int]:
    """Return the sets and ways of `cache` that one program has, and how many of its threads share them.

    If several ranks share a cache, each has its part of the ways. That is exact for ranks in lockstep:
    between two uses of a line by one rank, every other rank has used as many lines of the set.
    """
    sharing = cache.shared_by.value
    ranks = max(1, sharing // threads)
    return cache.sets, max(1, cache.ways.value // ranks), min(sharing, threads)


def describe_family(families: list[tuple[int, int]]) -> str:
    """Return a family as text: `at least 64 sets x 8 ways, or at least 512 sets x 2 ways`."""
    return (
        ", or ".join(f"at least {_shape(family)}" for family in families) or "any cache: nothing was filtered"
    )


def _shape(shape: tuple[int, int]) -> str:
    return f"{shape[0]} sets x {shape[1]} ways"


def _instructions_of_moment(trace: _core.Trace) -> int:
    """Return the instructions of one moment. If the end of the trace is lost, assume the default budget."""
    instructions = trace.summary.instructions if trace.summary is not None else LIKELY_INSTRUCTIONS
    return max(1, instructions // MOMENTS)


def _share_seen(summary: _core.TraceSummary | None) -> float | None:
    """Return the traced share of the run's instructions, or None if the tracer did not see the end."""
    if summary is None or not summary.total_instructions:
        return None
    return min(1.0, summary.instructions / summary.total_instructions)


class _Names:
    """Names a trace's objects by the symbols of its modules."""

    def __init__(
        self,
        trace: _core.Trace,
        modules: Sequence[LoadedModule],
        symbols: Symbolizer,
        variables: Sequence[Variable],
        groups: Mapping[int, int],
        warn: Callable[[str], None],
    ) -> None:
        self._modules = modules
        # An imported trace does not say where memory without a name comes from.
        self._regions = _REGIONS if modules else {**_REGIONS, "mapping": "[unnamed memory]"}
        self._variables = variables
        sites = {site.id: site.return_addresses for site in trace.call_sites if not site.name}
        self._others: defaultdict[int, list[int]] = defaultdict(list)
        for site, first in groups.items():
            self._others[first].append(site)
        own = {site: addresses for site, addresses in sites.items() if site not in groups}
        self._named = {site.id: site.name for site in trace.call_sites if site.name}  # of imported traces
        self._sites = symbols.names(own, trace.program) | self._named
        self._frames = {
            site: tuple(str(place) for address in addresses for place in symbols.locate(address))
            for site, addresses in own.items()
        }
        odd = {name for module in modules if "!" in (name := PurePosixPath(module.path).name)}
        for name in sorted(odd):
            warn(f"{name}: what lies in files whose names have '!' cannot be planned; rename the file")
        self._keys = {site: tuple(map(symbols.key, addresses)) for site, addresses in sites.items()}
        for site, keys in self._keys.items():
            if any(key.startswith(f"{name}{mark}") for key in keys for name in odd for mark in "!+"):
                self._keys[site] = ()
        self._odd = odd

    def objects(self, survey: _core.Survey) -> list[ObjectInfo]:
        """Return all objects, by index."""
        return [
            ObjectInfo(
                index=index,
                name=self._name(found),
                frames=self._frames.get(found.id, ()) if found.kind == "call_site" else (),
                bytes=found.peak_bytes,
                lines=found.lines_fetched,
                stored=found.lines_stored,
                births=found.births,
                site=self._keys.get(found.id, ()) if found.kind == "call_site" else (),
                other_sites=self._keys_of_others(found),
                variable=self._variable_key(found),
            )
            for index, found in enumerate(survey.objects)
        ]

    def _keys_of_others(self, found: _core.SurveyedObject) -> tuple[tuple[str, ...], ...]:
        others = self._others.get(found.id, []) if found.kind == "call_site" else []
        return tuple(dict.fromkeys(self._keys[site] for site in others))

    def _variable_key(self, found: _core.SurveyedObject) -> str:
        if found.kind != "variable" or self._variables[found.id].module in self._odd:
            return ""
        return self._variables[found.id].key

    def _name(self, found: _core.SurveyedObject) -> str:
        if found.kind == "call_site":
            return self._sites[found.id]
        if found.kind == "variable":
            variable = self._variables[found.id]
            return f"{variable.name} ({variable.module})"
        if found.kind == "module":
            return f"[.data/.bss of {PurePosixPath(self._modules[found.id].path).name}]"
        return self._regions[found.kind]
