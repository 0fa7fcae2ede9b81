"""`pagelens run`: programs do the same with it as without, and their large blocks lie where they were to."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import NoReturn

import pytest
from machine_roles import CACHE_MODE, NO_L3, SNOOP_FILTER
from preloaded import ALLOCATIONS, OWN_ALLOCATOR, THREADS, programs_as_they_come
from run_library import LIBRARY, OPTIONS, PROGRAMS, build, pool, reported, run

import pagelens.run.command
from pagelens.host.virtual_machine import in_virtual_machine
from pagelens.run.machine_defaults import machine_cache, machine_period
from pagelens.run.preload import HUGE_BYTES, SMALL_BYTES, Pages, Preload

Run = Callable[..., subprocess.CompletedProcess[str]]
MIB = 1 << 20

every_option = pytest.mark.parametrize("settings", OPTIONS.values(), ids=OPTIONS.keys())


@pytest.fixture(scope="session")
def blocks(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Threads that allocate at random and verify what is in their blocks."""
    return build(PROGRAMS / "blocks.c", tmp_path_factory.mktemp("run") / "blocks")


def same_with_and_without(command: list[str | Path], settings: str, env: dict[str, str] | None = None) -> str:
    """Returns what a program prints, which the library must not change."""
    plain, preloaded = run(command, None, env), run(command, settings, env)
    assert (preloaded.returncode, preloaded.stdout) == (plain.returncode, plain.stdout), preloaded.stderr
    assert plain.returncode == 0
    lines = [line for line in preloaded.stderr.splitlines() if not line.startswith("pagelens run: ")]
    assert lines == plain.stderr.splitlines()
    return plain.stdout


def test_a_kernel_with_larger_pages_is_said_and_the_program_runs_as_without(tmp_path: Path) -> None:
    """The program's own sysconf, which the library calls, tells of pages of 64 KiB."""
    source = tmp_path / "larger.c"
    source.write_text(
        "#include <stdio.h>\n#include <stdlib.h>\n#include <unistd.h>\n"
        "long sysconf(int name) { return name == _SC_PAGESIZE ? 65536 : -1; }\n"
        'int main(void) { return puts(malloc(64 << 20) ? "done" : "none") < 0; }\n'
    )
    subprocess.run(["gcc", "-rdynamic", "-o", tmp_path / "larger", source], check=True)
    done = run([tmp_path / "larger"], OPTIONS["2m"])
    assert (done.returncode, done.stdout) == (0, "done\n")
    assert "this kernel's pages are not of 4 KiB; the program runs as without it" in done.stderr


