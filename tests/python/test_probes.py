"""The binding of the measuring kernels: what they refuse, and that the answers arrive whole."""

import errno
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from pagelens import _probes
from pagelens._probes import Isa, Memory, Order, Pages, Stores, StreamKernel

ALL = sorted(os.sched_getaffinity(0))
CPUS = ALL[:1]
MIB = 1 << 20


@pytest.fixture
def memory() -> Memory:
    return Memory(MIB, Pages.small, CPUS, [0])


def one_line(error: pytest.ExceptionInfo[Exception]) -> str:
    text = str(error.value)
    assert text
    assert "\n" not in text
    return text


# Two sums of 8 KiB by two threads, after what stands in the place of BETWEEN.
SUMS = """
import os, resource
from pagelens import _probes
cpus = sorted(os.sched_getaffinity(0))[:2]
memory = _probes.Memory(1 << 20, _probes.Pages.small, cpus[:1], [0])
def measure():
    return _probes.l2sum(memory, 8192, 8192, 1, 2, cpus, _probes.Isa.sse2)
BETWEEN
measure()
"""


def sums(between: str) -> subprocess.CompletedProcess[str]:
    program = SUMS.replace("BETWEEN", between)
    return subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)


@pytest.mark.skipif(len(ALL) < 2, reason="needs two processors")
def test_a_process_that_has_measured_can_fork_and_measure_again():
    result = sums("measure()\nchild = os.fork()\nif child: os._exit(os.waitpid(child, 0)[1])")
    assert (result.returncode, result.stderr) == (0, "")


@pytest.mark.skipif(len(ALL) < 2, reason="needs two processors")
def test_a_thread_that_the_system_refuses_is_named_with_the_remedy():
    used = "int(open('/proc/self/statm').read().split()[0]) * 4096"
    result = sums(f"resource.setrlimit(resource.RLIMIT_AS, ({used} + (1 << 20),) * 2)")
    last = result.stderr.splitlines()[-1]
    assert last.startswith("BlockingIOError") and f"processor {ALL[1]};" in last and "ulimit" in last  # noqa: PT018


def test_memory_has_a_frame_for_every_page_or_shows_none(memory: Memory):
    frames = memory.frames()
    assert frames.dtype == np.uint64
    assert len(frames) in (0, memory.bytes // 4096)
    assert len(set(frames.tolist())) == len(frames)


@pytest.mark.parametrize("pages", [Pages.large, Pages.huge])
def test_an_empty_pool_is_an_error_with_its_remedy(pages: Pages):
    wanted = (_probes.free_in_pool(pages) + 1) * _probes.unit_bytes(pages)
    with pytest.raises(OSError) as error:  # noqa: PT011 (its errno is looked at below)
        Memory(wanted, pages, CPUS, [0])
    assert error.value.errno in (errno.ENOMEM, errno.EINVAL)
    assert "nr_hugepages" in one_line(error)


def test_wrong_arguments_are_named_in_one_line(memory: Memory):
    def stream(n: int, offset: int, cpus: list[int]) -> None:
        _probes.stream(memory, StreamKernel.copy, n, offset, 2, cpus, Isa.sse2, Stores.plain, Order.in_turn)

    for arguments, named in [
        ((0, 0, CPUS), "n: 0"),
        ((1, 4, CPUS), "array b"),
        ((MIB, 0, CPUS), "array a"),
        ((1, 0, [4095]), "cpus: 4095"),
        ((1, 0, []), "cpus"),
    ]:
        with pytest.raises(ValueError) as error:  # noqa: PT011
            stream(*arguments)
        assert named in one_line(error)
    memory.release()
    with pytest.raises(ValueError, match="released"):
        stream(1, 0, CPUS)


def test_limits_are_where_they_are_said_to_be(memory: Memory):
    def gups(table: int) -> object:
        return _probes.gups(memory, table, 128, CPUS)

    def cg(iterations: int) -> object:
        return _probes.cg(memory, 1, 0, iterations, 1, CPUS)

    def dgemm(n: int) -> object:
        return _probes.dgemm(memory, n, 0, 1, CPUS, "no library", "dgemm_", 4)

    assert len(_probes.cg_arrays(_probes.most_cg_side, 0)) == 9
    assert cg(_probes.most_cg_iterations)
    assert gups(_probes.least_gups_table)
    with pytest.raises(ValueError, match="matrix a"):  # too large for the memory only
        dgemm(_probes.most_dgemm_order)
    for call, named in [
        (lambda: _probes.cg_arrays(_probes.most_cg_side + 1, 0), f"to {_probes.most_cg_side}"),
        (lambda: cg(_probes.most_cg_iterations + 1), f"to {_probes.most_cg_iterations}"),
        (lambda: dgemm(_probes.most_dgemm_order + 1), f"to {_probes.most_dgemm_order}"),
        (lambda: gups(_probes.least_gups_table // 2), f"from {_probes.least_gups_table}"),
        (lambda: Memory(_probes.most_bytes + 1, Pages.small, CPUS, [0]), f"to {_probes.most_bytes}"),
    ]:
        with pytest.raises(ValueError) as error:  # noqa: PT011
            call()
        assert one_line(error).endswith(named)
    with pytest.raises(OverflowError):
        _probes.better_stores(StreamKernel.copy, 1 << 70, CPUS)


def test_results_come_as_arrays(memory: Memory):
    stream = _probes.stream(
        memory, StreamKernel.triad, 1000, 64, 5, CPUS, _probes.best_isa(), Stores.nontemporal, Order.spread
    )
    assert stream.seconds.shape == (5,)
    assert (stream.seconds > 0).all()
    assert stream.error <= 1e-13
    sums = _probes.l2sum(memory, 8000, 8192, 2, 3, CPUS, Isa.sse2)
    assert sums.ok
    assert sums.seconds.shape == (3, len(CPUS))
    assert _probes.latency(memory, MIB, 64, 100, 2, CPUS[0], 1).ok
    assert not _probes.gups(memory, MIB, 1024, CPUS).official


@pytest.fixture
def stop() -> Iterator[Callable[[bool], None]]:
    yield _probes.request_stop
    _probes.request_stop(False)


@pytest.mark.parametrize(
    "work",
    [
        lambda memory: _probes.gups(memory, MIB, 1 << 60, ALL),  # for years
        lambda memory: _probes.l2sum(memory, 4096, 4096, 1, 40_000_000, ALL, Isa.sse2),  # for minutes
        lambda memory: _probes.l2sum(memory, 4096, 4096, 1 << 50, 1, ALL, Isa.sse2),
    ],
    ids=["random updates", "repetitions", "sweeps"],
)
def test_another_thread_stops_a_kernel(
    memory: Memory, work: Callable[[Memory], object], stop: Callable[[bool], None]
):
    with ThreadPoolExecutor(1) as thread:
        done = thread.submit(work, memory)
        stop(True)
        with pytest.raises(_probes.Stopped):
            done.result()
    stop(False)
    assert _probes.gups(memory, MIB, 128, ALL).updates == 128


def test_no_memory_is_populated_where_a_stop_is_asked_for(stop: Callable[[bool], None]):
    stop(True)
    with pytest.raises(_probes.Stopped):
        Memory(MIB, Pages.small, ALL, [0])
