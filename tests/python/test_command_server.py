"""Commands that the tests' server runs behave as commands that a shell starts."""

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from traced_program import GOLDEN

Run = Callable[..., subprocess.CompletedProcess[str]]


@pytest.mark.parametrize(
    "words",
    [
        ("trace-info", "--json", str(GOLDEN)),
        ("trace-info", "no.trace"),
        ("trace-info", "--nope"),
        ("io", "run", "--", "sh", "-c", "pwd; echo $MARK; echo said >&2; exit 7"),
    ],
)
def test_a_command_is_as_one_that_a_shell_starts(
    words: tuple[str, ...], pagelens: Run, pagelens_command: Path, tmp_path: Path
) -> None:
    env = {**os.environ, "MARK": "here"}
    command = [pagelens_command, *words]
    alone = subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True, check=False)
    served = pagelens(*words, env={"MARK": "here"})
    assert (served.returncode, served.stdout, served.stderr) == (alone.returncode, alone.stdout, alone.stderr)


def test_nothing_of_one_command_is_left_for_the_next(pagelens: Run, tmp_path: Path) -> None:
    said = [
        pagelens("io", "run", "--", "sh", "-c", "echo $MARK$$", env=env).stdout
        for env in ({"MARK": "here"}, {})
    ]
    assert said[0].startswith("here")
    assert said[1].strip().isdigit()
    assert said[0].strip().removeprefix("here") != said[1].strip()
