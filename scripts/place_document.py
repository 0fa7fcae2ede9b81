"""Writes docs/results/place.md: three example programs placed on three machines, made by `pagelens place`."""

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from wrapping import write_page

PROGRAMS = {"hydro": "40 3", "cg": "48", "fe": "40"}  # and their arguments
MACHINES = ("sandy-bridge-two-socket", "cori-knl-flat", "xeon-max-flat")
CAPACITY = 50  # % of the footprint
MOST_OF_GAIN = 0.9


def main() -> None:
    """Entry point."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--examples", type=Path, default=Path("build/examples"))
    parser.add_argument("--output", type=Path, default=Path("docs/results"))
    arguments = parser.parse_args()
    pagelens = Path(sys.executable).with_name("pagelens")
    with tempfile.TemporaryDirectory() as folder:
        found = {}
        for program, words in PROGRAMS.items():
            trace = Path(folder) / f"{program}.trace"
            app = arguments.examples / program
            command = [pagelens, "trace", "--accesses", "0", "-o", trace, "--", app, *words.split()]
            subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
            for machine in MACHINES:
                found[program, machine] = _placed(pagelens, trace, program, machine, Path(folder) / machine)
                shutil.copy(
                    Path(folder) / machine / program / "place.svg",
                    arguments.output / f"place-{program}-{machine}.svg",
                )
    write_page(arguments.output / "place.md", "\n".join(_document(found)) + "\n")


def _placed(pagelens: Path, trace: Path, program: str, machine: str, folder: Path) -> tuple[str, Any]:
    """The text that the command prints, and its report."""
    command = [
        pagelens, "place", "--machine", machine, "--capacity", f"{CAPACITY}%",
        "--list", f"examples/lists/{program}.txt", "-o", folder / program, trace,
    ]  # fmt: skip
    text = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    text = "\n".join(line for line in text.splitlines() if not line.startswith(("Plan:", "Figure:")))
    return text.rstrip(), json.loads((folder / program / "place.json").read_text())


def _document(found: dict[tuple[str, str], tuple[str, Any]]) -> list[str]:
    lines = [
        "# Programs on two memories",
        "",
        f"How much does a program gain if fast memory holds only {CAPACITY}% of its data? Programs of",
        "`examples/` were traced whole, and each core runs a copy. All times are modelled",
        "([place.md](../place.md)). The study `placement` of [reproduce.md](reproduce.md) has declared",
        "programs at full scale, with every list of the hydro's arrays. `python scripts/place_document.py`",
        "wrote this page.",
        "",
        "*All fast* says how much faster the program is if all its data lie in fast memory. The other",
        "columns give the share of this gain that each policy reaches with fast memory for",
        f"{CAPACITY}% of the data:",
        "",
    ]
    policies = (
        "largest-first",
        "accesses-per-byte",
        "traffic-per-byte",
        "size-window",
        "developer",
        "optimum",
    )
    lines.append("| program | machine | all fast | " + " | ".join(policies) + " | cache mode |")
    lines.append("|---|---|---|" + "---|" * (len(policies) + 1))
    for (program, machine), (_, report) in found.items():
        rows = {row["policy"]: row for row in report["policies"]}
        cells = [f"{100 * rows[name]['gain']:.0f}%" for name in policies]
        cached = next(iter(report["cache_mode"]), None)
        between = sorted((cached["gain_at_random"], cached["gain_in_a_row"])) if cached else []
        cells.append(" to ".join(f"{100 * gain:.0f}%" for gain in between))
        lines.append(
            f"| {program} | {machine} | {rows['all-fast']['speedup']:.2f}x | " + " | ".join(cells) + " |"
        )
    short = [
        f"{program} on {machine} ({100 * _optimum(report)['gain']:.0f}%)"
        for (program, machine), (_, report) in found.items()
        if _optimum(report)["gain"] < MOST_OF_GAIN
    ]
    lines += [
        "",
        "In cache mode the cache is as large as the largest power of two that the capacity holds. The two",
        "shares are those of random frames and of frames in a row, the lower one first. A share above 100%",
        "is possible where bandwidth decides, because both memories work at the same time. These optima are",
        f"below {MOST_OF_GAIN:.0%}, if only by rounding: {', '.join(short) or 'none'}. The optimum bounds",
        "all static placements, so no other choice of objects gains what is missing there.",
    ]  # fmt: skip
    for (program, machine), (text, _) in found.items():
        lines += ["", f"## {program} on {machine}", "", "```", text, "```", ""]
        lines.append(f"![{program} on {machine}](place-{program}-{machine}.svg)")
    return lines


def _optimum(report: Any) -> Any:
    return next(row for row in report["policies"] if row["policy"] == "optimum")


if __name__ == "__main__":
    main()
