"""Machine files: what they state is read with its units and origin, and every error names its line."""

import re
from pathlib import Path
from typing import get_args

import numpy as np
import pytest
from machine_roles import (
    CACHE_BEHIND_L3,
    CACHE_MODE,
    CXL_NODE,
    FLAT_MODE,
    HYBRID_MODE,
    SLICES_28,
    SNOOP_FILTER,
)

from pagelens.errors import UsageError
from pagelens.machine import Machine, list_machines, load_machine, machine_directory, parse_machine
from pagelens.machine.parts import Mode
from pagelens.machine.reference import schema_reference
from pagelens.machine.values import stated_values

FIXTURE = Path(__file__).parents[1] / "data" / "machines" / "schema-1.toml"  # of the first release
KNL = FIXTURE.read_text()
PLAIN = {
    "version",
    "base",
    "name",
    "title",
    "mode",
    "hypervisor",
    "instruction_set",
    "device",
    "ideal",
}  # keys outside any section
L3 = """[l3]
size = { value = "3 MiB", assumed = "t" }
ways = { value = 12, assumed = "t" }
latency = { value = "20 ns", assumed = "t" }
slices = { value = 4, assumed = "t" }
inclusion = { value = "victim", assumed = "t" }
[ddr]"""
FILTER = """[snoop_filter]
sets = { value = 2048, assumed = "t" }
ways = { value = 12, assumed = "t" }
slices = { value = 4, assumed = "t" }
[ddr]"""


def changed(old: str, new: str) -> bytes:
    assert old in KNL
    return KNL.replace(old, new, 1).encode()


def hashed(name: str) -> str:
    return L3.replace("[ddr]", f'hash = {{ value = "{name}", assumed = "t" }}\n[ddr]')


def error_of(raw: bytes) -> str:
    with pytest.raises(UsageError) as caught:
        parse_machine(raw, "x.toml")
    text = str(caught.value)
    assert "\n" not in text
    return text


def line_of(raw: bytes, text: str) -> int:
    return raw.decode()[: raw.decode().index(text)].count("\n") + 1


def test_the_knl_file_states_the_node_of_seed_000() -> None:
    machine = load_machine(CACHE_MODE)
    assert machine.frames == 96 * 2**30 // 4096
    assert machine.slots == 16 * 2**30 // 4096
    assert machine.ways == 1
    assert machine.cores.count.value == 68
    assert machine.l2.sets == 1024
    assert machine.fast_memory.bandwidth.value == 355e9
    assert machine.fast_memory.bandwidth.label == "input"
    assert machine.ddr.bandwidth.label == "input"
    assert machine.ddr.latency.value == pytest.approx(147e-9)


@pytest.mark.parametrize("name", list_machines())
def test_every_machine_loads_under_its_own_name(name: str) -> None:
    machine = load_machine(name)
    assert machine.name == name
    assert load_machine(machine_directory() / f"{name}.toml") == machine
    assert (machine.memory_side_cache is None) == (machine.mode in ("flat", "single"))


def test_every_mode_has_a_machine_and_every_count_of_skylakes_cores() -> None:
    """More machines may be added: no list of them has to be changed."""
    machines = [load_machine(name) for name in list_machines()]
    assert {machine.mode for machine in machines} == {*get_args(Mode)}
    skylakes = [machine for machine in machines if machine.name.startswith("skx-")]
    assert {*range(14, 29, 2)} <= {machine.cores.count.value for machine in skylakes}


def test_the_first_release_s_file_states_what_it_did() -> None:
    first, now = parse_machine(FIXTURE.read_bytes(), "x.toml"), load_machine(CACHE_MODE)
    for section in ("cores", "l1", "memory_side_cache"):
        assert getattr(first, section) == getattr(now, section)
    assert first.l2 == now.l2.model_copy(update={"latency": None})
    for memory in ("fast_memory", "ddr"):
        values = getattr(now, memory).model_copy(update={"technology": None})
        assert getattr(first, memory) == values


