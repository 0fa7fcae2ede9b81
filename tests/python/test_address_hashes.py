"""The address hashes that come with pagelens: equal to published tables, balanced, and read with care."""

import hashlib

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pagelens.address.hashes import list_hashes, load_hash, parse_hash
from pagelens.errors import UsageError

# Digests of the tables that J. D. McCalpin measured and published (TACC report TR-2021-03,
# doi:10.26153/tsw/14539; github.com/jdmccalpin/Intel_Address_Hash, folder Results, commit 88912ea): entries
# of the base sequence, the highest address bit, and SHA-256 over the slices, a byte each, of the lines of the
# first `entries` lines, then of as many lines from 2^bit on for each bit from log2(64 x entries) up. As the
# tables' own rule is linear in these bits, equality here is equality for every address.
TABLES = {
    "icx-28": (16384, 37, "4d0d8173d8b5b30ce763725ba0e1606150beb3b4c65f57d7858387663a743961"),
    "icx-40": (512, 37, "9d39245986e28415ed6debfa05c3929315924b6d9685363c81b7adf61fde6ccd"),
    "knl-38": (4096, 37, "8e7e54639290a29cd285ea04a4d016141aa440f33f61d3ea517af2466dfe4008"),
    "skx-14": (16384, 37, "faadd61e442bc7f444dc771ed0e0fececdec660699acc9fb803c6f1a1f2d4040"),
    "skx-16": (16, 37, "61b0a400eaf352a76887a2706ed4b2b19249063792657829332141eb3078b8df"),
    "skx-18": (4096, 37, "ab6ac8533df93352c2c6550f6596e820f925fe2db2bf9006d24547b0ec3e155c"),
    "skx-20": (256, 37, "5cca7eae0c82c315575d3e06101548545cc51696329708b436454b6b914e7fce"),
    "skx-22": (16384, 37, "d7d0d719aadcdc45608b42b3d91821a7cab62b07363184c6410dec00ad31d33a"),
    "skx-24": (512, 37, "b9c6299be5a7d1d6cc93bbd6ac6b13dde1274ed8ec4b671a7dea4253e757ed2c"),
    "skx-26": (16384, 37, "129cca096e07273dbec0ce2f382f9218613571947a8a57685eb6f6e7f4984451"),
    "skx-28": (4096, 37, "d473f3fb77abc2bc09eac9f6c0cb76ff1ea30c8d29167373fc38e122e568de00"),
    "spr-56": (16384, 36, "3251f49b95ece7000e7ffa5b4c0b6fb8c2cf403ebd4779c5f4dbeb13f9a91cd3"),
    "spr-60": (16384, 37, "6c7eff44ddec250f0bb9f51183783eea49060d0963a353903573d8f2066580cd"),
}

# Skylake's memory channels and the bit that their turns begin at (Linux, drivers/edac/skx_base.c).
CHANNELS = {"skx-channel-64b": 6, "skx-channel-256b": 8, "skx-channel-4kib": 12}


def table_lines(entries: int, highest_bit: int) -> np.ndarray:
    """The addresses that a digest is of, in its order."""
    lines = np.arange(entries, dtype=np.uint64) * 64
    lowest = (64 * entries).bit_length() - 1
    starts = [0, *(1 << bit for bit in range(lowest, highest_bit + 1))]
    return np.concatenate([lines + np.uint64(start) for start in starts])


def test_every_hash_is_tested() -> None:
    assert set(list_hashes()) == {*TABLES, *CHANNELS}


@pytest.mark.parametrize("name", TABLES)
def test_equal_to_the_published_table(name: str) -> None:
    entries, highest_bit, digest = TABLES[name]
    stated = load_hash(name)
    slices = stated.hash()(table_lines(entries, highest_bit))
    assert stated.highest_bit == highest_bit
    assert stated.values == int(name.split("-")[1])
    assert hashlib.sha256(slices.astype(np.uint8).tobytes()).hexdigest() == digest


@pytest.mark.parametrize("name", TABLES)
def test_every_slice_gets_its_share(name: str) -> None:
    """Equal ones where slices are a power of two; of 22, one gets 0.69 of that, as on the processor."""
    stated = load_hash(name)
    lines = 1 << 20
    shares = np.bincount(stated.hash()(np.arange(lines, dtype=np.uint64) * 64)) / (lines / stated.values)
    assert len(shares) == stated.values
    assert 2 / 3 < shares.min() <= shares.max() < 1.08
    if stated.values & (stated.values - 1) == 0:
        assert set(shares) == {1.0}


