"""What an explanation is not about is the first thing that it says."""

from pathlib import Path

import numpy as np
import pytest
import synthetic

import pagelens as pl
from pagelens.explain import explain

MEBIBYTE = 1 << 20


def test_lines_of_pages_that_were_only_read_are_named_first(tmp_path: Path) -> None:
    """A file is mapped and read: its pages get no frames in a replay, and it may be most of a program."""
    lines = 64 * np.arange(8 * MEBIBYTE // 64, dtype=np.uint64)
    with pl.TraceRecorder(tmp_path / "reads.trace", "reads") as recorder:
        for _ in range(4):
            recorder.access(0, 0x7000_0000 + lines, instructions=4)
        recorder.access(0, 0x4000_0000 + lines[:6000], stores=True, instructions=4)
    program = pl.trace(tmp_path / "reads.trace")
    found = pl.explain(pl.simulate(program, pl.machine("westmere-ep"), ranks=1, policies=["aged"], nodes=1))
    share = 4 * len(lines) / (4 * len(lines) + 6000)
    assert found.program.share_without_frame == pytest.approx(share)
    assert found.conclusion.sentences[0].startswith(
        "99% of the lines that the program reads are of pages that it never wrote, such as those of files."
    )


def test_a_run_of_which_little_was_traced_says_so_first() -> None:
    for share, said in ((0.6, True), (0.95, False), (None, False)):
        ensemble = synthetic.ensemble(nodes=2)
        ensemble.workload.share_seen = share
        first = explain(ensemble).conclusion.sentences[0]
        assert first.startswith("Only 60% of the run was traced") == said
