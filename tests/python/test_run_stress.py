"""The library of `pagelens run` under 64 threads, and under the sanitizers: run by `make test-long`."""

import os
import subprocess
from contextlib import nullcontext
from pathlib import Path

import pytest
from run_library import OPTIONS, PROGRAMS, build, pool, run

ROOT = PROGRAMS.parent.parent

# Under other names, so that the sanitizers' own allocator is the next one, and all of the library is checked.
# fmt: off
WRAPPED = (
    "malloc", "calloc", "realloc", "reallocarray", "aligned_alloc", "posix_memalign", "memalign", "valloc",
    "pvalloc", "free", "malloc_usable_size", "mmap", "mmap64",
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


@pytest.mark.parametrize(
    ("sanitizer", "flags"),
    [("address,undefined", ("-fno-sanitize-recover=undefined",)), ("thread", TSAN_TERRITORY)],
    ids=["address", "thread"],
)
def test_sanitizers_find_nothing(tmp_path: Path, sanitizer: str, flags: tuple[str, ...]) -> None:
    sources = [*sorted((ROOT / "preload").glob("*.c")), PROGRAMS / "blocks.c"]
    renamed = [f"-D{name}=run_{name}" for name in WRAPPED]
    words = ["gcc", "-O1", "-g", f"-fsanitize={sanitizer}", *flags, *renamed, f"-I{ROOT}", "-pthread", "-w"]
    subprocess.run([*words, "-o", tmp_path / "blocks", *sources, "-ldl"], check=True)
    with pool(100):
        for settings in OPTIONS.values():
            done = subprocess.run(
                [tmp_path / "blocks", "8", "60", "2"],
                # A child of a process with threads ends without them, which is no leak.
                env={**os.environ, "PAGELENS_RUN": settings, "TSAN_OPTIONS": "report_thread_leaks=0"},
                capture_output=True,
                text=True,
                check=False,
                timeout=120,
            )
            assert done.returncode == 0, done.stderr
            assert "Sanitizer" not in done.stderr
