"""DRAMs that come with pagelens: files of machines/dram/, which machines are based on."""

import os
from pathlib import Path
from typing import Literal

from pydantic import Field

from pagelens.machine.dram import Dram
from pagelens.machine.reader import layers_of
from pagelens.values.directory import list_files, named_file
from pagelens.values.quantities import Table
from pagelens.values.toml_file import read_bytes, read_document, validate

EXAMPLE = "machines/dram/ddr4-2400.toml"


class DramFile(Table):
    """A file of machines/dram/."""

    version: Literal[1] = Field(alias="schema")
    base: str | list[str] = Field(default=[])
    name: str
    title: str
    dram: Dram


def list_drams() -> dict[str, Path]:
    """Name -> file of the DRAMs that come with pagelens."""
    return list_files("dram")


def load_dram(name_or_path: str | os.PathLike[str]) -> DramFile:
    """Return the DRAM of that name, or of that TOML file (anything with a slash or the suffix .toml)."""
    path = named_file("DRAM", "dram", name_or_path)
    return parse_dram(read_bytes(path, "DRAM"), str(path))


def parse_dram(raw: bytes, where: str) -> DramFile:
    """Return the DRAM that a file's bytes state. `where` names the file in errors, and its folder."""
    return validate(DramFile, layers_of(read_document(raw, where)), EXAMPLE)
