"""The page of a job: from parts that nodes and the library left, whatever is in them."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from machine_roles import NO_L3_DDR, SNOOP_FILTER

from pagelens.host.system import System
from pagelens.site.job_page import read_parts, summary, write_job_page
from pagelens.site.job_sample import banks_of, conflict_shares, lines_by_bank, sample_step, watch_step

MIB = 1 << 20


def sample(rank: int, **changed: Any) -> dict[str, Any]:
    return {
        "step": "0", "rank": rank, "process": 100 + rank, "program": "app", "resident": 100 * MIB,
        "on_large_pages": 25 * MIB, "by_numa_node": {"0": 75 * MIB, "1": 25 * MIB}, "conflict_share": 0.5,
    } | changed  # fmt: skip


def test_the_last_nodes_page_has_all_nodes(tmp_path: Path) -> None:
    report = {"process": 101, "rank": 1, "peak_bytes": 90 * MIB, "said": ["no pages of the pool"]}
    parts = tmp_path / ".pagelens-7"
    parts.mkdir()
    (parts / "0.1.101.json").write_text(json.dumps(report))
    write_job_page(tmp_path, "7", "n0", [sample(0)], "Node n0 is ok.")
    on_banks = {"banks": 320, "fullest_bank": 1.5}
    write_job_page(tmp_path, "7", "n1", [sample(1, conflict_share=0.75, **on_banks)], "")
    text = (tmp_path / "pagelens-7.txt").read_text()
    words = " ".join(text.split())
    assert "2 processes had 200 MiB, 25% of it on pages of 2 MiB or more." in words
    assert "at most 75% (rank 1 on n1)" in words
    assert "holds 1.50 times as many lines of a process as the mean of all banks (rank 1 on n1)" in words
    assert "no pages of the pool" in text
    assert "Node n0 is ok." in text
    lines = text.splitlines()[-2:]
    assert [line.split() for line in lines] == [
        ["0", "0", "n0", "app", "100", "MiB", "25%", "0:", "75%,", "1:", "25%", "50%"],
        ["0", "1", "n1", "app", "100", "MiB", "25%", "0:", "75%,", "1:", "25%", "75%", "320,", "1.50x"],
    ]
    assert "<td>n1</td>" in (tmp_path / "pagelens-7.html").read_text()


def test_a_program_that_nobody_looked_at_is_said(tmp_path: Path) -> None:
    write_job_page(tmp_path, "7", "n0", [], "")
    assert "No process was looked at while" in (tmp_path / "pagelens-7.txt").read_text()


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)
_KEYS = st.sampled_from(["node", "samples", "fleet", "process", "rank", "peak_bytes", "said", "program"])


@settings(max_examples=60, deadline=None)
@given(st.dictionaries(_KEYS, _JSON) | _JSON, st.dictionaries(st.sampled_from(list(sample(0))), _JSON))
def test_parts_may_hold_anything(tmp_path_factory: Any, part: Any, changed: dict[str, Any]) -> None:
    folder = tmp_path_factory.mktemp("job")
    parts = folder / ".pagelens-7"
    parts.mkdir()
    (parts / "0.0.1.json").write_text(json.dumps(part))
    (parts / "node-x.json").write_text(json.dumps(part))
    (parts / "node-z.json").write_bytes(json.dumps(part).encode()[:-1] + b"\xff")
    write_job_page(folder, "7", "n1", [sample(1) | changed], "")
    summary(read_parts(parts)[0])


@given(st.lists(st.lists(st.integers(0, 60), max_size=20), max_size=4), st.integers(1, 16))
def test_conflict_shares_are_those_of_counting(frames: list[list[int]], slots: int) -> None:
    every = {frame for own in frames for frame in own}
    expected = [
        sum(any(other != frame and other % slots == frame % slots for other in every) for frame in own)
        / len(own)
        if own
        else None
        for own in frames
    ]
    found = conflict_shares([np.array(own, dtype=np.int64) for own in frames], slots)
    assert all((a is None and b is None) or abs(a - b) < 1e-12 for a, b in zip(found, expected, strict=True))


@given(st.lists(st.integers(0, 1 << 18), min_size=1, max_size=20, unique=True))
def test_lines_are_in_the_banks_of_the_machine(frames: list[int]) -> None:
    banks = banks_of(NO_L3_DDR)
    assert banks is not None
    counts = [0] * banks.count
    for frame in frames:
        for line in range(64):
            address = np.array([frame * 4096 + line * 64], dtype=np.uint64)
            counts[int(banks.of(address)[0])] += 1
    assert lines_by_bank(np.array(frames, dtype=np.int64), banks).tolist() == counts


def test_a_look_counts_a_part_of_a_large_process() -> None:
    """A fixed step could see only the channels of every third frame."""
    banks = banks_of(SNOOP_FILTER)
    assert banks is not None
    frames = np.arange(3 << 16, dtype=np.int64)
    every = sum(lines_by_bank(part, banks) for part in np.split(frames, 3))
    drawn = lines_by_bank(frames, banks)
    assert drawn.sum() == 64 << 16
    assert np.abs(drawn - every / 3).max() < 0.1 * every.max()


def test_a_step_is_seen_in_a_captured_tree(tmp_path: Path) -> None:
    def put(process: int, parent: int, variables: str, resident: int) -> None:
        folder = tmp_path / f"proc/{process}"
        folder.mkdir(parents=True)
        (folder / "stat").write_text(f"{process} (a) b) S {parent} 1 1 0")
        (folder / "environ").write_bytes(variables.encode().replace(b" ", b"\0"))
        (folder / "comm").write_text("app\n")
        (folder / "smaps_rollup").write_text(
            f"0-1 ---p 0 0 0 [rollup]\nRss: {resident} kB\nAnonHugePages: 4096 kB\nPrivate_Hugetlb: 2048 kB\n"
        )
        (folder / "numa_maps").write_text(
            "1000 default anon=3 N0=2048 N1=512 kernelpagesize_kB=4\n"
            "2000 default N1=1 kernelpagesize_kB=2048\n"
        )

    put(10, 1, "", 0)  # slurmstepd
    put(11, 10, "PAGELENS_RUN=x SLURM_PROCID=3", 10240)
    put(12, 11, "PAGELENS_RUN=x SLURM_PROCID=3", 100)  # too small
    put(13, 10, "SLURM_PROCID=4", 10240)  # without the library
    put(14, 1, "PAGELENS_RUN=x SLURM_PROCID=5", 10240)  # of another step
    (found,) = sample_step(System(tmp_path), "0", 10, None)
    assert (found.process, found.rank, found.resident) == (11, 3, 12 * MIB)
    assert (found.on_large_pages, found.by_numa_node) == (6 * MIB, {"0": 8 * MIB, "1": 4 * MIB})


def test_a_look_ends_with_its_step_also_where_its_number_is_used_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "proc/10"
    folder.mkdir(parents=True)
    (folder / "cmdline").write_text("slurmstepd")
    times = iter(("100", "100", "200"))

    def sleep(_: float) -> None:
        (folder / "stat").write_text(f"10 (slurmstepd) S {'0 ' * 18}{next(times)} 0")

    sleep(0)
    monkeypatch.setattr("pagelens.site.job_sample.time.sleep", sleep)
    watch_step(System(tmp_path), tmp_path / "jobs", "0", 10, None)  # a fourth look would have no time
    assert list(times) == []
