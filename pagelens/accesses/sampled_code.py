"""The code that the samples of a trace executed, decoded once for all of them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pagelens import _core
from pagelens.accesses.instructions import COLUMNS, LOADED_KIND, OF_INTEGER, OF_VECTOR, Decoder

SPACE_PAGE_BITS = 36  # of a page's number in an address space (core/accesses/program.hpp)
_LINE_BITS_OF_PAGE = 6
_NOT_RECORDED = -1  # a block of a sample whose instructions the trace does not have
MOST_THREADS = 4096  # of a trace (docs/trace-format.md)


@dataclass(frozen=True)
class SampledCode:
    """The decoded code of a program's samples."""

    code: _core.Code
    samples: Sequence["SampledRun"]
    executed: Mapping[int, int]  # the instructions of each thread of the samples
    large_blocks: NDArray[np.uint64]  # [block, 2] first page and pages of memory allocated as one, by address
    # The following arrays have an entry for each [block] of the code.
    address: NDArray[np.uint64]
    bytes: NDArray[np.uint64]
    instructions: NDArray[np.int64]
    loads: NDArray[np.int64]  # [block, 2] to general and to vector registers


@dataclass(frozen=True)
class SampledRun:
    """What one thread executed for a while.

    [n] runs over the accesses that the tracer's first filter passed on, in the order of execution.
    """

    thread: int
    first_instruction: int
    phase: int  # index of the workload's phases
    instructions: int
    blocks: list[int]  # the blocks of the code
    block: NDArray[np.uint64]  # [n] index in `blocks`
    instruction: NDArray[np.uint64]  # [n] in that block
    store: NDArray[np.bool_]  # [n]
    line: NDArray[np.uint64]  # [n]


@dataclass(frozen=True)
class SampledTrace:
    """A trace with samples. Its phases are known by their ids, its large blocks as `SampledCode` has them."""

    trace: _core.Trace
    executed: Sequence[int]  # instructions of each thread
    phases: Mapping[int, int]
    large_blocks: NDArray[np.uint64]


def decode_samples(traces: Sequence[SampledTrace]) -> SampledCode | None:
    """Return the code of the samples of a job's processes, or None if one of them has none.

    Each process has numbers of threads and lines of its own. Code that several of them have at one address is
    decoded once.
    """
    if not all(process.trace.samples for process in traces):
        return None
    decoder = Decoder()
    rows: list[list[int]] = []
    begin, counts, address, size = [0], list[int](), list[int](), list[int]()
    known: dict[tuple[int, bytes], int] = {}  # the blocks of the processes before
    runs: list[SampledRun] = []
    for number, process in enumerate(traces):
        samples = process.trace.samples
        by_id = {block.id: block for block in process.trace.code_blocks}
        every = np.unique(np.concatenate([sample.blocks for sample in samples]))
        index = np.full(len(every), _NOT_RECORDED)
        for place, used in enumerate(every.tolist()):
            if (block := by_id.get(used)) is None:
                continue
            if (same := known.get((block.address, block.bytes))) is not None:
                index[place] = same
                continue
            index[place] = len(counts)
            rows += decoder.decode(block.bytes, block.address)
            counts.append(len(rows) - begin[-1])
            begin.append(len(rows))
            address.append(block.address)
            size.append(len(block.bytes))
        recorded = [by_id[used] for used in every[index != _NOT_RECORDED].tolist()]
        places = index[index != _NOT_RECORDED].tolist()
        known |= {(of.address, of.bytes): place for of, place in zip(recorded, places, strict=True)}
        executed = np.asarray(counts, dtype=np.int64)
        runs += [_run(sample, every, index, executed, process.phases, number) for sample in samples]
    addresses, sizes = np.asarray(address, dtype=np.uint64), np.asarray(size, dtype=np.uint64)
    table = np.asarray(rows, dtype=np.int64).reshape(-1, COLUMNS)
    code = _core.Code(table, np.asarray(begin, dtype=np.uint64), addresses, sizes)
    in_spaces = [
        process.large_blocks + np.array([number << SPACE_PAGE_BITS, 0], dtype=np.uint64)
        for number, process in enumerate(traces)
    ]
    large_blocks = np.concatenate(in_spaces)
    of_threads = {
        number * MOST_THREADS + thread: instructions
        for number, process in enumerate(traces)
        for thread, instructions in enumerate(process.executed)
    }
    every_count = np.asarray(counts, dtype=np.int64)
    return SampledCode(
        code, runs, of_threads, large_blocks, addresses, sizes, every_count, _loads(table, begin)
    )


def _loads(table: NDArray[np.int64], begin: Sequence[int]) -> NDArray[np.int64]:
    """Return the loads [block, 2] of blocks whose instructions [begin[b], begin[b + 1]) are rows."""
    kinds = [table[:, LOADED_KIND] == kind for kind in (OF_INTEGER, OF_VECTOR)]
    until = np.array([np.concatenate([[0], np.cumsum(of_kind)]) for of_kind in kinds]).T
    return np.asarray(np.diff(until[np.asarray(begin)], axis=0))


def _run(
    sample: _core.InstructionSample,
    ids: NDArray[np.uint64],
    index: NDArray[np.int64],
    counts: NDArray[np.int64],
    phases: Mapping[int, int],
    process: int,
) -> SampledRun:
    """Return what one sample executed, whose blocks are among `ids`, with these places in the code.

    Blocks that were not recorded are left out.
    """
    of_code = index[np.searchsorted(ids, sample.blocks)]
    known = of_code != _NOT_RECORDED
    place = (np.cumsum(known) - 1).astype(np.uint64)
    block, instruction, store, line = sample.accesses
    kept = known[block]
    space = np.uint64(process << SPACE_PAGE_BITS + _LINE_BITS_OF_PAGE)
    return SampledRun(
        process * MOST_THREADS + sample.thread,
        sample.first_instruction,
        phases.get(sample.phase, 0),
        int(counts[of_code[known]].sum()),
        of_code[known].tolist(),
        place[block[kept]],
        instruction[kept],
        store[kept].astype(bool),
        line[kept] + space,
    )
