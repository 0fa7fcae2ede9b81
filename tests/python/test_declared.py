"""Declared workloads: what they say they move is what the replay counts."""

import pytest
from machine_roles import CACHE_MODE

from pagelens.accesses.declared import DECLARED, declared
from pagelens.errors import UsageError
from pagelens.frames import age_node, policies
from pagelens.machine import load_machine
from pagelens.replay.memory_side import by_phase, replay

SIZE, THREADS = 600_000_000, 68
KERNELS = [("stream-copy", 1, 1), ("stream-add", 2, 1), ("triad", 3, 1)]  # reads, writes of an array's lines


def counts(name, repeats=1, policy="contiguous", size=SIZE):
    machine = load_machine(CACHE_MODE)
    workload = declared(name, size, THREADS, repeats)
    place = policies[policy].place(machine, age_node(machine, 3, 0))
    program = workload.compile(machine, 12)
    counters = replay(program, machine, place, 12, ranks=1, seed=3, node=0)
    phase = workload.phases.index(workload.measured_phase)
    return workload, {key: int(values[phase]) for key, values in by_phase(counters).items()}


@pytest.mark.parametrize(
    ("name", "reads", "writes"), [("stream-copy", 1, 1), ("stream-add", 2, 1), ("triad", 3, 1)]
)
def test_a_stream_kernel_moves_its_arrays_once_a_repeat(name, reads, writes):
    workload, once = counts(name)
    array_lines = workload.footprint_bytes / 3 / 64
    assert once["msc_reads"] == pytest.approx(reads * array_lines, rel=0.01)
    assert once["msc_writes"] == pytest.approx(writes * array_lines, rel=0.02)  # some stay in L2
    _, thrice = counts(name, repeats=3)
    assert thrice["msc_reads"] == pytest.approx(3 * once["msc_reads"], rel=0.01)


def test_a_job_smaller_than_the_cache_on_contiguous_frames_misses_nothing():
    _, once = counts("stream-triad")
    assert once["msc_misses"] == 0
    _, aged = counts("stream-triad", policy="random")
    assert aged["msc_misses"] > 0


def test_cg_moves_its_matrix_once_and_its_vectors_as_often_as_its_loops_use_them():
    workload, once = counts("cg", size=6_000_000_000)  # large enough that no vector stays in L2
    size = {info.name: info.bytes for info in workload.objects}
    matrix = size["values"] + size["columns"] + size["starts"]
    vector = size["x"]  # 3 planes of p and ap; p, ap; p, x; ap, r; r; r, p
    assert once["msc_reads"] * 64 == pytest.approx(matrix + (4 + 2 + 2 + 2 + 1 + 2) * vector, rel=0.03)
    assert workload.footprint_bytes == pytest.approx(6e9, rel=0.05)


def test_hpccg_reads_twenty_bytes_of_each_row_beside_its_matrix():
    workload, once = counts("hpccg", size=6_000_000_000)
    size = {info.name: info.bytes for info in workload.objects}
    vector = size["x"]
    of_rows = size["entries"] + size["values_of_row"] + size["columns_of_row"]
    assert of_rows == pytest.approx(20 / 8 * vector, rel=0.01)
    matrix = size["values"] + size["columns"] + of_rows
    assert once["msc_reads"] * 64 == pytest.approx(matrix + (4 + 2 + 2 + 2 + 1 + 2) * vector, rel=0.03)


def test_all_are_declared_for_any_thread_count():
    for name in DECLARED:
        for threads in (1, 7):
            workload = declared(name, 100_000_000, threads)
            assert workload.footprint_bytes == pytest.approx(100_000_000, rel=0.12)
            assert workload.measured_phase in workload.phases
            assert [info.index for info in workload.objects] == list(range(len(workload.objects)))


def test_bad_names_and_sizes_are_refused_with_a_remedy():
    with pytest.raises(UsageError, match=r"'stream-traid' is not declared; did you mean stream-triad"):
        declared("stream-traid", SIZE, THREADS)
    with pytest.raises(UsageError, match=r"size: 1 MB for 68 threads of cg: at least"):
        declared("cg", 1_000_000, THREADS)
