"""`pagelens explain --apply`: which remedy is taken, why, and why not another."""

import subprocess
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from machine_roles import CACHE_MODE, NO_L3
from small_program import MACHINE, SWEEPS

from pagelens.explain.model import RemedyGain
from pagelens.frames.policies import Host, Job
from pagelens.machine import load_machine
from pagelens.run.best_remedy import Choice, choose_remedy, option_words, read_host
from pagelens.run.preload import Pages, Preload

Run = Callable[..., subprocess.CompletedProcess[str]]
GIB = 1 << 30
HUGE, GIGANTIC = 2 << 20, GIB  # bytes of a page

HOST = Host({HUGE: 4 * GIB, GIGANTIC: 0}, transparent_huge_pages=True, sees_frames=True)


def choose(remedies: list[RemedyGain], machine: str, size: int, host: Host) -> Choice:
    return choose_remedy(remedies, Job(size, load_machine(machine)), host)


def remedy(policy: str, gain: float) -> RemedyGain:
    return RemedyGain(
        policy=policy,
        title=policy,
        gain_median=gain,
        gain_median_low=gain,
        gain_median_high=gain,
        gain_p95=gain,
        gain_p95_low=gain,
        gain_p95_high=gain,
        gain_serial=gain,
        verdict="gains" if gain > 1.02 else "none",
        gain_worst=gain,
        root="",
        memory="",
        code="",
    )


RANKED = [remedy("aged+zonesort", 1.6), remedy("johnny-static", 1.5), remedy("1g", 1.4), remedy("2m", 1.3)]


@pytest.mark.parametrize(
    ("host", "taken", "refused"),
    [
        (HOST, Preload(pages=Pages.HUGE, cache=16 * GIB), ["zonesort"]),
        (
            replace(HOST, virtual_machine=True),
            Preload(pages=Pages.HUGE),
            ["zonesort", "virtual machine", "1 GiB"],
        ),
        (replace(HOST, sees_frames=False), Preload(pages=Pages.HUGE), ["zonesort", "CAP_SYS_ADMIN", "1 GiB"]),
        (
            replace(HOST, sees_frames=False, free_pool_bytes={HUGE: 0, GIGANTIC: 4 * GIB}),
            Preload(pages=Pages.GIGANTIC),
            ["zonesort", "CAP_SYS_ADMIN"],
        ),
        (
            Host({HUGE: GIB, GIGANTIC: 0}, True, False, False),  # too few for the program
            Preload(pages=Pages.TRANSPARENT),
            ["zonesort", "CAP_SYS_ADMIN", "1 GiB"],
        ),
        (
            Host({HUGE: 0, GIGANTIC: 0}, False, False, True),
            None,
            ["zonesort", "transparent ones are off", "1 GiB", "transparent ones are off"],
        ),
    ],
    ids=["all", "guest", "no-frames", "1g", "thp", "none"],
)
def test_the_first_that_can_be_had_is_taken(host: Host, taken: Preload | None, refused: list[str]) -> None:
    applied = choose(RANKED, CACHE_MODE, 3 * GIB, host)
    assert applied.settings == taken
    *before, last = applied.said
    assert len(before) == len(refused)
    assert all(word in line for word, line in zip(refused, before, strict=True))
    assert last.startswith("runs with" if taken else "runs as it is")


def test_offsets_are_staggered_blocks_and_small_gains_are_none() -> None:
    machine = NO_L3
    applied = choose([remedy("2m+offset-64k", 1.2)], machine, GIB, HOST)
    assert applied.settings == Preload(pages=Pages.HUGE, period=128 << 10)
    assert applied.said == (
        "runs with '2m+offset-64k' (1.20x), as `pagelens run --pages 2m --stagger --period 131072B` does",
    )
    assert choose([remedy("2m", 1.01), remedy("1g", 0.9)], machine, GIB, HOST).settings is None
    assert choose([remedy("aged+swizzle", 1.5)], machine, GIB, HOST).settings is None


def test_the_words_shown_ask_for_the_same(in_process: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    import pagelens.run.command

    asked: list[Preload] = []
    monkeypatch.setattr(pagelens.run.command, "start", lambda _path, _words, settings: asked.append(settings))
    monkeypatch.setattr("sys.exit", lambda _status: (_ for _ in ()).throw(SystemExit(0)))
    settings = Preload(pages=Pages.TRANSPARENT, period=4096)
    in_process("run", *option_words(settings), "--", "true")
    assert asked == [settings]


def test_what_there_is_is_read_from_proc_and_sys(tmp_path: Path) -> None:
    nothing = read_host(tmp_path)
    assert nothing == Host({HUGE: 0, GIGANTIC: 0}, False, False, False)
    files = {
        "sys/kernel/mm/transparent_hugepage/enabled": "always [madvise] never\n",
        "sys/kernel/mm/hugepages/hugepages-2048kB/free_hugepages": "100\n",
        "sys/kernel/mm/hugepages/hugepages-2048kB/resv_hugepages": "30\n",
        "sys/kernel/mm/hugepages/hugepages-1048576kB/free_hugepages": "2\n",
        "sys/kernel/mm/hugepages/hugepages-1048576kB/resv_hugepages": "0\n",
        "proc/self/status": "Name:\tx\nCapEff:\t000001fffeffffff\n",
        "proc/cpuinfo": "flags\t\t: fpu hypervisor\n",
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    host = read_host(tmp_path)
    assert host == Host({HUGE: 70 << 21, GIGANTIC: 2 * GIB}, True, True, True)
    (tmp_path / "sys/kernel/mm/transparent_hugepage/enabled").write_text("always madvise [never]\n")
    (tmp_path / "proc/self/status").write_text("CapEff:\t0000000000000000\n")
    assert read_host(tmp_path) == replace(host, transparent_huge_pages=False, sees_frames=False)


def test_the_program_is_explained_and_then_run(
    pagelens: Run, compile_c: Callable[[str], Path], tmp_path: Path
) -> None:
    program = compile_c(SWEEPS)
    (tmp_path / "small.toml").write_text(MACHINE)
    words = ("--machine", "small.toml", "--nodes", "2", "--policies", "aged,2m,aged+zonesort", "-o", "out")
    done = pagelens("explain", *words, "--apply", "--", program, "5")
    assert done.returncode == 5  # the program's own
    *_, last = done.stdout.splitlines()
    *_, said = done.stderr.splitlines()
    ran = "runs with '2m'" in said
    assert last.endswith(f", library {int(ran)}")
    assert ran or "runs as it is" in said


@pytest.mark.parametrize("target", [[], ["--workload", "stream-triad", "--size", "1GiB"]])
def test_without_a_program_there_is_nothing_to_run(in_process: Run, target: list[str]) -> None:
    done = in_process("explain", "--apply", *target)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "pagelens: --apply: runs a program; give it, as -- ./app args\n"
