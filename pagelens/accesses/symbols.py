"""Names the call sites and code addresses of a trace, from the files that were mapped.

A call site is a list of return addresses, innermost first. It gets its name from the innermost function of
the program itself, such as `generate_matrix (cg.c:120)`. Functions of a language's runtime, and wrappers of
malloc, say nothing about the object. Sites that would share a name are told apart by their callers.
"""

import os
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from pagelens.accesses.demangle import demangle

if TYPE_CHECKING:
    from pagelens.accesses.elf_file import ElfFile, Symbol

# Functions that allocate for somebody: the C++ library, operator new, and malloc under any prefix
# (`xmalloc`, `gomp_malloc`, `PyMem_RawMalloc`; not `preallocate` nor `allocator`).
_WRAPPER = re.compile(
    r"^(?:std|__gnu_cxx)::|^operator new"
    r"|(?:^|[_x])(?:m|c|re)alloc(?!at)|(?:M|C|Re)alloc(?!at)|memalign|aligned_alloc"
)
# The headers of these libraries. Their inlined functions may lack a qualified name.
_WRAPPER_HEADER = re.compile(r"/include/c\+\+/|/include/(?:.*/)?[cs]tdlib")
# Libraries of programming languages, of which a user knows nothing.
_RUNTIME = re.compile(
    r"^(?:ld-linux|ld-musl|libpagelens_hooks|(?:libc|libstdc\+\+|libc\+\+|libc\+\+abi|libgcc_s|libgfortran|libquadmath|libgomp|libomp|libiomp5|libpthread|libm)[.-])"
)


@dataclass(frozen=True, slots=True)
class LoadedModule:
    """A file that was mapped when the trace was made. Addresses and sizes are in bytes."""

    path: str
    build_id: bytes  # empty if the file had none
    base: int  # load bias: address in memory = base + address in the file
    start: int
    size: int


@dataclass(frozen=True)
class Location:
    """One function at a code address. Its texts are made once, because many stacks have it."""

    module: str  # name of the file
    offset: int  # where the address lies in the file's own terms
    function: str | None = None  # its name as the source writes it, without arguments
    function_offset: int = 0  # bytes from the function's first; 0 in an inlined one
    path: str | None = None
    line: int | None = None

    @property
    def where(self) -> str:
        """The source line, such as `cg.c:120`, or `app+0x1169` without debug information."""
        if self.path is None or not self.line:
            return f"{self.module}+{self.offset:#x}"
        return f"{PurePosixPath(self.path).name}:{self.line}"

    def __str__(self) -> str:
        """Return `generate_matrix (cg.c:120)`, `generate_matrix+0x1c (app)`, or `app+0x1169`."""
        return self._text

    @cached_property
    def _text(self) -> str:
        if self.function is None:
            return self.where
        if self.path is None:
            return f"{self.function}+{self.function_offset:#x} ({self.module})"
        return f"{self.function} ({self.where})"

    @cached_property
    def is_runtime(self) -> bool:
        """Whether it lies in a library of a programming language."""
        return _RUNTIME.match(self.module) is not None

    @cached_property
    def is_wrapper(self) -> bool:
        """Whether this function allocates for its caller."""
        by_name = self.function is not None and _WRAPPER.search(self.function) is not None
        return by_name or (self.path is not None and _WRAPPER_HEADER.search(self.path) is not None)


@dataclass(frozen=True, slots=True)
class Variable:
    """A variable of static storage, at its address in the traced program. Its size is in bytes."""

    name: str
    module: str  # name of the file
    address: int
    size: int
    symbol: str  # its name in the file; its address follows if several have that name: table@0x4060

    @property
    def key(self) -> str:
        """The module and the symbol, as `app!table`."""
        return f"{self.module}!{self.symbol}"


