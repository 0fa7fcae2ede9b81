"""The page cache's part of a file, by NUMA node."""

import json
import os
import random
import subprocess
import sys
from pathlib import Path

import pytest
from shared_guest import on_node, shared_guest

from pagelens.audit import audit
from pagelens.errors import UsageError
from pagelens.host.file_pages import read_cached
from pagelens.lab.kernels import find_kernel

MIB = 1 << 20
PAGELENS = Path(sys.executable).parent / "pagelens"


def test_the_cached_part_of_a_file_is_counted_and_reading_it_brings_no_more(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(random.randbytes(5 * MIB + 100))
    with path.open("rb") as file:
        os.fsync(file.fileno())
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_RANDOM)
        os.pread(file.fileno(), 4096, 2 * MIB)
    for _ in range(2):
        found = read_cached(path)
        assert (found.size, found.cached) == (5 * MIB + 100, 4096)
        assert sum(found.by_node.values()) == 4096


def test_a_folder_is_its_files_and_an_empty_one_is_nothing(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"x" * 8192)
    (tmp_path / "b").symlink_to("/dev/zero")
    os.mkfifo(tmp_path / "c")
    assert read_cached(tmp_path).size == 8192
    (tmp_path / "empty").mkdir()
    assert read_cached(tmp_path / "empty").by_node == {}


def test_what_cannot_be_looked_at_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"--files .*none: No such file or directory; name a file or folder"):
        read_cached(tmp_path / "none")
    (tmp_path / "proc").mkdir()
    with pytest.raises(UsageError, match=r"--files x: the page cache is this machine's; leave out --root"):
        audit(tmp_path, files=["x"])


def test_the_option_takes_what_a_shell_makes_of_a_pattern(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name).write_bytes(b"x")
    names = [str(tmp_path / name) for name in ("a", "b")]
    words = [str(PAGELENS), "audit", "--quick", "--json"]
    done = subprocess.run([*words, "--files", *names], capture_output=True, text=True, check=False)
    assert [file["path"] for file in json.loads(done.stdout)["files"]] == names
    alone = subprocess.run([*words, *names], capture_output=True, text=True, check=False)
    assert (alone.returncode, alone.stderr.count("\n")) == (2, 1)
    assert "use --files PATH..." in alone.stderr


def test_files_of_others_are_not_guessed_at(tmp_path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can become another user")
    (tmp_path / "roots").write_bytes(b"x" * 8192)
    for folder in (tmp_path, *tmp_path.parents):
        if not folder.stat().st_mode & 0o001:
            folder.chmod(folder.stat().st_mode | 0o001)
        if folder == Path("/tmp"):
            break
    script = f"from pagelens.host.file_pages import *; f = read_cached(Path({str(tmp_path / 'roots')!r}))"
    said = subprocess.run(
        [sys.executable, "-c", f"{script}; print(f.cached, f.hidden)"],
        capture_output=True, text=True, check=True, user=65534, group=65534, extra_groups=[],
    ).stdout  # fmt: skip
    assert said.split() == ["0", "1"]


@pytest.mark.long
def test_a_kernel_with_two_nodes_keeps_a_file_where_it_was_first_read(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(random.randbytes(16 * MIB))
    with shared_guest(find_kernel("6.1"), "2GiB", {}, nodes=2, cpus=2) as guest:
        on_node(guest, f"taskset -c 1 cat {tmp_path}/file >/dev/null")
        command = f"taskset -c 0 {PAGELENS} audit --quick --json --files {tmp_path}/file"
        report = json.loads(on_node(guest, command))
    (file,) = report["files"]
    assert file["cached"] == 16 * MIB
    assert file["by_node"]["1"] > 0.95 * 16 * MIB
    (finding,) = (each for each in report["findings"] if each["code"] == "file-on-one-node")
    assert "lie on NUMA node 1" in finding["seen"]
