"""The sections `[l1]` and `[l2]`: caches that belong to one core or to a few neighbouring cores."""

from typing import Literal, Self

from pydantic import Field, model_validator

from pagelens.address.units import FRAME_BYTES, LINE_BYTES
from pagelens.values.quantities import Bytes, Positive, PositiveFloat, Seconds, Sourced, Table


class PrivateCache(Table):
    """A set-associative LRU cache of 64 B lines, private to `shared_by` neighbouring cores."""

    size: Sourced[Bytes]
    ways: Sourced[Positive]
    shared_by: Sourced[Positive] = Field(description="neighbouring cores that have one together")
    inclusion: Sourced[Literal["inclusive", "exclusive"]] | None = Field(
        default=None,
        description="an L2 holds all that the L1s above it hold, or nothing of it; without it, neither",
    )
    latency: Sourced[Seconds] | None = Field(
        default=None,
        description="the latency of a load that hits it; that of an L2 is also the time of a page walk's "
        "load",
    )
    width: Sourced[PositiveFloat] | None = Field(
        default=None,
        description="bytes that go in a cycle between an L2 and the L1s above it; without it, there is no "
        "bound",
    )
    write_width: Sourced[PositiveFloat] | None = Field(
        default=None,
        description="bytes that an L2 takes in a cycle of what the L1s above it write back; without it, as "
        "many as it gives",
    )
    both_ways: Sourced[bool] | None = Field(
        default=None, description="these go in both directions at a time; without it, in one"
    )

    @property
    def sets(self) -> int:
        """The number of sets, a power of two."""
        return self.size.value // (LINE_BYTES * self.ways.value)

    @property
    def highest_index_bit(self) -> int:
        """The highest address bit in the set index. Bits count from 0, and the lowest one is 6."""
        return 5 + (self.sets.bit_length() - 1)

    @model_validator(mode="after")
    def _power_of_two_sets(self) -> Self:
        sets = self.sets
        if sets * LINE_BYTES * self.ways.value != self.size.value or sets & (sets - 1):
            raise ValueError(f"size / (64 B x {self.ways.value} ways) must be a power of two, not {sets}")
        if sets < FRAME_BYTES // LINE_BYTES:
            raise ValueError(f"at least 64 sets (one page of lines), not {sets}")
        return self
