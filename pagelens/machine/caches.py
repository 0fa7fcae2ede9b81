"""The sections `[l3]` and `[snoop_filter]`: what the cores of a socket share, in slices.

A slice is a set-associative array of 64 B lines with a directory of its own; which one a line belongs to is
an address hash of machines/hashes/. core/machine/cache_model.hpp has the same for the core.
"""

from functools import cache
from typing import Annotated, Literal, Self

from pydantic import AfterValidator, Field, model_validator

from pagelens.errors import UsageError
from pagelens.machine.hashes import HashFile, load_hash
from pagelens.machine.quantities import LINE_BYTES, Bytes, Positive, Seconds, Sourced, Table

_load = cache(load_hash)  # several sections of several machines name the same


def _known(name: str) -> str:
    try:
        _load(name)
    except UsageError as error:
        raise ValueError(str(error)) from None
    return name


HashName = Annotated[str, AfterValidator(_known)]


class Sliced(Table):
    """What lies in slices."""

    slices: Sourced[Positive] = Field(description="number of them")
    hash: Sourced[HashName] | None = Field(
        default=None,
        description="of machines/hashes/: an address's slice; without it, lines take the slices in turn",
    )

    @model_validator(mode="after")
    def _hash_has_the_slices(self) -> Self:
        form = self.slice_hash()
        if form is not None and form.values != self.slices.value:
            raise ValueError(f"hash '{form.name}' is one of {form.values} slices, not of {self.slices.value}")
        return self

    def slice_hash(self) -> HashFile | None:
        """From addresses to slices, where it is known."""
        return _load(self.hash.value) if self.hash is not None else None


class L3(Sliced):
    """The cache that the cores of a socket, or of a part of it, share."""

    size: Sourced[Bytes] = Field(description="of all slices together")
    ways: Sourced[Positive]
    shared_by: Sourced[Positive] | None = Field(
        default=None, description="neighbouring cores that have one together; without it, all of them"
    )
    inclusion: Sourced[Literal["inclusive", "exclusive", "victim"]] = Field(
        description="holds all that the private caches hold; nothing of it; or what they evict and is read"
    )
    replacement: Sourced[Literal["lru", "tree_plru", "random"]] | None = Field(
        default=None, description="which line of a set goes; without it, the least recently used"
    )
    latency: Sourced[Seconds] | None = Field(default=None, description="of a load that hits it")

    @property
    def sets(self) -> int:
        """Of a slice, a power of two."""
        return self.size.value // (LINE_BYTES * self.ways.value * self.slices.value)

    @model_validator(mode="after")
    def _power_of_two_sets(self) -> Self:
        sets, lines = self.sets, self.ways.value * self.slices.value
        if sets * LINE_BYTES * lines != self.size.value or sets & (sets - 1) or sets == 0:
            raise ValueError(
                f"size / (64 B x {self.ways.value} ways x {self.slices.value} slices) must be a power of two"
            )
        return self


class SnoopFilter(Sliced):
    """The directory of the lines that the private caches hold: what it evicts, they lose."""

    sets: Sourced[Positive] = Field(description="of a slice, a power of two")
    ways: Sourced[Positive]

    @model_validator(mode="after")
    def _power_of_two_sets(self) -> Self:
        if self.sets.value & (self.sets.value - 1):
            raise ValueError(f"sets must be a power of two, not {self.sets.value}")
        return self
