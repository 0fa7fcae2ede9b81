"""The sections `[l3]` and `[snoop_filter]`, which describe what the cores of a socket share, in slices.

A slice is a set-associative array of 64 B lines with a directory of its own. An address hash of
machines/hashes/ says which slice a line belongs to. core/machine/cache_model.hpp is the counterpart in the
core.
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
from pagelens.values.quantities import Bytes, Positive, PositiveFloat, Seconds, Sourced, Table

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
    """A structure that lies in slices."""

    slices: Sourced[Positive] = Field(description="number of them")
    hash: Sourced[HashName] | None = Field(
        default=None,
        description="the hash of machines/hashes/ that gives an address's slice; without it, lines take "
        "the slices in turn",
    )

    @model_validator(mode="after")
    def _hash_has_the_slices(self) -> Self:
        form = self.slice_hash()
        if form is not None and form.values != self.slices.value:
            raise ValueError(f"hash '{form.name}' is one of {form.values} slices, not of {self.slices.value}")
        return self

    def slice_hash(self) -> HashFile | None:
        """Return the hash from addresses to slices, or None if it is unknown."""
        return _load(self.hash.value) if self.hash is not None else None


class L3(Sliced):
    """The cache that the cores of a socket, or of a part of it, share."""

    size: Sourced[Bytes] = Field(description="the size of all slices together")
    ways: Sourced[Ways]
    shared_by: Sourced[Positive] | None = Field(
        default=None, description="neighbouring cores that have one together; without it, all of them"
    )
    inclusion: Sourced[Literal["inclusive", "exclusive", "victim"]] = Field(
        description="holds all that the private caches hold; nothing of it; or what they evict and is read"
    )
    replacement: Sourced[ReplacementName] | None = Field(
        default=None,
        description="the rule for which line of a set is replaced; without it, the least recently used one",
    )
    latency: Sourced[Seconds] = Field(description="the latency of a load that hits it")
    width: Sourced[PositiveFloat] | None = Field(
        default=None,
        description="bytes that go in a cycle between it and one core's L2; without it, there is no bound",
    )
    both_ways: Sourced[bool] | None = Field(
        default=None, description="these go in both directions at a time; without it, in one"
    )

    @property
    def sets(self) -> int:
        """The sets of a slice, which are a power of two."""
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
    """The directory of the lines that the private caches hold. They lose the lines that it evicts."""

    sets: Sourced[Positive] = Field(description="the sets of a slice, a power of two")
    ways: Sourced[Ways]

    @model_validator(mode="after")
    def _power_of_two_sets(self) -> Self:
        if self.sets.value & (self.sets.value - 1):
            raise ValueError(f"sets must be a power of two, not {self.sets.value}")
        return self


@dataclass(frozen=True)
class Levels:
    """The caches of a hierarchy, and which of them are ideal twins.

    With `writes_at_once`, memory is written when a line becomes dirty instead of when it leaves. In the long
    run this makes as many writes. Over a stretch, it counts the writes of the stretch itself.

    `ideal` names those of "l1", "l2", "l3" that are fully associative (docs/decisions/ideal-twin.md), and
    "snoop_filter" if it is unlimited. A fully associative cache keeps its replacement policy if the policy
    allows any number of ways, and has LRU otherwise. If the cache sees only a sample of the lines, it has
    only `ideal_share` of its own lines, a power of two.

    With `ideal_l3_beside`, the fully associative L3 is simulated beside the other, since the private caches
    ask the same of both (`can_stand_beside`).
    """

    simulate_l1: bool
    ideal: frozenset[str] = frozenset()
    writes_at_once: bool = False
    ideal_share: float = 1.0
    ideal_l3_beside: bool = False

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
    """Return the caches of `cores` cores that have one L3, or of all cores of a socket if there is no L3.

    l2_inclusion says how L2 relates to L1: "inclusive", "exclusive", or None for neither. Without
    levels.simulate_l1, L1 has run before, and the accesses are its fetches and write-backs (AccessKind.read,
    .write_back). `seed` is the seed of random replacement. Raises UsageError for impossible caches.
    """

    def geometry(
        name: str, sets: int, ways: int, replacement: str = "lru", beside: bool = False
    ) -> _core.CacheGeometry:
        policy = _core.Replacement[replacement]
        if beside or name in levels.ideal:
            ideal = policy if _core.serves_fully_associative(policy) else _core.Replacement["lru"]
            return _core.CacheGeometry(max(1, int(sets * levels.ideal_share)), ways, ideal, True)
        return _core.CacheGeometry(sets, ways, policy, False)

    filter_ = shared = beside = None
    if l3 is not None:
        replacement = l3.replacement.value if l3.replacement is not None else "lru"
        shared = (
            geometry("l3", l3.sets, l3.ways.value, replacement),
            _core.Inclusion[l3.inclusion.value],
        )
        if levels.ideal_l3_beside:
            beside = geometry("l3", l3.sets, l3.ways.value, replacement, beside=True)
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
            beside,
        )
    except ValueError as error:
        raise UsageError(f"caches: {error}; change it in the machine file") from None


def can_stand_beside(l3: L3 | None) -> bool:
    """Say whether nothing that such an L3 does changes what private caches hold, where L1 has run before."""
    return l3 is not None and l3.inclusion.value == "victim"


def _slice_hash(l3: L3 | None, snoop_filter: SnoopFilter | None) -> _core.AddressHash | None:
    """Return the slice of an address: as the file states, or in turn.

    In turn means that the sets of one slice are used up before those of the next. So slices x sets
    neighbouring lines lie in as many sets, whatever the number of slices.
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


def count(caches: _core.CacheHierarchy, counter: str) -> NDArray[np.uint64]:
    """Return one counter of every core (core/machine/cache_model.hpp names them)."""
    return np.asarray(caches.counts)[:, _core.cache_counter_names().index(counter)]
