"""Prints a comparison as text, and as a page of documentation."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Iterator, Sequence

from pagelens.lab.compare import STATES, VARIANTS, Comparison, Row
from pagelens.spelling import typed_command
from pagelens.units import format_binary_size, format_size

Cell = Callable[[Row], str]

_STATE = 32  # columns of a state's name
_CELL = 11


def progress_line(row: Row) -> str:
    """Return the line that reports a finished row."""
    return (
        f"{row.variant.name}, footprint/cache {row.ratio:g}, {row.state}: "
        f"in conflict {row.kernel_share:.1%}, in the model {row.model_share:.1%}; "
        f"hits {row.run.total.hit_share:.1%}"
    )


def render_comparison(comparison: Comparison) -> str:
    """Return two tables and the verdict, 80 columns wide."""
    lines = [f"{head_line(comparison)}.", ""]
    for title, cell in _TABLES:
        ratios = _ratios(comparison)
        lines += [title, _text_row("footprint/cache", [f"{ratio:g}" for ratio in ratios])]
        for variant, states in _body(comparison, cell):
            lines.append(variant)
            lines += [_text_row(f"  {state}", cells) for state, cells in states]
        lines.append("")
    return "\n".join([*lines, *verdict_lines(comparison)]) + "\n"


def markdown(comparison: Comparison) -> str:
    """Return the comparison as a page of Markdown."""
    lines = [
        "# States of a node, ways to place pages: real kernel and model",
        "",
        "Do a program's pages conflict as often in the model as under a real kernel? The program was",
        f"{head_line(comparison)}. Each variant and",
        "each size of the cache has a guest of its own, which is aged by jobs of one seed. The model takes",
        "over the guest's state once, after boot, and from then on does the same steps. All figures are",
        "counted. docs/lab.md says what the states are, and by how much a cell differs from one boot to the",
        "next. This command wrote the page:",
        "",
        "```",
        " \\\n    ".join(textwrap.wrap(command_line(comparison), 90, break_on_hyphens=False)),
        "```",
        "",
    ]
    ratios = _ratios(comparison)
    for title, cell in _TABLES:
        lines += [
            f"## {title}",
            "",
            f"| footprint/cache | {' | '.join(f'{ratio:g}' for ratio in ratios)} |",
            f"|---|{'---:|' * len(ratios)}",
        ]
        for variant, states in _body(comparison, cell):
            lines.append(f"| **{variant}** |{' |' * len(ratios)}")
            lines += [f"| {state} | {' | '.join(cells)} |" for state, cells in states]
        lines.append("")
    lines += ["## Zonesort and Intel's rule", ""]
    lines += [f"- {line}" for line in verdict_lines(comparison)]
    return "\n".join(lines) + "\n"


def head_line(comparison: Comparison) -> str:
    """Return a line that says what was run, and where."""
    request = comparison.request
    return (
        f"`{' '.join(request.command)}`, {format_size(comparison.footprint_bytes)}, in "
        f"{format_binary_size(request.memory_bytes)} on Linux {comparison.release}"
    )


def command_line(comparison: Comparison) -> str:
    """Return the command that makes the same comparison again."""
    request = comparison.request
    options = {
        "memory": f"{request.memory_bytes >> 20}MiB",
        "jobs": comparison.jobs,
        "kernel": request.kernel,
        "machine": request.machine.name,
        "seed": request.seed,
        "limit": f"{request.limit_s:g}",
    }
    words = [word for name, value in options.items() for word in (f"--{name}", str(value))]
    for ratio in _ratios(comparison):
        words += ["--ratio", f"{ratio:g}"]
    compared = dict.fromkeys(row.variant.key for row in comparison.rows)
    if len(compared) < len(VARIANTS):
        words += [word for key in compared for word in ("--variant", key)]
    return typed_command(["pagelens", "lab", "compare", *words, "--", *request.command])


def verdict_lines(comparison: Comparison) -> list[str]:
    """Return whether our rule leaves at most as many conflicts as Intel's, and where it does not."""
    lines = []
    for side, share in (("kernel", _kernel_share), ("model", _model_share)):
        pairs = list(comparison.verdicts())
        above = [(intel, ours) for intel, ours in pairs if share(ours) > share(intel)]
        lines.append(
            f"Zonesort at or below Intel's rule in conflict share, {side}: "
            f"{len(pairs) - len(above)} of {len(pairs)} rows."
        )
        lines += [
            f"Above it: {ours.variant.name}, footprint/cache {ours.ratio:g}: "
            f"{share(ours):.2%}, not {share(intel):.2%}."
            for intel, ours in above
        ]
    return lines


def _kernel_share(row: Row) -> float:
    return row.kernel_share


def _model_share(row: Row) -> float:
    return row.model_share


def _shares(row: Row) -> str:
    return f"{100 * row.kernel_share:.1f} / {100 * row.model_share:.1f}"


def _hits(row: Row) -> str:
    return f"{100 * row.run.total.hit_share:.1f}"


_TABLES: tuple[tuple[str, Cell], ...] = (
    ("Share of the program's pages in conflict, %: kernel / model", _shares),
    # The kernel's clearing of new pages counts. For a page of 1 GiB this is the whole page.
    ("Hits of the memory-side cache, % of its lines: kernel, page clearing included", _hits),
)


def _ratios(comparison: Comparison) -> list[float]:
    return sorted({row.ratio for row in comparison.rows})


def _body(comparison: Comparison, cell: Cell) -> Iterator[tuple[str, list[tuple[str, list[str]]]]]:
    rows = {(row.variant, row.state, row.ratio): row for row in comparison.rows}
    ratios = _ratios(comparison)
    for variant in dict.fromkeys(row.variant for row in comparison.rows):
        yield (
            variant.name,
            [(state, [cell(rows[variant, state, ratio]) for ratio in ratios]) for state in STATES],
        )


def _text_row(name: str, cells: Sequence[str]) -> str:
    return f"{name:<{_STATE}}" + "".join(f"{cell:>{_CELL + 1}}" for cell in cells)
