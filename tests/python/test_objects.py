"""Objects of traced programs: each program here has a known answer, blocks and bytes a call site."""

import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from pagelens import _core
from pagelens.accesses.trace import TraceWorkload, open_trace
from pagelens.accesses.workload import ObjectInfo

pytestmark = pytest.mark.skipif(shutil.which("qemu-x86_64") is None, reason="no qemu-x86_64")

INCLUDE = Path(_core.__file__).parent / "include"
Trace = Callable[[str, str, list[str]], TraceWorkload]

PRELUDE = """
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#define SITE __attribute__((noinline, noclone))
/* Keeps the compiler from dropping an allocation, and a call from becoming a jump. */
#define KEEP(p) __asm__ volatile("" : "+r"(p) : : "memory")
"""


@pytest.fixture
def trace(tmp_path: Path, pagelens: Callable[..., subprocess.CompletedProcess[str]]) -> Trace:
    """Compiles `text` as `name` and traces it; the program must end well."""

    def build_and_trace(name: str, text: str, command: list[str]) -> TraceWorkload:
        (tmp_path / name).write_text(text if name.endswith(".f90") else PRELUDE + text)
        subprocess.run([*command, "-o", "program", name], cwd=tmp_path, check=True)
        done = pagelens("trace", "-o", "program.trace", "--", "./program")
        assert (done.returncode, done.stderr.count("Traceback")) == (0, 0), done.stderr
        return open_trace(tmp_path / "program.trace")

    return build_and_trace


def site(workload: TraceWorkload, function: str) -> ObjectInfo:
    """The one call site that is named by `function`."""
    [found] = [item for item in workload.objects if item.births > 0 and item.name.split(" ")[0] == function]
    return found


def blocks_and_bytes(workload: TraceWorkload, *functions: str) -> dict[str, tuple[int, int]]:
    found = {function: site(workload, function) for function in functions}
    return {function: (item.births, item.bytes) for function, item in found.items()}


def test_every_function_of_the_family(trace: Trace) -> None:
    text = r"""
    #include <malloc.h>
    #include <sys/mman.h>
    SITE void *plain(void) { void *p = malloc(1000); KEEP(p); return p; }
    SITE void *zeroed(void) { void *p = calloc(300, 7); KEEP(p); return p; }
    SITE void *growing(void *p, size_t n) { p = realloc(p, n); KEEP(p); return p; }
    SITE void *growing_array(void *p) { p = reallocarray(p, 1000, 5); KEEP(p); return p; }
    SITE void *posix(void) {
        void *p;
        if (posix_memalign(&p, 4096, 5001) != 0) abort();
        KEEP(p);
        return p;
    }
    SITE void *aligned(void) { void *p = aligned_alloc(64, 6400); KEEP(p); return p; }
    SITE void *aligned_of_old(void) { void *p = memalign(256, 123); KEEP(p); return p; }
    SITE void *mapped(void) {
        void *p = mmap(NULL, 123456, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        KEEP(p);
        return p;
    }
    SITE void *in_vain(void *p) { void *q = realloc(p, PTRDIFF_MAX); KEEP(q); return q; }
    SITE void *small(void) { void *p = malloc(24); KEEP(p); return p; }
    int main(void) {
        for (volatile int i = 0; i < 3; ++i) free(plain()); /* one at a time */
        for (volatile int i = 0; i < 2; ++i) zeroed();      /* two at a time */
        void *p = NULL;
        for (size_t n = 1000; n <= 300000; n += 1000) p = growing(p, n);
        p = growing_array(p);
        in_vain(p);
        free(posix());
        aligned();
        aligned_of_old();
        memset(mapped(), 1, 123456);
        for (int i = 0; i < 10000; ++i) small();
        return 0;
    }
    """
    workload = trace(
        "family.c",
        text,
        ["gcc", "-D_GNU_SOURCE", "-O1", "-g", "-Walloc-size-larger-than=18446744073709551615"],
    )
    expected = {
        "plain": (3, 1000),
        "zeroed": (2, 4200),
        "growing": (300, 300000),
        "growing_array": (1, 5000),
        "posix": (1, 5001),
        "aligned": (1, 6400),
        "aligned_of_old": (1, 123),
        "mapped": (1, 123456),
        "small": (10000, 240000),
    }
    assert blocks_and_bytes(workload, *expected) == expected
    # A realloc that fails leaves the block alive: it counts as the failed call's from then on.
    assert site(workload, "in_vain").births == 1
    assert site(workload, "mapped").lines >= 123456 // 64
    assert site(workload, "zeroed").name == "zeroed (family.c:12)"
    assert any(known.name.startswith("[.data/.bss of ld-") for known in workload.objects)
    assert not any("libpagelens" in known.name for known in workload.objects)  # no user put it there


