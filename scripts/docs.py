"""Writes the generated pages of docs/, and checks the links and the columns of every Markdown page.

Paragraphs that are too long are wrapped; a fault names what has to be done by hand.
"""

import argparse
import html
import inspect
import re
import subprocess
import sys
from pathlib import Path

from wrapping import COLUMNS, long_lines, wrapped, write_page

import pagelens
from pagelens.explain.schema import json_reference, json_schema
from pagelens.machine.reference import schema_reference

ROOT = Path(__file__).parent.parent
LISTED = (
    "pagelens.api",
    "pagelens.accesses.trace_recorder",
    "pagelens.study",
)  # whose classes' members are shown
LINK = re.compile(r"\[[^\]]*\]\(([^)#\s]+)[^)]*\)")


def pages() -> list[Path]:
    """Return every Markdown page that git knows or would know."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "*.md"]
    listed = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout
    return [ROOT / name for name in listed.splitlines()]


def broken_links() -> list[str]:
    """Return the relative links that lead nowhere, as `page: target`."""
    return [
        f"{page.relative_to(ROOT)}: {target}"
        for page in pages()
        for target in LINK.findall(page.read_text())
        if "://" not in target and not (page.parent / target).exists()
    ]


def cli_reference() -> str:
    """Return the help of every command, as Markdown.

    Typer escapes characters that need no escape in Markdown, and cuts the first lines of commands in lists.
    """
    command = [sys.executable, "-m", "typer", "pagelens.cli.main", "utils", "docs", "--name", "pagelens"]
    listed = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout
    text = html.unescape(listed)
    first_lines = dict(re.findall(r"^#+ `(pagelens[^`]*)`\n\n([^\n]+)$", text, re.MULTILINE))
    lines, of = [], ""
    for line in text.splitlines():
        if heading := re.fullmatch(r"#+ `(pagelens[^`]*)`", line):
            of = heading[1]
        item = re.fullmatch(r"\* `([^` ]+)`: .*\.\.\.", line)
        if item:
            line = f"* `{item[1]}`: {first_lines[f'{of} {item[1]}']}"
        lines.append(re.sub(r"^    ([a-z0-9-]+): ", r"* `\1`: ", line))
    return "\n".join(lines) + "\n"


def api_reference() -> str:
    """Return every function and class that `import pagelens` offers, as Markdown."""
    head = (pagelens.__doc__ or "").splitlines()[0]
    lines = ["# The Python API", "", head, "", "```python", "import pagelens as pl", "```"]
    names = sorted(pagelens.__all__, key=lambda name: (name[0].isupper(), name))
    functions = [name for name in names if inspect.isroutine(_offered(name))]
    rest = [name for name in names if name not in functions]
    for heading, of_heading in (("Functions", functions), ("Classes and tables", rest)):
        lines += ["", f"## {heading}"]
        for name in of_heading:
            lines += _reference(name, _offered(name))
    return "\n".join(lines) + "\n"


def _offered(name: str) -> object:
    return inspect.unwrap(getattr(pagelens, name))


def _reference(name: str, thing: object) -> list[str]:
    lines = ["", f"### `{name}`"]
    if inspect.isroutine(thing):
        lines += ["```python", *_signature(name, thing), "```"]
    if not isinstance(thing, dict):
        text, _, example = (inspect.getdoc(thing) or "").partition("\n>>> ")
        lines += ["", *_sections_as_lists(text.strip()).splitlines()]
        if example:
            lines += ["", "```python", *f">>> {example}".splitlines(), "```"]
    else:
        lines += ["", "Every policy by name: " + ", ".join(f"`{key}`" for key in thing) + "."]
    if inspect.isclass(thing):
        members = vars(thing) if thing.__module__.startswith(LISTED) else {}
        for member, value in members.items():
            value = value.fget if isinstance(value, property) else value
            if inspect.isfunction(value) and not member.startswith("_"):
                lines += ["", f"- `.{member}`: {' '.join((inspect.getdoc(value) or '').split())}"]
    return lines


def _signature(name: str, thing: object) -> list[str]:
    """Return the call, with each parameter in a line of its own if one line would be too long."""
    signature = inspect.signature(thing)  # type: ignore[arg-type]
    shown = [str(each).replace("pagelens.", "") for each in signature.parameters.values()]
    parameters = [re.sub(r"<function (\w+) at 0x[0-9a-f]+>", r"\1", each) for each in shown]
    parameters = [re.sub(r"\b(?:collections\.abc|contextlib)\.", "", each) for each in parameters]
    whole = f"{name}({', '.join(parameters)})"
    if len(whole) <= COLUMNS:
        return [whole]
    return [f"{name}(", *(f"    {each}," for each in parameters), ")"]


def _sections_as_lists(text: str) -> str:
    """Return a docstring whose sections, such as `Args:`, are lists."""
    lines: list[str] = []
    in_section = False
    for line in text.splitlines():
        if re.fullmatch(r"(Args|Raises|Returns):", line):
            in_section = True
            lines += [line, ""]
        elif in_section and (entry := re.fullmatch(r"    (\w+): (.*)", line)):
            lines.append(f"- `{entry[1]}`: {entry[2]}")
        elif in_section and line.startswith("      "):
            lines.append(f"  {line.strip()}")
        else:
            in_section = in_section and not line
            lines.append(line)
    return "\n".join(lines)


def main() -> None:
    """Entry point."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing; fail where something is stale")
    arguments = parser.parse_args()
    generated = {
        "api.md": api_reference(),
        "cli.md": cli_reference(),
        "explain-json.md": json_reference(),
        "explain-schema.json": json_schema(),
        "machine-schema.md": schema_reference(),
    }
    faults = []
    for name, text in generated.items():
        page, text = ROOT / "docs" / name, wrapped(text) if name.endswith(".md") else text
        if not arguments.check:
            page.write_text(text)
        elif not page.exists() or page.read_text() != text:
            faults.append(f"docs/{name} is not what the code says; run: make docs")
    for page in pages():
        text = page.read_text()
        if not arguments.check and text != wrapped(text):
            write_page(page, text)
        elif long := long_lines(text):
            where = f"{page.relative_to(ROOT)}:{long[0]}"
            remedy = "run: make docs" if text != wrapped(text) else "divide it"
            faults.append(f"{where} has more than {COLUMNS} columns; {remedy}")
    faults += [f"broken link in {link}" for link in broken_links()]
    for fault in faults:
        print(f"docs: {fault}", file=sys.stderr)
    sys.exit(1 if faults else 0)


if __name__ == "__main__":
    main()
