"""The code that the samples of a trace executed, decoded once for all of them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pagelens import _core
from pagelens.accesses.instructions import COLUMNS, LOADED_KIND, OF_INTEGER, OF_VECTOR, Decoder

SPACE_PAGE_BITS = 36  # of a page's number in an address space (core/accesses/program.hpp)
_LINE_BITS_OF_PAGE = 6
MOST_THREADS = 4096  # of a trace (docs/trace-format.md)


@dataclass(frozen=True)
class SampledCode:
    """The decoded code of a program's samples."""

    code: _core.Code
    samples: Sequence["SampledRun"]
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
        index: dict[int, int] = {}
        for used in sorted({block for sample in samples for block in sample.blocks}):
            if (block := by_id.get(used)) is None:
                continue
            if (same := known.get((block.address, block.bytes))) is not None:
                index[used] = same
                continue
            index[used] = len(counts)
            rows += decoder.decode(block.bytes, block.address)
            counts.append(len(rows) - begin[-1])
            begin.append(len(rows))
            address.append(block.address)
            size.append(len(block.bytes))
        known |= {(by_id[used].address, by_id[used].bytes): place for used, place in index.items()}
        executed = np.asarray(counts, dtype=np.int64)
        runs += [_run(sample, index, executed, process.phases, number) for sample in samples]
    addresses, sizes = np.asarray(address, dtype=np.uint64), np.asarray(size, dtype=np.uint64)
    table = np.asarray(rows, dtype=np.int64).reshape(-1, COLUMNS)
    code = _core.Code(table, np.asarray(begin, dtype=np.uint64), addresses, sizes)
    in_spaces = [
        process.large_blocks + np.array([number << SPACE_PAGE_BITS, 0], dtype=np.uint64)
        for number, process in enumerate(traces)
    ]
    large_blocks = np.concatenate(in_spaces)
    return SampledCode(
        code, runs, large_blocks, addresses, sizes, np.asarray(counts, dtype=np.int64), _loads(table, begin)
    )


def _loads(table: NDArray[np.int64], begin: Sequence[int]) -> NDArray[np.int64]:
    """Return the loads [block, 2] of blocks whose instructions [begin[b], begin[b + 1]) are rows."""
    kinds = [table[:, LOADED_KIND] == kind for kind in (OF_INTEGER, OF_VECTOR)]
    until = np.array([np.concatenate([[0], np.cumsum(of_kind)]) for of_kind in kinds]).T
    return np.asarray(np.diff(until[np.asarray(begin)], axis=0))


def _run(
    sample: _core.InstructionSample,
    index: Mapping[int, int],
    counts: NDArray[np.int64],
    phases: Mapping[int, int],
    process: int,
) -> SampledRun:
    """Return what one sample executed. Blocks that were not recorded are left out."""
    known = [number in index for number in sample.blocks]
    blocks = [index[number] for number in sample.blocks if number in index]
    place = np.cumsum(known) - 1
    accesses = [access for access in sample.accesses if known[access.block]]
    space = np.uint64(process << SPACE_PAGE_BITS + _LINE_BITS_OF_PAGE)
    return SampledRun(
        process * MOST_THREADS + sample.thread,
        sample.first_instruction,
        phases.get(sample.phase, 0),
        int(counts[np.asarray(blocks, dtype=np.int64)].sum()),
        blocks,
        np.array([place[access.block] for access in accesses], dtype=np.uint64),
        np.array([access.instruction for access in accesses], dtype=np.uint64),
        np.array([access.store for access in accesses], dtype=bool),
        np.array([access.line for access in accesses], dtype=np.uint64) + space,
    )