def test_reused_addresses_go_to_who_has_them(trace: Trace) -> None:
    text = r"""
    #include <stdio.h>
    enum { BYTES = 64 * 1024, LINES = BYTES / 64 };
    SITE static char *first(void) { char *p = malloc(BYTES); KEEP(p); return p; }
    SITE static char *second(void) { char *p = malloc(BYTES); KEEP(p); return p; }
    SITE static void sweep(volatile char *p, int times) {
        while (times-- > 0)
            for (int i = 0; i < LINES; ++i) p[64 * i] = 1;
    }
    int main(void) {
        uintptr_t last = 0;
        int reused = 0;
        for (volatile int i = 0; i < 10; ++i) {
            char *p = i % 2 ? second() : first();
            reused += (uintptr_t)p == last;
            last = (uintptr_t)p;
            sweep(p, i % 2 ? 5 : 2);
            free(p);
        }
        return reused != 9;
    }
    """
    workload = trace("reuse.c", text, ["gcc", "-O1", "-g"])
    first, second = site(workload, "first"), site(workload, "second")
    # 64 KiB do not fit the filter's 32 KiB: every sweep fetches every line. At a change of owner a few
    # lines still in it are hidden or taken over, more or fewer by where the stack lies: the slack.
    assert first.births == second.births == 5
    assert abs(first.lines - 5 * 2 * 1024) <= 5 * 8
    assert abs(second.lines - 5 * 5 * 1024) <= 5 * 8


def test_what_malloc_does_for_a_block_counts_for_who_asked(trace: Trace) -> None:
    """It is the first to touch new memory: the headers of a block and of what lies behind it."""
    text = r"""
    struct node { struct node *next; double values[7]; };
    SITE static struct node *make(void) { struct node *p = malloc(sizeof *p); KEEP(p); return p; }
    int main(void) {
        struct node *head = NULL;
        for (int i = 0; i < 5000; ++i) {
            struct node *p = make();
            p->next = head;
            p->values[6] = i;
            head = p;
        }
        return head == NULL;
    }
    """
    workload = trace("list.c", text, ["gcc", "-O1", "-g"])
    [heap] = [item for item in workload.objects if item.name == "[heap]"]
    lines = 5000 * 80 / 64  # of chunks of 80 bytes
    assert site(workload, "make").lines >= 0.9 * lines
    assert heap.lines <= 0.1 * lines
    assert heap.bytes <= 0.1 * 5000 * 80


