"""Captured trees of /proc and /sys, a file each in tests/data/machines/trees, their machine files and audits.

A tree's parts begin with "### PATH", or "### hex PATH" where they are bytes. `python machine_trees.py` writes
the expected machine files (NAME.toml) and audits (NAME.audit.json) anew; look at the difference before it is
committed.
"""

import json
import re
from collections.abc import Sequence
from pathlib import Path

from hypothesis import strategies as st

from pagelens.audit import Audit, AuditReport, find, read_audit
from pagelens.machine import parse_machine
from pagelens.machine.detect import System, detect

TREES = Path(__file__).parents[1] / "data" / "machines" / "trees"
NAMES = tuple(path.stem for path in sorted(TREES.glob("*.tree")))


def read_tree(name: str) -> dict[str, bytes]:
    """Path -> content."""
    parts = (TREES / f"{name}.tree").read_text().split("\n### ")[1:]
    files = {}
    for part in parts:
        path, _, content = part.partition("\n")
        is_hex = path.startswith("hex ")
        files[path.removeprefix("hex ")] = bytes.fromhex(content) if is_hex else f"{content}\n".encode()
    return files


GARBAGE = st.one_of(
    st.binary(max_size=60),
    st.sampled_from(
        [b"", b"0", b"-1", b"9" * 40, b"0-99999999", b"nan", b"1024G", b"\xff\xfe", b"999999999999K"]
    ),
    st.integers(0, 1 << 70).map(lambda number: str(number).encode()),
)


@st.composite
def damaged_trees(draw: st.DrawFn, names: Sequence[str], most: int) -> dict[str, bytes]:
    """One of these trees with damage to at most so many files: gone, or garbage, or garbage in one field."""
    files = read_tree(draw(st.sampled_from(names)))
    for path in draw(st.lists(st.sampled_from(sorted(files)), min_size=1, max_size=most)):
        match draw(st.integers(0, 2)):
            case 0:
                files.pop(path, None)
            case 1:
                files[path] = draw(GARBAGE)
            case _:
                content = files.get(path, b"")
                if fields := list(re.finditer(rb"[0-9]+|: .*", content)):
                    at = draw(st.sampled_from(fields))
                    files[path] = content[: at.start()] + draw(GARBAGE) + content[at.end() :]
    return files


def lay_out(files: dict[str, bytes], root: Path) -> System:
    """The tree as a machine."""
    for path, content in files.items():
        file = root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content)
    return System(root)


def audited(system: System) -> Audit:
    """Returns what `pagelens audit --quick --root` reads."""
    return read_audit(system, parse_machine(detect(system).to_toml().encode(), "x.toml"), None)


def audit_text(audit: Audit) -> str:
    """Returns what `pagelens audit --json` prints."""
    return json.dumps(AuditReport(audit, find(audit)).to_json(), indent=1) + "\n"


if __name__ == "__main__":
    import tempfile

    for name in NAMES:
        with tempfile.TemporaryDirectory() as folder:
            system = lay_out(read_tree(name), Path(folder))
            (TREES / f"{name}.toml").write_text(detect(system).to_toml())
            if "proc/buddyinfo" in read_tree(name):
                (TREES / f"{name}.audit.json").write_text(audit_text(audited(system)))
