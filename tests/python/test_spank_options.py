"""The plugin takes the same values as the Prolog, which reads them again because users can forge them."""

import ctypes
import subprocess
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from pagelens.site.job_options import JobOptions, read_options

SPANK = Path(__file__).parents[2] / "spank"
ZONESORT, PAGES = 0, 1
ROOM = 4096

_TAKE = """
#include "options.h"
int take(int option, const char* value, int here, char* into) {
    return option_descriptions[option].take(value, here, into, PATH_MAX);
}
"""


@pytest.fixture(scope="module")
def options(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    folder = tmp_path_factory.mktemp("options")
    (folder / "take.c").write_text(_TAKE)
    library = folder / "options.so"
    words = ["cc", "-std=gnu11", "-fPIC", "-shared", f"-I{SPANK}", "-o", library, folder / "take.c"]
    subprocess.run([*words, SPANK / "options.c"], check=True)
    return ctypes.CDLL(str(library))


def taken(library: ctypes.CDLL, option: int, value: str, here: bool = True) -> str | None:
    into = ctypes.create_string_buffer(ROOM)
    return into.value.decode() if library.take(option, value.encode(), int(here), into) else None


def prolog_reads(**values: str) -> JobOptions:
    given = {f"SPANK_PAGELENS_{name.upper()}": value for name, value in values.items()}
    found = read_options({"SLURM_JOB_ID": "1", "SLURM_JOB_UID": "1", **given})
    assert found is not None
    return found


VALUES = st.text(st.characters(min_codepoint=1, max_codepoint=127), max_size=8) | st.from_regex(
    r"(on|off|[0-9]{1,7}|4k|thp|2m|1g)x?\n?", fullmatch=True
)


@settings(max_examples=300)
@given(VALUES)
@example("86400")
@example("86401")
@example("00060")
@example("0")
def test_the_prolog_takes_what_the_plugin_takes(options: ctypes.CDLL, value: str) -> None:
    for option, name in ((ZONESORT, "zonesort"), (PAGES, "pages")):
        passed_on = taken(options, option, value)
        reads = prolog_reads(**{name: value})
        assert (passed_on is None) == bool(reads.ignored or not value)
        if passed_on is not None:
            assert prolog_reads(**{name: passed_on}) == reads


@settings(max_examples=100)
@given(st.integers(0, 3), st.text(st.characters(min_codepoint=1, max_codepoint=127), max_size=4095))
@example(3, "x" * 4095)
@example(2, "x" * 4094)
def test_no_value_ends_the_plugin(options: ctypes.CDLL, option: int, value: str) -> None:
    passed_on = taken(options, option, value, here=False)
    assert passed_on is None or len(passed_on) < ROOM
