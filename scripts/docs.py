"""Writes docs/cli.md from the command line's own help, and checks the links of every Markdown page."""

import re
import subprocess
import sys
from pathlib import Path

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
    command = [sys.executable, "-m", "typer", "pagelens.cli", "utils", "docs", "--name", "pagelens"]
    return subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout


def main() -> None:
    """Entry point."""
    (ROOT / "docs" / "cli.md").write_text(cli_reference())
    print("docs: wrote docs/cli.md")
    broken = broken_links()
    for line in broken:
        print(f"docs: broken link in {line}", file=sys.stderr)
    sys.exit(1 if broken else 0)


if __name__ == "__main__":
    main()
