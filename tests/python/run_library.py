"""What the tests of `pagelens run` share: the library, programs run with it, and the pool of huge pages."""

import fcntl
import json
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from plan_programs import plan_of, planned

from pagelens import _core
from pagelens.run.memory_tiers import Tiers
from pagelens.run.plan_file import handed_plan
from pagelens.run.plan_sites import locate_plan

LIBRARY = Path(_core.__file__).parent / "lib" / "libpagelens_run.so"
PROGRAMS = Path(__file__).parent.parent / "programs"

# What is asked for; small blocks too, so that little memory suffices.
OPTIONS = {
    "2m": "pages=2m,large=4096",
    "thp": "pages=thp,large=4096",
    "stagger": "period=131072,large=4096",
    "2m-stagger": "pages=2m,period=4096",
    "thp-stagger": "pages=thp,period=131072,large=65536",
    "1g": "pages=1g",
    "frames": "cache=33554432",
    "thp-frames": "pages=thp,cache=33554432",
}

# What is asked for of forks.c, with a plan.
FORK_SETTINGS = {
    "plan": "large=131072",
    "thp": "pages=thp,large=131072",
    "stagger": "large=131072,period=4096",
    "2m": "pages=2m,large=131072",
}

# Functions of blocks.c, as far as the compiler leaves them, and which share of their blocks is fast.
BLOCKS_PLAN = {
    "take": 0.5, "work": 0.7, "resize": 1.0, "fork_children": 1.0, "main": 0.3, "map_pages": 0.6
}  # fmt: skip

_POOL = Path("/proc/sys/vm/nr_hugepages")
_POOL_LOCK = Path("/tmp/pagelens-hugepages.lock")  # one test of this machine at a time


def run(
    command: list[str | Path], settings: str | None, env: dict[str, str] | None = None, timeout: float = 300
) -> subprocess.CompletedProcess[str]:
    """Runs a program, with the library where there are settings."""
    environment = {**os.environ, "LC_ALL": "C.UTF-8", **(env or {})}
    if settings is not None:
        preload = filter(None, [str(LIBRARY), (env or {}).get("LD_PRELOAD", "")])
        environment |= {"LD_PRELOAD": ":".join(preload), "PAGELENS_RUN": settings}
    return subprocess.run(
        command, env=environment, capture_output=True, text=True, check=False, timeout=timeout
    )


def reported(command: list[str | Path], settings: str, tmp_path: Path, **more: Any) -> dict[str, Any]:
    """The report of a program that ends well, read from a file."""
    path = tmp_path / "report.json"
    done = run(command, f"{settings},json=1,report={path}", **more)
    assert done.returncode == 0, done.stderr
    report = json.loads(path.read_text())
    assert report["schema"] == "pagelens run"
    return dict(report)


def plan_for(program: Path, path: Path, capacity: int, **shares: tuple[float, dict[str, float]]) -> Path:
    """A plan by symbols, as the command hands it over: of each function the share, and those in regions."""
    objects = [
        planned(name, f"{program.name}!{name}+0x1", share=share, shares=regions)
        for name, (share, regions) in shares.items()
    ]
    plan = plan_of(program, *objects, capacity=capacity, build_id="00")
    located = locate_plan(plan, {program.name: program})
    path.write_bytes(handed_plan(plan, located, Tiers((0,), (), None)))
    return path


def plan_for_blocks(program: Path, path: Path, capacity: int) -> dict[str, str]:
    """The environment that has the library place the blocks of blocks.c on node 0."""
    regions = {"take": {"one": 1.0}, "resize": {"two": 0.0, "one": 0.5}, "map_pages": {"two": 0.1}}
    shares = {name: (share, regions.get(name, {})) for name, share in BLOCKS_PLAN.items()}
    return {"PAGELENS_PLAN": str(plan_for(program, path, capacity, **shares))}


def plan_for_forks(program: Path, path: Path) -> Path:
    """Plans the objects of forks.c, except what the interrupted threads ask for."""
    return plan_for(
        program,
        path,
        4 << 20,
        take_small=(1.0, {}),
        take_large=(0.5, {"one": 1.0, "two": 0.0}),
        take_mapped=(0.6, {"two": 0.1}),
    )


@contextmanager
def pool(pages: int) -> Iterator[None]:
    """So many pages of 2 MiB in the kernel's pool, this test's alone; skips where they cannot be had."""
    with _POOL_LOCK.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        try:
            before = int(_POOL.read_text())
            _POOL.write_text(str(before + pages))
        except (OSError, ValueError):
            pytest.skip("needs root, and a kernel with a pool of huge pages")
        try:
            if int(_POOL.read_text()) < before + pages:
                pytest.skip(f"no {pages} huge pages can be had")
            yield
        finally:
            _POOL.write_text(str(before))


def build(source: Path, program: Path, *flags: str, compiler: str = "gcc") -> Path:
    """Compiles one C file."""
    subprocess.run([compiler, "-O1", "-g", "-pthread", *flags, "-o", program, source], check=True)
    return program
