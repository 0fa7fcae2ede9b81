"""`pagelens measure io`: the section of a machine file, and what is refused."""

import errno
import json
import os
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from machine_roles import PLAIN

from pagelens import _probes
from pagelens.cli.commands.io import _machine_with_io
from pagelens.cli.text.measure_io import render_io
from pagelens.errors import UsageError
from pagelens.host import stalls
from pagelens.host.system import System
from pagelens.io.importers.builder import RecordingBuilder
from pagelens.io.recording import Header
from pagelens.io.resolve import FILE_SYSTEMS
from pagelens.machine import parse_machine
from pagelens.machine.io import Costs, Io
from pagelens.measure import files
from pagelens.measure.files import calls, cores, in_flight, series, session, system, transfers
from pagelens.measure.files.machine_file import file_with_io
from pagelens.measure.files.measured import Measured, pooled
from pagelens.measure.files.series import Scratch, Times

MACHINE = f'schema = 1\nbase = "{PLAIN}"\nname = "it"\ntitle = "it"\nmode = "single"\n'


def test_what_was_measured_stands_in_a_machine_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session, "SIZES", (4096, 1 << 20))
    for module in (series, transfers):  # a smaller file than good figures need
        monkeypatch.setattr(module, "FILE_BYTES", 64 << 20)
    monkeypatch.setattr(transfers, "_WORK", (0, 1 << 20))
    monkeypatch.setattr(calls, "_RATE_BYTES", 8 << 20)
    monkeypatch.setattr(transfers, "_MOMENT_TIMES", 1)
    monkeypatch.setattr(stalls, "_IDLE_BYTES", 1 << 20)
    monkeypatch.setattr(stalls.IdleMemory, "stalls", lambda _: np.asarray([1e-4]))
    measured = session.measure_folder(tmp_path, seconds=0.01, rounds=2)
    text = file_with_io(file_with_io(MACHINE, measured), measured)  # the second takes the first one's place
    io = parse_machine(text.encode(), "it").io
    assert io is not None
    assert io.write.value.sizes == (4096, 1 << 20)
    for costs in (io.write.value, io.overwrite.value, io.read.value):  # type: ignore[union-attr]
        assert 0 < costs.of(4096).wall_s < costs.of(1 << 20).wall_s
    # Several in flight move the same bytes, so one takes as long as it takes or less, or a little longer.
    assert io.direct_read_in_flight is not None
    assert io.direct_read_in_flight.value.depths == (2, 8, 32)
    assert all(costs.sizes == (4096, 1 << 20) for costs in io.direct_read_in_flight.value.costs)
    assert io.spread is not None
    assert io.spread.value == pytest.approx(measured.spread, abs=1e-3)
    assert all(len(times) == 4 for times in measured.moments.values())  # two in each round
    assert all(len(of) >= 2 for by_size in measured.samples.values() for of in by_size.values())
    assert io.small_folio_truncating is not None
    assert io.joined_sync_work is not None
    assert io.large_write_after_work is not None
    assert measured.stalls == [1e-4, 1e-4]  # idle memory is looked at in each round
    assert (io.shared_write is not None) == (len(os.sched_getaffinity(0)) > 1)
    assert io.replacing_open is not None
    assert io.replacing_close is not None
    measured.moments = {"overwrite": [2e-6, 3e-6, 9e-6, *[2.5e-6] * 5], "direct_write": [4e-6, 5e-6]}
    assert measured.spread == 1.5  # the worst of eight moments does not count
    assert list(tmp_path.iterdir()) == []
    shown = list(render_io(io, tmp_path, measured.notes))
    assert max(map(len, shown)) <= 80
    assert f"took up to {io.spread.value:.2g} times as long" in " ".join(shown)
    assert json.loads(json.dumps(measured.to_json()))["schema"] == "pagelens measure io"


