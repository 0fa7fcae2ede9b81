"""`pagelens conflicts` as users run it: conclusion first, JSON that says the same, errors of one line."""

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from machine_roles import EXCLUSIVE_L3, SNOOP_FILTER

from pagelens.cli.main import main
from pagelens.cli.text.conflicts import render
from pagelens.conflicts import Prediction, predict, read_pages, socket_of
from pagelens.machine import load_machine

Run = Callable[..., subprocess.CompletedProcess[str]]
Here = Callable[..., tuple[int, str, str]]
MIB = 1 << 20


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Here:
    """Runs `pagelens conflicts` in this process: status, stdout, stderr."""

    def run(*arguments: str | Path, machine: str = SNOOP_FILTER) -> tuple[int, str, str]:
        monkeypatch.chdir(tmp_path)
        monkeypatch.setattr(
            sys, "argv", ["pagelens", "conflicts", "--machine", machine, *map(str, arguments)]
        )
        with pytest.raises(SystemExit) as end:
            main()
        return (int(end.value.code or 0), *capsys.readouterr())

    return run


@pytest.fixture
def lists(tmp_path: Path) -> tuple[Path, Path]:
    """Twelve random pages of a socket's memory, and a pool of 300 others."""
    places = np.random.default_rng(1).choice(96 * 512, 312, replace=False) * 2 * MIB
    pages, pool = tmp_path / "pages.txt", tmp_path / "pool.txt"
    pages.write_text("\n".join(f"{place:#x}" for place in places[:12].tolist()))
    pool.write_text("\n".join(str(place // 4096) for place in places[12:].tolist()))
    return pages, pool


def predicted(pages: Path) -> Prediction:
    return predict(
        socket_of(load_machine(SNOOP_FILTER)), read_pages(pages, None, "--frames"), None, 1_000_000
    )


def test_json_says_all_and_the_terminal_the_same(pagelens: Run, lists: tuple[Path, Path]) -> None:
    pages, pool = lists
    asked = ["conflicts", "--machine", SNOOP_FILTER, "--frames", pages, "--held", "1000000B", "--pool", pool]
    found = json.loads(pagelens(*asked, "--json", "--lines").stdout)
    expected = predicted(pages)
    first = expected.counts[0]
    assert found["schema"] == "pagelens conflicts"
    assert (found["machine"], found["cores"], found["held_bytes"]) == (SNOOP_FILTER, 24, 1_000_000)
    assert (found["pages"], found["bytes"], found["windows"]) == (12, 24 * MIB, 1)
    assert found["shares"]["of_each"] == [first.share]
    assert found["structures"][0]["name"] == "snoop filter"
    assert found["structures"][0]["excess"] == first.excess > 0
    assert found["structures"][0]["histogram"] == list(first.histogram)
    assert [page["crowded"] for page in found["by_page"]] == [page.crowded for page in expected.by_page]
    assert len(found["lines"]) == first.crowded
    assert found["swaps"][-1]["worst_share"] < first.share

    shown = pagelens(*asked)
    assert shown.returncode == 0
    assert shown.stderr == ""
    lines = shown.stdout.splitlines()
    assert max(map(len, lines)) <= 80
    assert lines[0].startswith(
        f"{100 * first.share:.1f}% of the lines that the L2s hold at a time do not fit"
    )
    assert f"{first.excess:,} of 375,000" in lines[1]
    assert "swapped" in " ".join(lines[:3])
    assert "Xeon Platinum 8160" in shown.stdout
    assert f"{found['swaps'][0]['new']:#x}" in shown.stdout


def test_no_conflict_is_said_plainly(here: Here, tmp_path: Path) -> None:
    (tmp_path / "first.txt").write_text("0x0")
    shown = " ".join(here("--frames", "first.txt")[1].split())
    all_held = "No conflicts: the snoop filter can hold all 32,768 lines that the L2s hold at a time"
    assert shown.startswith(f"{all_held}. ")
    (tmp_path / "many.txt").write_text("\n".join(str(512 * place) for place in range(13)))
    shown = " ".join(here("--frames", "many.txt", "--held", "64B", "--cores", "1")[1].split())
    assert "all 1 lines that the L2s hold at a time, in each of 13 windows of the memory." in shown


def test_a_gib_page_is_gone_through_in_windows(here: Here, tmp_path: Path) -> None:
    (tmp_path / "gib.txt").write_text("0x40000000")
    _, shown, _ = here("--frames", "gib.txt", "--page-size", "1GiB", "--held", "1000000B")
    assert shown.startswith("19.7% of the lines")
    assert "worst of 501 windows" in " ".join(shown.split())


def test_pages_with_cores_and_many_pages_fit_80_columns(lists: tuple[Path, Path], tmp_path: Path) -> None:
    addresses = (tmp_path / "pages.txt").read_text().split()
    own = tmp_path / "own.txt"
    own.write_text("\n".join(f"{address},{core}" for core, address in enumerate(addresses)))
    small = tmp_path / "small.txt"
    small.write_text("\n".join(str(37 * number) for number in range(8000)))
    socket = socket_of(load_machine(SNOOP_FILTER))
    for path, size in ((own, None), (small, "4KiB")):
        text = render(predict(socket, read_pages(path, size, "--frames")), None)
        assert max(map(len, text.splitlines())) <= 80


def test_a_process_of_a_captured_tree(here: Here, tmp_path: Path) -> None:
    folder = tmp_path / "tree" / "proc" / "7"
    folder.mkdir(parents=True)
    (folder / "smaps").write_text("00400000-00402000 rw-p 00000000 00:00 0 [heap]\nRss: 8 kB\n")
    entries = np.zeros(0x402, dtype="<u8")
    entries[0x400:] = (1 << 63) | np.array([0x5000, 0x7000], dtype="<u8")
    (folder / "pagemap").write_bytes(entries.tobytes())
    (folder.parent / "cpuinfo").write_text("flags\t: fpu hypervisor\n")
    (folder.parent / "zoneinfo").write_text("Node 0, zone DMA\n spanned 40000\n start_pfn: 1\n")
    (folder.parent / "kpageflags").write_bytes(np.full(0x8000, 1 << 10, dtype="<u8").tobytes())
    asked = ["--pid", "7", "--root", tmp_path / "tree", "--pool", "free", "--page-size", "4KiB"]
    found = json.loads(here(*asked, "--json")[1])
    assert found["frames_of"] == "guest"
    assert found["swaps"] == []
    assert [(page["virtual"], page["address"]) for page in found["by_page"]] == [
        (0x400000, 0x5000000),
        (0x401000, 0x7000000),
    ]
    assert "This is a virtual machine: the frames are the guest's" in here(*asked)[1]


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ([], "give either --frames FILE or --pid PID"),
        (["--frames", "pages.txt", "--pid", "7"], "give either --frames FILE or --pid PID"),
        (["--frames", "none.txt"], "--frames: cannot read none.txt (No such file or directory)"),
        (["--frames", "pages.txt", "--lines"], "--lines: add --json, which lists them"),
        (["--frames", "pages.txt", "--held", "1"], "--held: '1' has no unit"),
        (
            ["--frames", "pages.txt", "--held", "2MiB"],
            "--held 2097152 bytes: from a line, 64B, to an L2, 1 MiB",
        ),
        (
            ["--frames", "pages.txt", "--cores", "25"],
            f"--cores 25: {SNOOP_FILTER} has 24 on a socket; give 1 to 24",
        ),
        (["--frames", "pages.txt", "--page-size", "1GiB"], "is no multiple of the page, 1 GiB"),
        (["--frames", "pages.txt", "--pool", "pages.txt"], "--pool: every page of it is in the list already"),
        (["--pid", "999999999"], "name a process that is running"),
    ],
)
def test_errors_are_one_line(here: Here, lists: tuple[Path, Path], arguments: list[str], named: str) -> None:
    status, shown, error = here(*arguments)
    assert (status, shown) == (2, "")
    assert error.startswith("pagelens: ")
    assert error.count("\n") == 1
    assert named in error


def test_a_machine_without_slices_is_refused(here: Here, lists: tuple[Path, Path]) -> None:
    status, _, error = here("--frames", "pages.txt", machine=EXCLUSIVE_L3)
    assert status == 2
    assert f"--machine {EXCLUSIVE_L3}" in error
    assert SNOOP_FILTER in error


def test_help_has_an_example(pagelens: Run) -> None:
    shown = pagelens("conflicts", "--help").stdout
    assert f"pagelens conflicts --machine {SNOOP_FILTER} --frames pages.txt" in shown
