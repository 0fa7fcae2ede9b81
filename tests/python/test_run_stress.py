"""The library of `pagelens run` under 64 threads, and under the sanitizers: run by `make test-long`."""

import json
import os
import re
import subprocess
from contextlib import nullcontext
from pathlib import Path

import pytest
from run_library import OPTIONS, PROGRAMS, build, plan_for_blocks, pool, run

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


@pytest.mark.parametrize(
    ("sanitizer", "flags"),
    [("address,undefined", ("-fno-sanitize-recover=undefined",)), ("thread", TSAN_TERRITORY)],
    ids=["address", "thread"],
)
def test_sanitizers_find_nothing(tmp_path: Path, sanitizer: str, flags: tuple[str, ...]) -> None:
    renamed = [f"-D{name}=run_{name}" for name in WRAPPED]
    words = ["gcc", "-O1", "-g", f"-fsanitize={sanitizer}", *flags, *renamed, f"-I{ROOT}", "-pthread", "-w"]
    # The program is a library of the executable, so that its call sites are not the preload library's, which
    # is in the executable, so that the sanitizers' allocator is the next one.
    program, main = tmp_path / "blocks", tmp_path / "libmain.so"
    sources = sorted((ROOT / "preload").glob("*.c"))
    subprocess.run([*words, "-shared", "-fPIC", "-o", main, PROGRAMS / "blocks.c"], check=True)
    linked = [*sources, main, f"-Wl,-rpath,{tmp_path}", "-ldl"]
    subprocess.run([*words, "-o", program, *linked], check=True)
    plans = [plan_for_blocks(main, tmp_path / f"{size}.plan", size << 20) for size in (4, 1024)]
    runs = [(settings, {}) for settings in OPTIONS.values()] + [
        ("large=65536,report=", plan) for plan in plans
    ]
    with pool(100):
        for settings, plan in runs:
            done = subprocess.run(
                [program, "8", "60", "2"],
                # A child of a process with threads ends without them, which is no leak.
                env={**os.environ, "PAGELENS_RUN": settings, "TSAN_OPTIONS": "report_thread_leaks=0", **plan},
                capture_output=True,
                text=True,
                check=False,
                timeout=120,
            )
            assert done.returncode == 0, done.stderr
            assert "Sanitizer" not in done.stderr
            assert not plan or re.search(r"moved between regions [1-9]\d* times", done.stderr), done.stderr
            assert not plan or re.search(r"plan: [4-6] of 6 objects had blocks", done.stderr), done.stderr
