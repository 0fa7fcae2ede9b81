"""Quantities with units."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pagelens import units
from pagelens.errors import UsageError


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("17.6GB", 17_600_000_000),
        ("16GiB", 16 << 30),
        ("16 gib", 16 << 30),
        (" 64 B ", 64),
        (".5KiB", 512),
        ("1kB", 1000),
        ("0B", 0),
    ],
)
def test_sizes(text: str, size: int) -> None:
    assert units.parse_size(text) == size


@pytest.mark.parametrize(
    "text", ["16", "16G", "GB", "", "-1GB", "1e9B", "1 GB GB", "16Gb/s", "nan GB", "9" * 400 + "B"]
)
def test_what_is_not_a_size_is_refused_by_name(text: str) -> None:
    with pytest.raises(UsageError, match="--size"):
        units.parse_size(text, "--size")


def test_a_size_without_unit_says_so_and_shows_one() -> None:
    with pytest.raises(UsageError, match=r"'17\.6' has no unit.*17\.6GB"):
        units.parse_size("17.6")


def test_other_quantities() -> None:
    assert units.parse_rate("90 GB/s") == 90e9
    assert units.parse_time("154 ns") == pytest.approx(154e-9)
    assert units.parse_frequency("1.4GHz") == 1.4e9
    with pytest.raises(UsageError, match="no unit"):
        units.parse_rate("90")
    for bits in ("90 Gb/s", "90Mb/s", "1 Gib/s"):
        with pytest.raises(UsageError, match="counts bits; write a rate in bytes"):
            units.parse_rate(bits)
    assert units.parse_rate("90 gb/s") == 90e9


@pytest.mark.parametrize(
    ("value", "text"), [(17.6e9, "17.6 GB"), (999.9e6, "1 GB"), (999e6, "999 MB"), (0, "0 B"), (1, "1 B")]
)
def test_sizes_are_written_in_the_unit_that_fits(value: float, text: str) -> None:
    assert units.format_size(value) == text


def test_nothing_is_written_in_the_base_unit() -> None:
    assert units.format_time(0) == units.format_time(-1e-17) == "0 s"
    assert units.format_time(-0.0211) == "-21.1 ms"
    assert units.format_count(0) == "0"


@given(st.floats(min_value=1, max_value=1e15))
def test_a_written_size_reads_back(value: float) -> None:
    assert units.parse_size(units.format_size(value, 6)) == pytest.approx(value, rel=1e-5, abs=0.5)
