"""Writes the generated pages of docs/, and checks the links of every Markdown page."""

import argparse
import inspect
import re
import subprocess
import sys
import textwrap
from pathlib import Path

import pagelens
from pagelens.explain.schema import json_reference, json_schema
from pagelens.machine.reference import schema_reference

ROOT = Path(__file__).parent.parent
LISTED = ("pagelens.api", "pagelens.accesses.trace_recorder")  # whose classes' members are shown
LINK = re.compile(r"\[[^\]]*\]\(([^)#\s]+)[^)]*\)")


def pages() -> list[Path]:
    """Every Markdown page that git knows or would know."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "*.md"]
    listed = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout
    return [ROOT / name for name in listed.splitlines()]


def broken_links() -> list[str]:
    """The relative links that lead nowhere, as `page: target`."""
    return [
        f"{page.relative_to(ROOT)}: {target}"
        for page in pages()
        for target in LINK.findall(page.read_text())
        if "://" not in target and not (page.parent / target).exists()
    ]


def cli_reference() -> str:
    """The help of every command, as Markdown."""
    command = [sys.executable, "-m", "typer", "pagelens.cli.main", "utils", "docs", "--name", "pagelens"]
    return subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout


def api_reference() -> str:
    """Every function and class that `import pagelens` offers, as Markdown."""
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
        lines += [text.strip()]
        if example:
            lines += ["", "```python", *f">>> {example}".splitlines(), "```"]
    else:
        lines += ["Every policy by name: " + ", ".join(f"`{key}`" for key in thing) + "."]
    if inspect.isclass(thing):
        members = vars(thing) if thing.__module__.startswith(LISTED) else {}
        for member, value in members.items():
            value = value.fget if isinstance(value, property) else value
            if inspect.isfunction(value) and not member.startswith("_"):
                lines += ["", f"- `.{member}`: {' '.join((inspect.getdoc(value) or '').split())}"]
    return _wrapped(lines)


def _signature(name: str, thing: object) -> list[str]:
    """With a parameter a line, where one line would be too long."""
    signature = inspect.signature(thing)  # type: ignore[arg-type]
    shown = [str(each).replace("pagelens.", "") for each in signature.parameters.values()]
    parameters = [re.sub(r"<function (\w+) at 0x[0-9a-f]+>", r"\1", each) for each in shown]
    whole = f"{name}({', '.join(parameters)})"
    return [whole] if len(whole) <= 100 else [f"{name}(", *(f"    {each}," for each in parameters), ")"]


def _wrapped(lines: list[str]) -> list[str]:
    """Paragraphs in lines of at most 100 columns; code as it is."""
    wrapped: list[str] = []
    parts = re.split(r"(```.*?```)", "\n".join(lines), flags=re.DOTALL)
    for number, part in enumerate(parts):
        if number % 2:
            wrapped += part.splitlines()
            continue
        for paragraph in re.split(r"(\n\s*\n|(?<=`)\n)", part):
            text = " ".join(paragraph.split())
            wrapped += textwrap.wrap(text, 100, break_on_hyphens=False) or [""]
    return re.sub(r"\n{3,}", "\n\n", "\n".join(wrapped)).rstrip("\n").splitlines()


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
        page = ROOT / "docs" / name
        if not arguments.check:
            page.write_text(text)
        elif not page.exists() or page.read_text() != text:
            faults.append(f"docs/{name} is not what the code says; run: make docs")
    faults += [f"broken link in {link}" for link in broken_links()]
    for fault in faults:
        print(f"docs: {fault}", file=sys.stderr)
    sys.exit(1 if faults else 0)


if __name__ == "__main__":
    main()
