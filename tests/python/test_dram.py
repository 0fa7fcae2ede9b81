"""DRAMs from files: maps one to one, counts equal to a plain reference, errors with line and field."""

import re
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pagelens import _core
from pagelens.errors import UsageError
from pagelens.machine.dram import COUNTERS, MAP_FIELDS, WRITE, Dram, DramCounts, DramTime
from pagelens.machine.dram_files import list_drams, load_dram, parse_dram

DDR4 = list_drams()["ddr4-2400"]
NAMES = sorted(list_drams())
MIB = 1 << 20


def parity(value: int) -> int:
    return value.bit_count() & 1


def places(dram: Dram, address: int) -> tuple[int, int, int]:
    """Bank of all, row and column of an address: bit by bit, as docs/dram.md says."""
    ways = dram.interleave.value if dram.interleave else 1
    block = dram.interleave_block.value if dram.interleave_block else 64
    group = address // block % ways
    address = address // block // ways * block + address % block
    numbers = {
        name: sum(parity(mask & address) << i for i, mask in enumerate(getattr(dram, name).value))
        for name in MAP_FIELDS
    }
    bank, shift = group, 0
    for name in ("channel", "rank", "bank_group", "bank"):
        shift = len(getattr(dram, name).value)
        bank = bank << shift | numbers[name]
    return bank, numbers["row"], numbers["column"]


