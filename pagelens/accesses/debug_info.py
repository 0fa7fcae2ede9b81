"""Finds the source lines and inlined calls of a code address in DWARF debug information (versions 2 to 5).

It reads only the compilation unit that holds the address, and only the subtree of the address's function. So
a handful of addresses in a file with gigabytes of debug information resolves in seconds.
"""

from bisect import bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from posixpath import join
from typing import Any

from elftools.dwarf.descriptions import describe_form_class
from elftools.dwarf.ranges import BaseAddressEntry


@dataclass(frozen=True, slots=True)
class SourceFrame:
    """One function of the source. Through inlining, several can share a machine instruction."""

    function: str | None  # linker symbol where it has one; None: the symbol table knows better
    path: str | None
    line: int | None


class DebugInfo:
    """The debug information of one file. `dwarf` is pyelftools' DWARFInfo."""

    def __init__(self, dwarf: Any) -> None:
        self._dwarf = dwarf
        self._lines: dict[int, _LineTable] = {}  # by offset of the unit
        self._functions: dict[tuple[int, bool], _Intervals] = {}  # by offset of the unit; nested ones too

    def frames(self, address: int) -> list[SourceFrame]:
        """Return the functions that the code at `address` belongs to, innermost inlined first.

        The last one is the function of the symbol table. The list is empty if nothing is known.
        """
        unit = self._unit_at(address)
        if unit is None:
            return []
        table = self._line_table(unit)
        path, line = table.at(address)
        frames = []
        for inlined in reversed(self._inlined_calls(unit, address)):
            frames.append(SourceFrame(_function_name(inlined), path, line))
            path = table.path(_number(inlined, "DW_AT_call_file"))
            line = _number(inlined, "DW_AT_call_line")
        frames.append(SourceFrame(None, path, line))
        return frames

    def _unit_at(self, address: int) -> Any | None:
        aranges = self._aranges
        offset = aranges.cu_offset_at_addr(address) if aranges is not None and aranges.entries else None
        if offset is not None:
            return self._dwarf.get_CU_at(offset)
        return self._units.find(address)

    @cached_property
    def _aranges(self) -> Any | None:
        return self._dwarf.get_aranges()

    @cached_property
    def _units(self) -> "_Intervals":
        """The compilation units by their code, for files without .debug_aranges, which clang writes."""
        return _Intervals(
            (begin, end, unit)
            for unit in self._dwarf.iter_CUs()
            for begin, end in self._ranges(unit.get_top_DIE())
        )

    def _ranges(self, die: Any) -> Iterator[tuple[int, int]]:
        """Yield the code of a DIE as pairs [begin, end) (DWARF 5, section 2.17)."""
        attributes = die.attributes
        low = attributes["DW_AT_low_pc"].value if "DW_AT_low_pc" in attributes else None
        if "DW_AT_ranges" in attributes:
            lists = self._dwarf.range_lists()
            top = die.cu.get_top_DIE().attributes
            base = top["DW_AT_low_pc"].value if "DW_AT_low_pc" in top else 0
            for entry in lists.get_range_list_at_offset(attributes["DW_AT_ranges"].value, cu=die.cu):
                if isinstance(entry, BaseAddressEntry):
                    base = entry.base_address
                    continue
                origin = 0 if entry.is_absolute else base
                yield origin + entry.begin_offset, origin + entry.end_offset
        elif low is not None and "DW_AT_high_pc" in attributes:
            high = attributes["DW_AT_high_pc"]
            yield low, high.value if describe_form_class(high.form) == "address" else low + high.value

    def _holds(self, die: Any, address: int) -> bool:
        return any(begin <= address < end for begin, end in self._ranges(die))

    def _inlined_calls(self, unit: Any, address: int) -> list[Any]:
        """Return the DW_TAG_inlined_subroutines around `address`, outermost first."""
        die = self._function(unit, address, nested=False) or self._function(unit, address, nested=True)
        inlined = []
        while die is not None:
            scopes = (child for child in die.iter_children() if child.tag in _SCOPES)
            die = next((scope for scope in scopes if self._holds(scope, address)), None)
            if die is not None and die.tag == "DW_TAG_inlined_subroutine":
                inlined.append(die)
        return inlined

    def _function(self, unit: Any, address: int, nested: bool) -> Any | None:
        """Return the function around `address`.

        Functions `nested` in others are rare and take much longer to list.
        """
        key = unit.cu_offset, nested
        if key not in self._functions:
            functions = self._subprograms(unit.get_top_DIE(), _EVERYTHING if nested else _NAMESPACES)
            self._functions[key] = _Intervals(
                (begin, end, die) for die in functions for begin, end in self._ranges(die)
            )
        return self._functions[key].find(address)

    def _subprograms(self, parent: Any, nests: set[str]) -> Iterator[Any]:
        """Yield the functions among the children of `parent`, and among those of children in `nests`."""
        for child in parent.iter_children():
            if child.tag == "DW_TAG_subprogram":
                yield child
            if child.tag in nests:
                yield from self._subprograms(child, nests)

    def _line_table(self, unit: Any) -> "_LineTable":
        if unit.cu_offset not in self._lines:
            self._lines[unit.cu_offset] = _LineTable(self._dwarf.line_program_for_CU(unit), unit)
        return self._lines[unit.cu_offset]


