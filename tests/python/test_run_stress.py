"""The library of `pagelens run` under 64 threads, and under the sanitizers: run by `make test-long`."""

import json
import re
import subprocess
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path

import pytest
from run_library import FORK_SETTINGS, OPTIONS, PROGRAMS, build, plan_for_blocks, plan_for_forks, pool, run

ROOT = PROGRAMS.parent.parent

# Under other names, so that the sanitizers' own allocator is the next one, and all of the library is checked.
# fmt: off
WRAPPED = (
    "malloc", "calloc", "realloc", "reallocarray", "aligned_alloc", "posix_memalign", "memalign", "valloc",
    "pvalloc", "free", "malloc_usable_size", "mmap", "mmap64", "munmap", "mremap",
)
# fmt: on
# ThreadSanitizer knows few places where a program's memory may be (tsan_platform.h, x86-64).
TSAN_TERRITORY = ("-DTERRITORY=UINT64_C(0x7e9000000000)", "-DTERRITORY_BYTES=((size_t)1<<38)")

pytestmark = pytest.mark.long


@pytest.mark.parametrize("pages", [0, 200])
@pytest.mark.parametrize("settings", OPTIONS.values(), ids=OPTIONS.keys())
def test_64_threads_for_a_minute(tmp_path: Path, settings: str, pages: int) -> None:
    pooled = "2m" in settings or "1g" in settings
    if pages and not pooled:
        pytest.skip("asks for nothing of the pool")
    program = build(PROGRAMS / "blocks.c", tmp_path / "blocks")
    # Steps of each thread in a round; frames are chosen for each new span.
    command: list[str | Path] = [program, "64", "100" if "cache" in settings else "1000", "2"]
    with pool(pages) if pooled else nullcontext():  # others wait for theirs
        plain = run(command, None, timeout=900)
        done = run([*command, "60"], settings, timeout=1800)
    assert done.returncode == 0, done.stderr
    assert done.stdout == plain.stdout


@pytest.mark.parametrize("settings", ["large=131072", "pages=thp,large=16384", "pages=2m,period=4096"])
@pytest.mark.parametrize("capacity", [8 << 20, 1 << 30], ids=["short", "ample"])
def test_64_threads_for_a_minute_by_a_plan(tmp_path: Path, settings: str, capacity: int) -> None:
    program = build(PROGRAMS / "blocks.c", tmp_path / "blocks")
    command: list[str | Path] = [program, "64", "1000", "2"]
    env = plan_for_blocks(program, tmp_path / "handed", capacity)
    plain = run(command, None, timeout=900)
    report = tmp_path / "report.json"
    done = run([*command, "60"], f"{settings},json=1,report={report}", env, timeout=1800)
    assert done.returncode == 0, done.stderr
    assert done.stdout == plain.stdout
    plan = json.loads(report.read_text())["plan"]
    assert plan["moves"]["borders"] > 100
    assert plan["peak_fast_bytes"] <= capacity
    assert sum(one["pooled_blocks"] for one in plan["objects"]) > 1000
    assert sum(one["blocks"] - one["pooled_blocks"] for one in plan["objects"]) > 1000


@pytest.fixture(params=["address", "thread"])
def sanitized(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[str], tuple[Path, Path]]:
    """Builds a program with a sanitizer, and the library into it: the program, and its call sites' file."""
    flags = {
        "address": ("-fsanitize=address,undefined", "-fno-sanitize-recover=undefined"),
        "thread": ("-fsanitize=thread", *TSAN_TERRITORY),
    }[request.param]
    renamed = [f"-D{name}=run_{name}" for name in WRAPPED]
    words = ["gcc", "-O1", "-g", *flags, *renamed, f"-I{ROOT}", "-pthread", "-w"]

    def built(name: str) -> tuple[Path, Path]:
        # The program is a library of the executable, so that its call sites are not the preload library's,
        # which is in the executable, so that the sanitizers' allocator is the next one.
        program, main = tmp_path / name, tmp_path / "libmain.so"
        sources = sorted((ROOT / "preload").glob("*.c"))
        subprocess.run([*words, "-shared", "-fPIC", "-o", main, PROGRAMS / f"{name}.c"], check=True)
        linked = [*sources, main, f"-Wl,-rpath,{tmp_path}", "-ldl"]
        subprocess.run([*words, "-o", program, *linked], check=True)
        return program, main

    return built


def run_sanitized(command: list[str | Path], settings: str, plan: dict[str, str]) -> str:
    """Returns what a program that ends well says on stderr."""
    # A child of a process with threads ends without them, which is no leak.
    options = {"TSAN_OPTIONS": "report_thread_leaks=0"}
    done = run(command, None, options | {"PAGELENS_RUN": settings} | plan, timeout=300)
    assert done.returncode == 0, done.stderr
    assert "Sanitizer" not in done.stderr
    return done.stderr


def test_sanitizers_find_nothing(sanitized: Callable[[str], tuple[Path, Path]], tmp_path: Path) -> None:
    program, main = sanitized("blocks")
    plans = [plan_for_blocks(main, tmp_path / f"{size}.plan", size << 20) for size in (4, 1024)]
    with pool(100):
        for settings in OPTIONS.values():
            run_sanitized([program, "8", "60", "2"], settings, {})
        for plan in plans:
            said = run_sanitized([program, "8", "60", "2"], "large=65536,report=", plan)
            assert re.search(r"moved between regions [1-9]\d* times", said), said
            assert re.search(r"plan: [4-6] of 6 objects had blocks", said), said


# Not AddressSanitizer of GCC 12: it does not lock its allocator while a process forks; children hang in it.
@pytest.mark.parametrize("sanitized", ["thread"], indirect=True)
def test_sanitizers_find_nothing_in_forks(
    sanitized: Callable[[str], tuple[Path, Path]], tmp_path: Path
) -> None:
    program, main = sanitized("forks")
    plan = {"PAGELENS_PLAN": str(plan_for_forks(main, tmp_path / "plan"))}
    for settings in FORK_SETTINGS.values():
        said = run_sanitized([program, "30"], f"{settings},report=", plan)
        assert "plan: 3 of 3 objects had blocks" in said