def requests(dram: Dram, seed: int, count: int) -> np.ndarray:
    """Lines of a few neighbourhoods, so that there are hits, misses and conflicts; a third are writes."""
    rng = np.random.default_rng(seed)
    starts = rng.integers(0, dram.map().bytes // 64 - 4096, 16)
    lines = rng.choice(starts, count) + rng.integers(0, 4096, count)
    return (lines * 64).astype(np.uint64) | np.where(rng.random(count) < 1 / 3, WRITE, np.uint64(0))


@pytest.mark.parametrize("name", NAMES)
def test_every_dram_loads_under_its_own_name(name: str) -> None:
    stated = load_dram(name)
    assert stated.name == name
    assert load_dram(list_drams()[name]) == stated
    assert stated.dram.map().banks == stated.dram.channels * stated.dram.banks_per_channel


def test_what_the_files_state() -> None:
    drams = {name: load_dram(name).dram for name in NAMES}
    peaks = {
        "opteron-ddr-400": 6.4, "opteron-ddr2-667": 10.7, "opteron-ddr2-800": 12.8, "ddr4-2400": 19.2,
        "skx-ddr4-2666": 128, "knl-ddr4-2400": 115.2, "knl-mcdram": 409.6, "zen4-ddr5-4800": 38.4,
        "westmere-ddr3-1333": 32, "sandy-bridge-ddr3-1600": 51.2, "haswell-ddr4-2133": 68.3,
        "icx-ddr4-3200": 204.8, "spr-ddr5-4800": 307.2, "genoa-ddr5-4800": 460.8,
    }  # fmt: skip
    for name, peak in peaks.items():
        assert drams[name].peak_bandwidth / 1e9 == pytest.approx(peak, rel=0.005)
    sizes = {name: dram.map().bytes >> 30 for name, dram in drams.items()}
    assert {name: size for name, size in sizes.items() if not name.startswith("opteron")} == {
        "ddr4-2400": 16, "knl-ddr4-2400": 96, "knl-mcdram": 16, "skx-ddr4-2666": 96,
        "skx-ddr4-2666-closed": 96, "zen4-ddr5-4800": 16, "westmere-ddr3-1333": 12,
        "sandy-bridge-ddr3-1600": 16, "haswell-ddr4-2133": 64, "icx-ddr4-3200": 256,
        "spr-ddr5-4800": 256, "genoa-ddr5-4800": 384,
    }  # fmt: skip
    assert {size for name, size in sizes.items() if name.startswith("opteron")} == {4}


@pytest.mark.parametrize("name", NAMES)
@settings(max_examples=50)
@given(data=st.data())
def test_places_are_those_of_the_masks(name: str, data: st.DataObject) -> None:
    dram = load_dram(name).dram
    address = data.draw(st.integers(0, dram.map().bytes // 64 - 1)) * 64
    banks, rows = dram.map()(np.array([address], dtype=np.uint64))
    assert (banks[0], rows[0]) == places(dram, address)[:2]


@pytest.mark.parametrize("name", NAMES)
def test_no_two_lines_share_a_place(name: str) -> None:
    """Lines that differ in one or two address bits from one another, over all of them."""
    dram = load_dram(name).dram
    bits = (dram.map().bytes - 1).bit_length()
    lines = {0} | {1 << a | 1 << b for a in range(6, bits) for b in range(6, bits)}
    inside = [address for address in sorted(lines) if address < dram.map().bytes]
    assert len({places(dram, address) for address in inside}) == len(inside)


@pytest.mark.parametrize("name", NAMES)
def test_in_order_counts_are_those_of_a_plain_reference(name: str) -> None:
    """Open pages: the last row of each bank decides. Closed ones: nothing is ever open. Without refresh."""
    stated = load_dram(name).dram
    never = stated.tREFI.model_copy(update={"value": DramTime(seconds=0.9e-3)})
    dram = stated.model_copy(update={"tREFI": never})
    stream = requests(dram, 1, 2000)
    counts = dram.simulator(outstanding=4, window=1).run(stream)
    expected = np.zeros_like(counts.banks)
    open_rows: dict[int, int] = {}
    for request in stream.tolist():
        bank, row, _ = places(dram, request & ~int(WRITE))
        expected[bank, COUNTERS.index("writes" if request & int(WRITE) else "reads")] += 1
        kind = "misses" if bank not in open_rows else "hits" if open_rows[bank] == row else "conflicts"
        expected[bank, COUNTERS.index(kind)] += 1
        if dram.page_policy.value == "open":
            open_rows[bank] = row
    for counter in ("reads", "writes", "hits", "misses", "conflicts"):
        column = COUNTERS.index(counter)
        assert np.array_equal(counts.banks[:, column], expected[:, column]), counter
    assert counts.total("refreshes") == 0  # the first would be due after 0.45 ms


@pytest.mark.parametrize("name", NAMES)
def test_a_scheduler_finds_hits_and_loses_no_request(name: str) -> None:
    dram = load_dram(name).dram
    outstanding = 10 if dram.channels <= 16 else 2 * dram.channels  # some to choose from for each
    streams = [requests(dram, seed, 3000) for seed in range(4)]
    in_order = dram.simulator(outstanding=outstanding, window=1).run(*streams)
    chosen = dram.simulator(outstanding=outstanding).run(*streams)
    for counts in (in_order, chosen):
        assert counts.total("reads") + counts.total("writes") == 12000
        assert counts.total("hits") + counts.total("misses") + counts.total("conflicts") == 12000
        assert counts.by_channel("hits").sum() == counts.total("hits")
        assert len(counts.by_channel("hits")) == dram.channels
    assert chosen.total("hits") > in_order.total("hits")
    assert chosen.time_s < in_order.time_s
    ideal = dram.simulator(outstanding=outstanding, ideal=True).run(*streams)
    assert ideal.total("hits") == 12000
    assert ideal.time_s < chosen.time_s


def test_a_read_alone_takes_what_the_timings_say() -> None:
    dram = load_dram("ddr4-2400").dram
    counts = dram.simulator(outstanding=1).run(np.zeros(1, dtype=np.uint64))
    assert counts.time_s == pytest.approx(40e-9 + (17 + 17 + 4) * 0.833e-9)
    assert counts.read_latency_s == counts.time_s
    assert counts.banks[0].tolist() == [1, 0, 0, 1, 0, 0, (17 + 4) * 833]


def test_one_stream_reaches_nearly_the_peak_and_no_more() -> None:
    for name in NAMES:
        dram = load_dram(name).dram
        lines = np.arange(0, 4 * MIB, 64, dtype=np.uint64)
        counts = dram.simulator(outstanding=2048, window=64).run(lines)
        share = 4 * MIB / counts.time_s / dram.peak_bandwidth
        assert 0.5 < share < 1, name


def test_bank_swizzle_takes_the_conflicts_of_a_stride_away() -> None:
    stride = np.arange(512, dtype=np.uint64) * np.uint64(128 * 1024)
    for name in ("opteron-ddr2-800", "opteron-ddr2-667"):
        plain = load_dram(name).dram.simulator(outstanding=8).run(stride)
        swizzled = load_dram(f"{name}-swizzle").dram.simulator(outstanding=8).run(stride)
        banks_used = (plain.banks[:, 0] > 0).sum(), (swizzled.banks[:, 0] > 0).sum()
        assert banks_used == (1, 8)
        assert swizzled.time_s < plain.time_s / 2


@pytest.mark.parametrize("name", ["ddr4-2400", "opteron-ddr2-800", "opteron-ddr2-667"])
def test_a_copy_between_equal_banks_is_slow(name: str) -> None:
    """Arrays of 4 MiB that are 16 MiB apart differ in nothing but the row (docs/results/dram-offsets.md)."""
    dram = load_dram(name).dram

    def copy(source: np.ndarray, target: np.ndarray) -> DramCounts:
        stream = np.stack([source, target | WRITE], axis=1).ravel()
        return dram.simulator(outstanding=8).run(stream)

    lines = np.arange(0, 4 * MIB, 64, dtype=np.uint64)
    apart = copy(lines, lines + np.uint64(16 * MIB))
    frames = np.random.default_rng(1).choice(dram.map().bytes // 4096, 2048, replace=False)
    scattered = [
        frames[half : half + 1024].repeat(64).astype(np.uint64) * np.uint64(4096) + lines % np.uint64(4096)
        for half in (0, 1024)
    ]
    random = copy(*scattered)
    assert apart.total("conflicts") > 3 * random.total("conflicts")
    assert apart.time_s > 1.2 * random.time_s
    elsewhere = copy(lines, lines + np.uint64(16 * MIB + 64 * 1024))
    assert elsewhere.total("conflicts") < 100


def test_limits_are_said() -> None:
    dram = load_dram("ddr4-2400").dram
    with pytest.raises(UsageError, match="outstanding: 0 is not from 1 to 4096"):
        dram.simulator(outstanding=0)
    with pytest.raises(UsageError, match="window: 65 is not from 1 to 64"):
        dram.simulator(outstanding=1, window=65)
    with pytest.raises(IndexError, match="is not below the DRAM's 17179869184 bytes"):
        dram.simulator(outstanding=1).run(np.array([1 << 34], dtype=np.uint64))
    with pytest.raises(UsageError, match="DRAM: 'ddr4-240' is unknown; did you mean ddr4-2400"):
        load_dram("ddr4-240")


@given(st.lists(st.integers(1, 255), min_size=1, max_size=10))
def test_dependence_is_found_where_there_is_one(masks: list[int]) -> None:
    reached = {tuple(parity(mask & address) for mask in masks) for address in range(256)}
    found = _core.first_dependence(masks)
    assert (found is None) == (len(reached) == 1 << len(masks))
    if found is not None:
        mask, of = found
        rest = masks[mask]
        for other in of:
            assert other < mask
            rest ^= masks[other]
        assert rest == 0


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ('["14-15"]', '["14", "14"]', "bank.1 (14) is bank.0 (14), so two addresses would share a place"),
        ('["17"]', '["14^16"]', "rank.0 (14^16) is bank.0 (14) ^ bank_group.1 (16), so two"),
        ('["18-33"]', '["18-32", "17"]', "row.15 (17) is rank.0 (17), so two addresses would share a place"),
        ('["18-33"]', '["18-34"]', None),
        ('["18-33"]', '["19-34"]', "31 masks of the map place the bits 3 to 33, but bit 18 is in none"),
        ('["18-33"]', '["18-32", "33^35"]', "bits 3 to 33, but bit 35 is used too"),
        ('["18-33"]', '["18-51"]', "at most 16 bits of banks, 31 of banks and rows and 52 of addresses"),
        ('["3-5", "7-13"]', '["2-5", "7-13"]', "has an address bit inside the bus's 8 B"),
        ('["17"]', '["17^17"]', "'17^17' has a bit twice"),
        ('["17"]', '["52"]', "physical addresses have bits 0 to 51"),
        ('["17"]', '["x"]', "'x' is no address bit; write one such as"),
        ('["17"]', "[17]", "17 is no address bit; write a string"),
        ('["17"]', '"17"', "write a list of address bits, lowest first"),
        ('["14-15"]', '["15-14"]', "'15-14' ends before it begins"),
        ('"8 B"', '"3 B"', "a power of two of at most 64 B"),
        ('"8 B"', '"16 B"', "width x burst_length must be a line of 64 B, not 16 B x 8"),
        ("value = 8,", "value = 7,", "an even number"),
        ('"0.833 ns"', '"0.833"', "has no unit"),
        ('"0.833 ns"', '"2 us"', "a DRAM's clock is from 10 ps to 1 us"),
        ('"17 tCK"', "17", "17 is no DRAM timing; write a string such as"),
        ('"17 tCK"', '"17 clk"', "unknown unit 'clk'"),
        ('"17 tCK"', '"0 tCK"', "is no DRAM timing"),
        ('"17 tCK"', '"2 ms"', "must be above 0 and at most 1 ms"),
        ('"56 tCK"', '"38 tCK"', "shorter than tRAS, 39 tCK"),
        ('"7.8 us"', '"0.4 us"', "shorter than a refresh and the row that it closes"),
        ("value = 32,", "value = 65,", "less than or equal to 64"),
        ('"open"', '"ajar"', "'open' or 'closed'"),
        ("CWL", "CVL", "unknown key 'dram.CVL'; did you mean C"),
        ("tFAW", "#", "'dram.tFAW' is missing; add it (machines/dram/ddr4-2400.toml shows every key)"),
        ("[dram]", "[dram]\ninterleave = { value = 3, assumed = 'x' }", "interleave_block belong together"),
        ("[dram]", "[dram]\ninterleave_block = { value = '64 B', assumed = 'x' }", "belong together"),
        ("[dram]", "[dram]\ninterleave_block = { value = '96 B', assumed = 'x' }", "of at least 64 B"),
        (', source = "JESD79-4" }', " }", "state exactly one of source"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_said_with_file_line_and_field(old: str, new: str, said: str | None) -> None:
    text = DDR4.read_text()
    assert old in text
    raw = text.replace(old, new, 1).encode()
    if said is None:
        parse_dram(raw, "x.toml")
        return
    with pytest.raises(UsageError) as caught:
        parse_dram(raw, "x.toml")
    error = str(caught.value)
    assert said in error
    assert "\n" not in error
    named = re.match(r"x\.toml:(\d+): (?:unknown key )?'dram\.(\w+)", error)
    assert named is not None, error
    line = raw.decode().splitlines()[int(named[1]) - 1]
    absent = "missing" in error or "(is None)" in error
    assert line.startswith("[dram]" if absent else f"{named[2]} = "), error


def test_a_wrong_value_in_a_base_is_told_of_the_base(tmp_path: Path) -> None:
    (tmp_path / "below.toml").write_text(DDR4.read_text().replace('["17"]', '["16"]'))
    (tmp_path / "above.toml").write_text('schema = 1\nbase = "below.toml"\nname = "above"\ntitle = "x"\n')
    with pytest.raises(UsageError, match=r"below.toml:\d+: 'dram.rank'.*rank.0 \(16\) is bank_group.1"):
        load_dram(tmp_path / "above.toml")