def test_in_hybrid_mode_a_part_of_the_fast_memory_is_a_cache() -> None:
    hybrid = load_machine(HYBRID_MODE)
    assert hybrid.slots == 8 * 2**30 // 4096 == load_machine(CACHE_MODE).slots // 2
    assert hybrid.ways == 1


def test_with_one_memory_every_frame_has_a_slot_of_its_own() -> None:
    skylake = load_machine(SNOOP_FILTER)
    assert skylake.slots == skylake.frames == 96 * 2**30 // 4096


def test_nodes_of_stampede2_differ_as_seed_002_says() -> None:
    """8.6% between 31 nodes is the input; more than 12% between 1736 follows."""
    cores = load_machine(SNOOP_FILTER).cores
    factors = np.array([[cores.frequency_factor(seed, node) for node in range(1736)] for seed in range(20)])
    assert cores.frequency_factor(3, 5) == factors[3, 5]
    assert np.median(factors) == pytest.approx(1, abs=0.002)
    few = factors[:, : 31 * 56].reshape(-1, 31)
    assert np.ptp(few, axis=1).mean() == pytest.approx(0.086, abs=0.003)
    assert 0.12 < np.ptp(factors, axis=1).mean() < 0.16
    assert load_machine(SLICES_28).cores.frequency_factor(3, 5) == 1


def test_caches_are_split_by_address_bits() -> None:
    machine = load_machine(CACHE_MODE)
    assert (machine.l1.highest_index_bit, machine.l2.highest_index_bit) == (11, 15)
    assert machine.caches_below(12) == (machine.l1,)
    assert machine.caches_below(15) == (machine.l1,)
    assert machine.caches_below(16) == (machine.l1, machine.l2)


def test_associativity_is_a_parameter() -> None:
    machine = load_machine(CACHE_MODE)
    assert machine.with_ways(4).ways == 4
    assert machine.ways == 1
    for ways in (0, 3, 32):
        with pytest.raises(UsageError, match=f"--ways: {ways}"):
            machine.with_ways(ways)
    with pytest.raises(UsageError, match="no memory-side cache"):
        load_machine(FLAT_MODE).with_ways(2)
    with pytest.raises(UsageError, match="fully associative"):
        load_machine(f"{CACHE_MODE}-ideal").with_ways(2)
    large = parse_machine(changed('size = { value = "96 GiB"', 'size = { value = "800 GiB"'), "x.toml")
    with pytest.raises(UsageError, match="at most 2 with its memories"):
        large.with_ways(4)


def test_a_machine_in_cache_mode_has_an_ideal_twin() -> None:
    twin = load_machine(f"{CACHE_BEHIND_L3}-ideal")
    assert twin.ideal
    assert twin.name == f"{CACHE_BEHIND_L3}-ideal"
    assert twin.fast_memory == load_machine(CACHE_BEHIND_L3).fast_memory
    with pytest.raises(UsageError, match=f"'{FLAT_MODE}-ideal' is unknown"):
        load_machine(f"{FLAT_MODE}-ideal")


def test_memories_whose_two_way_twin_cannot_be_told_apart_are_refused() -> None:
    assert "at most 126, not 75 x 2" in error_of(
        changed('size = { value = "96 GiB"', 'size = { value = "1200 GiB"')
    )


def test_an_unknown_machine_is_offered_the_nearest() -> None:
    with pytest.raises(UsageError, match=rf"'cori-knl-cach' is unknown.*{CACHE_MODE}"):
        load_machine("cori-knl-cach")
    with pytest.raises(UsageError, match=r"'%%%' is unknown; `pagelens machines` lists the names"):
        load_machine("%%%")


