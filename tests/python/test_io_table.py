"""The page of predicted reads and writes, docs/results/io.md."""

from pathlib import Path

import pytest
from test_io_model import MACHINE, recording_of, transfer

from pagelens.io import explain_recording


def test_the_table_has_the_error_of_each_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(Path(__file__).parents[2] / "scripts")
    from io_table import _row

    # By the model, this write takes 4 us.
    runs = [
        explain_recording(recording_of([transfer("write", 0, cpu_ns=took)]), MACHINE)
        for took in (2000, 4000, 5000, 8000)
    ]
    assert "| +100%, +0%, -20%, -50% |" in _row("dd", runs, runs)