@pytest.fixture(scope="session")
def programs(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """What the interposer is tested with: every function at its edges, and threads that fork."""
    folder = tmp_path_factory.mktemp("edges")
    for name, source in (("edges.c", ALLOCATIONS), ("threads.c", THREADS)):
        (folder / name).write_text(source)
        build(folder / name, folder / name[:-2], "-fno-builtin", "-w")
    return [folder / "edges", folder / "threads"]


@every_option
def test_every_function_gives_what_the_c_library_gives(programs: list[Path], settings: str) -> None:
    for program in programs:
        same_with_and_without([program], settings)


@every_option
def test_threads_find_in_their_blocks_what_they_wrote(blocks: Path, settings: str) -> None:
    same_with_and_without([blocks, "64", "25"], settings)


@every_option
def test_programs_of_the_field_print_the_same(examples: Path, settings: str) -> None:
    for command in ("cg-omp 12 3", "fe 6 3", "hydro 8 3", "heat 200 5"):
        program, *arguments = command.split()
        same_with_and_without([examples / program, *arguments], settings)


@programs_as_they_come
def test_programs_as_they_come(command: list[str | Path]) -> None:
    same_with_and_without(command, "pages=thp,period=4096,large=4096")


@pytest.mark.parametrize("name", ["libjemalloc.so.2", "libtcmalloc_minimal.so.4"])
@pytest.mark.parametrize("settings", [OPTIONS["thp"], OPTIONS["2m-stagger"]], ids=["thp", "2m-stagger"])
def test_another_allocator_gives_the_small_blocks(
    blocks: Path, examples: Path, tmp_path: Path, name: str, settings: str
) -> None:
    library = Path("/usr/lib/x86_64-linux-gnu") / name
    if not library.exists():
        pytest.skip(f"{name} is not installed")
    env = {"LD_PRELOAD": str(library)}
    same_with_and_without([blocks, "8", "60"], settings, env)
    same_with_and_without([examples / "hydro", "8", "3"], settings, env)  # C++: operator new is its own
    assert reported([blocks, "2", "60"], settings, tmp_path, env=env)["blocks"] > 0


def test_a_program_with_its_own_allocator_keeps_it(compile_c: Callable[[str], Path], tmp_path: Path) -> None:
    program = compile_c(OWN_ALLOCATOR)
    assert same_with_and_without([program], OPTIONS["thp"]) == "1 1\n"
    assert reported([program], OPTIONS["thp"], tmp_path)["blocks"] == 0


HELD = """
    #include <dlfcn.h>
    #include <stdio.h>
    #include <stdlib.h>
    #include <string.h>
    int main(int words, char **word) {
        void *held[64];
        for (int i = 0; i < atoi(word[1]); i++) memset(held[i] = malloc(5 << 20), 1, 5 << 20);
        for (int i = 0; i < atoi(word[1]); i++) printf("%d\\n", (int)((size_t)held[i] % (1 << 17)));
    }
"""


def test_blocks_are_on_pages_of_the_pool(compile_c: Callable[[str], Path], tmp_path: Path) -> None:
    with pool(32):
        report = reported([compile_c(HELD), "6"], "pages=2m", tmp_path)
    assert report["peak_bytes_on"]["2m"] >= 30 * MIB
    assert report["peak_bytes_on"]["thp"] == report["peak_bytes_on"]["4k"] == 0
    assert report["said"] == []


def test_a_dry_pool_falls_to_transparent_pages_and_says_so(
    compile_c: Callable[[str], Path], tmp_path: Path
) -> None:
    with pool(4):
        report = reported([compile_c(HELD), "6"], "pages=2m", tmp_path)
    assert report["peak_bytes_on"]["2m"] == 8 * MIB
    assert report["peak_bytes_on"]["thp"] >= 22 * MIB
    assert len(report["said"]) == 1
    assert "of 2 MiB are free in the kernel's pool; vm.nr_hugepages" in report["said"][0]


@pytest.mark.parametrize("pages", [0, 6, 64])
def test_children_have_their_own_copy_whatever_is_in_the_pool(
    blocks: Path, tmp_path: Path, pages: int
) -> None:
    with pool(pages):
        report = reported([blocks, "3", "60", "2"], "pages=2m", tmp_path)
    assert (report["forks"]["copied_bytes"] > 0) == (pages > 0)


def test_a_parent_of_one_thread_keeps_its_frames(compile_c: Callable[[str], Path], tmp_path: Path) -> None:
    """Devices may have them pinned."""
    program = compile_c("""
        #include <fcntl.h>
        #include <stdint.h>
        #include <stdio.h>
        #include <stdlib.h>
        #include <string.h>
        #include <sys/wait.h>
        #include <unistd.h>
        enum { BYTES = 8 << 20, PAGES = BYTES / 4096 };
        static void look(const char *block, uint64_t *entries) {
            const int pagemap = open("/proc/self/pagemap", O_RDONLY);
            pread(pagemap, entries, PAGES * 8, (uintptr_t)block / 4096 * 8);
            close(pagemap);
            for (int i = 0; i < PAGES; i++) entries[i] = entries[i] << 9 >> 9;
        }
        int main(void) {
            static uint64_t before[PAGES], after[PAGES];
            char *block = memset(malloc(BYTES), 1, BYTES);
            look(block, before);
            for (int i = 1; i < 3; i++) {
                int status;
                if (fork() == 0) {
                    const int whole = block[0] == i && block[BYTES - 1] == 1;
                    memset(block, 7, BYTES);
                    _exit(whole);
                }
                block[0]++;
                wait(&status);
                printf("%d %d\\n", WEXITSTATUS(status), block[BYTES - 1]);
            }
            look(block, after);
            printf("%d\\n", memcmp(before, after, sizeof before));
        }
    """)
    with pool(8):
        path = tmp_path / "report.json"
        done = run([program], f"pages=2m,json=1,report={path}")
    assert done.stdout == "1 1\n1 1\n0\n"
    report = json.loads(path.read_text())
    assert report["peak_bytes_on"]["2m"] >= 8 * MIB
    assert report["forks"]["copied_bytes"] == 2 * report["peak_bytes_on"]["2m"]


@pytest.mark.parametrize("settings", ["pages=thp", "pages=2m", "pages=thp,cache=67108864,large=1048576"])
def test_threads_are_not_cancelled_within_the_allocator(
    compile_c: Callable[[str], Path], tmp_path: Path, settings: str
) -> None:
    program = compile_c("""
        #include <pthread.h>
        #include <stdio.h>
        #include <stdlib.h>
        #include <unistd.h>
        static int steps;
        static void *work(void *nothing) {
            pthread_cancel(pthread_self());
            for (; steps < 3; steps++) {
                char *volatile block = malloc(64 << 20);
                if (fork() == 0) _exit(block[7] = 0);
                free(block);
            }
            pthread_testcancel();
            return nothing;
        }
        int main(void) {
            pthread_t thread;
            void *result, *volatile after;
            pthread_create(&thread, 0, work, 0);
            pthread_join(thread, &result);
            after = malloc(64 << 20);
            printf("%d %d %d\\n", steps, result == PTHREAD_CANCELED, after != 0);
        }
    """)
    with pool(8 if "2m" in settings else 0):
        done = run([program], f"{settings},report={tmp_path}/report", timeout=60)
    assert done.stdout == "3 1 1\n"


@pytest.mark.parametrize("settings", ["pages=thp", "pages=2m"])
def test_handlers_of_fork_that_run_between_ours_may_allocate(
    compile_c: Callable[[str], Path], tmp_path: Path, settings: str
) -> None:
    (tmp_path / "handlers.c").write_text("""
        #include <pthread.h>
        #include <stdlib.h>
        #include <string.h>
        char *kept[3]; // blocks that the handlers free
        static void work(int i) {
            char *block = memset(malloc(1 << 20), 1, 1 << 20);
            block = realloc(block, 3 << 20);
            free(kept[i]);
            kept[i] = 0;
            free(block);
            free(calloc(1 << 20, 2));
        }
        static void before(void) { work(0); }
        static void parent(void) { work(1); }
        static void child(void) { work(2); }
        __attribute__((constructor)) static void start(void) { pthread_atfork(before, parent, child); }
    """)
    library = build(tmp_path / "handlers.c", tmp_path / "libhandlers.so", "-shared", "-fPIC", "-fno-builtin")
    (tmp_path / "program.c").write_text("""
        #include <stdio.h>
        #include <stdlib.h>
        #include <string.h>
        #include <sys/wait.h>
        #include <unistd.h>
        extern char *kept[3];
        int main(void) {
            char *mine = memset(malloc(2 << 20), 5, 2 << 20);
            for (int step = 0; step < 3; step++) {
                int status;
                for (int i = 0; i < 3; i++) kept[i] = malloc(i == 1 ? 40 << 20 : 3 << 20);
                if (fork() == 0) {
                    char *volatile more = malloc(5 << 20);
                    memset(more, 6, 5 << 20);
                    _exit(mine[0] == 5 && mine[(2 << 20) - 1] == 5 && !kept[0] && kept[1] && !kept[2]);
                }
                wait(&status);
                printf("%d %d\\n", WEXITSTATUS(status), !kept[0] && !kept[1] && kept[2]);
                free(kept[2]);
            }
        }
    """)
    program = tmp_path / "program"
    build(
        tmp_path / "program.c",
        program,
        "-fno-builtin",
        "-Wl,--no-as-needed",
        str(library),
        f"-Wl,-rpath,{tmp_path}",
    )
    with pool(16 if "2m" in settings else 0):
        done = run([program], f"{settings},report={tmp_path}/report", timeout=20)
    assert done.stdout == "1 1\n" * 3


@contextmanager
def group(limit: int) -> Iterator[list[str | Path]]:
    """Words before a command that run it in a control group (version 1) with so much memory."""
    folder = Path(f"/sys/fs/cgroup/memory/pagelens-{os.getpid()}")
    try:
        folder.mkdir()
        (folder / "memory.limit_in_bytes").write_text(str(limit))
    except OSError:
        pytest.skip("needs root, and control groups of version 1")
    try:
        yield ["sh", "-c", f'echo $$ > {folder}/cgroup.procs && exec "$@"', "sh"]
    finally:
        folder.rmdir()


def test_a_fork_copies_no_more_than_the_control_group_has(
    compile_c: Callable[[str], Path], tmp_path: Path
) -> None:
    program = compile_c("""
        #include <stdlib.h>
        #include <string.h>
        #include <sys/wait.h>
        #include <unistd.h>
        int main(int words, char **word) {
            const size_t bytes = atol(word[1]);
            char *block = memset(malloc(bytes), 1, bytes);
            if (fork() == 0) _exit(block[bytes - 1] - 1);
            int status;
            wait(&status);
            return status != 0;
        }
    """)
    path = tmp_path / "report.json"
    for size, copied in ((16 * MIB, 16 * MIB), (80 * MIB, 0)):  # pages of the pool are not of the group's
        with pool(40), group(64 * MIB) as command:
            done = run([*command, program, str(size)], f"pages=2m,large=1048576,json=1,report={path}")
        assert done.returncode == 0, done.stderr
        report = json.loads(path.read_text())
        assert report["forks"]["copied_bytes"] == copied
        assert bool(report["said"]) == (copied == 0)


def test_transparent_pages_are_huge(compile_c: Callable[[str], Path], tmp_path: Path) -> None:
    if "[never]" in Path("/sys/kernel/mm/transparent_hugepage/enabled").read_text():
        pytest.skip("transparent huge pages are off")
    report = reported([compile_c(HELD), "6"], "pages=thp", tmp_path)
    seen = report["transparent"]
    if seen["seen_bytes"] == 0:
        pytest.skip("this kernel does not say which pages are huge")
    assert seen["huge_bytes"] > 0.5 * seen["seen_bytes"]  # memory may be in pieces


def test_staggered_blocks_begin_all_over_the_period(compile_c: Callable[[str], Path], tmp_path: Path) -> None:
    done = run([compile_c(HELD), "8"], "period=131072")
    offsets = [int(line) for line in done.stdout.split()]
    assert offsets[0] == 0
    assert all(offset % 64 == 0 for offset in offsets)
    ring = sorted(offsets)
    gaps = [after - before for before, after in pairwise([*ring, ring[0] + 131072])]
    assert min(gaps) > 131072 / 12  # of 8 golden-ratio points, the least gap is 0.618^5
    report = reported([compile_c(HELD), "8"], "period=131072", tmp_path)
    assert report["stagger"] == {"period_bytes": 131072, "blocks": 7, "most_bytes": max(offsets)}


def test_a_block_freed_and_asked_for_again_has_its_old_place(compile_c: Callable[[str], Path]) -> None:
    program = compile_c("""
        #include <stdint.h>
        #include <stdio.h>
        #include <stdlib.h>
        int main(void) {
            enum { N = 6 };
            uintptr_t first[N];
            int same = 0;
            for (int step = 0; step < 5; step++) {
                void *held[N];
                for (int i = 0; i < N; i++) held[i] = malloc(3 << 20);
                for (int i = 0; i < N; i++) {
                    if (step == 0) first[i] = (uintptr_t)held[i];
                    same += first[i] == (uintptr_t)held[i];
                }
                for (int i = 0; i < N; i++) free(held[i]);
            }
            printf("%d\\n", same);
        }
    """)
    assert run([program], "pages=thp,period=131072").stdout == "30\n"


def test_growing_step_by_step_copies_seldom(compile_c: Callable[[str], Path], tmp_path: Path) -> None:
    program = compile_c("""
        #include <stdlib.h>
        int main(void) {
            char *block = malloc(1 << 20);
            for (size_t size = 1 << 20; size <= 64 << 20; size += 1 << 16) {
                block = realloc(block, size);
                block[size - 1] = 1;
            }
        }
    """)
    report = reported([program], "pages=thp", tmp_path)
    assert report["blocks"] < 30  # of 1,000 steps


@pytest.mark.parametrize(("pages", "pooled"), [("thp", 0), ("2m", 64)])
def test_room_for_growth_is_bounded_where_it_is_memory(
    compile_c: Callable[[str], Path], pages: str, pooled: int
) -> None:
    program = compile_c("""
        #include <malloc.h>
        #include <stdio.h>
        #include <stdlib.h>
        int main(void) {
            void *block = malloc(8 << 20);
            for (size_t size = 64 << 20; size <= 256 << 20; size *= 4)
                printf("%zu\\n", malloc_usable_size(block = realloc(block, size)) - size >> 20);
        }
    """)
    with pool(pooled):
        done = run([program], f"pages={pages}")
    assert done.stdout.split() == ["16", "32" if pooled else "64"]


def test_blocks_of_whole_pages_may_be_protected_page_by_page(
    compile_c: Callable[[str], Path], tmp_path: Path
) -> None:
    """Guard pages and the write barriers of garbage collectors do this."""
    program = compile_c("""
        #include <malloc.h>
        #include <setjmp.h>
        #include <signal.h>
        #include <stdio.h>
        #include <stdlib.h>
        #include <string.h>
        #include <sys/mman.h>
        enum { PAGE = 4096, BYTES = 3 << 20 };
        static sigjmp_buf back;
        static void caught(int number) { siglongjmp(back, number); }
        static void *block(int how) {
            void *at = 0;
            if (how == 0 && posix_memalign(&at, 1 << 16, BYTES)) return 0;
            return how == 0 ? at : how == 1 ? aligned_alloc(PAGE, BYTES) : how == 2 ? memalign(PAGE, BYTES)
                 : how == 3 ? valloc(BYTES) : pvalloc(BYTES);
        }
        int main(void) {
            signal(SIGSEGV, caught);
            for (int i = 0; i < 15; i++) {
                char *at = memset(block(i % 5), 1, BYTES);
                const int guarded = mprotect(at + 300 * PAGE, PAGE, PROT_NONE);
                int faults = 0;
                if (sigsetjmp(back, 1) == 0) at[300 * PAGE] = 2; else faults = 1;
                const int dropped = madvise(at + 100 * PAGE, PAGE, MADV_DONTNEED);
                printf("%d %d %d %d %d\\n", guarded, faults, dropped, at[100 * PAGE], at[101 * PAGE]);
                mprotect(at + 300 * PAGE, PAGE, PROT_READ | PROT_WRITE);
                free(at);
            }
        }
    """)
    with pool(8):
        assert same_with_and_without([program], "pages=2m") == "0 1 0 0 1\n" * 15
        assert reported([program], "pages=2m", tmp_path)["peak_bytes_on"]["2m"] == 0


# Holds blocks, and says of a cache of so many bytes how many of their pages share a slot, of how many.
SHARES = """
    #include <fcntl.h>
    #include <stdint.h>
    #include <stdio.h>
    #include <stdlib.h>
    #include <unistd.h>
    int main(int words, char **word) {
        enum { BLOCKS = 6, MIB = 6, PAGES = MIB << 8 };
        const size_t slots = strtoull(word[1], 0, 10) / 4096;
        static uint64_t frames[BLOCKS * PAGES];
        unsigned char *counts = calloc(slots, 1);
        const int pagemap = open("/proc/self/pagemap", O_RDONLY);
        for (int i = 0; i < BLOCKS; i++) {
            char *block = aligned_alloc(4096, MIB << 20);
            for (size_t at = 0; at < MIB << 20; at += 4096)
                if (block[at]++) return 1;
            pread(pagemap, frames + i * PAGES, PAGES * 8, (uintptr_t)block / 4096 * 8);
        }
        size_t sharing = 0;
        for (int i = 0; i < BLOCKS * PAGES; i++) counts[(frames[i] << 9 >> 9) % slots]++;
        for (int i = 0; i < BLOCKS * PAGES; i++) sharing += counts[(frames[i] << 9 >> 9) % slots] > 1;
        printf("%zu %d\\n", sharing, BLOCKS * PAGES);
    }
"""


@pytest.mark.parametrize(("pages", "cache"), [("4k", 64 * MIB), ("thp", 128 * MIB), ("2m", 128 * MIB)])
def test_frames_are_chosen_so_that_fewer_pages_share_slots(
    compile_c: Callable[[str], Path], tmp_path: Path, pages: str, cache: int
) -> None:
    if os.geteuid() != 0:
        pytest.skip("frames are shown to root only")
    with pool(60 if pages == "2m" else 0):
        path = tmp_path / "report.json"
        done = run([compile_c(SHARES), str(cache)], f"pages={pages},cache={cache},json=1,report={path}")
        assert done.returncode == 0, done.stderr
    sharing, count = map(int, done.stdout.split())
    report = json.loads(path.read_text())
    found = report["frames"]
    assert found["cache_bytes"] == cache
    assert count <= found["pages"] <= count + 512 * 6  # whole pages of 2 MiB
    if pages == "4k" or report["transparent"]["huge_bytes"] == report["transparent"]["seen_bytes"]:
        assert sharing <= found["sharing"]  # what the program sees itself
        assert found["sharing"] <= found["sharing_first"]
        assert sharing < 0.1 * count
    assert found["looked_at"] >= found["pages"]


def test_a_program_larger_than_the_cache_fills_it_evenly(
    compile_c: Callable[[str], Path], tmp_path: Path
) -> None:
    if os.geteuid() != 0:
        pytest.skip("frames are shown to root only")
    found = reported([compile_c(SHARES), str(16 * MIB)], f"cache={16 * MIB}", tmp_path)["frames"]
    assert found["pages"] == 9 << 10  # 36 MiB: were all even, each slot would hold two or three
    assert found["sharing"] > 0.9 * found["pages"]


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ("pages=7m", "'pages=7m' is not understood"),
        ("large=1", "'large=1' is not understood"),
        ("large=99999999999999999999", "is not understood"),
        ("period=100000", "'period=100000' is not understood"),
        ("cache=1", "'cache=1' is not understood"),
        ("plan=x.toml", "'plan=x.toml' is not understood"),
        ("\x1b[31m,,=\x07" + "x" * 10_000, "is not understood"),
        ("report=/" + "x" * 5000, "path is too long"),
    ],
)
def test_settings_that_make_no_sense_are_one_line_and_no_more(settings: str, says: str) -> None:
    done = run(["/bin/echo", "done"], settings)
    assert (done.returncode, done.stdout) == (0, "done\n")
    assert len(done.stderr.splitlines()) == 1
    assert says in done.stderr
    assert "the program runs as without it" in done.stderr
    assert done.stderr.isprintable() or done.stderr[:-1].isprintable()


