"""The sections `[l3]` and `[snoop_filter]`: what the cores of a socket share, in slices.

A slice is a set-associative array of 64 B lines with a directory of its own; which one a line belongs to is
an address hash of machines/hashes/. core/machine/cache_model.hpp has the same for the core.
"""

from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Annotated, Literal, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import AfterValidator, Field, model_validator

from pagelens import _core
from pagelens.address.hashes import HashFile, load_hash
from pagelens.address.units import LINE_BYTES
from pagelens.errors import UsageError
from pagelens.machine.private_caches import PrivateCache
from pagelens.values.quantities import Bytes, Positive, Seconds, Sourced, Table

if TYPE_CHECKING:
    ReplacementName = str
else:  # of the policies in core/machine/replacement/policies.hpp
    ReplacementName = Literal[tuple(_core.Replacement.__members__)]

Ways = Annotated[int, Field(ge=1, le=_core.CACHE_MOST_WAYS)]

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
    ways: Sourced[Ways]
    shared_by: Sourced[Positive] | None = Field(
        default=None, description="neighbouring cores that have one together; without it, all of them"
    )
    inclusion: Sourced[Literal["inclusive", "exclusive", "victim"]] = Field(
        description="holds all that the private caches hold; nothing of it; or what they evict and is read"
    )
    replacement: Sourced[ReplacementName] | None = Field(
        default=None, description="which line of a set goes; without it, the least recently used"
    )
    latency: Sourced[Seconds] = Field(description="of a load that hits it")

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
    ways: Sourced[Ways]

    @model_validator(mode="after")
    def _power_of_two_sets(self) -> Self:
        if self.sets.value & (self.sets.value - 1):
            raise ValueError(f"sets must be a power of two, not {self.sets.value}")
        return self


@dataclass(frozen=True)
class Levels:
    """Which caches a hierarchy consists of, and which of them are their ideal twins.

    writes_at_once: memory is written when a line becomes dirty, not when it leaves: as often in the long run,
    and of a stretch what the stretch itself writes.
    ideal: of "l1", "l2", "l3" those that are fully associative (docs/decisions/ideal-twin.md), and
    "snoop_filter" where it is to be unlimited. A fully associative cache keeps its replacement policy if that
    takes any number of ways, and has LRU otherwise.
    ideal_share: of its lines that such a fully associative cache has, one in a power of two: that of the
    lines which it is fed, where that is a sample.
    """

    simulate_l1: bool
    ideal: frozenset[str] = frozenset()
    writes_at_once: bool = False
    ideal_share: float = 1.0

    def __post_init__(self) -> None:
        if unknown := self.ideal - _TWINS:
            raise UsageError(
                f"ideal caches: '{min(unknown)}' is unknown; choose of {', '.join(sorted(_TWINS))}"
            )


_TWINS = frozenset({"l1", "l2", "l3", "snoop_filter"})


def build_caches(
    cores: int,
    l1: "PrivateCache",
    l2: "PrivateCache",
    l2_inclusion: str | None,
    l3: L3 | None,
    snoop_filter: SnoopFilter | None,
    levels: Levels,
    seed: int,
) -> _core.CacheHierarchy:
    """The caches of `cores` cores that have one L3, or (without an L3) of all cores of a socket.

    l2_inclusion: of L1, "inclusive" or "exclusive"; None: neither. Without levels.simulate_l1, L1 has run
    before: its fetches and write-backs are the accesses (AccessKind.read, .write_back). `seed` is that of
    random replacement. Raises UsageError for caches that cannot be.
    """

    def geometry(name: str, sets: int, ways: int, replacement: str = "lru") -> _core.CacheGeometry:
        policy = _core.Replacement[replacement]
        if name in levels.ideal:
            ideal = policy if _core.serves_fully_associative(policy) else _core.Replacement["lru"]
            return _core.CacheGeometry(max(1, int(sets * levels.ideal_share)), ways, ideal, True)
        return _core.CacheGeometry(sets, ways, policy, False)

    filter_ = shared = None
    if l3 is not None:
        replacement = l3.replacement.value if l3.replacement is not None else "lru"
        shared = (
            geometry("l3", l3.sets, l3.ways.value, replacement),
            _core.Inclusion[l3.inclusion.value],
        )
    if snoop_filter is not None:
        filter_ = geometry("snoop_filter", snoop_filter.sets.value, snoop_filter.ways.value)
    try:
        return _core.CacheHierarchy(
            cores,
            (geometry("l1", l1.sets, l1.ways.value), l1.shared_by.value) if levels.simulate_l1 else None,
            (geometry("l2", l2.sets, l2.ways.value), l2.shared_by.value),
            _core.Inclusion[l2_inclusion or "non_inclusive"],
            shared,
            filter_,
            _slice_hash(l3, snoop_filter),
            seed,
            levels.writes_at_once,
        )
    except ValueError as error:
        raise UsageError(f"caches: {error}; change it in the machine file") from None


def _slice_hash(l3: L3 | None, snoop_filter: SnoopFilter | None) -> _core.AddressHash | None:
    """The slice of an address: as stated, or lines take the slices in turn.

    In turn, that is: a slice's sets are used up before the next slice's, so that slices x sets lines in a row
    lie in as many sets, whatever the number of slices is.
    """
    parts = [part for part in (l3, snoop_filter) if part is not None]
    if not parts or parts[0].slices.value == 1:
        return None
    stated = parts[0].slice_hash()
    if stated is not None:
        return stated.hash()
    slices = parts[0].slices.value
    most_sets = max(part.sets if isinstance(part, L3) else part.sets.value for part in parts)
    above_sets = (LINE_BYTES * most_sets).bit_length() - 1
    if slices & (slices - 1) == 0:
        masks = [1 << (above_sets + bit) for bit in range(slices.bit_length() - 1)]
        return _core.AddressHash([_core.HashLevel(masks, None, None)], slices, [])
    in_turn = _core.HashLevel([], None, _core.HashModulo(above_sets, slices))
    return _core.AddressHash([in_turn], slices, [])


@dataclass(frozen=True)
class MemoryTraffic:
    """What memory did for a batch of accesses, in order of time; arrays of one length."""

    lines: NDArray[np.uint64]  # physical address / 64
    cores: NDArray[np.uint16]  # whose access it was
    writes: NDArray[np.bool_]

    @classmethod
    def of(cls, words: NDArray[np.uint64]) -> Self:
        """From the words that CacheHierarchy.access returns."""
        return cls(
            (words >> 17).astype(np.uint64), (words >> 1).astype(np.uint16), (words & 1).astype(np.bool_)
        )


def count(caches: _core.CacheHierarchy, counter: str) -> NDArray[np.uint64]:
    """One counter of every core (core/machine/cache_model.hpp names them)."""
    return np.asarray(caches.counts)[:, _core.cache_counter_names().index(counter)]