def test_a_file_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"cannot read .*none\.toml"):
        load_machine(tmp_path / "none.toml")
    with pytest.raises(UsageError, match="cannot read"):
        load_machine(f"{tmp_path}/")


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("shared_by", "shared_bye", "unknown key 'l1.shared_bye'; did you mean shared_by"),
        ("[l2]", "[l4]", "unknown key 'l4'; did you mean l"),
        ("source = ", "sorce = ", "unknown key 'cores.count.sorce'; did you mean source"),
        ('"1 MiB"', '"1"', "'1' has no unit"),
        ('"1 MiB"', '"1 MiX"', "unknown unit 'MiX'"),
        ('"1 MiB"', "1048576", "1048576 has no unit"),
        ('"1 MiB"', '"3 MiB"', "must be a power of two"),
        ('"1 MiB"', '"16 KiB"', "at least 64 sets"),
        ('"16 GiB"', '"64 B"', "at least 4 MiB, not 0 pages"),
        ('"96 GiB"', '"64 B"', "ddr.size must be at least 4 MiB, not 64 B"),
        ("schema = 1", "schema = 2", "'schema' (is 2)"),
        ("value = 68", "value = -68", "greater than 0"),
        ("value = 68", "value = 68.5", "integer"),
        ("value = 2.0", "value = inf", "finite"),
        ("value = 68, ", "", "'cores.count.value' is missing"),
        ("input = ", "source = ", None),
        ('mode = "cache"', 'mode = "flat"', "[memory_side_cache]"),
        ('mode = "cache"', 'mode = "single"', "[memory_side_cache]"),
        ('mode = "cache"', 'mode = "hybrid"', "memory_side_cache.size belongs to"),
        ('mode = "cache"', 'mode = "fast"', "'cache', 'flat', 'hybrid' or 'single'"),
        ("ways = { value = 1,", "ways = { value = 3,", "power of two"),
        ("ways = { value = 1,", "ways = { value = 17,", "less than or equal to 16"),
        ('"16 GiB"', '"17 GiB"', "power of two"),
        ('"96 GiB"', '"9600 GiB"', "at most 126"),
        ("[l2]", "[l2", "not TOML"),
        ("[l2]", "[l1]", "not TOML"),
        (
            "[ddr]",
            L3.replace("3 MiB", "5 MiB"),
            "'l3': size / (64 B x 12 ways x 4 slices) must be",
        ),
        ("[ddr]", L3.replace("victim", "victims"), "'l3.inclusion.value' (is 'victims'): Input should be"),
        (
            "[ddr]",
            L3.replace("[ddr]", 'hash = { value = "skx-25", assumed = "t" }\n[ddr]'),
            "did you mean skx-2",
        ),
        (
            "[ddr]",
            L3.replace("[ddr]", 'hash = { value = "skx-24", assumed = "t" }\n[ddr]'),
            "is one of 24 slices",
        ),
        ("[ddr]", FILTER.replace("2048", "2000"), "'snoop_filter': sets must be a power of two, not 2000"),
        ("[ddr]", FILTER.replace("ways", "wais"), "unknown key 'snoop_filter.wais'; did you mean ways"),
    ],
)
def test_what_is_wrong_is_said_with_its_line(old: str, new: str, said: str | None) -> None:
    raw = changed(old, new)
    if said is None:
        assert isinstance(parse_machine(raw, "x.toml"), Machine)
        return
    text = error_of(raw)
    assert said in text
    assert text.startswith("x.toml:")


def test_the_line_is_that_of_the_key() -> None:
    raw = changed('size = { value = "1 MiB"', 'sise = { value = "1 MiB"')
    assert error_of(raw).startswith(f"x.toml:{line_of(raw, 'sise')}: unknown key 'l2.sise'")
    raw = changed('"90 GB/s"', '"90 GB"')
    assert error_of(raw).startswith(f"x.toml:{line_of(raw, '90 GB')}: 'ddr.bandwidth.value'")


def test_a_value_needs_exactly_one_origin() -> None:
    assert "exactly one" in error_of(changed('source = "Intel Xeon Phi 7250 product page"', 'source = ""'))
    both = 'source = "Intel Xeon Phi 7250 product page", assumed = "too"'
    assert "exactly one" in error_of(changed('source = "Intel Xeon Phi 7250 product page"', both))


