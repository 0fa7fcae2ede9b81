"""Wraps Markdown at 100 columns. Rows of tables may be longer, since they cannot be divided.

Only paragraphs with a line that is too long change. mdformat would rewrite lists and escapes of all others.
"""

import re
import textwrap
from pathlib import Path

COLUMNS = 100
_ITEM = re.compile(r"( *(?:[-*+]|\d+[.)]) +)")
_NEVER_FIRST = re.compile(r" (?=(?:[-*+#>|]|\d+[.)]) )")  # such a word would begin an item or a heading
_GLUE = "\x01"


def write_page(path: Path, text: str) -> None:
    """Write a page with its paragraphs wrapped, whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_suffix(".partial")
    partial.write_text(wrapped(text))
    partial.rename(path)


def long_lines(text: str) -> list[int]:
    """Return the numbers of the lines that are too long, although they could be divided."""
    return [
        number
        for number, line in enumerate(text.splitlines(), 1)
        if len(line) > COLUMNS and not line.lstrip().startswith("|") and " " in line.strip()
    ]


def wrapped(text: str) -> str:
    """Return the text with every paragraph or list item wrapped that has a line which is too long."""
    lines: list[str] = []
    block: list[str] = []
    in_code = False
    for line in text.split("\n"):
        is_fence = line.lstrip().startswith("```")
        is_text = not (in_code or is_fence or not line.strip() or line.lstrip().startswith(("|", "#", "<")))
        in_code ^= is_fence
        if not is_text or _ITEM.match(line):
            lines += _wrapped_block(block)
            block = []
        if is_text and (block or not line.startswith("    ")):  # else it is indented code
            block.append(line)
        else:
            lines.append(line)
    return "\n".join(lines + _wrapped_block(block))


def _wrapped_block(block: list[str]) -> list[str]:
    """Return a paragraph or a list item with shorter lines, or as it is if none is too long."""
    if not long_lines("\n".join(block)):
        return block
    first = block[0]
    item = _ITEM.match(first)
    head = item[0] if item else first[: len(first) - len(first.lstrip())]
    words = " ".join(line.strip() for line in block)[len(head.strip()) :].strip()
    lines = textwrap.wrap(
        _NEVER_FIRST.sub(_GLUE, words),
        COLUMNS,
        initial_indent=head,
        subsequent_indent=" " * len(head),
        break_long_words=False,
        break_on_hyphens=False,
    )
    return [line.replace(_GLUE, " ") for line in lines]
