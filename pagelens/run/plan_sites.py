"""Finds a plan's sites and variables in the files that the program loads now.

A file with the plan's build id has its functions where the plan says. In another build, a frame stands for
every call in the function of that name. What does not exist any more stays slow, and a line says so.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from elftools.common.exceptions import ELFError

from pagelens.accesses.elf_file import ElfFile, Symbol
from pagelens.place.plan import Frame, Plan, PlannedObject, StaticVariable, parse_variable

_CLONE = re.compile(r"\.(?:isra|part|constprop|cold|lto_priv|llvm)\b.*$")  # what compilers append
_MOST_NAMED = 3  # in one line

_HOOKS = "pagelens_hooks"  # the section of hooks/pagelens.h with the pointers that markers call
_POINTER = 8  # bytes

Range = tuple[int, int]  # return addresses from the first on and below the second, in the file's own terms


@dataclass(frozen=True)
class Variable:
    """A variable of static storage. Its size is in bytes."""

    module: int
    planned: int
    address: int
    size: int


@dataclass(frozen=True)
class Hooks:
    """The pointers of a file that its markers of regions call."""

    module: int
    address: int
    count: int


@dataclass
class Located:
    """The plan located in files. Modules and objects have the plan's indices.

    Modules that only mark regions follow those of the plan.
    """

    paths: list[Path | None]  # the file of each module; None if it is not there
    places: list[list[tuple[Range, int]]] = field(
        default_factory=list
    )  # of each module: by address, numbered
    sites: dict[tuple[int, ...], int] = field(default_factory=dict)  # numbers of places -> object
    variables: list[Variable] = field(default_factory=list)
    hooks: list[Hooks] = field(default_factory=list)
    said: list[str] = field(default_factory=list)


def locate_plan(plan: Plan, paths: Mapping[str, Path]) -> Located:
    """Locate the plan. `paths` gives the present file of each module.

    What cannot be found is reported in a line, and is never an error.
    """
    located = Located([paths.get(module.name) for module in plan.modules])
    files = [_File(module.name, path, bytes.fromhex(module.build_id), located.said) for module, path in
             zip(plan.modules, located.paths, strict=True)]  # fmt: skip
    by_name = {file.name: index for index, file in enumerate(files)}
    numbers = _Numbers(len(files))
    missing = _Missing()
    order = sorted(range(len(plan.objects)), key=lambda index: -plan.objects[index].bytes)
    alike: list[tuple[int, int]] = []
    for index in order:  # of sites that are one the first has most bytes
        planned = plan.objects[index]
        if planned.variable is not None:
            _add_variable(located, planned, index, files, by_name, missing)
            continue
        site = _site(planned, files, by_name, numbers, missing)
        if site is not None and located.sites.setdefault(site, index) != index:
            alike.append((located.sites[site], index))
    located.places = [sorted(known.items()) for known in numbers.of]
    for index, file in enumerate(files):
        if not file.readable:
            located.paths[index] = None
    located.said += missing.lines()
    if alike:
        kept, lost = alike[0]
        sites = "sites are those" if alike[1:] else "site is that"
        located.said.append(
            f"{len(alike)} {sites} of another in this build ('{plan.objects[lost].name}' as "
            f"'{plan.objects[kept].name}'{', ...' if alike[1:] else ''}); the one of most bytes decides"
        )
    for file in files:
        file.close()
    if plan.regions:
        _add_hooks(located, [*paths.values()])
    return located


def _add_hooks(located: Located, loaded: Sequence[Path]) -> None:
    for path in dict.fromkeys(loaded):
        try:
            elf = ElfFile(path)
        except (OSError, ELFError, ValueError):
            continue  # what is planned in it has been said
        found = elf.section(_HOOKS)
        elf.close()
        if found is None or found[0] % _POINTER:
            continue
        if path not in located.paths:
            located.paths.append(path)
            located.places.append([])
        located.hooks.append(Hooks(located.paths.index(path), found[0], found[1] // _POINTER))
    if not located.hooks:
        located.said.append(
            "the program has no markers of regions that can be heard (compile it with this version's "
            "pagelens.h); objects lie everywhere as `share` says"
        )


class _File:
    """A module's symbols by name."""

    def __init__(self, name: str, path: Path | None, build_id: bytes, said: list[str]) -> None:
        self.name = name
        self._elf: ElfFile | None = None
        self.same = False
        if path is None:
            said.append(f"{name} is not loaded by the program; its objects are not placed")
            return
        try:
            self._elf = ElfFile(path)
            self.same = self._elf.build_id == build_id
        except (OSError, ELFError, ValueError):
            said.append(f"{path} cannot be read; its objects are not placed")
            return
        if not self.same:
            which = f"{name} is another build than the plan's"
            if path.name != name:
                which = f"{path.name} is not {name}, which the plan is of, or another build of it"
            said.append(f"{which}; its sites are found by symbols alone")
        self._functions = _by_name(self._elf.functions())
        self._variables = _by_name(self._elf.variables(1))

    @property
    def readable(self) -> bool:
        return self._elf is not None

    def ranges(self, frame: Frame) -> tuple[Range, ...]:
        """Return where a frame can return to. Return nothing if its function does not exist."""
        if self._elf is None or (frame.symbol is None and not self.same):
            return ()
        if frame.symbol is None:
            return ((frame.offset, frame.offset + 1),)
        functions = self._functions.get(frame.symbol) or self._clones.get(_CLONE.sub("", frame.symbol), [])
        if not self.same:
            return tuple((one.address + 1, one.address + one.size + 1) for one in functions)
        exact = (one.address + frame.offset for one in functions if 0 < frame.offset <= one.size)
        return tuple((address, address + 1) for address in exact)

    def variable(self, wanted: StaticVariable, size: int) -> Symbol | None:
        """Return the variable at the planned address, among those that source files have under one name.

        In another build, or if the plan has no address, return the one whose size is nearest to the plan's.
        """
        found = self._variables.get(wanted.symbol, []) if self._elf is not None else []
        if self.same and wanted.address is not None:
            return next((one for one in found if one.address == wanted.address), None)
        return min(found, key=lambda one: abs(one.size - size), default=None)

    @property
    def _clones(self) -> dict[str, list[Symbol]]:
        """The functions, by their names without what a compiler appends."""
        if not hasattr(self, "_by_base"):
            self._by_base: dict[str, list[Symbol]] = defaultdict(list)
            for name, symbols in self._functions.items():
                self._by_base[_CLONE.sub("", name)] += symbols
        return self._by_base

    def close(self) -> None:
        if self._elf is not None:
            self._elf.close()