def test_without_settings_the_program_runs(tmp_path: Path) -> None:
    done = subprocess.run(
        ["/bin/echo", "done"],
        env={"LD_PRELOAD": str(LIBRARY)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout) == (0, "done\n")
    assert len(done.stderr.splitlines()) == 1


def test_without_address_space_the_next_allocator_has_its_turn(
    compile_c: Callable[[str], Path], tmp_path: Path
) -> None:
    program = compile_c("""
        #include <errno.h>
        #include <stdio.h>
        #include <stdlib.h>
        #include <sys/resource.h>
        int main(void) {
            const struct rlimit limit = {100 << 20, 100 << 20};
            setrlimit(RLIMIT_AS, &limit);
            int count = 0;
            while (malloc(1100 << 10)) count++;
            printf("%d %d\\n", count > 80, errno == ENOMEM);
        }
    """)
    assert same_with_and_without([program], OPTIONS["thp"]) == "1 1\n"
    assert reported([program], OPTIONS["thp"], tmp_path)["refused_blocks"] > 0


def test_without_rights_it_runs_all_the_same(blocks: Path, tmp_path: Path) -> None:
    """The user nobody sees no frames, as in a container."""
    if os.geteuid() != 0 or shutil.which("setpriv") is None:
        pytest.skip("needs root to become nobody")
    folder = Path("/tmp") / f"pagelens-nobody-{os.getpid()}"
    folder.mkdir()
    try:
        shutil.copy(LIBRARY, folder)
        shutil.copy(blocks, folder)
        folder.chmod(0o755)
        words = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "--no-new-privs"]
        environment = ["env", f"LD_PRELOAD={folder / LIBRARY.name}"]
        settings = "PAGELENS_RUN=pages=thp,cache=33554432,large=65536,report="
        done = run([*words, *environment, settings, folder / "blocks", "4", "60", "1"], None)
    finally:
        shutil.rmtree(folder)
    assert done.returncode == 0, done.stderr
    assert done.stdout == run([blocks, "4", "60", "1"], None).stdout