@given(st.sampled_from(sorted(CHANNELS)), st.integers(0, (1 << 40) - 1), st.integers(1, 2000))
def test_channels_take_turns(name: str, first: int, units: int) -> None:
    """Equal to a plain count modulo 3, and of neighbouring units no channel has two more than another."""
    channels, shift = load_hash(name).hash(), CHANNELS[name]
    assert channels.values == 3
    start = first >> shift << shift
    found = channels(np.uint64(start) + (np.arange(units, dtype=np.uint64) << np.uint64(shift)))
    slow = [(start // 2**shift + unit) % 3 for unit in range(units)]
    assert found.tolist() == slow
    shares = np.bincount(found, minlength=3)
    assert shares.max() - shares.min() <= 1


@given(st.sampled_from(sorted(CHANNELS)), st.lists(st.integers(0, (1 << 46) - 1), min_size=1))
def test_channel_and_address_in_it_are_a_bijection(name: str, addresses: list[int]) -> None:
    """The address in the channel is what skx_do_interleave() of the same driver gives."""
    shift = CHANNELS[name]
    given_addresses = np.array(addresses, dtype=np.uint64)
    channel = load_hash(name).hash()(given_addresses).tolist()
    in_channel = [(a >> shift) // 3 << shift | a % (1 << shift) for a in addresses]
    back = [
        ((a >> shift) * 3 + c) << shift | a % (1 << shift) for a, c in zip(in_channel, channel, strict=True)
    ]
    assert back == addresses


@given(st.sampled_from(sorted(TABLES)), st.data())
def test_a_changed_mask_is_noticed(name: str, data: st.DataObject) -> None:
    entries, highest_bit, digest = TABLES[name]
    text = list_hashes()[name].read_text()
    masks = [word for word in text.split('"') if word.startswith("0x")]
    mask = data.draw(st.sampled_from(masks))
    bit = data.draw(st.integers(6, highest_bit))
    changed = text.replace(mask, hex(int(mask, 16) ^ 1 << bit), 1)
    try:
        slices = parse_hash(changed.encode(), "changed.toml").hash()(table_lines(entries, highest_bit))
    except UsageError:
        return  # nothing left of it
    assert hashlib.sha256(slices.astype(np.uint8).tobytes()).hexdigest() != digest


@pytest.mark.parametrize(
    ("old", "new", "named"),
    [
        ("values = 60", "values = 61", "'the file': values = 61, but the form has 60"),
        ("group_values = 15", "", "group and group_values belong together"),
        ("keep_bits = 1", "", "spr-60.toml:15: 'level.1': high, threshold and keep_bits belong together"),
        ("threshold = 42", "threshold = 64", "threshold 64 must be from 2^keep_bits to what 6 bits reach"),
        ("highest_bit = 37", "highest_bit = 36", "a mask has a bit above highest_bit = 36"),
        ('"0x14c896c740"', "0x14c896c740", "no mask of address bits"),
        ('"0x14c896c740"', '"0"', "spr-60.toml:16: 'level.1.low.0' (is '0'): Input should be greater than 0"),
        (
            "keep_bits",
            "kept_bits",
            "spr-60.toml:19: unknown key 'level.1.kept_bits'; did you mean",
        ),
    ],
)
def test_errors_name_line_and_field(old: str, new: str, named: str) -> None:
    text = list_hashes()["spr-60"].read_text()
    assert old in text
    with pytest.raises(UsageError) as error:
        parse_hash(text.replace(old, new).encode(), "spr-60.toml")
    assert named in str(error.value)


@pytest.mark.parametrize(
    ("old", "new", "named"),
    [
        (
            "divisor = 3",
            "divisor = 2",
            "'level.0.modulo.divisor' (is 2): Input should be greater than or equal to 3",
        ),
        ("shift = 8", "shift = 56", "'level.0.modulo.shift' (is 56): Input should be less than 56"),
        ("shift = 8", "shift = 46", "a modulo's shift lies above highest_bit = 45"),
        ("shift = 8, ", "", "skx-channel-256b.toml:12: 'level.0.modulo.shift' is missing"),
        ("shift", "bit", "skx-channel-256b.toml:12: unknown key 'level.0.modulo.bit'; did you mean"),
        ("values = 3", "values = 2", "the last level reaches 2, which must be below 2"),
        (
            "modulo =",
            'high = ["0x40", "0x80"]\nthreshold = 3\nkeep_bits = 1\nmodulo =',
            "a level has high or modulo above its low bits; state one of them",
        ),
    ],
)
def test_errors_of_remainders(old: str, new: str, named: str) -> None:
    text = list_hashes()["skx-channel-256b"].read_text()
    assert old in text
    with pytest.raises(UsageError) as error:
        parse_hash(text.replace(old, new).encode(), "skx-channel-256b.toml")
    assert named in str(error.value)


def test_an_unknown_name_gets_the_nearest() -> None:
    with pytest.raises(UsageError, match="'skx-25' is unknown; did you mean skx-2"):
        load_hash("skx-25")
