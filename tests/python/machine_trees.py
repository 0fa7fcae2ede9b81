"""Captured trees of /proc and /sys, a file each in tests/data/machines/trees, their machine files and audits.

A tree's parts begin with "### PATH", or "### hex PATH" where they are bytes. `python machine_trees.py` writes
the expected machine files (NAME.toml) and audits (NAME.audit.json) anew; look at the difference before it is
committed.
"""

import json
from pathlib import Path

from pagelens.audit import Audit, find, read_audit
from pagelens.audit.command import to_json
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


def lay_out(files: dict[str, bytes], root: Path) -> System:
    """The tree as a machine."""
    for path, content in files.items():
        file = root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content)
    return System(root)


def audited(system: System) -> Audit:
    """As `pagelens audit --quick --root` reads it."""
    return read_audit(system, parse_machine(detect(system).to_toml().encode(), "x.toml"), None)


def audit_text(audit: Audit) -> str:
    """As `pagelens audit --json` prints it."""
    return json.dumps(to_json(audit, find(audit)), indent=1) + "\n"


if __name__ == "__main__":
    import tempfile

    for name in NAMES:
        with tempfile.TemporaryDirectory() as folder:
            system = lay_out(read_tree(name), Path(folder))
            (TREES / f"{name}.toml").write_text(detect(system).to_toml())
            if "proc/buddyinfo" in read_tree(name):
                (TREES / f"{name}.audit.json").write_text(audit_text(audited(system)))