def test_the_command_becomes_the_program(pagelens: Run, examples: Path, tmp_path: Path) -> None:
    program = examples / "triad"
    plain = subprocess.run([program, "3", "2"], capture_output=True, text=True, check=True)
    done = pagelens("run", "--pages", "thp", "--json", "-o", "r.json", "--", program, "3", "2")
    assert (done.returncode, done.stdout, done.stderr) == (0, plain.stdout, plain.stderr)
    report = json.loads((tmp_path / "r.json").read_text())
    assert (report["pages"], report["large_bytes"]) == ("thp", 131072)
    assert report["blocks"] >= 3
    assert report["peak_bytes"] >= 9 * MIB
    assert not list(tmp_path.glob("*.partial"))


def test_exit_status_signals_and_environment_are_the_programs_own(pagelens: Run) -> None:
    assert pagelens("run", "--pages", "thp", "--", "sh", "-c", "kill -TERM $$").returncode == -15
    done = pagelens(
        "run", "--pages", "thp", "--", "sh", "-c", "trap 2>&1; yes | head -1; echo $GLIBC_TUNABLES; exit 7",
        env={"GLIBC_TUNABLES": "glibc.malloc.perturb=0"},
    )  # fmt: skip
    assert done.stdout == "y\nglibc.malloc.perturb=0:glibc.malloc.hugetlb=1\n"
    assert done.returncode == 7