@pytest.mark.parametrize(
    "raw", [b"", b"\xff\xfe", b"a=" + b"[" * 100_000, b"x=" + b"9" * 10_000, b"\x00", b"a" * (2 << 20)]
)
def test_bytes_that_are_no_machine_file_at_all(raw: bytes) -> None:
    assert error_of(raw).startswith("x.toml")


def test_a_number_of_thousands_of_digits_is_refused_in_one_line() -> None:
    raw = changed("schema = 1", "schema = 0x" + "f" * 5000)
    assert error_of(raw).startswith(f"x.toml:{line_of(raw, 'schema')}: 'schema' (is a number of thousands")


def test_a_file_changes_single_values_of_those_it_is_based_on(tmp_path: Path) -> None:
    (tmp_path / "more.toml").write_text(
        'schema = 1\nname = "more"\n[l1]\nways = { value = 4, assumed = "more" }\n'
        '[ddr]\nsize = { value = "48 GiB", assumed = "more" }\n'
    )
    own = (
        f'schema = 1\nbase = ["{CACHE_MODE}", "more.toml"]\nname = "mine"\ntitle = "Mine"\n'
        '[ddr]\nsize = { value = "32 GiB", assumed = "mine" }\n'
    )
    knl, mine = load_machine(CACHE_MODE), parse_machine(own.encode(), str(tmp_path / "x.toml"))
    assert (mine.name, mine.title, mine.mode) == ("mine", "Mine", "cache")
    assert (mine.ddr.size.value, mine.ddr.size.assumed) == (32 << 30, "mine")
    assert (mine.l1.ways.value, mine.l1.ways.assumed) == (4, "more")
    assert (mine.l1.size, mine.ddr.latency, mine.cores) == (knl.l1.size, knl.ddr.latency, knl.cores)


OVER_Y = f'base = ["{CACHE_MODE}", "y.toml"]'


def test_a_name_is_not_taken_over() -> None:
    assert "'name' is missing" in error_of(f'schema = 1\nbase = "{SNOOP_FILTER}"\ntitle = "Mine"\n'.encode())


