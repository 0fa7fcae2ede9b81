"""Guests: what runs in them, and what is said when they do not come up."""

import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
from machine_roles import CACHE_MODE

from pagelens.errors import Failure, UsageError
from pagelens.lab.emulator import Hardware
from pagelens.lab.guest import Guest, GuestFailure
from pagelens.lab.initramfs import Initramfs
from pagelens.lab.kernels import Kernel, find_kernel
from pagelens.lab.measured import TOOL, MeasuredGuest, MemorySide
from pagelens.lab.modules import build_module
from pagelens.lab.watch import Watch
from pagelens.machine import load_machine

MIB = 1 << 20
Pagelens = Callable[..., subprocess.CompletedProcess[str]]


@pytest.mark.parametrize(
    "version", [pytest.param("6.1", marks=pytest.mark.long), "6.12"]
)  # most tests take 6.1
def test_programs_run_in_a_guest_of_either_kernel(version: str) -> None:
    content = os.urandom(5000)
    with Guest(kernel=version, memory="512MiB", files={"/lab/given": content}) as guest:
        assert guest.release.startswith(f"{version}.")
        assert guest.get("/lab/given") == content
        guest.put("/lab/put", content)
        assert guest.shell("cmp /lab/given /lab/put").status == 0
        done = guest.shell("echo out; echo err >&2; exit 3")
        assert (done.status, sorted(done.output.split())) == (3, ["err", "out"])
        assert guest.run("sh", "-c", "kill -9 $$").status == -signal.SIGKILL
        missing = guest.run("no-such-program")
        assert (missing.status, missing.output) == (127, "no-such-program: No such file or directory\n")
        assert guest.run("printf", "%s", "a b").output == "a b"
        pid = guest.pid
    assert not Path(f"/proc/{pid}").exists()


def test_the_plugin_says_the_frames_that_pagemap_says() -> None:
    """They agree on both sides of the PCI hole and on both nodes, where QEMU's own number is another."""
    hardware = Hardware(7 << 29, nodes=2)  # the least that has the hole
    machine, memory_side = load_machine(CACHE_MODE), MemorySide(1 << 17)
    with MeasuredGuest(machine, memory_side, hardware, "6.1", Initramfs(), "") as guest:
        # Node 1 gives its half a GiB beyond the hole first, and then what it has below.
        for processor, mib in (("1", 128), ("2", 768)):
            guest.run("taskset", processor, TOOL, "where", str(mib << 8), "32").checked()
        frames = np.frombuffer(guest.handed_over(), dtype=np.uint64) & np.uint64((1 << 55) - 1)
        seen = np.array([report["frame"] for report in guest.reports()], dtype=np.uint64)
        zones = guest.run("cat", "/proc/zoneinfo").output
    assert np.array_equal(seen, frames[::32])  # both numbers of pages are multiples of 32
    hole, second = 3 << 18, hardware.node_begins[1]  # frames: 3 GiB; where node 1 begins
    assert f"start_pfn:           {second}" in zones
    for part in (seen < second, (seen >= second) & (seen < hole), seen >= 1 << 20):
        assert part.sum() > 1000
    assert not ((frames >= hole) & (frames < 1 << 20)).any()
    assert frames.max() < hardware.frames_end


def test_a_panic_is_told_with_the_consoles_last_lines() -> None:
    """The kernel is a bzImage that is named, which decompresses itself."""
    image = str(find_kernel("6.1").image)
    with (
        pytest.raises(GuestFailure, match="kernel stopped: Kernel panic") as caught,
        Guest(image, memory="512MiB", append="rdinit=/nothing init=/nothing"),
    ):
        pass
    first, *console = str(caught.value).splitlines()
    assert "console's last lines" in first
    assert 3 <= len(console) <= 12


def test_a_guest_that_says_nothing_hangs() -> None:
    """Its init sleeps, where the agent would report."""
    root = Initramfs()
    root.add("/lab/init", "#!/bin/busybox sh\nexec /bin/busybox sleep 100000\n", 0o755)
    options = {"files": root, "append": "rdinit=/lab/init", "watch": lambda pid: Watch(pid, asleep_looks=4)}
    with (
        pytest.raises(GuestFailure, match="the guest hangs: it has been asleep"),
        Guest(memory="512MiB", **options),  # type: ignore[arg-type]
    ):
        pass


SMALL = ("lab", "run", "--memory", "256MiB", "--cache", "32MiB")


