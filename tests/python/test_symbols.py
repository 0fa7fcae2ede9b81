"""Symbolisation against what small programs, compiled here, say of themselves."""

import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pagelens.accesses import elf_file
from pagelens.accesses.demangle import demangle
from pagelens.accesses.elf_file import ElfFile
from pagelens.accesses.symbols import LoadedModule, Location, Symbolizer

# Every call of `note` prints the line and function that the compiler says it stands in, and the
# address that it returns to: the known answer.
SOURCE = r"""
#include <cstdio>
#include <vector>
extern "C" char __executable_start[];
#define NOTE() note(__LINE__, __func__)
double table[1000];
static double small_table[4];
__attribute__((noinline, noipa)) void note(int line, const char* function) {
    std::printf("%d %s %p\n", line, function, __builtin_return_address(0));
}
namespace mesh {
struct Grid {
    inline void refine() { NOTE(); asm volatile(""); }
};
static inline __attribute__((always_inline)) void smooth() { NOTE(); asm volatile(""); }
__attribute__((noinline)) void solve(Grid& grid) {
    smooth();
    grid.refine();
    NOTE();
    asm volatile("");
}
}  // namespace mesh
template <class T> struct Counting {
    using value_type = T;
    T* allocate(std::size_t n) { NOTE(); return static_cast<T*>(::operator new(n * sizeof(T))); }
    void deallocate(T* p, std::size_t) { ::operator delete(p); }
};
__attribute__((noinline)) void fill(int n) {
    std::vector<int, Counting<int>> v(n, 1);
    asm volatile("" : : "r"(v.data()));
}
int main(int argc, char**) {
    std::printf("%p %p\n", (void*)__executable_start, (void*)table);
    mesh::Grid grid;
    mesh::solve(grid);
    fill(argc);
    small_table[argc] = 1;
    return small_table[0] != 0;
}
"""

COMPILERS = [
    pytest.param(["g++", "-O0"], id="gcc-O0"),
    pytest.param(["g++", "-O2"], id="gcc-O2"),
    pytest.param(["g++", "-O2", "-gdwarf-4"], id="gcc-dwarf4"),
    pytest.param(["g++", "-O2", "-static"], id="gcc-static"),
    pytest.param(["g++", "-O2", "-ffunction-sections", "-Wl,--gc-sections", "-gz=zlib"], id="gcc-sections"),
    pytest.param(
        ["clang++", "-O2", "-gdwarf-5"],
        id="clang",
        marks=pytest.mark.skipif(shutil.which("clang++") is None, reason="no clang++"),
    ),
]


@dataclass(frozen=True)
class Note:
    """One call of `note`: where the compiler says it is, and the address it returns to."""

    line: int
    function: str
    address: int


@dataclass(frozen=True)
class Program:
    """A compiled program and what a run of it said."""

    path: Path
    base: int
    table: int  # address of `table`
    notes: list[Note]

    def module(self, path: Path | None = None) -> LoadedModule:
        with_id = ElfFile(self.path)
        build_id = with_id.build_id
        with_id.close()
        return LoadedModule(str(path or self.path), build_id, self.base, self.base, 1 << 24)


def build(folder: Path, command: list[str]) -> Program:
    source, path = folder / "grid.cpp", folder / "grid"
    source.write_text(SOURCE)
    subprocess.run([*command, "-g", "-Wl,--build-id", "-o", path, source], check=True)
    lines = subprocess.run([path], check=True, capture_output=True, text=True).stdout.splitlines()
    start, table = (int(word, 16) for word in lines[0].split())
    static = "-static" in command
    notes = [
        Note(int(line), function, int(address, 16))
        for line, function, address in (text.split() for text in lines[1:])
    ]
    return Program(path, 0 if static else start, table, notes)


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Program:
    return build(tmp_path_factory.mktemp("grid"), ["g++", "-O2"])


@pytest.mark.parametrize("command", COMPILERS)
def test_lines_and_functions_are_those_of_the_source(tmp_path: Path, command: list[str]) -> None:
    program = build(tmp_path, command)
    functions = {
        "refine": "mesh::Grid::refine",
        "smooth": "mesh::smooth",
        "solve": "mesh::solve",
        "allocate": "Counting<int>::allocate",
    }
    assert [note.function for note in program.notes] == ["smooth", "refine", "solve", "allocate"]
    with Symbolizer([program.module()]) as symbolizer:
        for note in program.notes:
            places = symbolizer.locate(note.address)
            assert places[0].function == functions[note.function]
            assert places[0].where == f"grid.cpp:{note.line}"
            if note.function != "allocate":
                # The function that it is inlined into, or that calls it, is the caller in the source.
                assert note.function == "solve" or "-O0" in command or places[-1].function == "mesh::solve"


