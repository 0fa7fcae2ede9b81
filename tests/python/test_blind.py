"""Blind claims: what a file states is obtained first, recorded, and only then compared."""

import json
from pathlib import Path

import pytest
from machine_roles import CACHE_MODE, PLAIN, SNOOP_FILTER

from pagelens.accesses.trace import open_trace
from pagelens.accesses.workload import Workload
from pagelens.errors import UsageError
from pagelens.machine import load_machine
from pagelens.reproduce.blind import RECORD, blind_study
from pagelens.reproduce.blind_claim import Claim
from pagelens.reproduce.claim import Kind, Row
from pagelens.reproduce.context import Scale, StudyContext

PAPER = f"""
schema = 1
source = "Nobody, A paper, 2031"

[[claim]]
claim = "Large pages help"
where = "table 1"
machine = "{CACHE_MODE}"
workload = "stream-triad"
size = "300 MB"
quantity = "speedup"
policy = "contiguous"
over = "random"
nodes = 2
"""
PUBLISHED = 'published = { figure = %s, text = "as much" }\n'


def obtain(text: str, folder: Path) -> Row:
    paper = folder / "paper.toml"
    paper.write_text(text)
    return blind_study(paper).run(StudyContext(Scale.QUICK, 1, folder / "out")).rows[0]


def test_a_figure_is_recorded_before_it_is_compared(tmp_path: Path) -> None:
    first = obtain(PAPER, tmp_path)
    assert (first.kind, first.holds, first.published.text) == (Kind.SHOWN, None, "not looked at yet")
    obtained = first.obtained.numbers["figure"]
    near, far = (obtain(PAPER + PUBLISHED % figure, tmp_path) for figure in (1.2 * obtained, 1.4 * obtained))
    assert (near.holds, far.holds) == (True, False)
    assert near.obtained == first.obtained
    assert "first obtained before the file stated a published figure" in near.remark
    assert len(json.loads((tmp_path / "out" / RECORD).read_text())) == 1


def test_a_figure_that_was_known_is_no_blind_one(tmp_path: Path) -> None:
    assert "the file stated the published figure" in obtain(PAPER + PUBLISHED % 2.0, tmp_path).remark


@pytest.mark.parametrize("record", ["{", "[]", "3", '{"a": 3}', '{"a": {}}'])
def test_a_record_that_cannot_be_read_is_one_line_before_anything_is_simulated(
    record: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr("pagelens.reproduce.blind._simulate")
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / RECORD).write_text(record)
    with pytest.raises(UsageError, match="cannot read the record"):
        obtain(PAPER, tmp_path)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (('quantity = "speedup"', 'quantity = "colour"'), r"paper.toml:11: 'claim.0.quantity'"),
        (('over = "random"', ""), "state `over`"),
        (('workload = "stream-triad"', ""), "state one of workload and trace"),
        (("nodes = 2", "nodes = 0"), "nodes"),
        (("nodes = 2", "knots = 2"), "unknown key 'claim.0.knots'"),
    ],
)
def test_what_cannot_be_is_refused_with_its_line(
    change: tuple[str, str], message: str, tmp_path: Path
) -> None:
    with pytest.raises(UsageError, match=message):
        obtain(PAPER.replace(*change), tmp_path)


def test_the_digest_is_of_what_decides_the_figure() -> None:
    stated = {
        "claim": "c", "where": "w", "machine": "m", "quantity": "time", "trace": "t", "policy": "aged",
    }  # fmt: skip
    plain = Claim.model_validate(stated).digest
    assert Claim.model_validate(stated | {"published": {"figure": 2.0}, "where": "x"}).digest == plain
    assert Claim.model_validate(stated | {"nodes": 17}).digest != plain


def test_a_row_conflict_costs_a_precharge_and_an_activate(tmp_path: Path) -> None:
    asked = f'schema = 1\nsource = "s"\n[[claim]]\nclaim = "c"\nwhere = "w"\nmachine = "{SNOOP_FILTER}"\n'
    found = obtain(asked + 'quantity = "row-conflict"\n', tmp_path).obtained.numbers["figure"]
    dram = load_machine(SNOOP_FILTER).dram
    assert dram is not None
    timings = dram.timings_ps()
    least = (timings["tRP"] + timings["tRCD"]) * 1e-12
    assert least <= found <= 1.2 * least  # and now and then a refresh


def test_another_machine_file_is_not_taken_for_other_code(tmp_path: Path) -> None:
    asked = 'schema = 1\nsource = "s"\n[[claim]]\nclaim = "c"\nwhere = "w"\nmachine = "m.toml"\n'
    for base, says in ((SNOOP_FILTER, ""), (PLAIN, "with another machine, trace, seed")):
        (tmp_path / "m.toml").write_text(
            f'schema = 1\nbase = "{base}"\nname = "m"\ntitle = "m"\nmode = "single"\n'
        )
        remark = obtain(asked + 'quantity = "row-conflict"\n', tmp_path).remark
        assert says in remark
        assert "other code" not in remark


def test_a_machine_file_that_changes_shows_even_if_the_figure_stays(tmp_path: Path) -> None:
    asked = 'schema = 1\nsource = "s"\n[[claim]]\nclaim = "c"\nwhere = "w"\nmachine = "m.toml"\n'
    remarks = []
    for title in ("m", "m", "another"):
        (tmp_path / "m.toml").write_text(
            f'schema = 1\nbase = "{SNOOP_FILTER}"\nname = "m"\ntitle = "{title}"\nmode = "single"\n'
        )
        remarks.append(obtain(asked + 'quantity = "row-conflict"\n', tmp_path).remark)
    assert remarks[0] == remarks[1]
    assert "then, with another machine, trace, seed or number of nodes" in remarks[2]


def test_a_machine_is_compared_with_another(tmp_path: Path) -> None:
    slower = f'schema = 1\nbase = "{CACHE_MODE}"\nname = "slower"\ntitle = "slower"\nmode = "cache"\n'
    slower += '[fast_memory]\nbandwidth = { value = "71 GB/s", assumed = "a fifth" }\n'
    (tmp_path / "slower.toml").write_text(slower)
    asked = PAPER.replace('over = "random"', 'over_machine = "slower.toml"')
    assert obtain(asked, tmp_path).obtained.numbers["figure"] == pytest.approx(355 / 71, rel=0.02)


def test_a_trace_is_opened_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    opened = []

    def open_one(path: Path) -> Workload:
        opened.append(path)
        return open_trace(path)

    monkeypatch.setattr("pagelens.reproduce.blind.open_trace", open_one)
    trace = Path(__file__).parents[1] / "data" / "trace-version-2.bin"
    program = PAPER
    for stated, instead in (
        ('workload = "stream-triad"\nsize = "300 MB"', f'trace = "{trace}"'),
        ('quantity = "speedup"', 'quantity = "time"'),
        ('over = "random"\nnodes = 2', "nodes = 1"),
    ):
        program = program.replace(stated, instead)
    assert obtain(program, tmp_path).obtained.numbers["figure"] > 0
    assert opened == [trace]
