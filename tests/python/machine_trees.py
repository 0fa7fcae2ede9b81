"""Captured trees of /proc and /sys, a file each in tests/data/machines/trees, and their machine files.

A tree's parts begin with "### PATH", or "### hex PATH" where they are bytes. `python machine_trees.py` writes
the expected machine files anew; look at the difference before it is committed.
"""

from pathlib import Path

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


if __name__ == "__main__":
    import tempfile

    for name in NAMES:
        with tempfile.TemporaryDirectory() as folder:
            text = detect(lay_out(read_tree(name), Path(folder))).to_toml()
        (TREES / f"{name}.toml").write_text(text)
