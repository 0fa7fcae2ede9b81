"""`--from-function` as a user writes it: the linker's name, the source's, or one that is nearly right."""

import subprocess
from pathlib import Path

import pytest

from pagelens.accesses.named_function import find_function
from pagelens.errors import UsageError

SOURCE = """
#include <cstdlib>
namespace mesh {
struct Mesh { __attribute__((noinline)) int refine(int n) { return n + std::rand(); } };
template <typename T> __attribute__((noinline)) T scale(T x) { return 2 * x; }
__attribute__((noinline)) int twice(int x) { return 2 * x; }
__attribute__((noinline)) int twice(double x) { return 2 * x; }
}
extern "C" __attribute__((noinline)) int solve(int n) { return mesh::Mesh().refine(n); }
int main(int n, char**) { return solve(n) + mesh::scale(n) + mesh::twice(n) + mesh::twice(0.5 * n); }
"""


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("named") / "app"
    subprocess.run(["g++", "-O1", "-x", "c++", "-", "-o", path], input=SOURCE, text=True, check=True)
    return path


def address(program: Path, symbol: str) -> int:
    listed = subprocess.run(["nm", program], capture_output=True, text=True, check=True).stdout
    return next(int(line.split()[0], 16) for line in listed.splitlines() if line.endswith(f" {symbol}"))


@pytest.mark.parametrize(
    ("name", "symbol"),
    [
        ("solve", "solve"),
        ("mesh::Mesh::refine", "_ZN4mesh4Mesh6refineEi"),
        ("mesh::Mesh::refine(int)", "_ZN4mesh4Mesh6refineEi"),
        ("_ZN4mesh5twiceEd", "_ZN4mesh5twiceEd"),
        ("mesh::scale<int>", "_ZN4mesh5scaleIiEET_S1_"),
    ],
)
def test_functions_are_found_by_either_name(program: Path, name: str, symbol: str) -> None:
    assert find_function(program, name) == (program, address(program, symbol))


def test_functions_of_libraries_are_found(program: Path) -> None:
    file, where = find_function(program, "qsort")
    assert file.name.startswith("libc.so")
    assert where > 0


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("mesh::twice", "2 functions of app have this name; give that of the linker: _ZN4mesh5twiceEd, _ZN4"),
        ("Mesh::refin", "did you mean mesh::Mesh::refine"),
        ("0123456789", "`nm -C` lists"),
    ],
)
def test_names_of_none_or_several(program: Path, name: str, told: str) -> None:
    with pytest.raises(UsageError) as error:
        find_function(program, name)
    assert str(error.value).startswith(f"--from-function {name}: ")
    assert told in str(error.value)
