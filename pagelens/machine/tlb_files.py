"""TLBs that come with pagelens: files of machines/tlb/, which machine files build on."""

import os
from pathlib import Path
from typing import Literal, Self

from pydantic import Field, model_validator

from pagelens import _core
from pagelens.machine.tlb import PAGE_SIZES, PageWalk, Tlb, core_tlb
from pagelens.values.directory import list_files, named_file
from pagelens.values.quantities import Table
from pagelens.values.toml_file import parse_toml, read_bytes

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
        """Return an empty TLB. With `ideal` it never misses."""
        return core_tlb(self.tlb, self.page_walk, ideal)

    @property
    def page_sizes(self) -> list[int]:
        """The sizes of pages that can be used, in bytes."""
        core = self.core()
        return [size for size, name in PAGE_SIZES.items() if core.supports(name)]


def list_tlbs() -> dict[str, Path]:
    """Name -> file of the TLBs that come with pagelens."""
    return list_files("tlb")


def load_tlb(name_or_path: str | os.PathLike[str]) -> TlbFile:
    """Return the TLB of that name, or of that TOML file (anything with a slash or the suffix .toml)."""
    path = named_file("TLB", "tlb", name_or_path)
    return parse_tlb(read_bytes(path, "TLB"), str(path))


def parse_tlb(raw: bytes, where: str) -> TlbFile:
    """Return the TLB that a file's bytes state. `where` names the file in errors."""
    return parse_toml(TlbFile, raw, where, EXAMPLE)