class Symbolizer:
    """Looks up the addresses of one trace, for use as a context manager. It opens files when needed."""

    def __init__(
        self, modules: Iterable[LoadedModule], warn: Callable[[str], None] = lambda text: None
    ) -> None:
        """Take the modules of a trace. Where two overlap, the later one wins.

        `warn` is called once for each file that cannot be used.
        """
        self._modules = list(modules)[::-1]
        self._warn = warn
        self._files: dict[tuple[str, bytes], ElfFile | None] = {}
        self._locations = lru_cache(maxsize=None)(self._look_up)
        self.key = lru_cache(maxsize=None)(self._key)  # stacks share most of their addresses

    def __enter__(self) -> "Symbolizer":
        return self

    def __exit__(self, *_: object) -> None:
        for file in self._files.values():
            if file is not None:
                file.close()

    def locate(self, return_address: int) -> tuple[Location, ...]:
        """Return the functions that made the call which returns here, innermost inlined first.

        There is at least one.
        """
        return self._locations(return_address - 1)  # the call lies before the address it returns to

    def _key(self, return_address: int) -> str:
        """Return a key such as `app!main+0x1c`, or `app+0x1169` if the file has no symbol there.

        The key is the same for every run of a file, wherever it is mapped.
        """
        call = return_address - 1
        module = self._module(call)
        if module is None:
            return f"?+{return_address:#x}"
        name, offset = PurePosixPath(module.path).name, return_address - module.base
        file = self._file(module)
        symbol = file.function_at(offset - 1) if file is not None else None
        if symbol is None:
            return f"{name}+{offset:#x}"
        return f"{name}!{symbol.name}+{offset - symbol.address:#x}"

    def function(self, return_address: int) -> tuple[str, int | None]:
        """Return the path of the file that made the call which returns here, and where its function begins.

        The function is None if the file has no symbol there.
        """
        module = self._module(return_address - 1)
        if module is None:
            return "", return_address
        file = self._file(module)
        symbol = file.function_at(return_address - 1 - module.base) if file is not None else None
        return module.path, None if symbol is None else symbol.address

    def name(self, return_addresses: Sequence[int]) -> str:
        """Return the name of one call site."""
        return str(self._callers(return_addresses)[0])

    def names(self, sites: Mapping[int, Sequence[int]], program: str | None = None) -> dict[int, str]:
        """Return the names of call sites by their number.

        Every name is used once. Sites with the same innermost function are told apart by the first callers
        that differ: `new_matrix (matrix.c:12) from setup (main.c:40)`. Sites of one line are told apart by
        numbers in the order of first use: `setup (main.c:41) #2`. A function that occurs several times in a
        stack is named once. If the file of the traced program is given as `program`, a library without
        symbols is called `libfoo.so (no symbols)`.
        """
        callers = {
            site: _folded(self._callers(addresses), program and PurePosixPath(program).name)
            for site, addresses in sites.items()
        }
        names: dict[int, str] = {}

        def tell_apart(members: list[int], depth: int, name: str) -> None:
            deepest = max(len(callers[site]) for site in members)
            for level in range(depth, deepest):
                groups: defaultdict[str, list[int]] = defaultdict(list)
                for site in members:
                    groups[callers[site][level] if level < len(callers[site]) else ""].append(site)
                if len(groups) > 1 or level == 0:
                    for caller, group in groups.items():
                        tell_apart(group, level + 1, " from ".join(filter(None, (name, caller))))
                    return
            if len(members) == 1:
                names[members[0]] = name
            else:
                names.update((site, f"{name} #{nth}") for nth, site in enumerate(sorted(members), 1))

        if callers:
            tell_apart(list(callers), 0, "")
        return names

    def variables(self, least_bytes: int) -> list[Variable]:
        """Return the variables of at least `least_bytes`, by address, without those of language runtimes."""
        own = [(PurePosixPath(module.path).name, module) for module in self._modules]
        found = [
            Variable(demangle(symbol.name), name, module.base + symbol.address, symbol.size, known)
            for name, module in own
            if not _RUNTIME.match(name) and (file := self._file(module)) is not None
            for symbol, known in _told_apart(file, least_bytes)
        ]
        return sorted(found, key=lambda variable: variable.address)

    def _callers(self, return_addresses: Sequence[int]) -> list[Location]:
        """Return the program's own functions on a stack, innermost first, or all if none is its own."""
        everything = [location for address in return_addresses for location in self.locate(address)]
        own = [place for place in everything if not place.is_runtime]
        first = next((i for i, place in enumerate(own) if not place.is_wrapper), None)
        return own[first:] if first is not None else own or everything or [Location("?", 0)]

    def _module(self, address: int) -> LoadedModule | None:
        return next((m for m in self._modules if m.start <= address < m.start + m.size), None)

    def _look_up(self, address: int) -> tuple[Location, ...]:
        module = self._module(address)
        if module is None:
            return (Location("?", address),)
        name = PurePosixPath(module.path).name
        offset = address - module.base
        file = self._file(module)
        if file is None:
            return (Location(name, offset),)
        symbol = file.function_at(offset)
        function = demangle(symbol.name) if symbol is not None else None
        inside = offset - symbol.address if symbol is not None else 0
        # A runtime's lines say nothing to a user. Reading its debug information, if it is installed, takes
        # longer than reading the program's own.
        frames = file.source_frames(offset) if not _RUNTIME.match(name) else []
        if not frames:
            return (Location(name, offset, function, inside),)
        return tuple(
            Location(name, offset, demangle(frame.function), 0, frame.path, frame.line)
            if frame.function is not None
            else Location(name, offset, function, inside, frame.path, frame.line)
            for frame in frames
        )

    def _file(self, module: LoadedModule) -> "ElfFile | None":
        """Return the module's file if it is still the one that was traced, else None."""
        key = (module.path, module.build_id)
        if key not in self._files:
            self._files[key] = self._open(module)
        return self._files[key]

    def _open(self, module: LoadedModule) -> "ElfFile | None":
        from elftools.common.exceptions import ELFError  # declared workloads need no reader of ELF files

        from pagelens.accesses.elf_file import ElfFile

        try:
            file = ElfFile(Path(module.path))
        except (OSError, ELFError) as error:
            reason = os.strerror(error.errno) if isinstance(error, OSError) and error.errno else str(error)
            self._warn(f"{module.path}: {reason}; its functions are shown as offsets")
            return None
        if module.build_id and file.build_id != module.build_id:
            file.close()
            self._warn(
                f"{module.path} is no longer the file that was traced; its functions are shown as offsets"
            )
            return None
        return file


def _folded(callers: Sequence[Location], program: str | None) -> list[str]:
    """Return the callers as text. A function that occurred before is left out."""
    texts: dict[tuple[str, str | int], str] = {}
    for place in callers:
        if place.function is not None:
            texts.setdefault((place.module, place.function), str(place))
        elif program is None or place.module == program or place.path is not None:
            texts.setdefault((place.module, place.offset), str(place))
        else:
            texts.setdefault((place.module, ""), f"{place.module} (no symbols)")
    return list(texts.values())


def _told_apart(file: "ElfFile", least_bytes: int) -> Iterator[tuple["Symbol", str]]:
    """Yield variables with unique names."""
    several = Counter(name for name, _ in {(symbol.name, symbol.address) for symbol in file.variables(1)})
    for symbol in file.variables(least_bytes):
        yield symbol, f"{symbol.name}@{symbol.address:#x}" if several[symbol.name] > 1 else symbol.name