def test_cplusplus_and_its_exceptions(trace: Trace) -> None:
    text = r"""
    #include <memory>
    #include <stdexcept>
    #include <string>
    #include <vector>
    struct Cell { double values[10]; };
    SITE Cell *by_new() { Cell *p = new Cell; KEEP(p); return p; }
    SITE Cell *by_new_array() { Cell *p = new Cell[100]; KEEP(p); return p; }
    struct alignas(128) Wide { char bytes[128]; };
    SITE Wide *by_aligned_new() { Wide *p = new Wide; KEEP(p); return p; }
    SITE void by_vector(std::size_t n) { std::vector<double> v(n, 1.0); double *p = v.data(); KEEP(p); }
    SITE void by_growth() {
        std::vector<int> v;
        for (int i = 0; i < 1024; ++i) v.push_back(i);
        int *p = v.data();
        KEEP(p);
    }
    SITE std::shared_ptr<Cell> by_shared() { auto p = std::make_shared<Cell>(); return p; }
    SITE void deep(int n) { if (n == 0) throw std::runtime_error("out"); deep(n - 1); KEEP(n); }
    SITE char *after_throw() {
        try { deep(30); } catch (const std::exception &) {}
        char *p = new char[777];
        KEEP(p);
        return p;
    }
    int main() {
        for (volatile int i = 0; i < 2; i = i + 1) by_new();
        delete[] by_new_array();
        by_aligned_new();
        by_vector(1000);
        by_growth();
        auto shared = by_shared();
        for (volatile int i = 0; i < 5; i = i + 1) delete[] after_throw();
        return shared->values[0] != 0;
    }
    """
    for level in ("-O0", "-O2"):
        workload = trace("cells.cpp", text, ["g++", level, "-g"])
        expected = {
            "by_new": (2, 160),
            "by_new_array": (1, 8000),
            "by_aligned_new": (1, 128),
            "by_vector": (1, 8000),
            "after_throw": (5, 777),
        }
        assert blocks_and_bytes(workload, *expected) == expected
        growth = site(workload, "by_growth")
        assert (growth.births, growth.bytes) == (11, (1024 + 512) * 4)  # 1, 2, 4 .. 1024; old beside new
        assert site(workload, "by_shared").births == 1


def test_fortran_and_its_regions(trace: Trace, tmp_path: Path) -> None:
    text = """
    module cg
      implicit none
    contains
      subroutine setup(a, n)
        real(8), allocatable, intent(out) :: a(:)
        integer, intent(in) :: n
        allocate(a(n))
        a = 1
      end subroutine
    end module
    program main
      use cg
      use pagelens
      real(8), allocatable :: x(:), y(:)
      call pagelens_region_begin('set up')
      call setup(x, 10000)
      call setup(y, 20000)
      call pagelens_region_end('set up')
      call pagelens_region_begin('solve')
      if (sum(x) + sum(y) /= 30000) stop 1
      call pagelens_region_end('solve')
    end program
    """
    shim = subprocess.run(["gcc", "-O2", "-c", INCLUDE / "pagelens_fortran.c"], cwd=tmp_path, check=False)
    assert shim.returncode == 0
    command = ["gfortran", "-O1", "-g", "-fno-inline", str(INCLUDE / "pagelens.f90"), "pagelens_fortran.o"]
    workload = trace("cg.f90", text, command)
    setups = sorted((o.bytes, o.name) for o in workload.objects if o.name.startswith("cg::setup"))
    assert setups == [
        (80000, "cg::setup (cg.f90:8) from MAIN__ (cg.f90:17)"),
        (160000, "cg::setup (cg.f90:8) from MAIN__ (cg.f90:18)"),
    ]
    assert workload.phases == ["(outside regions)", "set up", "solve"]


def test_threads_and_parallel_regions_share_their_sites(trace: Trace) -> None:
    text = r"""
    #include <pthread.h>
    SITE static void step(size_t n) { char *p = malloc(n); KEEP(p); p[0] = 1; free(p); }
    static void *work(void *argument) { for (int i = 0; i < 100; ++i) step(50); return argument; }
    SITE static void in_parallel(int n) { char *p = calloc(n, 8); KEEP(p); free(p); }
    SITE static void region(int n) {
        #pragma omp parallel for num_threads(3)
        for (int i = 0; i < n; ++i) in_parallel(i + 1);
    }
    int main(void) {
        pthread_t threads[4];
        for (int i = 0; i < 4; ++i) pthread_create(&threads[i], NULL, work, NULL);
        for (int i = 0; i < 4; ++i) pthread_join(threads[i], NULL);
        region(60);
        return 0;
    }
    """
    workload = trace("threads.c", text, ["gcc", "-O1", "-g", "-fopenmp"])
    step = site(workload, "step")
    assert step.births == 400
    assert 50 <= step.bytes <= 4 * 50
    assert site(workload, "in_parallel").births == 60


