"""The section [pipeline] of a machine: what one core needs for instructions whose data are in L1.

docs/core-model.md describes the model. How long other kinds of operations take is much the same on all
processors of the last ten years, and stands in `_COMMON`.
"""

from collections.abc import Mapping
from typing import NamedTuple

from pydantic import Field

from pagelens import _core
from pagelens.values.quantities import Positive, Sourced, Table


class _Timing(NamedTuple):
    pipes: int
    cycles: int
    busy: int = 1  # cycles in which its pipe takes nothing else


# By the numbers of core/machine/pipeline.hpp's Operation. Fog, Instruction tables (agner.org/optimize), and
# uops.info (Abel, Reineke: uops.info, ASPLOS 2019), for Skylake to Zen 4.
_MULTIPLY, _DIVIDE, _FP_DIVIDE, _SHUFFLE, _SLOW = 2, 3, 7, 9, 10
_COMMON: Mapping[int, _Timing] = {
    _MULTIPLY: _Timing(1, 3),
    _DIVIDE: _Timing(1, 12, 7),
    _FP_DIVIDE: _Timing(1, 13, 5),
    _SHUFFLE: _Timing(2, 3),
    _SLOW: _Timing(1, 20, 10),
}
_INTEGER, _BRANCH, _FP_ADD, _FP_MULTIPLY, _VECTOR = 1, 4, 5, 6, 8


class Pipeline(Table):
    """How one core executes instructions."""

    window: Sourced[Positive] = Field(description="instructions in flight at most: the reorder buffer")
    load_cycles: Sourced[Positive] = Field(description="from a load's address to its data, if L1 has them")
    vector_load_cycles: Sourced[Positive] = Field(description="the same of a load to a vector register")
    forward_cycles: Sourced[Positive] = Field(
        description="from the data of a store to a load that takes them before they are in L1"
    )
    mispredict_cycles: Sourced[Positive] = Field(
        description="from the execution of a branch that was not foreseen to the dispatch of the next "
        "instruction"
    )
    load_misses: Sourced[Positive] = Field(
        description="loads in flight, at most, that L1 does not have: its line fill buffers"
    )
    load_pipes: Sourced[Positive] = Field(description="loads that begin in a cycle")
    vector_load_pipes: Sourced[Positive] = Field(description="of these, those to vector registers")
    store_pipes: Sourced[Positive] = Field(
        description="stores that begin in a cycle; one of 32 bytes takes all of them"
    )
    integer_pipes: Sourced[Positive] = Field(description="integer operations that begin in a cycle")
    vector_pipes: Sourced[Positive] = Field(description="vector operations that begin in a cycle")
    fp_pipes: Sourced[Positive] = Field(
        description="floating-point additions that begin in a cycle, and as many multiplications"
    )
    fp_add_cycles: Sourced[Positive] = Field(description="latency of a floating-point addition")
    fp_multiply_cycles: Sourced[Positive] = Field(
        description="latency of a floating-point multiplication, or of one with an addition"
    )

    def shape(self, width: int) -> _core.PipelineShape:
        """As the core model takes it, with `width` instructions dispatched in a cycle."""
        shape = _core.PipelineShape()
        shape.width, shape.outstanding = width, self.load_misses.value
        shape.window, shape.load_cycles = self.window.value, self.load_cycles.value
        shape.vector_load_cycles, shape.forward_cycles = (
            self.vector_load_cycles.value, self.forward_cycles.value,
        )  # fmt: skip
        shape.vector_load_pipes = self.vector_load_pipes.value
        shape.mispredict_cycles = self.mispredict_cycles.value
        shape.load_pipes, shape.store_pipes = self.load_pipes.value, self.store_pipes.value
        timings = {
            **_COMMON,
            _INTEGER: _Timing(self.integer_pipes.value, 1),
            _BRANCH: _Timing(2, 1),
            _FP_ADD: _Timing(self.fp_pipes.value, self.fp_add_cycles.value),
            _FP_MULTIPLY: _Timing(self.fp_pipes.value, self.fp_multiply_cycles.value),
            _VECTOR: _Timing(self.vector_pipes.value, 1),
        }
        for operation, timing in timings.items():
            shape.set_operation(operation, timing.pipes, timing.cycles, timing.busy)
        return shape
