"""Machines are named in their files and in machine_roles.py, so that one can be renamed or dropped."""

import re
from pathlib import Path

from pagelens.machine import list_machines

ROOT = Path(__file__).parents[2]


def test_no_machine_is_named_in_tests_or_front_pages() -> None:
    named = re.compile(rf"(?<![\w-])(?:{'|'.join(map(re.escape, list_machines()))})\b")
    sources = [each for suffix in ("py", "cpp", "hpp", "c") for each in (ROOT / "tests").rglob(f"*.{suffix}")]
    assert len(sources) > 100
    found = {
        f"{path.relative_to(ROOT)}: {name}"
        for path in (ROOT / "README.md", ROOT / "docs" / "README.md", *sources)
        if path.name != "machine_roles.py"
        for name in named.findall(path.read_text())
    }
    assert not found
