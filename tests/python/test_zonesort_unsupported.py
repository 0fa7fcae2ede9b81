"""A kernel that zonesort does not know is refused, in words: when it is built, and when it is loaded."""

import shutil
import subprocess
from pathlib import Path

import pytest
from zonesort_guest import ROOT, clear_messages, shell

from pagelens.errors import Failure
from pagelens.lab.guest import Guest
from pagelens.lab.kernels import find_kernel
from pagelens.lab.modules import build_module


def built_for(version: tuple[int, int, int], options: str, folder: Path) -> str:
    """Returns what the compiler says of allocator.h with the headers of a kernel that has only a version."""
    (folder / "linux").mkdir(exist_ok=True)
    for header in ("gfp", "kconfig", "memory_hotplug", "mm", "mmzone"):
        (folder / f"linux/{header}.h").touch()
    major, minor, patch = version
    (folder / "linux/version.h").write_text(
        "#define KERNEL_VERSION(a, b, c) (((a) << 16) + ((b) << 8) + (c))\n"
        f"#define LINUX_VERSION_CODE KERNEL_VERSION({major}, {minor}, {patch})\n"
    )
    command = ["gcc", "-E", *options.split(), f"-I{folder}", ROOT / "zonesort" / "allocator.h"]
    return subprocess.run(command, capture_output=True, text=True, check=False).stderr


CONFIGURED = "-DCONFIG_X86_64 -DCONFIG_SPARSEMEM_VMEMMAP -DCONFIG_CONTIG_ALLOC"


@pytest.mark.parametrize("version", [(5, 14, 0), (6, 0, 19), (6, 2, 0), (6, 11, 9), (6, 13, 0), (7, 1, 0)])
def test_the_build_names_the_kernels_it_is_for(version: tuple[int, int, int], tmp_path: Path) -> None:
    assert "#error" in built_for(version, CONFIGURED, tmp_path)
    assert "6.1 and 6.12" in built_for(version, CONFIGURED, tmp_path)


@pytest.mark.parametrize("version", [(6, 1, 0), (6, 1, 192), (6, 12, 95)])
def test_the_build_names_the_options_it_needs(version: tuple[int, int, int], tmp_path: Path) -> None:
    assert built_for(version, CONFIGURED, tmp_path) == ""
    assert "needs CONFIG_X86_64" in built_for(version, "-DCONFIG_X86_64", tmp_path)


def changed(old: str, new: str, folder: Path) -> Path:
    """zonesort's sources with one thing changed in selfcheck.c: as if the kernel were different in it."""
    shutil.copytree(ROOT / "zonesort", folder)
    source = folder / "selfcheck.c"
    assert old in source.read_text()
    source.write_text(source.read_text().replace(old, new))
    return folder


def test_a_running_kernel_that_is_another_is_refused(tmp_path: Path) -> None:
    """The module is loaded as if by force. The kernel itself refuses another version, which is tried, too."""
    kernel = find_kernel("6.1")
    built = {
        "/lab/series.ko": changed("UTS_RELEASE", '"6.10.3-amd64"', tmp_path / "series"),
        "/lab/lists.ko": changed("page_private(page) != order", "order == 10", tmp_path / "lists"),
    }
    files = {name: build_module(sources, kernel) for name, sources in built.items()}
    files["/lab/other.ko"] = build_module(ROOT / "zonesort", find_kernel("6.12"))
    with Guest(kernel, "256MiB", files) as guest:
        clear_messages(guest)
        for name in files:
            assert guest.run("insmod", name).status != 0
        release, said = shell(guest, "uname -r"), shell(guest, "dmesg")
        assert f"built for Linux 6.10, this is {release}: rebuild the module for it" in said
        assert f"unsupported kernel {release}: a free list holds a block of another order" in said
        assert "not supported" in guest.run("insmod", "/lab/lists.ko").output
        assert guest.run("test", "-e", "/sys/kernel/zone_sort_free_pages").status != 0


def test_a_build_that_fails_says_why(tmp_path: Path) -> None:
    shutil.copytree(ROOT / "zonesort", tmp_path / "zonesort")
    header = tmp_path / "zonesort" / "allocator.h"
    header.write_text(header.read_text().replace("KERNEL_VERSION(6, 1, 0)", "KERNEL_VERSION(6, 3, 0)"))
    with pytest.raises(Failure, match=r"zonesort knows the page allocators of Linux"):
        build_module(tmp_path / "zonesort", find_kernel("6.1"))
