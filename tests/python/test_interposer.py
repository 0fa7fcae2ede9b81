"""The interposer must not be noticed: programs behave the same with it preloaded as without it."""

import os
import subprocess
from pathlib import Path

import pytest

from pagelens import _core

HOOKS = Path(_core.__file__).parent / "lib" / "libpagelens_hooks.so"

# Says what every function of the family does at its edges: results, errno, alignment, contents.
ALLOCATIONS = r"""
#define _GNU_SOURCE
#include <errno.h>
#include <malloc.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

static volatile size_t huge = PTRDIFF_MAX, one = 1, two = 2;

static void say(const char *what, const void *block, size_t alignment) {
    const char *kind = block == NULL ? "null" : block == MAP_FAILED ? "failed" : "ok";
    printf("%s: %s, aligned %d, errno %d\n", what, kind, (int)((uintptr_t)block % alignment == 0), errno);
    errno = 77;
}

int main(void) {
    void *block = NULL;
    char *text;
    errno = 77;
    for (size_t size = 0; size < 200000; size = size * 3 + 1) {
        say("malloc", block = malloc(size), 16);
        printf("%d\n", malloc_usable_size(block) >= size);
        free(block);
        say("calloc", text = calloc(size, 2), 16);
        for (size_t i = 0; i < 2 * size; ++i)
            if (text[i] != 0) return 1;
        free(text);
    }
    say("malloc(huge)", malloc(huge), 1);
    say("calloc(huge)", calloc(huge, two), 1);
    say("calloc overflow", calloc(huge + one, two), 1);

    text = NULL;
    for (size_t size = 1; size < 5000000; size *= 5) {
        say("realloc", text = realloc(text, size), 16);
        for (size_t i = 0; i < size / 5; ++i)
            if (text[i] != (char)i) return 2;
        for (size_t i = 0; i < size; ++i) text[i] = (char)i;
    }
    say("realloc(huge)", realloc(text, huge), 1);
    if (text[1000] != (char)1000) return 3;
    say("reallocarray overflow", reallocarray(text, huge, two), 1);
    say("reallocarray", text = reallocarray(text, 1000, 7), 16);
    say("realloc to 0", realloc(text, 0), 1);
    say("realloc(0, 0)", block = realloc(NULL, 0), 16);
    free(block);

    for (size_t alignment = 8; alignment <= 65536; alignment *= 2) {
        block = (void *)7;
        printf("posix_memalign %d\n", posix_memalign(&block, alignment, 100));
        say("posix_memalign", block, alignment);
        free(block);
        say("aligned_alloc", block = aligned_alloc(alignment, alignment), alignment);
        free(block);
        say("memalign", block = memalign(alignment, 3), alignment);
        free(block);
    }
    block = (void *)7;
    printf("posix_memalign %d %d\n", posix_memalign(&block, 3, 100), block == (void *)7);
    printf("posix_memalign %d %d\n", posix_memalign(&block, 64, huge), block == (void *)7);
    say("valloc", block = valloc(10), 4096);
    free(block);
    say("pvalloc", block = pvalloc(10), 4096);
    free(block);
    free(NULL);
    say("free(NULL)", NULL, 1);

    char *pages = mmap(NULL, 3 * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    say("mmap", pages, 4096);
    strcpy(pages, "kept");
    say("mremap", pages = mremap(pages, 3 * 4096, 5000 * 4096, MREMAP_MAYMOVE), 4096);
    printf("%s\n", pages);
    char *there = mmap(NULL, 5000 * 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    say("mremap fixed", mremap(pages, 5000 * 4096, 5000 * 4096, MREMAP_MAYMOVE | MREMAP_FIXED, there), 4096);
    printf("%s\n", there);
    say("mmap of nothing", mmap(NULL, 0, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0), 1);
    say("mmap64", mmap64(NULL, 4096, PROT_READ, MAP_PRIVATE, 99, 0), 1);
    say("mremap of nothing", mremap((void *)4096, 4096, 8192, 0), 1);
    return 0;
}
"""

# Threads that allocate, hand blocks over, fork and allocate in the child.
THREADS = r"""
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

static void *work(void *seed) {
    unsigned state = (unsigned)(size_t)seed;
    void *blocks[64] = {0};
    for (int i = 0; i < 20000; ++i) {
        const unsigned at = rand_r(&state) % 64;
        free(blocks[at]);
        blocks[at] = malloc(rand_r(&state) % 3000);
    }
    for (int i = 1; i < 64; ++i) free(blocks[i]);
    return blocks[0];
}

int main(void) {
    pthread_t threads[4];
    void *left;
    for (size_t i = 0; i < 4; ++i) pthread_create(&threads[i], NULL, work, (void *)(i + 1));
    const pid_t child = fork();
    if (child == 0) {
        free(work((void *)9));
        _exit(3);
    }
    int status;
    waitpid(child, &status, 0);
    printf("child %d\n", WEXITSTATUS(status));
    for (int i = 0; i < 4; ++i) {
        pthread_join(threads[i], &left);
        free(left);
    }
    return 0;
}
"""


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


@pytest.mark.parametrize(
    "command",
    [
        ["/usr/bin/sort", "/etc/passwd"],
        ["/bin/sh", "-c", "echo a; (echo b | cat); exec ls /"],
        ["/usr/bin/python3", "-c", "import json, threading; print(json.dumps(list(range(1000))))"],
        ["/usr/bin/g++", "--version"],
    ],
    ids=["sort", "sh", "python", "g++"],
)
def test_programs_as_they_come(command: list[str | Path]) -> None:
    assert same_with_and_without(command)


def test_a_program_with_its_own_allocator_keeps_it(tmp_path: Path) -> None:
    source = tmp_path / "own.c"
    source.write_text(
        r"""
        #include <stdio.h>
        #include <stddef.h>
        static char memory[1 << 20] __attribute__((aligned(16)));
        static size_t used;
        void *malloc(size_t n) { void *p = memory + used; used += (n + 15) & ~(size_t)15; return p; }
        void free(void *p) { (void)p; }
        void *calloc(size_t n, size_t m) { return malloc(n * m); }
        void *realloc(void *p, size_t n) { (void)p; return malloc(n); }
        int main(void) {
            char *p = malloc(10);
            printf("%d\n", p >= memory && p < memory + sizeof memory);
            return 0;
        }
        """
    )
    program = tmp_path / "own"
    subprocess.run(["gcc", "-fno-builtin", "-o", program, source], check=True)
    assert same_with_and_without([program]) == "1\n"


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