def test_the_name_is_the_innermost_function_that_is_no_wrapper(program: Program) -> None:
    [allocate] = [note for note in program.notes if note.function == "allocate"]
    with Symbolizer([program.module()]) as symbolizer:
        inlined = symbolizer.locate(allocate.address)
        assert [place.is_wrapper for place in inlined[1:-1]] == [True] * (len(inlined) - 2)
        assert inlined[-1].function == "fill"
        assert symbolizer.name([allocate.address]).startswith("Counting<int>::allocate (grid.cpp:")
        # From the frame above, as if the allocator were in the library: everything up to fill is std::.
        name = next(str(place) for place in inlined[1:] if not place.is_wrapper)
        assert name.startswith("fill (grid.cpp:")


def test_sites_with_one_name_are_told_apart_by_their_callers(program: Program) -> None:
    smooth, refine, solve, allocate = (note.address for note in program.notes)
    with Symbolizer([program.module()]) as symbolizer:
        names = symbolizer.names(
            {1: [solve, allocate], 2: [solve, refine], 3: [smooth], 4: [solve, allocate, refine]}
        )
        assert symbolizer.names({}) == {}
    line = {note.function: f"grid.cpp:{note.line}" for note in program.notes}
    assert names[3] == f"mesh::smooth ({line['smooth']})"
    assert names[2] == f"mesh::solve ({line['solve']}) from mesh::Grid::refine ({line['refine']})"
    assert names[1] == f"mesh::solve ({line['solve']}) from Counting<int>::allocate ({line['allocate']})"
    assert names[4] == f"{names[1]} from mesh::Grid::refine ({line['refine']})"


def test_sites_of_one_line_are_numbered(program: Program) -> None:
    solve = program.notes[2]
    # Another return address whose call is on the same line: one byte before this call's end.
    with Symbolizer([program.module()]) as symbolizer:
        names = symbolizer.names({7: [solve.address - 1], 3: [solve.address]})
    place = f"mesh::solve (grid.cpp:{solve.line})"
    assert names == {3: f"{place} #1", 7: f"{place} #2"}


def test_a_stripped_program_has_offsets_for_names(program: Program, tmp_path: Path) -> None:
    stripped = tmp_path / "grid"
    subprocess.run(["strip", "-o", stripped, program.path], check=True)
    address = program.notes[2].address
    with Symbolizer([program.module(stripped)]) as symbolizer:
        assert symbolizer.name([address]) == f"grid+{address - 1 - program.base:#x}"


def test_symbols_without_debug_information_name_the_function(program: Program, tmp_path: Path) -> None:
    stripped = tmp_path / "grid"
    subprocess.run(["strip", "--strip-debug", "-o", stripped, program.path], check=True)
    with Symbolizer([program.module(stripped)]) as symbolizer:
        name = symbolizer.name([program.notes[2].address])
    assert name.startswith("mesh::solve+0x")
    assert name.endswith("(grid)")


def test_lines_of_runtimes_are_not_read(program: Program, tmp_path: Path) -> None:
    """Their debug information is large where it is installed, and shows nothing of the program."""
    runtime = tmp_path / "libc.so.6"
    shutil.copy(program.path, runtime)
    with Symbolizer([program.module(runtime)]) as symbolizer:
        [place] = symbolizer.locate(program.notes[2].address)
    assert (place.function, place.path) == ("mesh::solve", None)