def test_a_report_on_stderr_though_the_program_closes_it(pagelens: Run) -> None:
    done = pagelens("run", "--pages", "thp", "--large", "64KiB", "--report", "--", "ls", "/")
    assert done.stderr.startswith("pagelens run: ls (process ")
    assert "large blocks, of 64 KiB and more" in done.stderr


@pytest.mark.parametrize("first", [2, 3])
def test_nothing_is_written_into_files_that_got_our_descriptors(
    compile_c: Callable[[str], Path], tmp_path: Path, first: int
) -> None:
    program = compile_c("""
        #define _GNU_SOURCE
        #include <fcntl.h>
        #include <stdlib.h>
        #include <sys/wait.h>
        #include <unistd.h>
        int main(int words, char **word) {
            closefrom(atoi(word[2]));
            const int data = open(word[1], O_CREAT | O_RDWR, 0600);
            for (int i = 0; i < 720; i++) dup(data);
            *(volatile char *)malloc(1 << 20) = 1; // a line: the pool is dry
            if (fork() == 0) _exit(fcntl(710, F_GETFD) < 0 || fcntl(700, F_GETFD) < 0);
            int status;
            wait(&status);
            return status;
        }
    """)
    with pool(0):
        done = run([program, tmp_path / "data.bin", str(first)], "pages=2m,report=")
    assert done.returncode == 0
    assert (tmp_path / "data.bin").read_bytes() == b""
    assert (": 1 large block," in done.stderr) == (first == 3)