@pytest.mark.parametrize(
    ("text", "words", "message"),
    [
        ("int main(void) { for (;;) continue; }", ["--limit", "1"], "more than 1 s of processor time; raise"),
        (
            "#include <stdlib.h>\n#include <string.h>\n"
            "int main(void) { for (;;) memset(malloc(1 << 20), 1, 1 << 20); }",
            [],
            "needs more memory than the guest has; raise --memory 256MiB",
        ),
    ],
)
def test_a_program_without_an_end_or_beyond_memory_is_told(
    pagelens: Pagelens, compile_c: Callable[[str], Path], text: str, words: list[str], message: str
) -> None:
    done = pagelens(*SMALL, *words, "--", compile_c(text))
    assert done.returncode == 1
    assert done.stderr.startswith("pagelens: ")
    assert message in done.stderr.splitlines()[0]


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (
            ["--kernel", "6.1"],
            1,
            "apt-get and dpkg-deb are not in PATH; name a kernel image by --kernel FILE",
        ),
        (["--history", "zonesort; run"], 2, "modules are built for Debian's kernels only; name 6.1 or 6.12"),
        (["--history", "zonesort(intel); run"], 2, "modules are built for Debian's kernels only"),
        (["--history", "zonesort(address); run"], 2, "guests sort as ours or intel"),
        (["--history", "io(10MB); run"], 2, "io needs the kernel's modules; name 6.1 or 6.12"),
        (["--pages", "2MiB", "--pool", "1MiB"], 2, "the pool holds none; raise --pool or --memory"),
    ],
)
def test_without_kernels_or_their_modules_the_remedy_is_named(
    pagelens: Pagelens, tmp_path: Path, words: list[str], code: int, message: str
) -> None:
    """The machine has no apt, and only an image of its kernel."""
    image = find_kernel("6.1").image
    for program in ("qemu-system-x86_64", "busybox", "ldd", "bash"):
        (tmp_path / program).symlink_to(shutil.which(program) or program)
    words = words if "--kernel" in words else ["--kernel", str(image), *words]
    environment = {"PATH": str(tmp_path), "XDG_CACHE_HOME": str(tmp_path)}
    done = pagelens(*SMALL, *words, "--", "/bin/true", env=environment)
    assert (done.returncode, len(done.stderr.splitlines())) == (code, 1), done.stderr
    assert message in done.stderr


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"memory": "64MiB"}, "--memory 64MiB: at least 256MiB"),
        ({"memory": "1GiB", "nodes": 9}, "--numa 9: from 1 to 8 nodes"),
        (
            {"memory": "256MiB", "files": {"/big": b"x" * (200 << 20)}},
            "does not fit; the guest needs",
        ),
        ({"files": {"relative": b""}}, "not an absolute path"),
        ({"kernel": "5.4"}, "--kernel 5.4: Debian 12 and its backports offer 6.1, 6.12"),
        ({"kernel": "/etc/passwd"}, "not a Linux bzImage"),
        ({"kernel": "nothing"}, "no file and no version"),
    ],
)
def test_what_cannot_be_is_refused_before_anything_runs(options: dict[str, object], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        Guest(**options)  # type: ignore[arg-type]


def test_a_module_needs_a_kernel_with_headers(tmp_path: Path) -> None:
    (tmp_path / "Kbuild").write_text("obj-m := some.o\n")
    image = Kernel("6.1.0", find_kernel("6.1").image)
    with pytest.raises(UsageError, match="built for Debian's kernels only"):
        build_module(tmp_path, image)
    (tmp_path / "some.c").write_text("#error not for this kernel\n")
    with pytest.raises(Failure, match=r"some\.ko does not build for this kernel: .*not for this kernel"):
        build_module(tmp_path, find_kernel("6.1"))


def test_without_an_emulator_the_package_is_named(pagelens: Pagelens, tmp_path: Path) -> None:
    done = pagelens("lab", "run", "--", "/bin/true", env={"PATH": f"{tmp_path}:/nonexistent"})
    assert done.returncode == 1
    assert "qemu-system-x86_64 is not in PATH; install Debian's package: apt-get install" in done.stderr
    assert len(done.stderr.splitlines()) == 1


@pytest.fixture
def running(pagelens_command: Path) -> Iterator[subprocess.Popen[bytes]]:
    words = [
        pagelens_command,
        "lab",
        "run",
        "--memory",
        "512MiB",
        "--cache",
        "64MiB",
        "--",
        "/bin/sleep",
        "1000",
    ]
    process = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    yield process
    process.kill()
    process.wait()


def children(pid: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_no_emulator_outlives_its_lab(running: subprocess.Popen[bytes], number: signal.Signals) -> None:
    emulators: list[int] = []
    while not emulators:
        assert running.poll() is None
        time.sleep(0.1)
        emulators = [c for c in children(running.pid) if "qemu" in Path(f"/proc/{c}/cmdline").read_text()]
    running.send_signal(number)
    _, said = running.communicate()
    assert running.returncode == (130 if number == signal.SIGINT else -number)
    if number == signal.SIGINT:
        assert said.decode().splitlines() == ["pagelens: lab: interrupted; the guest is gone"]
    for _ in range(600):  # the kernel takes a killed one's memory down in its own time
        if not Path(f"/proc/{emulators[0]}/stat").exists():
            return
        time.sleep(0.1)
    pytest.fail("the emulator lives on")
