"""Lists of pages: what a file states, whatever its form, and one line of error for everything else."""

import json
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pagelens.address.pages import Pages, parse_pages, read_pages
from pagelens.errors import UsageError

MIB = 1 << 20
TEXT = b"""# three pages of 2 MiB
0x1c0000000
1835520        # a frame number: 0x1c0200000
0X1C0400000
"""


def stated(pages: Pages) -> list[tuple[int, int, int | None]]:
    cores = pages.cores.tolist() if pages.cores is not None else [None] * len(pages.sizes)
    return list(zip(pages.addresses.tolist(), pages.sizes.tolist(), cores, strict=True))


def test_addresses_and_frame_numbers() -> None:
    expected = [(address, 2 * MIB, None) for address in (0x1C0000000, 0x1C0200000, 0x1C0400000)]
    assert stated(parse_pages(TEXT, "pages.txt")) == expected


def test_cores_in_a_second_column() -> None:
    pages = parse_pages(b"0x0 3\n0x200000,0\n\n  0x400000\t17\n", "pages.txt")
    assert stated(pages) == [(0, 2 * MIB, 3), (2 * MIB, 2 * MIB, 0), (4 * MIB, 2 * MIB, 17)]


@given(
    st.lists(st.integers(0, (1 << 30) - 1), min_size=1, max_size=50, unique=True), st.booleans(), st.data()
)
def test_text_and_json_state_the_same(frames: list[int], with_cores: bool, data: st.DataObject) -> None:
    cores = [data.draw(st.integers(0, 4095)) if with_cores else None for _ in frames]
    as_address = [data.draw(st.booleans()) for _ in frames]
    lines, entries = [], []
    for frame, core, address in zip(frames, cores, as_address, strict=True):
        lines.append(f"{frame * 4096:#x}" if address else str(frame))
        entries.append({"address": f"{frame * 4096:#x}"} if address else {"frame": frame})
        if core is not None:
            lines[-1] += f" {core}"
            entries[-1]["core"] = core
    text = parse_pages("\n".join(lines).encode(), "pages.txt", "4KiB")
    from_json = parse_pages(json.dumps({"page_size": "4 KiB", "pages": entries}).encode(), "pages.json")
    expected = [(frame * 4096, 4096, core) for frame, core in zip(frames, cores, strict=True)]
    assert stated(text) == stated(from_json) == expected


def test_the_option_decides_the_size_and_the_file_otherwise() -> None:
    raw = b'{"page_size": "1GiB", "pages": [{"frame": 0}]}'
    assert parse_pages(raw, "pages.json").sizes.tolist() == [1 << 30]
    assert parse_pages(raw, "pages.json", "4KiB").sizes.tolist() == [4096]


