"""The interposer must not be noticed: programs behave the same with it preloaded as without it."""

import os
import subprocess
from pathlib import Path

import pytest
from preloaded import ALLOCATIONS, OWN_ALLOCATOR, THREADS, programs_as_they_come

from pagelens import _core

HOOKS = Path(_core.__file__).parent / "lib" / "libpagelens_hooks.so"


def run(command: list[str | Path], preload: bool) -> subprocess.CompletedProcess[bytes]:
    environment = {**os.environ, "LC_ALL": "C.UTF-8"}
    if preload:
        environment["LD_PRELOAD"] = str(HOOKS)
    return subprocess.run(command, env=environment, capture_output=True, check=False)


def same_with_and_without(command: list[str | Path]) -> str:
    plain, hooked = run(command, preload=False), run(command, preload=True)
    assert (hooked.returncode, hooked.stdout, hooked.stderr) == (plain.returncode, plain.stdout, plain.stderr)
    assert plain.returncode == 0
    return plain.stdout.decode()


@pytest.mark.parametrize("source", [ALLOCATIONS, THREADS], ids=["edges", "threads"])
def test_every_function_gives_what_the_allocator_gives(tmp_path: Path, source: str) -> None:
    program = tmp_path / "program"
    (tmp_path / "program.c").write_text(source)
    flags = ["-O1", "-fno-builtin", "-w", "-pthread"]
    subprocess.run(["gcc", *flags, "-o", program, tmp_path / "program.c"], check=True)
    assert same_with_and_without([program])


@programs_as_they_come
def test_programs_as_they_come(command: list[str | Path]) -> None:
    assert same_with_and_without(command)


def test_a_program_with_its_own_allocator_keeps_it(tmp_path: Path) -> None:
    source = tmp_path / "own.c"
    source.write_text(OWN_ALLOCATOR)
    program = tmp_path / "own"
    subprocess.run(["gcc", "-fno-builtin", "-o", program, source], check=True)
    assert same_with_and_without([program]) == "1 1\n"


def test_a_linked_allocator_is_called_through(tmp_path: Path) -> None:
    (tmp_path / "lib.c").write_text(
        r"""
        #define _GNU_SOURCE
        #include <dlfcn.h>
        #include <stddef.h>
        int count;
        void *malloc(size_t n) {
            static void *(*next)(size_t);
            if (!next) next = (void *(*)(size_t))dlsym(RTLD_NEXT, "malloc");
            ++count;
            return next(n);
        }
        """
    )
    (tmp_path / "main.c").write_text(
        r"""
        #include <stdio.h>
        #include <stdlib.h>
        extern int count;
        int main(void) {
            const int before = count;
            for (int i = 0; i < 5; ++i) free(malloc(100));
            printf("%d\n", count - before);
            return 0;
        }
        """
    )
    library, program = tmp_path / "libown.so", tmp_path / "main"
    flags = ["-O1", "-fno-builtin", "-w"]
    subprocess.run(["gcc", *flags, "-shared", "-fPIC", "-o", library, tmp_path / "lib.c", "-ldl"], check=True)
    linked = [tmp_path / "main.c", library, f"-Wl,-rpath,{tmp_path}"]
    subprocess.run(["gcc", *flags, "-o", program, *linked], check=True)
    assert same_with_and_without([program]) == "5\n"


@pytest.mark.parametrize(
    ("compiler", "name"),
    [
        (["gcc", "-std=c99", "-Wall", "-Wextra", "-Wpedantic", "-Werror"], "app.c"),
        (["gcc", "-masm=intel", "-O2"], "app.c"),
        (
            ["g++", "-std=c++11", "-Wall", "-Wextra", "-Wpedantic", "-Wshadow", "-Wconversion", "-Werror"],
            "app.cpp",
        ),
    ],
    ids=["c99", "intel-syntax", "c++11"],
)
def test_markers_compile_anywhere_and_do_nothing_outside_the_tracer(
    tmp_path: Path, compiler: list[str], name: str
) -> None:
    source, program = tmp_path / name, tmp_path / "app"
    source.write_text(
        "#include <pagelens.h>\n#include <stdio.h>\n"
        'int main(void) {\n    pagelens_region_begin("a");\n    puts("in it");\n'
        '    pagelens_region_end("a");\n    return 0;\n}\n'
    )
    headers = HOOKS.parent.parent / "include"
    subprocess.run([*compiler, f"-I{headers}", "-o", program, source], check=True)
    assert run([program], preload=False).stdout == b"in it\n"


def test_fortran_markers_compile_and_do_nothing_outside_the_tracer(tmp_path: Path) -> None:
    headers = HOOKS.parent.parent / "include"
    (tmp_path / "app.f90").write_text(
        "program app\n    use pagelens\n    call pagelens_region_begin('a')\n    print '(a)', 'in it'\n"
        "    call pagelens_region_end('a')\nend program\n"
    )
    subprocess.run(
        ["gcc", "-O2", "-Wall", "-Werror", "-c", headers / "pagelens_fortran.c"], cwd=tmp_path, check=True
    )
    sources = [headers / "pagelens.f90", "app.f90", "pagelens_fortran.o"]
    subprocess.run(["gfortran", "-Wall", "-Werror", *sources, "-o", "app"], cwd=tmp_path, check=True)
    assert run([tmp_path / "app"], preload=False).stdout == b"in it\n"


MPI = r"""
    int PMPI_Comm_size(int communicator, int *ranks) { *ranks = communicator == 7 ? 2 : 0; return 0; }
    int MPI_Barrier(int communicator) { return communicator != 7; }
"""
BARRIERS = r"""
    #include <stdio.h>
    int MPI_Barrier(int), lookups;
    int dladdr1(const void *code, void *info, void **more, int flags) { lookups++; return 0; }
    int main(void) {
        int wrong = 0;
        for (int call = 0; call < 1000; call++) wrong |= MPI_Barrier(7);
        printf("%d %d\n", wrong, lookups < 100);
        return 0;
    }
"""


def test_a_collective_is_looked_for_once(tmp_path: Path) -> None:
    """Each call asks for two functions, itself and the size of its communicator. Both stay known."""
    library, program = tmp_path / "libmpi.so", tmp_path / "barriers"
    for name, source in {"mpi.c": MPI, "barriers.c": BARRIERS}.items():
        (tmp_path / name).write_text(source)
    subprocess.run(["gcc", "-shared", "-fPIC", "-o", library, tmp_path / "mpi.c"], check=True)
    subprocess.run(["gcc", "-rdynamic", "-o", program, tmp_path / "barriers.c", library], check=True)
    assert same_with_and_without([program]) == "0 1\n"
