"""scripts/wrapping.py divides what is too long for a line of Markdown, and leaves the rest as it is."""

from pathlib import Path
from types import ModuleType

import pytest
from hypothesis import given
from hypothesis import strategies as st

WORDS = st.lists(st.text("ab-#>|1.", min_size=1, max_size=12), min_size=1, max_size=60).map(" ".join)


@pytest.fixture(scope="module")
def wrapping() -> ModuleType:
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(Path(__file__).parents[2] / "scripts"))
        import wrapping

    return wrapping


@given(words=WORDS)
def test_words_stay_and_lines_are_short(wrapping: ModuleType, words: str) -> None:
    page = f"- item {words}\n  more\n\nparagraph {words}\n"
    found = wrapping.wrapped(page)
    assert found.split() == page.split()
    assert wrapping.long_lines(found) == []
    assert wrapping.wrapped(found) == found


def test_no_word_begins_an_item_by_chance(wrapping: ModuleType) -> None:
    found = wrapping.wrapped("word " * 19 + "word - dash and some words more")
    assert not any(line.startswith("- ") for line in found.split("\n"))


def test_tables_code_and_short_paragraphs_stay(wrapping: ModuleType) -> None:
    cells = " ".join(["cell"] * 30)
    page = f"short\nlines\n\n| {cells} |\n\n```\n{cells}\n```\n\n    {cells}\n"
    assert wrapping.wrapped(page) == page
    assert wrapping.long_lines(page) == [7, 10]  # somebody has to divide the code
