"""`pagelens machines`: what it prints, in 80 columns and as JSON."""

import json
import re
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from machine_roles import CACHE_MODE, FLAT_MODE, HYBRID_MODE, SNOOP_FILTER

from pagelens.cli.main import main
from pagelens.machine import list_machines, load_machine, missing_write_rates
from pagelens.machine.values import stated_values

Run = Callable[..., tuple[int, str, str]]
FIXTURE = Path(__file__).parents[1] / "data" / "machines" / "schema-1.toml"


@pytest.fixture
def machines(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Run:
    """The command, run inside this process; its status and what it printed."""

    def run(*arguments: str | Path) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["pagelens", "machines", *map(str, arguments)])
        with pytest.raises(SystemExit) as ended:
            main()
        captured = capfd.readouterr()
        return int(ended.value.code or 0), captured.out, captured.err

    return run


def test_the_list_has_every_machine_in_80_columns(machines: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    status, out, err = machines()
    assert (status, err) == (0, "")
    lines = out.splitlines()
    assert [line.split()[0] for line in lines[1 : 1 + len(list_machines())]] == list(list_machines())
    assert max(map(len, lines)) <= 80
    monkeypatch.setenv("COLUMNS", "50")
    assert max(map(len, machines()[1].splitlines())) <= 50
    at = lines[0].index("  memory")
    assert all(re.match(r"  \d", line[at:]) for line in lines[1 : 1 + len(list_machines())])
    listed = json.loads(machines("--json")[1])["machines"]
    assert [record["name"] for record in listed] == list(list_machines())
    assert next(r for r in listed if r["name"] == SNOOP_FILTER)["cores"] == 24


@pytest.mark.parametrize("name", list_machines())
def test_a_machine_is_shown_with_every_value_and_source(name: str, machines: Run) -> None:
    status, out, _ = machines("show", name)
    assert status == 0
    assert max(map(len, out.splitlines())) <= 80
    printed = "".join(out.split())  # lines are wrapped
    machine = load_machine(name)
    for section in machine.sections:
        assert f"[{section}" in out
    for stated in stated_values(machine):
        for text in (stated.key, stated.value.shown, stated.value.origin):
            assert "".join(text.split()) in printed


def test_the_picture_shows_what_a_line_meets(machines: Run) -> None:
    def picture(name: str) -> list[str]:
        out = machines("show", name)[1]
        return [line.split()[1] for line in out.splitlines() if line.startswith("│ ") and line[2] != " "]

    caches = ["cores", "L1", "L2", "L1", "L2", "snoop"]  # TLBs first
    assert picture(CACHE_MODE) == [*caches, "memory-side", "ddr"]
    assert picture(HYBRID_MODE) == [*caches, "memory-side", "fast", "ddr"]
    assert picture(FLAT_MODE) == [*caches, "fast"]  # ddr beside it
    assert picture(SNOOP_FILTER) == ["cores", "L1", "L2", "L1", "L2", "L3", "snoop", "ddr"]
    flat = machines("show", FLAT_MODE)[1].splitlines()
    assert any("fast memory" in line and "ddr" in line for line in flat)


def test_a_guest_is_shown_as_one(machines: Run) -> None:
    every = FIXTURE.parent / "every-section.toml"
    status, out, _ = machines("show", every)
    assert status == 0
    assert "\nA guest of KVM: its frames are the guest's, not those of the memory.\n" in out
    assert max(map(len, out.splitlines())) <= 80
    assert json.loads(machines("show", every, "--json")[1])["values"]


def test_values_as_json_are_in_base_units(machines: Run) -> None:
    record = json.loads(machines("show", CACHE_MODE, "--json")[1])
    values = {value["name"]: value for value in record["values"]}
    assert values["l2.size"]["value"] == 1 << 20
    assert values["ddr.latency"]["value"] == pytest.approx(147e-9)
    assert values["ddr.bandwidth"]["origin"] == "input"
    assert values["cores.frequency"]["shown"] == "1.4 GHz"


def test_a_file_of_one_s_own_is_checked(machines: Run, tmp_path: Path) -> None:
    status, out, _ = machines("check", FIXTURE)
    assert status == 0
    assert (
        f"sound; {CACHE_MODE}, mode cache; 18 values, of which 16 documented, 2 calibration, 0 assumed" in out
    )
    wrong = tmp_path / "wrong.toml"
    wrong.write_text(FIXTURE.read_text().replace("shared_by", "shared_bye", 1))
    status, out, err = machines("check", wrong)
    assert (status, out) == (2, "")
    assert f"{wrong}:18: unknown key 'l1.shared_bye'; did you mean shared_by" in err
    assert err.count("\n") == 1


def test_memory_that_is_no_dram_is_asked_for_its_writes(machines: Run, tmp_path: Path) -> None:
    fast = tmp_path / "fast.toml"
    kind = '[ddr]\ntechnology = { value = "6 x Optane DC", assumed = "t" }'
    fast.write_text(FIXTURE.read_text().replace("[ddr]", kind, 1))
    status, _, err = machines("check", fast)
    assert (status, err.count("\n")) == (0, 1)
    assert "ddr.technology is 6 x Optane DC" in err
    assert "state ddr.write_bandwidth" in err
    assert not any(missing_write_rates(load_machine(name)) for name in list_machines())


def test_a_machine_that_comes_along_is_checked_by_its_name(machines: Run) -> None:
    status, out, _ = machines("check", SNOOP_FILTER)
    assert (status, out.split(";")[0]) == (0, f"{SNOOP_FILTER}: sound")
    assert f"did you mean {SNOOP_FILTER}" in machines("check", "skx-816")[2]
