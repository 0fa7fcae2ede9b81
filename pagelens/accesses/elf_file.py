"""Reads the symbols and debug information of an ELF file, once and when they are needed."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from elftools.elf.elffile import ELFFile

from pagelens.accesses.debug_info import DebugInfo, SourceFrame

# Distributions put the debug information of stripped files here, by build id.
DEBUG_FOLDER = Path("/usr/lib/debug/.build-id")

_SYMBOL = np.dtype(
    [("name", "<u4"), ("info", "u1"), ("other", "u1"), ("section", "<u2"), ("value", "<u8"), ("size", "<u8")]
)
_OBJECT, _FUNCTION, _INDIRECT_FUNCTION = 1, 2, 10  # symbol types (gABI; STT_GNU_IFUNC)


@dataclass(frozen=True, slots=True)
class Symbol:
    """A named range of a file's addresses."""

    name: str
    address: int
    size: int  # bytes


class ElfFile:
    """One executable, library or separate debug file. Raises OSError or ELFError if it cannot be read."""

    def __init__(self, path: Path) -> None:
        self._stream: BinaryIO = path.open("rb")
        try:
            self._elf: Any = ELFFile(self._stream)
        except Exception:
            self._stream.close()
            raise

    def close(self) -> None:
        """Close the file. Nothing can be looked up afterwards."""
        if self._detailed is not self:
            self._detailed.close()
        self._stream.close()

    @cached_property
    def build_id(self) -> bytes:
        """The GNU build id; empty if the file has none."""
        for segment in self._elf.iter_segments("PT_NOTE"):
            for note in segment.iter_notes():
                if note["n_type"] == "NT_GNU_BUILD_ID":
                    return bytes.fromhex(note["n_desc"])
        return b""

    def function_at(self, address: int) -> Symbol | None:
        """Return the function symbol that holds `address`."""
        table, names = self._functions
        index = int(np.searchsorted(table["value"], address, side="right")) - 1
        if index < 0 or address >= int(table["value"][index]) + int(table["size"][index]):
            return None
        return self._symbol(table[index], names)

    def functions(self) -> Iterator[Symbol]:
        """Yield all function symbols, by address."""
        table, names = self._functions
        for row in table:
            yield self._symbol(row, names)

    def variables(self, least_bytes: int) -> Iterator[Symbol]:
        """Yield the variables of static storage with at least `least_bytes` bytes, by address."""
        table, names = self._symbols(_OBJECT)
        for row in table[table["size"] >= least_bytes]:
            yield self._symbol(row, names)

    def section(self, name: str) -> tuple[int, int] | None:
        """Return the address and size of the section of that name, or None if there is none."""
        found = self._elf.get_section_by_name(name)
        return (int(found["sh_addr"]), int(found["sh_size"])) if found is not None else None

    def source_frames(self, address: int) -> list[SourceFrame]:
        """Return the functions and lines of `address`, innermost first; empty without debug information."""
        if self._debug is None:
            return []
        try:
            return self._debug.frames(address)
        except Exception:  # whatever pyelftools cannot make of other people's files: the symbols still hold
            return []

    @cached_property
    def _detailed(self) -> "ElfFile":
        """This file, or the separate file with the symbols and debug information stripped from it."""
        if self._elf.has_dwarf_info(strict=True) or not self.build_id:
            return self
        identity = self.build_id.hex()
        separate = DEBUG_FOLDER / identity[:2] / f"{identity[2:]}.debug"
        return ElfFile(separate) if separate.is_file() else self

    @cached_property
    def _debug(self) -> DebugInfo | None:
        elf = self._detailed._elf
        try:
            return DebugInfo(elf.get_dwarf_info()) if elf.has_dwarf_info(strict=True) else None
        except Exception:  # as above
            return None

    @cached_property
    def _functions(self) -> tuple[Any, bytes]:
        return self._symbols(_FUNCTION, _INDIRECT_FUNCTION)

    def _symbols(self, *types: int) -> tuple[Any, bytes]:
        """Return the defined symbols of these types, by address, and the string table of their names."""
        elf = self._detailed._elf
        section = elf.get_section_by_name(".symtab") or self._elf.get_section_by_name(".dynsym")
        if section is None or section["sh_size"] == 0:
            return np.empty(0, _SYMBOL), b""
        table = np.frombuffer(section.data(), dtype=_SYMBOL)
        table = table[np.isin(table["info"] & 15, types) & (table["section"] != 0) & (table["size"] > 0)]
        return np.sort(table, order=("value", "size")), section.stringtable.data()

    @staticmethod
    def _symbol(row: Any, names: bytes) -> Symbol:
        start = int(row["name"])
        name = names[start : names.index(b"\0", start)].decode(errors="replace")
        return Symbol(name, int(row["value"]), int(row["size"]))
