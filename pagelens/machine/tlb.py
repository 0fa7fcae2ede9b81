"""The sections [[tlb]] and [page_walk] of a machine, which describe a core's data TLB (docs/tlb.md)."""

from collections.abc import Sequence
from typing import Annotated, Any, Literal, Self

from pydantic import BeforeValidator, Field, model_validator

from pagelens import _core
from pagelens.errors import UsageError
from pagelens.units import format_binary_size, parse_size
from pagelens.values.quantities import Positive, Sourced, Table, Unit

PAGE_SIZES = {  # bytes -> for the core
    1 << 12: _core.PageSize.small,
    1 << 21: _core.PageSize.large,
    1 << 30: _core.PageSize.huge,
}


def _page_size(text: Any) -> int:
    try:
        size = parse_size(text) if isinstance(text, str) else 0
    except UsageError as error:
        raise ValueError(str(error)) from None
    if size not in PAGE_SIZES:
        raise ValueError(f'{text!r:.40} is no size of a page; write "4 KiB", "2 MiB" or "1 GiB"')
    return size


_SIZE = Unit(format_binary_size, 'size of a page, as "4 KiB"')
_SIZES = Unit(lambda sizes: ", ".join(format_binary_size(size) for size in sizes), "sizes of pages")

PageBytes = Annotated[int, BeforeValidator(_page_size)]
PagesBytes = Annotated[list[PageBytes], _SIZES, Field(min_length=1)]
Entries = Annotated[int, Field(gt=0, le=1 << 20)]


class Tlb(Table):
    """One array of translations of a core's data TLB."""

    level: Sourced[Literal[1, 2]] = Field(description="looked up first, or after a miss there")
    pages: Sourced[PagesBytes] = Field(description="sizes of the pages whose translations it holds")
    pieces_of: Sourced[PagesBytes] | None = Field(
        default=None,
        description="larger pages of which it holds pieces, each as large as its largest page; level 1",
    )
    page_directory: Sourced[bool] | None = Field(
        default=None,
        description="whether it holds the page-directory entries above 4 KiB pages too, instead of their "
        "translations; level 2",
    )
    entries: Sourced[Entries] = Field(description="the entries of all page sizes together")
    ways: Sourced[Entries] = Field(
        description="the ways, with LRU; as many as entries if it is fully associative"
    )
    index: Sourced[Literal["low bits", "folded"]] | None = Field(
        default=None,
        description="the set: the page number's low bits (default), or these xor the next as many (`folded`)",
    )

    @model_validator(mode="after")
    def _possible(self) -> Self:
        _whole_sets(self.entries.value, self.ways.value)
        for sizes in (self.pages.value, self.larger_pages):
            if len(set(sizes)) < len(sizes):
                raise ValueError("a page size is named twice")
        if self.larger_pages and (self.level.value != 1 or min(self.larger_pages) <= max(self.pages.value)):
            raise ValueError("only level 1 has pieces_of, pages larger than all that it holds")
        if self.holds_directory and (self.level.value != 2 or 1 << 12 in self.pages.value):
            raise ValueError("page_directory belongs to level 2, to an array without 4 KiB pages")
        return self

    @property
    def larger_pages(self) -> list[int]:
        """The sizes of the pages of which it holds pieces."""
        return self.pieces_of.value if self.pieces_of else []

    @property
    def holds_directory(self) -> bool:
        """Whether it holds page-directory entries above 4 KiB pages."""
        return self.page_directory is not None and self.page_directory.value

    def form(self) -> _core.TlbArray:
        """Return the array for the core."""
        return _core.TlbArray(
            level=self.level.value,
            shape=(self.entries.value, self.ways.value),
            folded=self.index is not None and self.index.value == "folded",
            holds=[size in self.pages.value for size in PAGE_SIZES],
            pieces=[size in self.larger_pages for size in PAGE_SIZES],
            directory=self.holds_directory,
        )


class PageWalk(Table):
    """The walk of the page tables after a miss in all TLBs, and the caches of their upper levels."""

    pde_cache_entries: Sourced[Entries] | None = Field(
        default=None, description="page-directory entries that are kept; without a value, none"
    )
    pde_cache_ways: Sourced[Entries] | None = None
    pdpte_cache_entries: Sourced[Entries] | None = Field(
        default=None, description="the same for the table above the page directory"
    )
    pdpte_cache_ways: Sourced[Entries] | None = None
    pml4e_cache_entries: Sourced[Entries] | None = Field(
        default=None, description="the same for the highest table"
    )
    pml4e_cache_ways: Sourced[Entries] | None = None
    walkers: Sourced[Positive] = Field(description="walks under way at a time")
    stlb_hit_cycles: Sourced[Positive] | None = Field(
        default=None, description="added to a load that misses level 1 and hits level 2"
    )
    walk_cycles: Sourced[Positive] | None = Field(
        default=None, description="added to a load by a walk that reads from the nearest cache"
    )
    host_page: Sourced[Annotated[PageBytes, _SIZE]] | None = Field(
        default=None,
        description="of a virtual machine: the pages by which the host maps its memory, at places without "
        "order; walks read the host's entries too, and TLBs hold no larger pages",
    )

    @model_validator(mode="after")
    def _possible(self) -> Self:
        for name in ("pde", "pdpte", "pml4e"):
            entries, ways = self._cache(name)
            if (entries is None) != (ways is None):
                raise ValueError(
                    f"{name}_cache_entries and {name}_cache_ways belong together; state both or none"
                )
            if entries is not None and ways is not None:
                _whole_sets(entries.value, ways.value, f"{name}_cache_")
        return self

    @property
    def host_page_size(self) -> _core.PageSize | None:
        """The size of the host's pages, for the core."""
        return PAGE_SIZES[self.host_page.value] if self.host_page is not None else None

    def shape(self, name: Literal["pde", "pdpte", "pml4e"]) -> tuple[int, int]:
        """Return the entries and ways of that cache, or (0, 0) if there is none."""
        entries, ways = self._cache(name)
        return (entries.value, ways.value) if entries and ways else (0, 0)

    def _cache(self, name: str) -> tuple[Sourced[int] | None, Sourced[int] | None]:
        return getattr(self, f"{name}_cache_entries"), getattr(self, f"{name}_cache_ways")


def _whole_sets(entries: int, ways: int, prefix: str = "") -> None:
    sets = entries // ways
    if sets * ways != entries or sets & (sets - 1) or ways > 1 << 15:
        raise ValueError(
            f"{prefix}entries / {prefix}ways must be a power of two, with at most 32768 ways,"
            f" not {entries} / {ways}"
        )


def core_tlb(arrays: Sequence[Tlb], walk: PageWalk, ideal: bool = False) -> _core.Tlb:
    """Return an empty TLB. With `ideal` it never misses. Raises ValueError if the parts do not fit."""
    holders: dict[tuple[int, int], int] = {}
    for number, array in enumerate(arrays):
        for size in (*array.pages.value, *array.larger_pages):
            other = holders.setdefault((array.level.value, size), number)
            if other != number:
                raise ValueError(
                    f"tlb.{other} and tlb.{number} both hold {format_binary_size(size)} pages at level"
                    f" {array.level.value}; one array can"
                )
    return _core.Tlb(
        [array.form() for array in arrays],
        walk.shape("pde"),
        walk.shape("pdpte"),
        walk.shape("pml4e"),
        ideal,
    )
