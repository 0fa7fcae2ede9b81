"""What the benchmarks of this folder share: the form of a figure, and the copy loop."""

import json
import subprocess
from pathlib import Path

ROOT = Path(__file__).parent.parent


def figure(name: str, value: float, unit: str, required: str = "", note: str = "") -> None:
    """Prints one figure as bench/README.md has it."""
    print(
        json.dumps({"name": name, "value": value, "unit": unit, "required": required, "note": note}),
        flush=True,
    )


def compile_copy(folder: Path) -> Path:
    """tests/programs/copy.c as a plain loop: no call of memcpy, no vectors."""
    program = folder / "copy"
    flags = ["-O2", "-fno-tree-loop-distribute-patterns", "-fno-tree-vectorize"]
    subprocess.run(["gcc", *flags, ROOT / "tests/programs/copy.c", "-o", program], check=True)
    return program
