"""The library of `pagelens run` in programs that fork while their threads ask for memory and give it back."""

import json
import os
import signal
import subprocess
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
from plan_programs import MIB
from run_library import FORK_SETTINGS, LIBRARY, PROGRAMS, build, plan_for, plan_for_forks, pool

# By hundreds of times what the programs take, the long ones by tens: a hang is a failure.
PATIENCE_SECONDS, LONG_PATIENCE_SECONDS = 300, 3600

# Initialised, and so its handler of fork registered, before the library: it runs when the library's has run.
HANDLERS = """
    #include <pthread.h>
    #include <stddef.h>
    static void (*handler)(void);
    void handler_of_fork(void (*function)(void)) { handler = function; }
    static void before(void) { if (handler) handler(); }
    __attribute__((constructor)) static void start(void) { pthread_atfork(before, NULL, NULL); }
"""

FRAMES = {"frames": "large=131072,cache=33554432", "2m-frames": "pages=2m,large=131072,cache=33554432"}


def run_to_the_end(
    command: list[str | Path],
    settings: str,
    plan: Path | None,
    tmp_path: Path,
    patience: float = PATIENCE_SECONDS,
) -> tuple[str, dict[str, Any]]:
    """Returns what the program says, and its report. If it hangs, its children end with it."""
    report = tmp_path / "report.json"
    environment = {**os.environ, "LC_ALL": "C.UTF-8", "LD_PRELOAD": str(LIBRARY)}
    environment["PAGELENS_RUN"] = f"{settings},json=1,report={report}"
    if plan is not None:
        environment["PAGELENS_PLAN"] = str(plan)
    with subprocess.Popen(
        command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, process_group=0
    ) as process:
        try:
            stdout, stderr = process.communicate(timeout=patience)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            pytest.fail(f"hangs: {process.communicate()}")
    assert process.returncode == 0, stderr
    return stdout, json.loads(report.read_text())


@pytest.fixture(scope="session")
def window(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A program whose thread works while another one forks and waits for it."""
    folder = tmp_path_factory.mktemp("window")
    (folder / "handlers.c").write_text(HANDLERS)
    library = build(folder / "handlers.c", folder / "libhandlers.so", "-shared", "-fPIC")
    linked = ("-Wl,--no-as-needed", str(library), f"-Wl,-rpath,{folder}")
    return build(PROGRAMS / "fork_window.c", folder / "fork_window", "-fno-builtin", *linked)


@pytest.mark.parametrize("settings", FORK_SETTINGS.values(), ids=FORK_SETTINGS)
def test_nobody_waits_for_a_fork_that_waits_for_others(window: Path, settings: str, tmp_path: Path) -> None:
    plan = plan_for(
        window,
        tmp_path / "plan",
        2 * MIB + MIB // 4,  # what is there before the fork: what comes afterwards needs what it gave back
        take_mesh=(1.0, {}),
        take_row=(1.0, {}),
        take_mapped=(0.5, {}),
        take_later=(0.0, {"one": 1.0}),
    )
    with pool(24) if "2m" in settings else nullcontext():
        said, report = run_to_the_end([window], settings, plan, tmp_path)
    # In between all is as without the library, and nothing moves; the next marker finds it so.
    assert said.splitlines() == [
        "meanwhile: mesh 0, row 0, mapped 0, later 0",
        "the handler: mesh 0, row 0, mapped 0, later 0",
        "child: mesh 1, row 1, mapped 1, later 0",
        "grandchild: mesh 1, row 1, mapped 1, later 0",
        "child ended: 0",
        "parent: mesh 1, row 1, mapped 1, later 0",
        "in a region: mesh 1, row 1, mapped 1, later 1",
    ]
    by_name = {one["name"]: one for one in report["plan"]["objects"]}
    assert {name: (one["blocks"], one["short_bytes"]) for name, one in by_name.items()} == {
        "take_mesh": (3, 0), "take_row": (102, 0), "take_mapped": (4, 0), "take_later": (1, 0)
    }  # fmt: skip
    # Twice four, a region, and a mapping that is followed no further; realloc twice; two beside stdio.
    assert report["forks"]["left_as_they_came"] == 2 * 4 + 1 + 1 + 2 + 2
    assert (report["forks"]["copied_bytes"] > 0) == ("2m" in settings)


@pytest.fixture(scope="session")
def forks(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Forks beside threads of which some are interrupted by handlers that map memory."""
    return build(PROGRAMS / "forks.c", tmp_path_factory.mktemp("forks") / "forks", "-fno-builtin")


def check_forks(
    forks: Path, settings: str, tmp_path: Path, *words: str, patience: float = PATIENCE_SECONDS
) -> None:
    plan = None if "cache" in settings else plan_for_forks(forks, tmp_path / "plan")
    with pool(24) if "2m" in settings else nullcontext():
        said, report = run_to_the_end([forks, *words], settings, plan, tmp_path, patience)
    assert said == f"{words[0]} forks\n"
    assert plan is None or all(one["blocks"] > 0 for one in report["plan"]["objects"])


def test_handlers_that_map_do_not_stop_a_fork(forks: Path, tmp_path: Path) -> None:
    """They interrupt malloc, for which the fork waits. Without the gate it stops in the first rounds."""
    check_forks(forks, FORK_SETTINGS["plan"], tmp_path, "40")


@pytest.mark.long
@pytest.mark.parametrize("settings", (FORK_SETTINGS | FRAMES).values(), ids=FORK_SETTINGS | FRAMES)
def test_many_forks(forks: Path, settings: str, tmp_path: Path) -> None:
    check_forks(forks, settings, tmp_path, "500", "4", patience=LONG_PATIENCE_SECONDS)


def test_a_handler_may_fork_where_it_has_interrupted_the_library(
    compile_c: Callable[[str], Path], tmp_path: Path
) -> None:
    program = compile_c("""
        #include <signal.h>
        #include <stdio.h>
        #include <stdlib.h>
        #include <sys/time.h>
        #include <sys/wait.h>
        #include <unistd.h>
        static volatile int handled, wrong, generation;
        static void work(void) {
            char *volatile block = malloc((1 << 20) + handled);
            block[1000] = 1;
            free(block);
        }
        static void handler(int number) {
            const pid_t child = fork();
            int status = 1;
            handled++;
            if (child == 0) {
                generation++;
                return; /* to where it was, and on */
            }
            wrong += waitpid(child, &status, 0) != child || status != 0;
        }
        int main(void) {
            const struct itimerval often = {{0, 200}, {0, 200}}, never = {{0, 0}, {0, 0}};
            signal(SIGVTALRM, handler);
            setitimer(ITIMER_VIRTUAL, &often, 0); /* children have none */
            while (handled < 100 && generation == 0) work();
            setitimer(ITIMER_VIRTUAL, &never, 0);
            for (int i = 0; i < 10; i++) work();
            int status = 1;
            const pid_t child = fork();
            if (child == 0) _exit(0);
            wrong += waitpid(child, &status, 0) != child || status != 0;
            if (generation > 0) _exit(wrong != 0);
            printf("%d wrong\\n", wrong);
        }
    """)
    for settings in ("large=131072", "pages=thp,large=131072,period=4096"):
        assert run_to_the_end([program], settings, None, tmp_path)[0] == "0 wrong\n"