def test_separate_debug_information_is_found_by_build_id(
    program: Program, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stripped = tmp_path / "grid"
    subprocess.run(["strip", "-o", stripped, program.path], check=True)
    identity = program.module().build_id.hex()
    separate = tmp_path / "debug" / identity[:2] / f"{identity[2:]}.debug"
    separate.parent.mkdir(parents=True)
    subprocess.run(["objcopy", "--only-keep-debug", program.path, separate], check=True)
    monkeypatch.setattr(elf_file, "DEBUG_FOLDER", tmp_path / "debug")
    solve = program.notes[2]
    with Symbolizer([program.module(stripped)]) as symbolizer:
        assert symbolizer.name([solve.address]) == f"mesh::solve (grid.cpp:{solve.line})"


def test_a_file_that_changed_or_went_is_said_once(program: Program, tmp_path: Path) -> None:
    changed = tmp_path / "grid"
    other = tmp_path / "other.cpp"
    other.write_text("int main() {}\n")
    subprocess.run(["g++", "-Wl,--build-id", "-o", changed, other], check=True)
    gone = LoadedModule(str(tmp_path / "gone.so"), b"", 1 << 60, 1 << 60, 4096)
    warnings: list[str] = []
    with Symbolizer([program.module(changed), gone], warnings.append) as symbolizer:
        for note in program.notes:
            assert symbolizer.name([note.address]) == f"grid+{note.address - 1 - program.base:#x}"
        assert symbolizer.name([(1 << 60) + 5]) == "gone.so+0x4"
        assert symbolizer.name([77]) == "?+0x4c"
    assert warnings == [
        f"{changed} is no longer the file that was traced; its functions are shown as offsets",
        f"{tmp_path / 'gone.so'}: No such file or directory; its functions are shown as offsets",
    ]


def test_a_later_module_at_the_same_place_wins(program: Program) -> None:
    old = LoadedModule("/opt/old.so", b"", program.base, program.base, 1 << 24)
    with Symbolizer([old, program.module()]) as symbolizer:
        assert symbolizer.name([program.notes[2].address]).startswith("mesh::solve (grid.cpp:")


def test_variables_of_static_storage(program: Program) -> None:
    with Symbolizer([program.module()]) as symbolizer:
        [table] = [variable for variable in symbolizer.variables(1000) if variable.name == "table"]
        assert (table.address, table.size) == (program.table, 8000)
        assert all(variable.size >= 1000 for variable in symbolizer.variables(1000))
        assert "small_table" in [variable.name for variable in symbolizer.variables(32)]


def test_broken_debug_information_leaves_the_symbols(program: Program, tmp_path: Path) -> None:
    broken = tmp_path / "grid"
    (tmp_path / "noise").write_bytes(bytes(range(1, 256)) * 40)
    update = [
        f"--update-section=.debug_{name}={tmp_path / 'noise'}"
        for name in ("info", "abbrev", "line", "aranges")
    ]
    subprocess.run(["objcopy", *update, program.path, broken], check=True)
    with Symbolizer([program.module(broken)]) as symbolizer:
        assert symbolizer.name([program.notes[2].address]).startswith("mesh::solve+0x")


@pytest.mark.parametrize(
    ("symbol", "name"),
    [
        ("main", "main"),
        ("_Znwm", "operator new"),
        ("_ZnaRKm", "operator new[]"),
        ("_ZN4Mesh6refineEi", "Mesh::refine"),
        ("_ZNK3FooclEi", "Foo::operator()"),
        ("_ZN3FoocvdEv", "Foo::operator double"),
        ("_ZN1AptEv", "A::operator->"),
        ("_ZlsRSoRK3Foo", "operator<<"),
        ("_Z3addIdET_S0_S0_", "add<double>"),
        ("_ZN12_GLOBAL__N_14makeEv", "(anonymous namespace)::make"),
        ("_ZZ4mainENKUlvE_clEv", "main::{lambda()#1}::operator()"),
        ("_ZNSt6vectorIdSaIdEE6resizeEm", "std::vector<double, std::allocator<double> >::resize"),
        ("__cg_solver_MOD_assemble", "cg_solver::assemble"),
        ("main._omp_fn.0", "main"),
        ("_ZN4Mesh6refineEi.constprop.0.isra.0", "Mesh::refine"),
        ("_Zbroken", "_Zbroken"),
    ],
)
def test_names_are_those_of_the_source(symbol: str, name: str) -> None:
    assert demangle(symbol) == name


@given(st.text(min_size=1))
def test_any_text_is_a_symbol(text: str) -> None:
    demangle(text)
    assert isinstance(demangle("_Z" + text), str)


@pytest.mark.parametrize(
    ("function", "wrapper"),
    [
        ("malloc", True),
        ("xmalloc", True),
        ("gomp_malloc_cleared", True),
        ("PyMem_RawMalloc", True),
        ("std::vector<int>::reserve", True),
        ("operator new", True),
        ("preallocate", False),
        ("Field::allocate", False),
        ("calcAllocation", False),
        ("studio::make", False),
    ],
)
def test_wrappers_go_by_their_names(function: str, wrapper: bool) -> None:
    assert Location("app", 0, function).is_wrapper is wrapper


def test_an_address_of_many_stacks_is_looked_up_once(monkeypatch: pytest.MonkeyPatch) -> None:
    looked_up: list[int] = []
    monkeypatch.setattr(Symbolizer, "_module", lambda _, address: looked_up.append(address))
    with Symbolizer([]) as symbolizer:
        assert [symbolizer.key(address) for address in (9, 8, 9, 9)] == ["?+0x9", "?+0x8", "?+0x9", "?+0x9"]
    assert looked_up == [8, 7]