def test_regions_nest_and_leave_their_names(trace: Trace) -> None:
    text = r"""
    #include <pagelens.h>
    int main(void) {
        static volatile char memory[1 << 20];
        pagelens_region_begin("outer");
        for (int i = 0; i < 1 << 20; i += 64) memory[i] = 1;
        pagelens_region_begin("inner");
        for (int i = 0; i < 1 << 20; i += 64) memory[i] = 1;
        pagelens_region_end("inner");
        pagelens_region_end("outer");
        return 0;
    }
    """
    workload = trace("regions.c", text, ["gcc", "-O1", f"-I{INCLUDE}"])
    assert workload.phases == ["(outside regions)", "outer", "inner"]


def test_names_of_regions_are_any_bytes_and_the_first_255(trace: Trace) -> None:
    text = r"""
    #include <pagelens.h>
    #include <string.h>
    int main(void) {
        static volatile char memory[1 << 20];
        char name[300];
        memset(name, 'a', sizeof name);
        strcpy(name + 254, "\xc3\xa9"); /* two bytes, of which one counts */
        pagelens_region_begin("caf\xe9");
        for (int i = 0; i < 1 << 20; i += 64) memory[i] = 1;
        pagelens_region_end("caf\xe9");
        pagelens_region_begin(name);
        for (int i = 0; i < 1 << 20; i += 64) memory[i] = 1;
        pagelens_region_end(name);
        return 0;
    }
    """
    workload = trace("regions.c", text, ["gcc", "-O1", f"-I{INCLUDE}"])
    assert workload.phases == ["(outside regions)", "caf\\xe9", "a" * 254 + "\\xc3"]


def test_a_program_without_symbols_has_offsets_for_names(trace: Trace) -> None:
    text = r"""
    SITE static char *one(void) { char *p = malloc(100); KEEP(p); return p; }
    SITE static char *two(void) { char *p = malloc(2000); KEEP(p); return p; }
    int main(void) { for (volatile int i = 0; i < 5; ++i) one(), two(); return 0; }
    """
    workload = trace("stripped.c", text, ["gcc", "-O1", "-s"])
    blocks = sorted((o.births, o.bytes) for o in workload.objects if o.name.startswith("program+0x"))
    assert blocks == [(5, 500), (5, 10000)]


def test_a_static_program_has_its_regions(trace: Trace) -> None:
    text = r"""
    static volatile char table[1 << 20];
    int main(void) {
        char *p = malloc(1000);
        KEEP(p);
        p[0] = 1;
        for (int i = 0; i < 1 << 20; i += 64) table[i] = 1;
        return 0;
    }
    """
    workload = trace("static.c", text, ["gcc", "-O1", "-static"])
    assert [item.name for item in workload.objects if item.births > 0] == []
    [table] = [item for item in workload.objects if item.name == "table (program)"]
    assert table.lines >= (1 << 20) // 64
    assert [item.lines > 0 for item in workload.objects if item.name == "[.data/.bss of program]"] == [True]