@pytest.mark.parametrize(
    ("raw", "named"),
    [
        (b"", "p: no page in it; list one physical address a line"),
        (b"# nothing\n\n", "p: no page in it"),
        (
            b"0x0\n0x1000",
            "p:2: 0x1000 is no multiple of the page, 2 MiB; give the page's first address, or --page-s",
        ),
        (b"0x0\n512\n0x200000", "p:3: page 0x200000 is in p:2, too; list it once"),
        (b"0x0 1\n512", "p:2: a core stands beside some pages only"),
        (b"0x0\n512 1", "p:2: a core stands beside some pages only"),
        (b"0x0 1 2", "p:1: 3 columns; write an address and, if you like, a core"),
        (b"0x0 one", "p:1: 'one' is no core; write a number from 0 to 4095"),
        (b"0x0 4096", "p:1: '4096' is no core"),
        (
            b"\n1c0000000",
            "p:2: '1c0000000' is neither a physical address, such as 0x1c0000000, nor the number",
        ),
        (b"-1", "p:1: '-1' is neither"),
        (b"0x10000000000000", "p:1: 0x10000000000000: physical addresses lie below 0x10000000000000"),
        (b"9999999999999999", "physical addresses lie below"),
        (b"0x0\n\xff", "p:2: not text; list one physical address a line, or JSON"),
        (
            b"[1]",
            'p: the file: Input should be an object; write {"pages": [{"address": "0x1c0000000"}, ...]}',
        ),
        (b'{"pages": [', "p: the file: Invalid JSON"),
        (b'{"pages": []}', "p: no page in it"),
        (b'{"frames": []}', "p: pages: Field required"),
        (b'{"pages": [{"frame": 0, "cpu": 1}]}', "p: pages.0.cpu: Extra inputs are not permitted"),
        (b'{"pages": [{"frame": 0}, {}]}', "p: pages.1: state either address or frame"),
        (b'{"pages": [{"frame": 0, "address": "0x0"}]}', "p: pages.0: state either address or frame"),
        (b'{"pages": [{"address": "0"}]}', "p: pages.0: '0' is no address"),
        (b'{"pages": [{"frame": -1}]}', "p: pages.0.frame: Input should be greater than or equal to 0"),
        (b'{"pages": [{"frame": 1}]}', "p: pages.0: 0x1000 is no multiple of the page"),
        (b'{"page_size": "3MiB", "pages": []}', "p: page_size 3MiB: a power of two from 4KiB to 1GiB"),
        (b'{"page_size": "2", "pages": []}', "p: page_size: '2' has no unit"),
    ],
)
def test_errors_name_place_and_remedy(raw: bytes, named: str) -> None:
    with pytest.raises(UsageError) as error:
        parse_pages(raw, "p")
    assert named in str(error.value)


def test_what_cannot_be_read(tmp_path) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(
        UsageError, match=r"--pool: cannot read .*none \(No such file or directory\); name a read"
    ):
        read_pages(tmp_path / "none", None, "--pool")
    with pytest.raises(UsageError, match="--frames: cannot read"):
        read_pages(tmp_path, None, "--frames")
    with pytest.raises(UsageError, match="--page-size 5MiB: a power of two"):
        parse_pages(b"0x0", "p", "5MiB")


SEEDS = (
    TEXT,
    b"0x0 0\n0x200000 1\n0x400000 2\n",
    b'{"page_size": "2MiB", "pages": [{"address": "0x1c0000000", "core": 1}, {"frame": 512, "core": 0}]}',
)
TOKENS = (
    *(bytes([c]) for c in b'[]{}",:#\n\t\0 -+.x0129'),
    b"0x", b"true", b"null", b"NaN", b"1e999", b"9" * 30, b'"core"', b'"frame"', b'"pages"', b"\xc3\xa9",
    b"\xff", b"[" * 2000, b'"2MiB"', b'"\\ud800"',
)  # fmt: skip


def mutant(draw: random.Random) -> bytes:
    data = draw.choice(SEEDS)
    for _ in range(draw.randint(1, 6)):
        at, end = sorted(draw.randrange(len(data) + 1) for _ in range(2))
        match draw.randrange(4):
            case 0:
                data = data[:at] + bytes([draw.randrange(256)]) + data[at + 1 :]
            case 1:
                data = data[:at] + draw.choice(TOKENS) + data[at:]
            case 2:
                data = data[:at] + data[end:]
            case _:
                data = data[:end] + data[at:]
    return data


def is_accepted(data: bytes) -> bool:
    try:
        pages = parse_pages(data, "fuzz.txt")
    except UsageError as error:
        text = str(error)
    else:
        assert len(pages.addresses) == len(pages.sizes) > 0
        return True
    assert text.startswith("fuzz.txt")
    assert text.isprintable()
    assert len(text) < 600
    return False


def test_any_bytes_give_pages_or_one_line() -> None:
    draw = random.Random(1)
    accepted = sum(is_accepted(mutant(draw)) for _ in range(5000))
    assert 0 < accepted < 5000


@given(st.binary(max_size=300))
def test_garbage_gives_pages_or_one_line(data: bytes) -> None:
    is_accepted(data)
