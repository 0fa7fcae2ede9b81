"""What an explanation is not about is the first thing that it says; pages that are only read are in it."""

import dataclasses
from pathlib import Path

import numpy as np
import pytest
import synthetic
from machine_roles import CACHE_MODE, INCLUSIVE_L3

import pagelens as pl
from pagelens.explain import explain
from pagelens.explain.intervals import Intervals

MEBIBYTE = 1 << 20
FILE = 8 * MEBIBYTE
PASSES = 4


def reads_memory(folder: Path, of_file: bool) -> pl.Workload:
    """A program that reads 8 MiB four times, and writes 94 pages."""
    lines = 64 * np.arange(FILE // 64, dtype=np.uint64)
    with pl.TraceRecorder(folder / "reads.trace", "reads") as recorder:
        if of_file:
            recorder.map_file(0, 0x7000_0000, FILE, "data.bin", offset=4096)
        for _ in range(PASSES):
            recorder.access(0, 0x7000_0000 + lines, instructions=4)
        recorder.access(0, 0x4000_0000 + lines[:6000], stores=True, instructions=4)
    return pl.trace(folder / "reads.trace")


def test_lines_of_memory_that_was_never_written_are_named_first(tmp_path: Path) -> None:
    """The kernel shows one page of zeros for all of it, which no replay has."""
    program = reads_memory(tmp_path, of_file=False)
    found = pl.explain(pl.simulate(program, pl.machine(INCLUSIVE_L3), ranks=1, policies=["aged"], nodes=1))
    lines = PASSES * FILE // 64
    assert found.program.share_of_zero_page == pytest.approx(lines / (lines + 6000))
    assert found.conclusion.sentences[0].startswith(
        "99% of the lines that the program reads are of memory that it has not written."
    )


@pytest.mark.parametrize("machine", [INCLUSIVE_L3, CACHE_MODE])
def test_a_file_that_is_read_has_frames_which_the_ranks_share(machine: str, tmp_path: Path) -> None:
    """8 MiB fit into L3 and into the memory-side cache: what lies behind sees one first pass."""
    program = reads_memory(tmp_path, of_file=True)
    assert (program.footprint_bytes, program.shared_bytes) == (94 * 4096, FILE)
    assert program.job_bytes(ranks=4) == 4 * 94 * 4096 + FILE
    ensemble = pl.simulate(program, pl.machine(machine), ranks=4, policies=["aged", "2m"], nodes=1)
    found = pl.explain(ensemble)
    assert found.program.shared_bytes == FILE
    assert not found.conclusion.sentences[0].startswith("99%")
    row = ensemble.placements.filter(ensemble.placements["policy"] == "aged").row(0, named=True)
    of_file, stored = FILE // 64, 4 * 6000
    if machine == INCLUSIVE_L3:
        assert row["l2_misses"] == pytest.approx(4 * PASSES * of_file + stored, rel=0.02)
        assert row["msc_reads"] == pytest.approx(of_file + stored, rel=0.02)
    else:  # two cores have one L2, which holds less: it reads all passes, from slots that all ranks share
        assert row["msc_reads"] == pytest.approx(2 * PASSES * of_file + stored, rel=0.01)
        assert row["msc_read_misses"] == pytest.approx(of_file, rel=0.01)


def test_a_run_of_which_little_was_traced_says_so_first() -> None:
    for share, said in ((0.6, True), (0.95, False), (None, False)):
        ensemble = synthetic.ensemble(nodes=2)
        ensemble.workload.share_seen, ensemble.workload.cut_by = share, "A full disk cut it."
        first = explain(ensemble).conclusion.sentences[0]
        assert first.startswith("Only 60% of the run was traced: what follows is about that part.") == said
        assert ("A full disk cut it." in first) == said


@pytest.mark.parametrize(("share", "width", "place"), [(0.001, 0.3, 0), (0.01, 0.0, -1), (0.2, 0.3, None)])
def test_few_simulated_lines_are_said_first_if_they_leave_the_time_open(
    share: float, width: float, place: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Intervals, "by_stretches", lambda self, policy: width)
    ensemble = synthetic.ensemble(nodes=16)
    placements = ensemble.tables.placements.with_columns(simulated_share=share)
    tables = dataclasses.replace(ensemble.tables, placements=placements)
    sampling = dataclasses.replace(ensemble.sampling, lines=None)
    sentences = explain(dataclasses.replace(ensemble, tables=tables, sampling=sampling)).conclusion.sentences
    few = "Less than 1%" if share < 0.01 else "Only 1%"
    said = f"{few} of the run's lines were simulated, in stretches: what happens seldom may be missing."
    assert sentences.count(said) == (place is not None)
    assert place is None or sentences[place] == said
