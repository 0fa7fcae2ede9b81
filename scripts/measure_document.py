"""Writes docs/results/measure.md: what the machine that this runs on shows, made by `pagelens measure`."""

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from wrapping import write_page

SECTIONS = (
    (
        "stream",
        "STREAM over page maps",
        "stream --trials 12 --retries 1 --page-size 4k,thp",
    ),
    (
        "latency",
        "Latency over the footprint: the knees of caches and TLBs",
        "latency --trials 4 --retries 1 --page-size 4k,2m",
    ),
    (
        "gups",
        "RandomAccess with pages of three sizes",
        "gups --table 256MiB --trials 4 --repeats 1 --retries 1 --page-size 4k,2m,1g",
    ),
    (
        "sawtooth",
        "STREAM's triad over OFFSET",
        "stream --n 2000896 --offset 0:32768:512 --kernels triad --trials 3 --retries 1",
    ),
    ("l2sum", "Sums within L2", "l2sum --block 960KiB --trials 12 --retries 1"),
)
WANTED = 1.2  # GUPS with 2 MiB pages over that with 4 KiB


def main() -> None:
    """Entry point."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--output", type=Path, required=True, help="the Markdown file; figures go beside it")
    output: Path = parser.parse_args().output
    parts = [
        "# What one machine shows\n\nWhat does `pagelens measure` print? Each block below is what the "
        "command printed. It was measured on a virtual machine of two processors, beside other virtual "
        "machines ([how to read it](../measure.md)). `python scripts/measure_document.py --output "
        "docs/results/measure.md` wrote this page.\n"
    ]
    with tempfile.TemporaryDirectory() as folder:
        for name, title, words in SECTIONS:
            directory = Path(folder) / name
            parts.append(section(name, title, words, directory, output))
    write_page(output, "\n".join(parts))


def section(name: str, title: str, words: str, directory: Path, output: Path) -> str:
    """One command's, as Markdown."""
    command = [sys.executable, "-m", "pagelens", "measure", *words.split(), "-o", str(directory)]
    print(f"measure {words}", file=sys.stderr, flush=True)
    done = subprocess.run(command, check=False, stdout=subprocess.PIPE, text=True)
    if done.returncode != 0 and ",1g" in words:  # not every kernel finds a GiB in one piece
        return section(name, title, words.replace(",1g", ""), directory, output)
    done.check_returncode()
    text = done.stdout[: done.stdout.rindex("Tables and figure:")].rstrip()
    figure = output.with_name(f"{output.stem}-{name}.svg")
    shutil.copy(directory / "figure.svg", figure)
    found = json.loads((directory / "measure.json").read_text())
    remark = gups_remark(found) if name == "gups" else ""
    return (
        f"## {title}\n\n```\n$ pagelens measure {words}\n{text}\n```\n{remark}\n![{title}]({figure.name})\n"
    )


def gups_remark(found: dict[str, Any]) -> str:
    """Says what large pages gain."""
    medians = {result["page_size"]: result["spread"]["median"] for result in found["results"]}
    gains = {size: figure / medians["4k"] for size, figure in medians.items() if size != "4k"}
    each = ", ".join(f"{size} pages {gain:.2f} times" for size, gain in gains.items())
    verdict = "at least" if gains["2m"] >= WANTED else "less than"
    return (
        f"\nWith {each} the updates of 4k pages: of 2m {verdict} {WANTED}. In a guest walks go through two "
        "page tables; what the host maps the guest's memory with limits what its large pages can save.\n"
    )


if __name__ == "__main__":
    main()