def test_large_variables_are_objects(trace: Trace) -> None:
    text = r"""
    static volatile char first[1 << 20], second[1 << 19], small[100];
    int main(void) {
        for (int i = 0; i < 1 << 20; i += 64) first[i] = 1;
        for (int sweeps = 0; sweeps < 3; ++sweeps)
            for (int i = 0; i < 1 << 19; i += 64) second[i] = 1;
        small[0] = 1;
        return 0;
    }
    """
    workload = trace("variables.c", text, ["gcc", "-O1", "-g"])
    lines = {item.name: item.lines for item in workload.objects}
    assert abs(lines["first (program)"] - (1 << 20) // 64) <= 1  # a line may be a neighbour's as well
    assert abs(lines["second (program)"] - 3 * (1 << 19) // 64) <= 3
    assert not any(name.startswith("small") for name in lines)


def test_a_program_with_its_own_allocator_has_the_memory_it_maps(trace: Trace) -> None:
    text = r"""
    #include <sys/mman.h>
    static char *at, *end;
    SITE static void refill(size_t n) {
        at = mmap(NULL, n, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        end = at + n;
    }
    void *malloc(size_t n) {
        if ((size_t)(end - at) < n + 16) refill(4 << 20);
        void *p = at;
        at += (n + 15) & ~(size_t)15;
        return p;
    }
    void free(void *p) { (void)p; }
    void *calloc(size_t n, size_t m) { return malloc(n * m); }
    void *realloc(void *p, size_t n) { (void)p; return malloc(n); }
    int main(void) {
        for (int i = 0; i < 1000; ++i) memset(malloc(5000), 1, 5000);
        return 0;
    }
    """
    workload = trace("own.c", text, ["gcc", "-D_GNU_SOURCE", "-O1", "-g", "-fno-builtin"])
    assert blocks_and_bytes(workload, "refill") == {"refill": (2, 8 << 20)}


def test_what_an_allocator_maps_for_itself_is_not_counted_again(trace: Trace, tmp_path: Path) -> None:
    library = r"""
    #include <sys/mman.h>
    void *malloc(size_t n) {
        return mmap(NULL, n, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    }
    void free(void *p) { (void)p; }
    void *calloc(size_t n, size_t m) { return malloc(n * m); }
    void *realloc(void *p, size_t n) { (void)p; return malloc(n); }
    """
    (tmp_path / "mapping.c").write_text(PRELUDE + library)
    build = ["gcc", "-D_GNU_SOURCE", "-O1", "-fno-builtin", "-shared", "-fPIC", "-o", "libmapping.so"]
    subprocess.run([*build, "mapping.c"], cwd=tmp_path, check=True)
    text = r"""
    SITE static char *ask(void) { char *p = malloc(10000); KEEP(p); return p; }
    int main(void) { for (volatile int i = 0; i < 7; ++i) ask()[0] = 1; return 0; }
    """
    command = ["gcc", "-O1", "-g", "-Wl,--no-as-needed", "-L.", "-lmapping", "-Wl,-rpath,."]
    workload = trace("asking.c", text, command)
    assert blocks_and_bytes(workload, "ask") == {"ask": (7, 70000)}
    assert [item.name for item in workload.objects if "libmapping" in item.name and item.births > 0] == []


def test_code_loaded_later_is_named(trace: Trace, tmp_path: Path) -> None:
    library = PRELUDE + "SITE char *loaded(void) { char *p = malloc(4321); KEEP(p); return p; }\n"
    (tmp_path / "later.c").write_text(library)
    subprocess.run(
        ["gcc", "-O1", "-g", "-shared", "-fPIC", "-o", "later.so", "later.c"], cwd=tmp_path, check=True
    )
    text = r"""
    #include <dlfcn.h>
    int main(void) {
        void *library = dlopen("./later.so", RTLD_NOW);
        if (!library) return 1;
        char *(*loaded)(void) = (char *(*)(void))dlsym(library, "loaded");
        for (volatile int i = 0; i < 3; ++i) loaded()[i] = 1;
        return 0;
    }
    """
    workload = trace("loader.c", text, ["gcc", "-O1", "-g"])
    assert site(workload, "loaded").name == "loaded (later.c:8)"
    assert blocks_and_bytes(workload, "loaded") == {"loaded": (3, 3 * 4321)}


def test_python_objects_are_seen(
    tmp_path: Path, pagelens: Callable[..., subprocess.CompletedProcess[str]]
) -> None:
    (tmp_path / "script.py").write_text("x = bytearray(3_000_000)\nprint(len(x))\n")
    done = pagelens("trace", "-o", "python.trace", "--", "/usr/bin/python3", "script.py")
    assert done.returncode == 0, done.stderr
    assert done.stdout == "3000000\n"
    workload = open_trace(tmp_path / "python.trace")
    assert any(3_000_000 <= item.bytes <= 3_000_100 and item.births == 1 for item in workload.objects)
    assert sum(item.births for item in workload.objects) > 10_000  # PYTHONMALLOC=malloc