@pytest.mark.parametrize(
    ("own", "base", "said"),
    [
        ('base = "cori-knl"', "", "x.toml:2: 'base' (is 'cori-knl'): name a .toml file, or one of cori-knl-"),
        ("base = 3", "", "x.toml:2: 'base' (is 3)"),
        ('base = ""', "", "x.toml:2: 'base' (is ''): name a .toml file, or one of `pagelens machines`"),
        ('base = "y.toml"', None, "x.toml:2: 'base': cannot read"),
        ('base = "y.toml"', 'schema = 1\n[cores]\ncuont = 3', "y.toml:3: unknown key 'cores.cuont'"),
        ('base = "y.toml"', '[cores]', "y.toml:1: 'schema' must be 1"),
        ('base = "y.toml"', 'schema = 1\nbase = "x.toml"', "y.toml:2: 'base': "),
        (OVER_Y, 'schema = 1\n[l2]\nsize = { value = "3 MiB", assumed = "a" }', "y.toml:2: 'l2'"),
        (OVER_Y, 'schema = 1\n[l2]\nsize = { value = "3", assumed = "a" }', "y.toml:3: 'l2.size"),
        (f'base = "{CACHE_MODE}"\nmode = "flat"', "", "x.toml:1: 'the file': mode"),
        ('base = "family/skylake-sp"', "", "x.toml:1: 'cores.count' is missing; add it"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_said_of_the_file_that_states_it(
    own: str, base: str | None, said: str, tmp_path: Path
) -> None:
    if base is not None:
        (tmp_path / "y.toml").write_text(base)
    (tmp_path / "x.toml").write_text(f'schema = 1\n{own}\nname = "mine"\ntitle = "Mine"\n')
    with pytest.raises(UsageError) as caught:
        load_machine(tmp_path / "x.toml")
    assert said in str(caught.value).replace(f"{tmp_path}/", "")


def test_the_reference_names_every_section_and_its_example_is_sound() -> None:
    page = schema_reference()
    for section, content in load_machine(CACHE_MODE).sections.items():
        assert (f"## `[[{section}]]`" if isinstance(content, list) else f"## `[{section}]`") in page
    example = page.split("```toml\n")[2].split("```")[0]
    machine = parse_machine(example.encode(), "x.toml")
    assert (machine.name, machine.l2.size.value, machine.l2.ways.value) == (f"{SNOOP_FILTER}-2m", 2 << 20, 16)


def test_the_file_for_fuzzing_has_every_section() -> None:
    machine, measured = (
        parse_machine((FIXTURE.parent / name).read_bytes(), "x.toml")
        for name in ("every-section.toml", "measured.toml")  # a memory-side cache has no [page_fault]
    )
    nodes = load_machine(CXL_NODE)  # is fuzzed, too: its nodes have one kind of memory
    tables = set(Machine.model_fields) - PLAIN
    assert set(machine.sections) | set(nodes.sections) | set(measured.sections) == tables


@pytest.mark.parametrize(
    ("pattern", "new", "said"),
    [
        (r'"96 GiB"', '"200 GiB"', "ddr.size of 200 GiB is more than the 96 GiB that the map"),
        (
            r"\[page_walk\]\n",
            '[page_walk]\nhost_page = { value = "4 KiB", assumed = "tried" }\n',
            "page_walk.host_page and [dram] cannot stand together",
        ),
        (r"\[page_walk\]\n(.+\n)+", "", "[[tlb]] and [page_walk] belong together"),
        (r"(?<=\[l3\]\n)((?:.+\n)*?)hash = .*\n", r"\1", "l3.hash and snoop_filter.hash must be the same"),
        (r'(?<=level = \{value = )1', "2", "tlb"),
    ],
)  # fmt: skip
def test_sections_must_fit_together(pattern: str, new: str, said: str) -> None:
    every = (FIXTURE.parent / "every-section.toml").read_text()
    changed, count = re.subn(pattern, new, every, count=1)
    assert count == 1
    assert said in error_of(changed.encode())


def test_values_are_changed_as_a_file_could_state_them() -> None:
    before = load_machine(CACHE_MODE)
    after = before.with_values({"ddr.bandwidth": "40 GB/s", "memory_side_cache.ways": 4}, name="mine")
    assert (after.name, after.ddr.bandwidth.value, after.ways) == ("mine", 40e9, 4)
    assert after.ddr.bandwidth.label == "assumed"
    assert after.title == f"{before.title} (here: ddr.bandwidth, memory_side_cache.ways changed)"
    changed = {stated.name for stated in stated_values(before)} - {
        stated.name
        for stated, old in zip(stated_values(after), stated_values(before), strict=True)
        if stated.value == old.value
    }
    assert changed == {"ddr.bandwidth", "memory_side_cache.ways"}
    assert before.with_values({}) == before


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"ddr.bandwith": "40 GB/s"}, "ddr.bandwith: there is no such value; did you mean bandwidth"),
        ({"l3.size": "1 MiB"}, f"l3.size: {CACHE_MODE} has no such table; it has cores, pipeline, l1"),
        ({"ddr.bandwidth": 40}, r"ddr.bandwidth: 40: 40 has no unit; write a string"),
        ({"ddr.size": "1 MiB"}, "ddr.size: ddr.size must be at least 4 MiB"),
        ({"tlb.4.ways": 8}, "tlb.4.ways: there is no such table; the machine has tlb.0 to tlb.3"),
        ({"tlb.ways": 8}, "tlb.ways: there is no such table"),
        ({"tlb.0.way": 8}, "tlb.0.way: there is no such value; did you mean ways"),
        ({"name": "x"}, f"name: {CACHE_MODE} has no such table"),
        ({"pipeline.mispredict_cycles": 1 << 32}, "less than or equal to 65535"),
    ],
)
def test_values_that_do_not_fit_are_refused(values: dict[str, object], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        load_machine(CACHE_MODE).with_values(values)
