"""Programs as users have them run under the tracer as alone: with equal output, exit status and files."""

from collections.abc import Callable
from pathlib import Path

import pytest
import real_programs
from real_programs import RealProgram

from pagelens.accesses.dynamorio import has_dynamorio

ENGINES = ("qemu", "dynamorio")
Alone = Callable[[RealProgram], real_programs.Run]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("real")


@pytest.fixture(scope="module")
def alone(folder: Path) -> Alone:
    """Run a program alone, once for both engines. It runs a second time, and must not differ by itself."""
    known: dict[RealProgram, real_programs.Run] = {}

    def run(program: RealProgram) -> real_programs.Run:
        if program not in known:
            real_programs.prepare(program, folder / f"{program.name}.prepared")
            first, second = (
                real_programs.run(program, folder / f"{program.name}.prepared", folder / program.name, None)
                for _ in range(2)
            )
            assert first.outcome == second.outcome
            known[program] = first
        return known[program]

    return run


@pytest.mark.long
@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("program", real_programs.programs(), ids=lambda program: program.name)
def test_a_real_program_runs_as_alone(program: RealProgram, engine: str, alone: Alone, folder: Path) -> None:
    if program.missing:
        pytest.skip("not here: " + ", ".join(program.missing))
    if engine == "dynamorio" and not has_dynamorio():
        pytest.skip("no DynamoRIO; run make engine")
    expected = alone(program)
    if reason := program.refusal(engine):
        pytest.skip(reason)
    traced = real_programs.run(program, folder / f"{program.name}.prepared", folder / program.name, engine)
    assert traced.outcome.differences(expected.outcome) == ""
    assert traced.problems == []
    assert traced.traced > 0


def test_what_differs_is_named() -> None:
    one = real_programs.Outcome(0, "a\n", "", {"x": "1", "y": "2"})
    other = real_programs.Outcome(1, "a\n", "", {"x": "1", "y": "3", "z": "4"})
    assert one.differences(one) == ""
    assert one.differences(other) == "status: 0 instead of 1\nfiles: y, z"


def test_every_real_program_has_a_title_and_something_to_run() -> None:
    programs = real_programs.programs()
    assert len(programs) >= 24
    for program in programs:
        assert program.file.read_text().startswith("# ")
        assert "$TRACE " in program.file.read_text()