# Lexical blocks without code of their own only declare variables, and have no ranges.
_SCOPES = {"DW_TAG_inlined_subroutine", "DW_TAG_lexical_block"}
# Functions stand in the unit or in namespaces; rarely in other functions (Fortran's contained ones,
# OpenMP's outlined ones).
_NAMESPACES = {"DW_TAG_namespace", "DW_TAG_module"}
_EVERYTHING = _NAMESPACES | {"DW_TAG_subprogram", "DW_TAG_lexical_block"}


class _Intervals:
    """Disjoint intervals [begin, end), each with a value."""

    def __init__(self, intervals: Iterable[tuple[int, int, Any]]) -> None:
        self._intervals = sorted(intervals, key=lambda interval: interval[0])
        self._begins = [interval[0] for interval in self._intervals]

    def find(self, address: int) -> Any | None:
        index = bisect_right(self._begins, address) - 1
        return self._intervals[index][2] if index >= 0 and address < self._intervals[index][1] else None


class _LineTable:
    """Maps the addresses of one unit to paths and lines."""

    def __init__(self, program: Any, unit: Any) -> None:
        self._program = program
        name = unit.get_top_DIE().attributes.get("DW_AT_comp_dir")
        self._folder = _text(name.value) if name is not None else ""
        entries = program.get_entries() if program is not None else ()
        states = [entry.state for entry in entries if entry.state is not None]
        # Address, file, line; line 0 ends a sequence.
        rows = [(s.address, s.file, 0 if s.end_sequence else s.line) for s in states]
        # Sequences (sections) come in any order. Of rows with one address the last counts, but a
        # sequence that begins where another ends comes after that end.
        rows.sort(key=lambda row: (row[0], row[2] != 0))
        self._addresses = [row[0] for row in rows]
        self._rows = rows

    def at(self, address: int) -> tuple[str | None, int | None]:
        index = bisect_right(self._addresses, address) - 1
        if index < 0 or self._rows[index][2] == 0:
            return None, None
        _, file, line = self._rows[index]
        return self.path(file), line

    def path(self, file: int | None) -> str | None:
        """Return the path of file number `file`.

        Files are counted from 0 in version 5 and from 1 before (DWARF 5, section 6.2.4).
        """
        if file is None or self._program is None:
            return None
        header = self._program.header
        files = header.file_entry
        index = file if header.version >= 5 else file - 1
        if not 0 <= index < len(files):
            return None
        folders = header.include_directory
        folder_index = files[index].dir_index - (0 if header.version >= 5 else 1)
        folder = _text(folders[folder_index]) if 0 <= folder_index < len(folders) else self._folder
        return join(self._folder, folder, _text(files[index].name))


def _function_name(die: Any) -> str | None:
    """Return the linker symbol of an inlined function, or its name with the namespaces around it."""
    name = None
    for _ in range(4):  # inlined -> abstract instance -> declaration in its class
        for attribute in ("DW_AT_linkage_name", "DW_AT_MIPS_linkage_name"):
            if attribute in die.attributes:
                return _text(die.attributes[attribute].value)
        if name is None and "DW_AT_name" in die.attributes:
            name = _qualified_name(die)
        link = next(
            (a for a in ("DW_AT_abstract_origin", "DW_AT_specification") if a in die.attributes), None
        )
        if link is None:
            break
        die = die.get_DIE_from_attribute(link)
    return name


def _qualified_name(die: Any) -> str:
    parts = []
    while die is not None and die.tag != "DW_TAG_compile_unit":
        if "DW_AT_name" in die.attributes:
            parts.append(_text(die.attributes["DW_AT_name"].value))
        die = die.get_parent()
    return "::".join(reversed(parts))


def _number(die: Any, attribute: str) -> int | None:
    return int(die.attributes[attribute].value) if attribute in die.attributes else None


def _text(value: bytes | str) -> str:
    return value.decode(errors="replace") if isinstance(value, bytes) else value
