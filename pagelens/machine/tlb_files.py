"""TLBs that come with pagelens: files of machines/tlb/, which machines are based on; traces through them."""

import os
from pathlib import Path
from typing import Literal, Self

from pydantic import Field, model_validator

from pagelens import _core
from pagelens.accesses.trace import TraceWorkload
from pagelens.errors import UsageError
from pagelens.machine.directory import list_files, named_file
from pagelens.machine.quantities import Table
from pagelens.machine.tlb import PAGE_SIZES, PageWalk, Tlb, core_tlb
from pagelens.machine.toml_file import parse_toml, read_bytes
from pagelens.units import format_binary_size

EXAMPLE = "machines/tlb/skylake-sp.toml"


class TlbFile(Table):
    """A file of machines/tlb/."""

    version: Literal[1] = Field(alias="schema")
    name: str
    title: str
    tlb: list[Tlb]
    page_walk: PageWalk

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        self.core()
        return self

    def core(self, ideal: bool = False) -> _core.Tlb:
        """An empty TLB; `ideal`: the twin that never misses."""
        return core_tlb(self.tlb, self.page_walk, ideal)

    @property
    def page_sizes(self) -> list[int]:
        """Sizes of the pages that can be used, in bytes."""
        core = self.core()
        return [size for size, name in PAGE_SIZES.items() if core.supports(name)]


def list_tlbs() -> dict[str, Path]:
    """Name -> file of the TLBs that come with pagelens."""
    return list_files("tlb")


def load_tlb(name_or_path: str | os.PathLike[str]) -> TlbFile:
    """The TLB of that name, or of that TOML file (anything with a slash or the suffix .toml)."""
    path = named_file("TLB", "tlb", name_or_path)
    return parse_tlb(read_bytes(path, "TLB"), str(path))


def parse_tlb(raw: bytes, where: str) -> TlbFile:
    """What a file's bytes state; `where` names the file in errors."""
    return parse_toml(TlbFile, raw, where, EXAMPLE)


def replay_trace(
    workload: TraceWorkload, tlb: _core.Tlb, page_bytes: int
) -> dict[tuple[str, int], _core.TlbCounters]:
    """Counters by phase and thread of a traced program with all its data on pages of that size.

    Each thread has a TLB like `tlb`, which has to be empty. All but `lookups` is exact: of these the trace
    has only a part. Raises UsageError if the page size is none of the TLB's, or the trace not exact for it.
    """
    size = PAGE_SIZES.get(page_bytes)
    if size is None or not tlb.supports(size):
        sizes = ", ".join(format_binary_size(b) for b, name in PAGE_SIZES.items() if tlb.supports(name))
        raise UsageError(f"page size: {page_bytes} B is none of this TLB's; use one of {sizes}")
    trace = workload.trace
    if not _core.trace_is_exact_for(trace, tlb, size):
        sets, ways = trace.page_filter
        raise UsageError(
            f"{workload.path}: its page filter of {sets} sets x {ways} ways hides what this TLB's first level"
            f" for {format_binary_size(page_bytes)} pages has to see; trace the program with --any-tlb"
        )
    counters = iter(_core.replay_pages(trace, tlb, size))
    threads = range(trace.threads)
    return {(phase, thread): next(counters) for phase in workload.phases for thread in threads}
