"""Replacement policies have their names from core/machine/replacement/policies.hpp, also in machine files."""

import re
from pathlib import Path

import pytest
from machine_roles import SNOOP_FILTER

from pagelens import _core
from pagelens.machine import load_machine
from pagelens.machine.caches import L3, Levels, build_caches

ROOT = Path(__file__).parents[2]
POLICIES = ROOT / "core/machine/replacement"
EXAMPLES = ROOT / "tests/cpp/examples"
HEADING = "## A cache replacement policy\n"


def names_in_the_headers() -> set[str]:
    name = re.compile(r'string_view name = "(\w+)"')
    return {found for path in POLICIES.glob("*.hpp") for found in name.findall(path.read_text())}


def l3_with(replacement: str) -> L3:
    values = {
        "size": "704 KiB",
        "ways": 11,
        "slices": 1,
        "inclusion": "victim",
        "replacement": replacement,
        "latency": "28 ns",
    }
    return L3.model_validate({key: {"value": value, "assumed": "a test"} for key, value in values.items()})


def test_every_header_is_registered() -> None:
    assert set(_core.Replacement.__members__) == names_in_the_headers()


@pytest.mark.parametrize("name", sorted(_core.Replacement.__members__))
@pytest.mark.parametrize("ideal", [frozenset(), frozenset({"l3"})])
def test_every_policy_builds_a_cache_and_its_ideal_twin(name: str, ideal: frozenset[str]) -> None:
    machine, l3 = load_machine(SNOOP_FILTER), l3_with(name)
    levels = Levels(simulate_l1=False, ideal=ideal)
    caches = build_caches(2, machine.l1, machine.l2, None, l3, None, levels, seed=1)
    assert caches.cores == 2


def test_an_unknown_policy_is_refused_with_the_names_of_those_known() -> None:
    with pytest.raises(ValueError, match="'lru', 'tree_plru'"):
        l3_with("mru")


def test_the_example_of_the_documentation_is_the_one_that_the_tests_compile() -> None:
    (section,) = (
        text.split(HEADING)[1].split("\n## ")[0]
        for text in (page.read_text() for page in (ROOT / "docs").glob("extending*.md"))
        if HEADING in text
    )
    blocks = dict(re.findall(r"^`([\w./]+)`\n```cpp\n(.*?)^```$", section, re.MULTILINE | re.DOTALL))
    files = [path for path in EXAMPLES.rglob("*") if path.is_file()]
    assert blocks == {str(path.relative_to(EXAMPLES)): path.read_text() for path in files}
    line = re.compile(r"^using ReplacementPolicies = std::variant<(.*)>;$", re.MULTILINE)
    (shown,), (registered,) = line.findall(section), line.findall((POLICIES / "policies.hpp").read_text())
    assert shown.endswith(", Nru")
    assert registered.startswith(shown.removesuffix(", Nru"))
