"""The language of histories: what it means, and what it says where it has no meaning."""

from pathlib import Path

import pytest

from pagelens.errors import UsageError
from pagelens.frames import STEPS, load_mix, parse_history
from pagelens.frames.arguments import Share
from pagelens.frames.steps import Age, Boot, Compact, DropCaches, Io, Run, Zonesort

FRAMES_MD = Path(__file__).parents[2] / "docs" / "frames.md"


def test_steps_and_arguments_by_name_and_in_their_order() -> None:
    steps = parse_history(
        "boot;age(jobs=200, mix=cori); io(20GB, buffered); drop_caches(0.1%); compact; zonesort( intel ) ;run"
    )
    assert steps == (
        Boot(),
        Age(jobs=200, mix=load_mix("cori")),
        Io(size=20_000_000_000, how=True),
        DropCaches(left=Share(of_memory=0.001)),
        Compact(),
        Zonesort(rule="intel"),
        Run(),
    )


def test_a_history_begins_with_a_boot() -> None:
    assert parse_history(" age ;; run ; ") == (Boot(), Age(), Run())
    assert parse_history("boot(shuffle=on)") == (Boot(shuffle=True),)
    assert parse_history("boot(kernel=4.4); run") == (Boot(kernel="4.4"), Run())


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("boot; aeg(jobs=3)", "history, column 7: step 'aeg' is unknown; did you mean age"),
        ("age(job=3)", "history, column 5: age has no argument 'job'; did you mean jobs"),
        ("age(jobs=many)", "history, column 5: age: jobs = 'many' is not a count, such as 200"),
        ("age(jobs=3, jobs=4)", "history, column 13: age: 'jobs' is given twice"),
        ("age(mix=coori)", "history, column 5: age: mix: 'coori' is unknown; did you mean cori"),
        ("io(20)", "history, column 4: io: size = '20' is not a size with its unit, such as 20GB"),
        ("io(20GB, bufered)", "history, column 10: io: how = 'bufered' is not buffered or direct"),
        ("compact(3)", "history, column 9: compact takes no arguments"),
        ("age; boot", "history, column 6: 'boot' can only be the first step; leave it out"),
        ("age(", "history, column 1: 'age(' is not a step; write NAME or NAME(ARGUMENT, ...)"),
        ("age(jobs=)", "history, column 5: 'jobs=' is not an argument; write VALUE or NAME=VALUE"),
        ("drop_caches(left=200%)", "history, column 13: drop_caches: left = '200%' is not a count of pages"),
        ("  ;", "history: is empty; write steps such as"),
    ],
)
def test_errors_name_the_place_and_what_could_stand_there(text: str, error: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_history(text)
    assert str(caught.value).startswith(error)


def test_every_step_and_argument_is_documented() -> None:
    text = FRAMES_MD.read_text()
    for name, step in STEPS.items():
        assert f"`{name}" in text
        for argument in step.arguments():
            assert argument in text
