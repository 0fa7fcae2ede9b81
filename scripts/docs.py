"""Writes the generated pages of docs/, and checks the links of every Markdown page."""

import argparse
import re
import subprocess
import sys
from pathlib import Path

from pagelens.explain.schema import json_reference, json_schema
from pagelens.machine.reference import schema_reference

ROOT = Path(__file__).parent.parent
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


def main() -> None:
    """Entry point."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing; fail where something is stale")
    arguments = parser.parse_args()
    generated = {
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