def test_a_disturbed_copy_does_not_count(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One copy was interrupted for .1 s, and the rate came out as 144 MB/s instead of 35 GB/s."""
    times = iter([0.1, 0.0005, 0.1])
    monkeypatch.setattr(calls._probes, "copy_seconds", lambda *_: next(times))
    measured = Measured(tmp_path, system.read_file_system(tmp_path))
    scratch = Scratch(tmp_path)
    calls._single_calls(measured, scratch, calls.NewFiles(scratch), 0.001)
    assert measured.rates["copying"] == pytest.approx(16 * (1 << 20) / 0.0005)


@pytest.mark.parametrize(("processors", "apart"), [(1, []), (2, [2]), (4, [4, 2])])
def test_one_two_and_all_writers_are_measured(
    processors: int, apart: list[int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    had: list[tuple[int, int]] = []

    def rate(count: int, cpus: list[int], _: Any) -> float:
        had.append((count, len(cpus)))
        return 1 + count / 4  # seconds: n writers have n / (1 + n/4) times the rate of no writer

    monkeypatch.setattr(calls, "together", rate)
    monkeypatch.setattr(calls.os, "sched_getaffinity", lambda _: set(range(processors)))
    measured = Measured(tmp_path, system.read_file_system(tmp_path))
    calls.measure_writers(measured, Scratch(tmp_path))
    everybody = max(2, processors)
    wanted = [(1, processors), *((count, processors) for count in apart), (everybody, 1)]
    assert list(dict.fromkeys(had)) == list(dict.fromkeys(wanted))
    assert measured.two_writers_apart == (pytest.approx(2 * 1.25 / 1.5) if processors > 2 else None)
    io = parse_machine(file_with_io(MACHINE, with_write(measured)).encode(), "it").io
    assert io is not None
    assert (io.two_writers_apart is not None) == (processors > 2)


def with_write(measured: Measured) -> Measured:
    measured.keep("write", 4096, [(1e-6, 1e-6)])
    return measured


def test_a_round_that_was_disturbed_does_not_count(tmp_path: Path) -> None:
    measured = Measured(tmp_path, system.read_file_system(tmp_path))
    for cpu, wall in ((3e-6, 9e-6), (1e-6, 5e-6), (40e-6, 90e-6), (2e-6, 3e-6), (2e-6, 3e-6)):
        measured.keep("read", 4096, [(cpu, wall)])
        measured.keep_pace("read", wall, 4096)
    assert measured.costs["read"][4096] == Times(2e-6, 3e-6, 5)
    assert measured.rates["read"] == pytest.approx(4096 / 5e-6)
    both = pooled([measured, Measured(tmp_path, measured.file_system), measured])
    assert both.costs["read"][4096] == Times(2e-6, 3e-6, 10)
    assert both.rates == measured.rates
    assert len(measured.samples["read"][4096]) == 5


def test_stalls_of_memory_stand_in_a_machine_file(tmp_path: Path) -> None:
    measured = with_write(Measured(tmp_path, system.read_file_system(tmp_path)))
    for found, wanted in (([1.2e-4] * 7, None), ([*[1.2e-4] * 7, 4e-4], 1.2e-4)):
        measured.stalls = found
        io = parse_machine(file_with_io(MACHINE, pooled([measured])).encode(), "it").io
        assert io is not None
        assert (io.memory_stall and io.memory_stall.value) == (wanted and pytest.approx(wanted))


def test_idle_memory_is_touched_where_there_are_no_large_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    """`measure io` ended with a traceback there, because the kernel refuses advice that it does not know."""
    monkeypatch.setattr(stalls, "_IDLE_BYTES", 1 << 16)
    monkeypatch.setattr(stalls.mmap, "MADV_NOHUGEPAGE", 1 << 20)
    assert stalls.IdleMemory().stalls().size <= 16


def test_stalls_are_not_in_the_times_of_transfers_in_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    parts = np.array([*[20e-6] * 15, 150e-6])
    done = SimpleNamespace(cpu_s=parts.sum(), wall_s=parts.sum(), queued_s=0.0, parts_cpu_s=parts)
    monkeypatch.setattr(series._probes, "file_loop", lambda *_: done)
    for in_memory, wanted in ((True, 16 * 20e-6), (False, parts.sum())):
        cpu, wall, _ = series.transfer(0, True, 4096, range(256), in_memory)
        assert (cpu, wall) == (pytest.approx(wanted), pytest.approx(wanted))


def test_loops_over_cached_data_take_turns_through_a_large_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Small folios were read in one part again and again. A read of 4 KiB took .7 us there, not 1.1."""
    read: set[int] = set()

    def transfer(_: int, write: bool, __: int, at: Sequence[int], in_memory: bool = False) -> series.Once:
        read.update(() if write else at)
        return 1e-6, 1e-6, len(at)

    monkeypatch.setattr(transfers, "transfer", transfer)
    monkeypatch.setattr(transfers, "repeat", lambda once, _: [once(number)[:2] for number in range(99)])
    measured = Measured(tmp_path, system.read_file_system(tmp_path))
    transfers._in_small_folios(measured, Scratch(tmp_path), [1 << 20], 0.1)
    assert max(read) + (1 << 20) == series.FILE_BYTES


def test_parts_of_a_loop_are_its_processor_time(tmp_path: Path) -> None:
    with Scratch(tmp_path).open() as file:
        done = _probes.file_loop(file, True, 4096, list(range(0, 40 << 12, 4096)))
    assert len(done.parts_cpu_s) == 2  # of 16 operations each; 8 are left
    assert 0 < sum(done.parts_cpu_s) <= done.cpu_s


def test_two_processors_write_in_turn(tmp_path: Path) -> None:
    here, *others = sorted(os.sched_getaffinity(0))
    with Scratch(tmp_path).open() as file:
        took = _probes.alternate_writes(file, 4096, [4096 * at for at in range(9)], (others or [here])[0])
        assert os.fstat(file).st_size == 9 * 4096
        assert len(took) == 8
        assert min(took) > 0
        with pytest.raises(ValueError, match="processors have numbers"):
            _probes.alternate_writes(file, 4096, [0], 1 << 20)
    with (tmp_path / "x").open("w+b") as unused, pytest.raises(OSError, match="a write failed"):
        _probes.alternate_writes(os.open(unused.name, os.O_RDONLY), 4096, [0, 1], here)
    assert sorted(os.sched_getaffinity(0)) == [here, *others]


def test_threads_that_sync_at_once_take_more_than_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = iter(range(99))
    monkeypatch.setattr(calls, "_RATE_BYTES", 1 << 20)
    monkeypatch.setattr(calls.time, "thread_time", lambda: next(clock))  # each fsync takes a second or more
    monkeypatch.setattr(calls, "together", lambda count, _, work: [work(at) for at in range(count)])
    measured = Measured(tmp_path, system.read_file_system(tmp_path))
    measured.paces = {"sync_work": [1.0 / (1 << 20)], "small_folio_sync_work": [2.0 / (1 << 20)]}
    calls._joined_syncs(measured, Scratch(tmp_path))
    assert measured.paces["joined_sync_work"] == pytest.approx([(8 - (1 + 1 / 256)) / 7 / (1 << 20)])
    assert measured.paces["small_folio_joined_sync_work"] == pytest.approx([(8 - 1.125) / 7 / (1 << 20)])


def test_folders_that_will_not_do_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UsageError, match="is no folder"):
        session.measure_folder(tmp_path / "missing")
    with pytest.raises(UsageError, match="is no folder"):
        session.measure_folder(Path("/etc/passwd"))
    with pytest.raises(UsageError, match="not writable"):
        session.measure_folder(Path("/proc/1"))
    monkeypatch.setattr(session, "LEAST_BYTES", 1 << 60)
    with pytest.raises(UsageError, match="of free space"):
        session.measure_folder(tmp_path)


