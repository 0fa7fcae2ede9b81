"""`pagelens lab io`: what a slow core does to I/O, and the model that two sizes of requests make."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from pagelens.cli.text.lab_io import render_written
from pagelens.errors import Failure, UsageError
from pagelens.host.system import System
from pagelens.lab import slow_core, write_in_guest
from pagelens.lab.slow_core import (
    BUFFERED,
    DIRECT,
    FILE_SIZES,
    FILES,
    FILES_BYTES,
    MIB,
    REQUESTS,
    Written,
    predicted,
)

SYSTEM = "/usr/sbin:/sbin:/usr/bin"
FILE, RATE = 256 * MIB, 400e6
# 50 us a buffered request and 1.5 s a file, of which the processor is busy all the time; 100 us a direct one.
BUFFERED_S = {request: FILE / request * 50e-6 + 1.5 for request in REQUESTS}
DIRECT_S = {request: FILE / request * 100e-6 + 0.7 for request in REQUESTS}
FILES_S = {size: FILES_BYTES / size * 2e-3 + 0.2 for size in FILE_SIZES}  # 2 ms a file


def guest(busy: float = 1.0) -> list[Written]:
    buffered = [Written(BUFFERED, size, FILE, BUFFERED_S[size] / busy, busy) for size in REQUESTS]
    files = [Written(FILES, size, FILES_BYTES, FILES_S[size] / busy, busy) for size in FILE_SIZES]
    return [*buffered, *(Written(DIRECT, size, FILE, DIRECT_S[size], 0.3) for size in REQUESTS), *files]


def test_two_sizes_predict_the_others() -> None:
    found = list(predicted(guest(), RATE))
    inputs = [4096, 4 * MIB, 4096, 4 * MIB, 4096, MIB]
    assert [each.request for each in found if each.predicted_s is None] == inputs
    told = [each for each in found if each.predicted_s is not None]
    assert len(told) == 11
    assert [each.predicted_s for each in told] == pytest.approx([each.seconds for each in told])


@pytest.mark.parametrize(("way", "spent"), [(BUFFERED, BUFFERED_S), (FILES, FILES_S)])
def test_only_busy_time_is_the_processors(way: str, spent: dict[int, float]) -> None:
    found = [each for each in predicted(guest(busy=0.5), RATE) if each.way == way]
    told = {each.request: each.predicted_s for each in found if each.predicted_s is not None}
    assert told == pytest.approx({request: spent[request] for request in told})


def test_a_slow_disk_bounds_buffered_writes() -> None:
    found = [each for each in predicted(guest(busy=0.1), 10e6) if each.way == BUFFERED]
    assert {each.predicted_s for each in found if each.predicted_s is not None} == {FILE / 10e6}


def test_the_answer_begins_with_both_rates_and_fits_80_columns() -> None:
    lines = list(render_written(list(predicted(guest(), RATE)), RATE))
    assert lines[0].startswith("On this emulated core, buffered writes reach")
    assert max(map(len, lines)) <= 80
    assert sum("+0%" in line or "-0%" in line for line in lines) == 11


CLOCKS = """4.00 3.00
cpu  100 0 100 1000 10 5 5 0 0 0
6.50 4.00
cpu  120 0 250 1050 20 10 15 0 0 0
"""


def test_busy_time_is_all_but_idle_and_waiting() -> None:
    done = slow_core._parsed(CLOCKS, BUFFERED, 4096, MIB, 0.0, 0.0)
    assert (done.seconds, done.busy) == (2.5, pytest.approx(185 / 245))
    for damaged in ("", CLOCKS[:-36], f"{CLOCKS}failed\n"):
        with pytest.raises(Failure, match="smaller --size"):
            slow_core._parsed(damaged, BUFFERED, 4096, MIB, 0.0, 0.0)


def test_waits_for_the_hosts_processors_do_not_count(tmp_path: Path) -> None:
    """Beside other programs, a direct write of 64 MiB took .64 s, of which the core waited .54 s."""
    for thread, told in {"7": "5000000 900000000 3", "8": "3000000000 500000000 9", "9": ""}.items():
        folder = tmp_path / "proc/7/task" / thread
        folder.mkdir(parents=True)
        (folder / "schedstat").write_text(told)
    assert slow_core.core_times(7, System(tmp_path)) == (3.0, 0.5)
    assert slow_core.core_times(6, System(tmp_path)) == (0, 0)
    done = slow_core._parsed(CLOCKS, BUFFERED, 4096, MIB, ran=0.6, waited=0.2)
    assert (done.seconds, done.busy) == (2.0, pytest.approx(0.75))


@pytest.mark.parametrize(("took", "wanted", "times"), [((2.5, 0.5, 9), 0.5, 3), ((6, 1), 6, 1)])
def test_other_programs_make_a_quick_file_no_longer(
    took: tuple[float, ...], wanted: float, times: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    left = list(took)
    monkeypatch.setattr(slow_core, "_write", lambda *_: Written(DIRECT, 4096, FILE, left.pop(0), 1.0))
    assert slow_core._write_again(None, DIRECT, 4096, FILE).seconds == wanted  # type: ignore[arg-type]
    assert len(took) - len(left) == times


def test_sizes_out_of_range_are_refused() -> None:
    for size in (0, 8 * MIB, 40 * MIB, 8192 * MIB):
        with pytest.raises(UsageError, match="multiple of 16 MiB from"):
            write_in_guest(size, RATE)
    with pytest.raises(UsageError, match="--disk"):
        write_in_guest(FILE, 10.0)


def test_the_guests_file_system_has_extents(tmp_path: Path) -> None:
    """Without them, a direct write of 64 KiB was 64 requests of one block, and took four times as long."""
    if shutil.which("dumpe2fs", path=SYSTEM) is None:
        pytest.skip("needs e2fsprogs")
    image = tmp_path / "disk"
    with image.open("wb") as file:
        file.truncate(96 * MIB)
    slow_core.make_file_system(image)
    words = [str(shutil.which("dumpe2fs", path=SYSTEM)), "-h", image]
    told = subprocess.run(words, capture_output=True, text=True, check=True).stdout
    assert re.search(r"features:.* extents? ", told)
    assert re.search(r"Block size: +4096\n", told)


def test_a_machine_without_mkfs_is_told_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shutil, "which", lambda *_, **__: None)
    with pytest.raises(Failure, match="install e2fsprogs"):
        slow_core.make_file_system(tmp_path / "disk")


@pytest.mark.long
def test_on_a_real_kernel_the_core_bounds_buffered_writes_and_not_direct_ones() -> None:
    found = {(each.way, each.request): each for each in write_in_guest(64 * MIB, RATE)}
    buffered, direct = found[BUFFERED, MIB], found[DIRECT, MIB]
    assert buffered.busy > 0.8
    assert buffered.seconds > 1.5 * direct.seconds
    small = found[FILES, 16 << 10]
    assert small.seconds > found[FILES, MIB].seconds  # 1,024 files take longer than 16
    assert small.predicted_s is not None
