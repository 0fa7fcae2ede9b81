"""Errors reach the user as one line and an exit status, never as a traceback."""

import sys

import pytest

from pagelens import cli
from pagelens.errors import Failure, PagelensError, UsageError


@pytest.mark.parametrize(
    ("error", "status"), [(UsageError("machine 'knl' is unknown"), 2), (Failure("no disk space"), 1)]
)
def test_one_line_and_the_status(
    error: PagelensError,
    status: int,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def fail() -> None:
        raise error

    monkeypatch.setattr(cli, "app", fail)
    monkeypatch.setattr(sys, "argv", ["pagelens"])
    with pytest.raises(SystemExit) as exit_info:
        cli.main()
    assert exit_info.value.code == status
    assert capsys.readouterr().err == f"pagelens: {error}\n"