def test_the_file_system_is_that_of_the_innermost_mount(tmp_path: Path) -> None:
    device = tmp_path.stat().st_dev
    number = f"{device >> 8}:{device & 0xFF}"
    (tmp_path / "proc/self").mkdir(parents=True)
    (tmp_path / "proc/self/mountinfo").write_text(
        f"1 0 {number} / / rw - ext4 /dev/root rw\n2 1 {number} / {tmp_path} rw shared:1 - xfs /dev/b rw\n"
        f"3 1 0:99 / {tmp_path}/proc rw - proc proc rw\ngarbage\n"
    )
    assert system._mounted(System(tmp_path), device, tmp_path) == ("xfs", "/dev/b")


INTERRUPTS = (
    "           CPU0       CPU2\n  1: {} {} PCI-MSIX 1-edge disk\nLOC: 9 {} Local timer\n 2: x\ngarbage\n"
)


@pytest.mark.parametrize(
    ("taken_by", "found"),
    [
        (lambda core: 2, 2),  # one processor takes all of them, wherever the work is
        (lambda core: core, None),  # they go where the work is
        (lambda core: None, None),
    ],
)
def test_the_processor_that_takes_the_interrupts_is_found(
    taken_by: Any, found: int | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On another processor, a direct write of 64 KiB took 37 us instead of 24."""
    (tmp_path / "proc").mkdir()
    counts, now = {0: 5, 2: 7}, [{0, 2}]
    monkeypatch.setattr(cores.os, "sched_getaffinity", lambda _: now[0])
    monkeypatch.setattr(cores.os, "sched_setaffinity", lambda _, cpus: now.__setitem__(0, set(cpus)))

    def work() -> int:
        taker = taken_by(min(now[0]))
        counts.update({} if taker is None else {taker: counts[taker] + 100})
        (tmp_path / "proc/interrupts").write_text(INTERRUPTS.format(counts[0], counts[2], counts[0] * 99))
        return 100

    (tmp_path / "proc/interrupts").write_text(INTERRUPTS.format(5, 7, 1))
    assert cores.find_interrupt_core(work, System(tmp_path)) == found
    assert now[0] == {0, 2}
    assert cores.device_interrupts(System(tmp_path)) == counts


@pytest.mark.parametrize(
    ("mounted", "magic"),
    [("lustre", 0x0BD00BD0), ("nfs", 0x6969), ("nfs4", 0x6969), ("ext3", 0xEF53), ("fuse.sshfs", 0x65735546),
     ("fuseblk", 0x65735546), ("overlay", 0x794C7630), ("tmpfs", 0x01021994), ("xfs", 0x58465342)],
)  # fmt: skip
def test_a_file_system_has_one_name_in_recordings_and_measurements(
    mounted: str, magic: int, tmp_path: Path
) -> None:
    """The recorder knows it by statfs, and the measurement by its mount. NFS 4 had two names."""
    (tmp_path / "proc/self").mkdir(parents=True)
    (tmp_path / "proc/self/mountinfo").write_text(f"1 0 0:77 / {tmp_path} rw - {mounted} server:/data rw\n")
    assert system._mounted(System(tmp_path), 77, tmp_path) == (FILE_SYSTEMS[magic], "server:/data")


IN_FLIGHT = '[[8, "4 KiB", "2 us", "3 us"], [2, "64 KiB", "4 us", "9 us"], [2, "4 KiB", "3 us", "6 us"]]'


def _io_with(**tables: str) -> Io:
    text = "".join(f'{key} = {{ value = {rows}, source = "x" }}\n' for key, rows in tables.items())
    io = f'[io]\nfile_system = {{ value = "ext4", source = "x" }}\n{text}'
    found = parse_machine((MACHINE + io).encode(), "it").io
    assert found is not None
    return found


def test_times_of_transfers_in_flight_stand_by_their_number() -> None:
    in_order = IN_FLIGHT.replace('[2, "64 KiB", "4 us", "9 us"], [2, "4 KiB", "3 us", "6 us"]',
                                 '[2, "4 KiB", "3 us", "6 us"], [2, "64 KiB", "4 us", "9 us"]')  # fmt: skip
    io = _io_with(write='[["4 KiB", "1 us", "2 us"]]', direct_read_in_flight=in_order)
    assert io.direct_read_in_flight is not None
    assert io.direct_read_in_flight.value.depths == (2, 8)
    assert [costs.wall_s for costs in io.direct_read_in_flight.value.costs] == [(6e-6, 9e-6), (3e-6,)]
    for rows, why in (
        (IN_FLIGHT, "must ascend"),
        ('[[1, "4 KiB", "2 us", "3 us"]]', "2 to 1024"),
        ('[["8", "4 KiB", "2 us", "3 us"]]', "2 to 1024"),
        ('[[true, "4 KiB", "2 us", "3 us"]]', "2 to 1024"),
        ("[]", "an array of rows"),
    ):
        with pytest.raises(UsageError, match=why):
            _io_with(write='[["4 KiB", "1 us", "2 us"]]', direct_read_in_flight=rows)


def test_a_kernel_without_asynchronous_operations_is_no_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*_: object) -> None:
        raise OSError(errno.EPERM, "io_setup")

    measured = Measured(tmp_path, system.read_file_system(tmp_path))
    monkeypatch.setattr(in_flight._probes, "queued_loop", refused)
    for _ in range(2):
        in_flight.measure_in_flight(measured, Scratch(tmp_path), [4096], 0.001)
    assert measured.notes == [in_flight._REFUSED]
    assert not measured.in_flight


def test_transfers_in_flight_move_the_same_bytes(tmp_path: Path) -> None:
    with Scratch(tmp_path).open(os.O_DIRECT) as file:
        done = _probes.queued_loop(file, True, 4096, [4096 * at for at in (3, 0, 1, 9, 4)], 2)
        assert done.bytes == 5 * 4096
        assert os.fstat(file).st_size == 10 * 4096
        assert _probes.queued_loop(file, False, 4096, [0, 4096 * 9, 4096 * 20], 8).bytes == 2 * 4096
        with pytest.raises(OSError, match="a transfer in flight failed"):  # not aligned
            _probes.queued_loop(file, False, 4096, [0, 7, 4096], 2)
        with pytest.raises(ValueError, match="1 to 1024"):
            _probes.queued_loop(file, False, 4096, [0], 2000)


COSTS = Costs((4096, 65536), (1e-6, None), (2e-6, 8e-6))


def test_costs_between_rows_are_in_proportion_and_beyond_by_size() -> None:
    assert COSTS.of(1) == (1e-6, 2e-6)
    assert COSTS.of(4096) == (1e-6, 2e-6)
    cpu, wall = COSTS.of(4096 + 30720)
    assert cpu is None
    assert wall == pytest.approx(5e-6)
    assert COSTS.of(131072).wall_s == pytest.approx(16e-6)


@pytest.mark.parametrize(
    ("rows", "why"),
    [
        ("[]", "an array of rows"),
        ('[["4 KiB", "1 us"]]', "an array of rows"),
        ('[["4 KiB", "1 us", "2"]]', "no unit"),
        ('[["4 KiB", "1 us", "2 us"], ["1 KiB", "1 us", "2 us"]]', "must ascend"),
        ('[["4 KiB", "0 us", "2 us"]]', "above 0 s"),
    ],
)
def test_tables_that_make_no_sense_are_refused(rows: str, why: str) -> None:
    system = '[io]\nfile_system = { value = "ext4", source = "x" }\n'
    io = f'{system}write = {{ value = {rows}, source = "x" }}\n'
    with pytest.raises(UsageError, match=why):
        parse_machine((MACHINE + io).encode(), "it")


@pytest.mark.parametrize("last", ["", 'replacing_close = { value = "1 us", source = "x" }\n'])
def test_what_an_earlier_version_measured_is_measured_again(
    last: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its file lacks tables, such as that of copies by the kernel."""
    (kept := tmp_path / "kept.toml").write_text(
        f'{MACHINE}[io]\nfile_system = {{ value = "ext4", source = "x" }}\n'
        f'write = {{ value = [["4 KiB", "4 us", "4 us"]], source = "x" }}\n{last}'
    )
    monkeypatch.setattr(files, "kept_file", lambda _: kept)
    monkeypatch.setattr(files, "measure_folder", lambda *_: pytest.fail("measured", pytrace=False))
    builder = RecordingBuilder(Header(source="recorder"), [])
    builder.add("write", file=builder.file(str(kept)), size=1, result=1, wall_ns=1)
    if last:
        assert _machine_with_io(None, builder.build(), True).name == "it"
    else:
        with pytest.raises(pytest.fail.Exception, match="measured"):
            _machine_with_io(None, builder.build(), True)