def _by_name(symbols: Iterable[Symbol]) -> dict[str, list[Symbol]]:
    found: dict[str, list[Symbol]] = defaultdict(list)
    for symbol in symbols:
        found[symbol.name].append(symbol)
    return found


class _Numbers:
    """Numbers for places. Those that a frame cannot tell apart (functions of one name) share a number."""

    def __init__(self, modules: int) -> None:
        self.of: list[dict[Range, int]] = [{} for _ in range(modules)]
        self._next = 0

    def number(self, module: int, ranges: Sequence[Range]) -> int:
        known = self.of[module]
        found = next((known[one] for one in ranges if one in known), None)
        if found is None:
            found, self._next = self._next, self._next + 1
        for one in ranges:
            known.setdefault(one, found)
        return found


class _Missing:
    """The things that are missing, and how many objects miss each of them."""

    def __init__(self) -> None:
        self._objects: dict[str, list[str]] = defaultdict(list)

    def add(self, what: str, planned: PlannedObject) -> None:
        self._objects[what].append(planned.name)

    def lines(self) -> list[str]:
        if not self._objects:
            return []
        count = sum(map(len, self._objects.values()))
        what = ", ".join([*self._objects][:_MOST_NAMED]) + (
            ", ..." if len(self._objects) > _MOST_NAMED else ""
        )
        first = next(iter(self._objects.values()))[0]
        objects = f"'{first}' is" if count == 1 else f"{count} objects ('{first}', ...) are"
        return [f"not in the program: {what}; {objects} not placed"]


def _site(
    planned: PlannedObject,
    files: Sequence[_File],
    by_name: Mapping[str, int],
    numbers: _Numbers,
    missing: _Missing,
) -> tuple[int, ...] | None:
    site = []
    for frame in planned.frames:
        module = by_name[frame.module]
        ranges = files[module].ranges(frame)
        if not ranges:
            if files[module].readable:  # else that has been said
                place = frame.symbol if frame.symbol is not None else f"+{frame.offset:#x}"
                missing.add(f"{frame.module}!{place}", planned)
            return None
        site.append(numbers.number(module, ranges))
    return tuple(site)


def _add_variable(
    located: Located,
    planned: PlannedObject,
    index: int,
    files: Sequence[_File],
    by_name: Mapping[str, int],
    missing: _Missing,
) -> None:
    wanted = parse_variable(planned.variable or "")
    module = by_name[wanted.module]
    symbol = files[module].variable(wanted, planned.bytes)
    if symbol is not None:
        located.variables.append(Variable(module, index, symbol.address, symbol.size))
    elif files[module].readable:
        missing.add(str(wanted), planned)