def test_the_machine_decides_period_and_cache(capsys: pytest.CaptureFixture[str]) -> None:
    # Seed 001: addresses 128 KiB apart lie in the same bank.
    assert machine_period(NO_L3, HUGE_BYTES) == 128 << 10
    assert machine_period(NO_L3, SMALL_BYTES) == SMALL_BYTES  # the bits above are the kernel's
    assert machine_cache(CACHE_MODE) == 16 << 30
    assert capsys.readouterr().err == ""
    assert machine_cache(SNOOP_FILTER) == 0
    assert "no memory-side cache that frames conflict in; --cache SIZE" in capsys.readouterr().err
    assert machine_period("gone.toml", HUGE_BYTES) == 0
    assert "--machine gone.toml: cannot be read; the program runs" in capsys.readouterr().err


def test_what_the_command_asks_of_the_library(in_process: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Preload] = []

    def start(path: Path, words: list[str], settings: Preload) -> NoReturn:
        asked.append(settings)
        raise SystemExit(0)

    monkeypatch.setattr(pagelens.run.command, "start", start)
    in_process("run", "--pages", "2m", "--stagger", "--machine", NO_L3, "--", "true")
    in_process("run", "--frames", "best", "--cache", "1GiB", "--large", "1MiB", "--report", "--", "true")
    in_process("run", "--stagger", "--period", "8KiB", "-o", "a,b", "--", "true")
    here = in_virtual_machine()
    assert asked == [
        Preload(pages=Pages.HUGE, period=128 << 10),
        Preload(large=1 << 20, cache=1 << 30, guest=here, report=True),
        Preload(period=8192, report=True, output="a,b"),
    ]
    settings = asked[2].environment({"LD_PRELOAD": "x.so"})
    assert settings["PAGELENS_RUN"].endswith(f",report={os.getcwd()}/a,b")
    assert settings["LD_PRELOAD"] == f"{LIBRARY}:x.so"
    assert "GLIBC_TUNABLES" not in settings


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ("run -- true", ["nothing to do", "--pages", "--stagger", "--frames"]),
        ("run --pages 3m -- true", ["--pages", "3m", "2m"]),
        ("run --pages 2m -- no-such-app", ["no-such-app", "PATH"]),
        ("run --pages 2m", []),
        ("run --pages 2m --period 4KiB -- true", ["--period 4KiB", "--stagger"]),
        ("run --pages 2m --cache 4MiB -- true", ["--cache 4MiB", "--frames best"]),
        ("run --stagger --period 3KiB -- true", ["--period 3KiB", "power of two"]),
        ("run --stagger --period 64B -- true", ["--period 64B", "128 B to 1 GiB"]),
        ("run --frames best --cache 3MiB -- true", ["--cache 3MiB", "multiple of 2 MiB"]),
        ("run --frames best --cache 9TiB -- true", ["--cache 9TiB", "1 TiB"]),
        ("run --frames worst -- true", ["--frames", "worst", "best"]),
        ("run --pages thp --large 1B -- true", ["--large 1B", "4 KiB"]),
        ("run --pages thp --large 100000 -- true", ["--large", "unit"]),
        ("run --stagger --machine red-storm -- true", ["red-storm", NO_L3]),
        ("run --pages thp -o nowhere/x -- true", ["--output nowhere/x", "no folder"]),
        ("run --pages thp -o / -- true", ["--output /", "folder"]),
    ],
)
def test_wrong_words_are_one_line(in_process: Run, words: str, says: list[str]) -> None:
    done = in_process(*words.split())
    assert (done.returncode, done.stdout) == (2, "")
    assert len(done.stderr.splitlines()) == 1
    assert all(word in done.stderr for word in says), done.stderr


