"""Computes what a core of a machine takes for a traced program, from the samples of its instructions.

The samples run through a model of the core's pipeline (core/machine/pipeline.hpp): once with every load a hit
of L1, and then with some of the irregular loads served by each farther level. The difference says how long a
core stands still for a miss. So dependent loads, such as those along a list, wait for each other, and
independent ones overlap. docs/core-model.md describes the model and its limits.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from pagelens import _core
from pagelens.accesses.sampled_code import SampledCode, SampledRun
from pagelens.accesses.workload import Workload
from pagelens.address.units import FRAME_BYTES, LINE_BYTES
from pagelens.machine.core_times import DENSITIES, LEVELS, CoreTimes
from pagelens.machine.schema import Machine
from pagelens.replay.chosen_samples import choose_samples, sample_weights
from pagelens.replay.instruction_fetch import fetch_cycles

MOST_SAMPLES = 256  # of a phase; some hundred thousand instructions
FEWEST_INSTRUCTIONS = 64  # of a sample: a shorter one does not fill the pipeline
OF_CHANGE = 32  # samples that say what another value of the machine changes
MOST_OVERLAP = 1e6  # where no miss makes a core wait
# Hardware fetches a line before the program asks for it if it is at most `NEAR` lines away from where one of
# `STREAMS` streams has come to, or if the instruction has kept its step from line to line, up to half of a
# page (the streamer and the stride prefetcher in Intel's optimisation reference manual, 248966).
STREAMS, NEAR, STRIDE_LINES = 32, 2, 32
APART_PAGES = 64  # memory that is touched at greater distances is not one whole
_INSTRUCTION_BITS = 32  # of an instruction's number in its block
_NONE = np.zeros(0, dtype=np.int64)


class CoreModel:
    """The core of a machine under one program, with the cycles of each phase."""

    def __init__(self, code: SampledCode, phases: int, machine: Machine) -> None:
        assert machine.pipeline is not None
        self._code, self._machine, self._pipeline = code, machine, machine.pipeline
        weights = sample_weights(code.samples, code.executed)
        whole = [s for s in range(len(code.samples)) if code.samples[s].instructions >= FEWEST_INSTRUCTIONS]
        stand_for = dict(zip(whole, weights[whole].tolist(), strict=True))
        foreseen = _core.foreseen_branches(code.code, [sample.blocks for sample in code.samples])
        self._foreseen = foreseen
        self._lines = {s: foreseen_lines(code.samples[s]) for s in whole}
        waited = {s: self._lines[s].irregular.sum() / code.samples[s].instructions for s in whole}

        of_phases = [
            {s: weight for s, weight in stand_for.items() if code.samples[s].phase == phase}
            for phase in range(phases)
        ]
        chosen = [choose_samples(of_phase, waited, MOST_SAMPLES) for of_phase in of_phases]
        every = choose_samples(stand_for, waited, MOST_SAMPLES)
        sizes, used = sizes_of_data(code), {*every, *itertools.chain.from_iterable(chosen)}
        self._served = {s: _farthest_level(machine, sizes[s]) for s in used}
        self._fetch = fetch_cycles(code, whole, weights[whole], machine)
        # The cycles of samples, by everything that decides them. Phases share samples with the whole run,
        # and every placement asks for the same few cores.
        self._taken: dict[tuple[str, int, int, bytes], float] = {}
        of_all = self._of(every) if every else None
        found = [self._of(of_phase) if of_phase else of_all for of_phase in chosen]
        assert of_all is not None
        rows = [row if row is not None else of_all for row in found]
        self.times = CoreTimes(*(np.asarray(column) for column in zip(*rows, strict=True)))
        self._few = choose_samples(every, waited, OF_CHANGE)

    def on(self, changed: Machine) -> CoreTimes:
        """Return the times with another value of the machine.

        Cycles change as much as those of some samples.
        """
        if _same_core(changed, self._machine):
            return self.times
        ratio = self._cycles(self._few, changed) / self._cycles(self._few, self._machine)
        return replace(self.times, cycles=self.times.cycles * ratio)

    def _of(
        self, samples: Mapping[int, float]
    ) -> tuple[float, float, float, list[float], list[float], list[float], list[list[float]]]:
        """Return the fields of CoreTimes from samples, which stand for so many instructions each."""
        weights = np.array(list(samples.values()))
        every = [self._code.samples[s] for s in samples]
        instructions = np.array([sample.instructions for sample in every], dtype=np.float64)

        def mean(of_samples: list[float]) -> float:
            return float((np.array(of_samples) / instructions * weights).sum() / weights.sum())

        wrong = mean([len(self._foreseen[s]) - sum(self._foreseen[s]) for s in samples])
        loads_by_kind = [self._code.loads[sample.blocks].sum(axis=0) for sample in every]
        of_loads = mean([self._pipeline.cycles_of_loads(*map(int, loads)) for loads in loads_by_kind])
        cycles = self._cycles(samples, self._machine)
        passed, shares, of_stores, overlap = [], [], [], []
        for level, name in enumerate(LEVELS):
            served = {s: (self._served[s] >= level) & self._lines[s].asks for s in samples}
            if not any(of_sample.any() for of_sample in served.values()):  # lines that come but once
                served = {s: self._lines[s].asks for s in samples}
            slow = {s: self._lines[s].irregular & served[s] for s in samples}
            passed.append(mean([float(served[s].sum()) for s in samples]))
            loads = mean([float(slow[s].sum()) for s in samples])
            stores = mean([float((self._lines[s].irregular_stores & served[s]).sum()) for s in samples])
            known = max(mean([float((self._lines[s].known & served[s]).sum()) for s in samples]), 1e-12)
            shares.append(loads / known)
            of_stores.append(stores / known)
            extra = _extra_cycles(self._machine, name)
            of_level = []
            for share in DENSITIES:
                if loads <= 0 or extra <= 0:
                    of_level.append(MOST_OVERLAP)
                    continue
                longer = self._cycles(samples, self._machine, slow, extra, share) - cycles
                alone = share * loads * extra  # if each were waited for alone
                of_level.append(float(np.clip(alone / max(longer, 1e-9), 1.0, MOST_OVERLAP)))
            overlap.append(of_level)
        return cycles, of_loads, wrong, passed, shares, of_stores, overlap

    def _cycles(
        self,
        samples: Mapping[int, float],
        machine: Machine,
        slow: Mapping[int, NDArray[np.bool_]] | None = None,
        extra: int = 0,
        share: float = 1.0,
    ) -> float:
        """Return the cycles per instruction.

        A `share` of the `slow` accesses takes `extra` cycles more.
        """
        assert machine.pipeline is not None
        core = f"{machine.cores.instructions_per_cycle.value} {machine.pipeline.model_dump_json()}"
        shape = machine.pipeline.shape(max(1, round(machine.cores.instructions_per_cycle.value)))
        total = 0.0
        for s, weight in samples.items():
            sample = self._code.samples[s]
            kept = np.flatnonzero(slow[s] & _drawn(sample.line, share)) if slow is not None else _NONE
            key = (core, s, extra if len(kept) else 0, kept.tobytes())
            if key not in self._taken:
                self._taken[key] = _core.pipeline_cycles(
                    self._code.code,
                    sample.blocks,
                    self._foreseen[s],
                    self._fetch,
                    sample.block[kept],
                    sample.instruction[kept],
                    np.full(len(kept), extra, dtype=np.uint32),
                    shape,
                )
            total += self._taken[key] / sample.instructions * weight
        return float(total / sum(samples.values()))


def core_model(code: SampledCode | None, phases: int, machine: Machine) -> CoreModel | None:
    """Return the model, or None if the trace has no samples or the machine file no pipeline."""
    if code is None or machine.pipeline is None:
        return None
    if not any(sample.instructions >= FEWEST_INSTRUCTIONS for sample in code.samples):
        return None
    return CoreModel(code, phases, machine)


def why_full_width(workload: Workload, machine: Machine) -> list[str]:
    """Return why a program's instructions count as issued at full width; empty if they do not.

    A declared program has no instructions, so nothing is missing.
    """
    if workload.source != "trace":
        return []
    if machine.pipeline is None:
        missing = f"the file of {machine.name} has no [pipeline]"
    elif not workload.has_samples:
        missing = (
            "the trace has no samples of instructions, because it was imported, is of an older tracer, or "
            "of a program that was compiled for tracing"
        )
    else:
        return []
    return [
        "The time of the cores is a lower bound. All instructions are taken as issued at full width, and all "
        f"misses as overlapping: {missing}."
    ]


@dataclass(frozen=True)
class Foreseen:
    """What hardware prefetchers make of the accesses past the first filter of a sample."""

    irregular: NDArray[np.bool_]  # [n] loads of lines that none foresees
    irregular_stores: NDArray[np.bool_]  # [n] the same of stores
    known: NDArray[np.bool_]  # [n] the others: a stream may have begun before the sample did
    asks: NDArray[np.bool_]  # [n] the others use a line again, as a store does after a load of it


def foreseen_lines(sample: SampledRun) -> Foreseen:
    """Return which loads wait for memory, as far as the sample shows.

    The first accesses of a sample have no past. If such a line follows nothing, what comes after it decides:
    without a neighbour there it is irregular, and with one it is unknown.
    """
    blocks = np.asarray(sample.blocks, dtype=np.uint64)[sample.block]
    places = blocks << np.uint64(_INSTRUCTION_BITS) | sample.instruction
    uses = _core.stream_uses(sample.line, places, STREAMS, NEAR, STRIDE_LINES)
    later = _core.stream_uses(sample.line[::-1].copy(), places[::-1].copy(), STREAMS, NEAR, STRIDE_LINES)
    flags = _core.stream_follows, _core.stream_full, _core.stream_repeats
    follows, past, again = (uses & flag > 0 for flag in flags)
    unknown = ~follows & ~past & (later & _core.stream_moves > 0)[::-1]
    alone = ~follows & ~unknown
    return Foreseen(alone & ~sample.store, alone & sample.store, ~unknown, ~again)


def sizes_of_data(code: SampledCode) -> list[NDArray[np.float64]]:
    """Return for each sample the bytes of the data that each line [n] is a part of.

    These data are a block that the program allocated as one, or pages that all samples together touch at
    small distances.
    """
    lines_of_page = FRAME_BYTES // LINE_BYTES
    pages = [sample.line // np.uint64(lines_of_page) for sample in code.samples]
    touched = np.unique(np.concatenate(pages)) if pages else np.zeros(0, dtype=np.uint64)
    begin, count = code.large_blocks[:, 0], code.large_blocks[:, 1]
    block = np.searchsorted(begin, touched, side="right").astype(np.int64) - 1
    within = block >= 0
    within[within] = touched[within] - begin[block[within]] < count[block[within]]
    of_touched = np.zeros(len(touched))
    of_touched[within] = count[block[within]]
    rest = touched[~within]
    if len(rest):
        group = np.cumsum(np.diff(rest, prepend=rest[:1]) > APART_PAGES)
        first, last = np.searchsorted(group, group, "left"), np.searchsorted(group, group, "right") - 1
        of_touched[~within] = (rest[last] - rest[first] + 1).astype(np.float64)
    return [FRAME_BYTES * of_touched[np.searchsorted(touched, of_sample)] for of_sample in pages]


def _farthest_level(machine: Machine, sizes: NDArray[np.float64]) -> NDArray[np.int64]:
    """Return the index [n] in LEVELS of the first level that data of each of the sizes fit into."""
    third = machine.l3.size.value if machine.l3 is not None else machine.l2.size.value
    return np.asarray((sizes > machine.l2.size.value).astype(np.int64) + (sizes > third))


def _extra_cycles(machine: Machine, level: str) -> int:
    """Return the cycles of a load that `level` serves, beyond those of a hit of L1."""
    assert machine.pipeline is not None
    latency = {
        "l2": machine.l2.latency.value if machine.l2.latency is not None else 0.0,
        "l3": machine.l3.latency.value if machine.l3 is not None else 0.0,
        "memory": (machine.fast_memory or machine.ddr).latency.value,
    }[level]
    return max(0, round(latency * machine.cores.frequency.value) - machine.pipeline.load_cycles.value)


def _drawn(lines: NDArray[np.uint64], share: float) -> NDArray[np.bool_]:
    """Return which lines are among the `share`. They are the same at every call."""
    mixed = lines * np.uint64(0x9E3779B97F4A7C15)
    return np.asarray((mixed >> np.uint64(40)).astype(np.float64) < share * 2.0**24)


def _same_core(one: Machine, other: Machine) -> bool:
    return one.pipeline == other.pipeline and (
        one.cores.instructions_per_cycle.value == other.cores.instructions_per_cycle.value
    )
