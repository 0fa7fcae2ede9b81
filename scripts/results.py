"""Tables of results as Markdown pages: what `make bench` and `make test-long` leave in docs/results/."""

from collections.abc import Iterable, Sequence
from pathlib import Path


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
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_suffix(".partial")
    partial.write_text("\n".join(lines) + "\n")
    partial.rename(path)


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"
