"""Tables of results as Markdown pages: what `make bench` and `make test-long` leave in docs/results/."""

import subprocess
from collections.abc import Iterable, Sequence
from pathlib import Path

from wrapping import write_page


def write_table(
    path: Path,
    title: str,
    introduction: str,
    columns: Sequence[str],
    rows: Iterable[Sequence[str]],
    after: str = "",
) -> None:
    """Writes the page, whole or not at all; a column whose name begins with ">" is of numbers.

    `introduction` stands before the table, `after` below it.
    """
    lines = [
        f"# {title}",
        "",
        introduction,
        "",
        _row([column.removeprefix(">") for column in columns]),
        "|" + "|".join("---:" if column.startswith(">") else "---" for column in columns) + "|",
        *map(_row, rows),
        *after.splitlines(),
    ]
    write_page(path, "\n".join(lines) + "\n")


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def commit() -> str:
    """Return the commit that the results stem from, and say whether the tree differs from it."""
    root = Path(__file__).parent.parent
    git = ["git", "-C", str(root), "describe", "--always", "--dirty", "--abbrev=10"]
    found = subprocess.run(git, capture_output=True, text=True, check=False)
    return found.stdout.strip() or "unknown"