def test_static_and_setuid_programs_are_said(pagelens: Run, tmp_path: Path) -> None:
    (tmp_path / "one.c").write_text('#include <stdio.h>\nint main(void) { puts("one"); }\n')
    build(tmp_path / "one.c", tmp_path / "static", "-static")
    done = pagelens("run", "--pages", "thp", "--", "./static")
    assert (done.returncode, done.stdout) == (0, "one\n")
    assert done.stderr == (
        "pagelens run: static is linked statically, and loads no library; link it dynamically; "
        "it runs without the library\n"
    )
    if os.geteuid() == 0:
        other = build(tmp_path / "one.c", tmp_path / "setuid")
        os.chown(other, 65534, 65534)
        other.chmod(0o4755)
        done = pagelens("run", "--pages", "thp", "--report", "--", "./setuid")
        assert (done.returncode, done.stdout) == (0, "one\n")
        assert done.stderr.startswith("pagelens run: setuid is setuid, setgid or has capabilities")
        assert len(done.stderr.splitlines()) == 1


@pytest.mark.parametrize("launcher", ["openmpi", "mpich"])
def test_mpi_has_a_report_a_rank(pagelens_command: Path, tmp_path: Path, launcher: str) -> None:
    mpirun, compiler = shutil.which(f"mpirun.{launcher}"), shutil.which(f"mpicc.{launcher}")
    if mpirun is None or compiler is None:
        pytest.skip(f"{launcher} is not installed")
    program = build(PROGRAMS / "mpi_sum.c", tmp_path / "mpi_sum", compiler=compiler)
    crowd = ["--oversubscribe"] if launcher == "openmpi" else []
    words = [mpirun, *crowd, "-n", "2", pagelens_command]
    options = ["run", "--pages", "thp", "--json", "-o", "rank.%r.json", "--", program]
    done = subprocess.run(
        [*words, *options],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        timeout=100,
    )
    assert (done.returncode, done.stdout) == (0, "1\n"), done.stderr
    reports = [json.loads((tmp_path / f"rank.{rank}.json").read_text()) for rank in range(2)]
    assert [report["rank"] for report in reports] == [0, 1]
    assert all(report["blocks"] >= 1 for report in reports)
    assert sorted(path.name for path in tmp_path.glob("*.json")) == ["rank.0.json", "rank.1.json"]


def test_python_with_numpy_and_fork_by_multiprocessing(tmp_path: Path) -> None:
    script = """
import multiprocessing, numpy as np
a = np.arange(3_000_000, dtype=float)
def part(i):
    a[i::4] *= 2
    return float(a[i::4].sum())
if __name__ == "__main__":
    multiprocessing.set_start_method("fork")
    with multiprocessing.Pool(2) as pool:
        print(pool.map(part, range(4)), a.sum())
"""
    (tmp_path / "script.py").write_text(script)
    with pool(40):
        same_with_and_without([sys.executable, tmp_path / "script.py"], "pages=2m")
