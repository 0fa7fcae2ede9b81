"""Computes how long a core waits for the instructions of each block of a program.

Blocks that run often stay in the cache of decoded instructions and in the instruction L1. Others are fetched
anew. Samples are too short to replay such caches, but they say how often each line of code is executed. Che's
approximation of an LRU cache then says which lines stay: a line is in the cache if it was executed within the
last T instructions, and T is chosen so that the lines expected there fill the cache (Che, Tung, Wang:
Hierarchical Web caching systems, IEEE J. Sel. Areas Commun. 20(7), 2002).
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from pagelens.accesses.sampled_code import SampledCode
from pagelens.address.units import LINE_BYTES
from pagelens.machine.schema import Machine

Floats = NDArray[np.float64]
_LINE_CYCLES = 2  # of a line from L2: 32 B a cycle (optimisation manuals of AMD and Intel)


def fetch_cycles(
    code: SampledCode, samples: Sequence[int], weights: Floats, machine: Machine
) -> NDArray[np.float32]:
    """Return the cycles to fetch each block from beyond the cache of decoded instructions: float32[block, 2].

    The first number is for decoding and for the way from L2, if the branch predictor asked for the lines
    ahead of their turn (Ishii et al.: Re-establishing fetch-directed instruction prefetching, ISPASS 2021).
    The second number is the latency of L2, which a block after a mispredicted branch waits for as well.
    `weights` are the instructions that each of `samples` stands for.
    """
    assert machine.pipeline is not None
    pipeline, latency = machine.pipeline, machine.l2.latency
    address, size, instructions = code.address, code.bytes, code.instructions
    first, last = address // LINE_BYTES, (address + np.maximum(size, 1) - 1) // LINE_BYTES
    counts = (last - first + 1).astype(np.int64)
    of_block = np.repeat(np.arange(len(address)), counts)
    within = np.arange(len(of_block)) - np.repeat(np.cumsum(counts) - counts, counts)
    lines, line = np.unique(first[of_block] + within.astype(np.uint64), return_inverse=True)
    executed = np.zeros(len(address))
    for sample, weight in zip(samples, weights, strict=True):
        run = code.samples[sample]
        executed += np.bincount(run.blocks, minlength=len(address)) * (weight / run.instructions)
    rate = np.bincount(line, executed[of_block], minlength=len(lines)) / weights.sum()
    operations = instructions[of_block] / counts[of_block]  # of a block in one of its lines
    # A line holds the instructions of the longest of the blocks that begin or pass there.
    held = np.zeros(len(lines))
    np.maximum.at(held, line, operations)
    entries = pipeline.op_cache.value if pipeline.op_cache is not None else 0
    decoded = present(rate, held, entries)
    cached = present(rate, np.ones(len(lines)), pipeline.code_cache.value)
    from_l2 = 0.0 if latency is None else latency.value * machine.cores.frequency.value
    missed = 1 - cached[line]
    steady = (1 - decoded[line]) * operations / pipeline.decode_width.value + missed * _LINE_CYCLES
    cost = [np.bincount(of_block, of, minlength=len(address)) for of in (steady, missed * from_l2)]
    return np.stack(cost, axis=1).astype(np.float32)


def present(rate: Floats, size: Floats, capacity: float) -> Floats:
    """Return the share of executions of each [line] that find it in an LRU cache (Che's approximation)."""
    if size[rate > 0].sum() <= capacity:
        return np.ones(len(rate))
    low, high = 0.0, 1.0
    while (size * -np.expm1(-rate * high)).sum() < capacity:
        high *= 2
    for _ in range(60):
        middle = (low + high) / 2
        filled = (size * -np.expm1(-rate * middle)).sum()
        low, high = (middle, high) if filled < capacity else (low, middle)
    return -np.expm1(-rate * low)
