"""Programs that ask for large pages themselves, as NumPy does for its arrays."""

from collections.abc import Callable
from pathlib import Path

import pytest
from machine_roles import CACHE_MODE, SNOOP_FILTER

from pagelens.accesses import compile_flags
from pagelens.accesses.dynamorio import has_dynamorio
from pagelens.accesses.trace import open_trace
from pagelens.accesses.tracer import TraceRequest, trace_program
from pagelens.frames import Node, policies
from pagelens.machine import load_machine
from pagelens.replay import Simulation

# Memory from one border of 2 MiB to another, of which the program asks large pages for the first half: in
# pieces, of which none holds a large page.
PROGRAM = """
#include <stdint.h>
#include <sys/mman.h>
enum { large = 1 << 21, pages = 4 };
int main(void) {
    char* all = mmap(0, (pages + 1) * large, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    char* memory = (char*)(((uintptr_t)all + large - 1) / large * large);
    if (all == MAP_FAILED) return 1;
    for (long i = 0; i < pages / 2; ++i)
        for (long part = 0; part < 2; ++part)
            if (madvise(memory + i * large + part * large / 2, large / 2, MADV_HUGEPAGE) != 0) return 1;
    for (long i = 0; i < (long)pages * large; i += 64) memory[i] = 1;
    return 0;
}
"""
MACHINES = [CACHE_MODE, SNOOP_FILTER]


@pytest.mark.parametrize("engine", ["qemu", "dynamorio"])
def test_memory_that_a_program_asks_large_pages_for_has_them(
    engine: str, compile_c: Callable[[str], Path], tmp_path: Path
) -> None:
    if engine == "dynamorio" and not has_dynamorio():
        pytest.skip("needs make engine")
    path = str(tmp_path / "app.trace")
    trace_program(TraceRequest([str(compile_c(PROGRAM))], path, engine=engine))
    workload = open_trace(path)
    for name in MACHINES:
        machine = load_machine(name)
        simulation = Simulation(workload, machine, ranks=1, seed=1)
        found = {
            policy: simulation.run(simulation.place(policies[policy], Node(machine, 1, 0))).counts
            for policy in ("aged", "random", "2m")
        }
        large = {policy: counts["large_pages"].max() for policy, counts in found.items()}
        assert (large["aged"], large["random"]) == (2, 0), name
        assert large["2m"] >= 4, name
        if machine.memory_side_cache is None:  # the half on small pages has the page walks
            walks = {policy: counts["walks"].sum() for policy, counts in found.items()}
            assert walks["2m"] < walks["aged"] < 0.6 * walks["random"], name


FORKS = r"""
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>
static volatile int done;
static void* ask(void* memory) {
    while (!done) madvise(memory, 4096, MADV_HUGEPAGE), madvise(memory, 4096, MADV_NOHUGEPAGE);
    return memory;
}
int main(void) {
    pthread_t asking[3];
    for (int i = 0; i < 3; i++) {
        void* memory = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        pthread_create(&asking[i], 0, ask, memory);
    }
    for (int fork_number = 0; fork_number < 20; fork_number++) {
        const pid_t child = fork();
        if (child == 0) _exit(0);
        for (int waits = 0; waitpid(child, 0, WNOHANG) == 0; usleep(10000))
            if (waits++ == 6000) return kill(child, SIGKILL), 1;
    }
    done = 1;
    for (int i = 0; i < 3; i++) pthread_join(asking[i], 0);
}
"""


@pytest.mark.parametrize("engine", ["qemu", "dynamorio", "compiled"])
def test_a_child_of_fork_has_the_advice_of_its_parent(
    engine: str, compile_c: Callable[..., Path], tmp_path: Path
) -> None:
    """Asked for before the fork, the large pages are those of the child, which touches the memory."""
    if engine == "dynamorio" and not has_dynamorio():
        pytest.skip("needs make engine")
    touching = "    for (long i = 0; i < (long)pages"
    source = PROGRAM.replace(touching, f"    if (fork() != 0) return wait(0) < 0;\n{touching}")
    source = f"#include <sys/wait.h>\n#include <unistd.h>\n{source}"
    flags = compile_flags("gcc") if engine == "compiled" else []
    program = compile_c(source, *flags)
    found = trace_program(
        TraceRequest([str(program)], str(tmp_path / "%p.trace"), engine=engine, follow_exec=True)
    )
    [child] = set(tmp_path.glob("*.trace")) - {found.path}
    machine = load_machine(SNOOP_FILTER)
    simulation = Simulation(open_trace(child), machine, ranks=1, seed=1)
    counts = simulation.run(simulation.place(policies["aged"], Node(machine, 1, 0))).counts
    assert counts["large_pages"].max() == 2


def test_a_child_goes_on_though_other_threads_asked_for_large_pages_during_the_fork(
    compile_c: Callable[..., Path], tmp_path: Path
) -> None:
    """QEMU leaves threads within system calls at work while it forks."""
    program = compile_c(FORKS, "-pthread")
    request = TraceRequest([str(program)], str(tmp_path / "%p.trace"), engine="qemu", follow_exec=True)
    assert trace_program(request).exit_status == 0
    assert len(list(tmp_path.glob("*.trace"))) == 21
