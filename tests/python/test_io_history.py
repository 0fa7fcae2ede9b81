"""A program's own files as steps of a history, and what they cost its memory."""

from types import SimpleNamespace

import polars as pl
from machine_roles import CACHE_MODE
from test_io_model import PAGE, recording_of, transfer

from pagelens.ensemble import Ensemble
from pagelens.explain import own_files_in_words
from pagelens.explain.inputs import machine_inputs
from pagelens.frames import parse_history
from pagelens.io import steps_with_files, transferred
from pagelens.machine import load_machine
from pagelens.replay.memory_side import left_out


def test_each_page_enters_the_page_cache_once_and_direct_transfers_do_not() -> None:
    recording = recording_of(
        [
            transfer("write", 0, 10 * PAGE),
            transfer("write", 0, 10 * PAGE),
            transfer("read", 0, 10 * PAGE),
            transfer("read", 0, 4 * PAGE, file=1),
            transfer("read", 0, 4 * PAGE, file=1),
            transfer("write", 0, 7 * PAGE, file=2, direct=True),
        ],
        [{"bytes": 0, "cached_bytes": 0}, {"bytes": 4 * PAGE, "cached_bytes": 0}, {"bytes": 0}],
    )
    assert transferred(recording) == (14 * PAGE, 7 * PAGE)
    steps = steps_with_files(parse_history("boot; age(jobs=2); run"), recording)
    assert steps == parse_history(f"boot; age(jobs=2); io({14 * PAGE}B); io({7 * PAGE}B, direct); run")
    dropped = steps_with_files(parse_history("boot; run"), recording, dropped=True)
    assert dropped == parse_history(f"boot; io({14 * PAGE}B); io({7 * PAGE}B, direct); drop_caches; run")


def test_files_that_were_cached_before_add_nothing() -> None:
    recording = recording_of([transfer("read", 0, PAGE)], [{"bytes": PAGE, "cached_bytes": PAGE}])
    steps = parse_history("boot; run")
    assert steps_with_files(steps, recording) == steps


def ensemble(time_s: float, share: float, remote: float = 0.0) -> Ensemble:
    placements = pl.DataFrame(
        {"node": [0, 1], "policy": "aged", "time_s": time_s, "conflict_share": share, "large_pages": 3,
         "large_pages_missing": 1}
    )  # fmt: skip

    numa = pl.DataFrame(
        {"node": [0, 0, 1], "policy": "aged", "from": [0, 0, 0], "to": [0, 1, 0],
         "reads": [1 - remote, remote, 1.0], "writes": 0.0}
    )  # fmt: skip
    tables = SimpleNamespace(placements=placements, numa=numa)
    return SimpleNamespace(baseline="aged", tables=tables)  # type: ignore[return-value]


def test_the_difference_is_said_in_words() -> None:
    with_files = ensemble(1.1, 0.3, remote=0.5)
    said = " ".join(own_files_in_words(with_files, ensemble(1.0, 0.2), ensemble(1.1, 0.25), 10**9))
    assert "1 GB of the page cache" in said
    assert "10.0% slower in the median than with direct I/O" in said
    assert "With the files dropped before, it would be no faster and no slower." in said
    assert "30%, 20% with direct I/O, and 25% with the files dropped before" in said
    assert "another NUMA node: 25%, 0% with direct I/O" in said  # half of node 0, and nothing of node 1
    assert "Large pages" not in said
    same = " ".join(own_files_in_words(ensemble(1.0, 0.2), ensemble(1.0, 0.2), None, 10**9))
    assert "no faster and no slower" in same
    assert "dropped" not in same


def test_the_section_io_is_no_part_of_a_replay() -> None:
    machine = load_machine(CACHE_MODE)
    assert machine.io is not None
    assert "io" not in left_out(machine)
    assert not any(each.name.startswith("io.") for each in machine_inputs(machine))
