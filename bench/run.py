"""Runs the benchmarks and writes their figures as a table; see bench/README.md."""

import argparse
import json
import os
import platform
import subprocess
import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parents[1] / "scripts"))
from results import write_table


def figures(command: list[str]) -> list[dict[str, object]]:
    """Runs one benchmark and returns the figures that it printed; its other output goes through."""
    found = []
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        for line in process.stdout:
            print(line, end="", flush=True)
            if line.startswith("{"):
                found.append(json.loads(line))
    if process.returncode:
        sys.exit(f"bench: {command[0]} ended with status {process.returncode}")
    return found


def processor() -> str:
    """The processor's name as the kernel gives it."""
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.split(":", 1)[1].strip()
    return platform.machine()


def shown(row: dict[str, object]) -> list[str]:
    """The cells of one figure."""
    value = row["value"]
    text = f"{value:.4g}" if isinstance(value, float) else str(value)
    return [str(row["name"]), text, str(row["unit"]), str(row.get("required", "")), str(row.get("note", ""))]


def main() -> None:
    """Entry point."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--binaries", type=Path, required=True, help="folder of the built bench_* programs")
    parser.add_argument("--output", type=Path, required=True, help="Markdown file to write")
    parser.add_argument("only", nargs="*", help="names of benchmarks to run (default: all)")
    arguments = parser.parse_args()

    scripts = sorted(Path(__file__).parent.glob("bench_*.py"))
    programs = sorted(p for p in arguments.binaries.glob("bench_*") if p.is_file() and os.access(p, os.X_OK))
    commands = {p.name: [str(p)] for p in programs} | {p.stem: [sys.executable, str(p)] for p in scripts}
    rows = []
    for name in arguments.only or commands:
        if name not in commands:
            sys.exit(f"bench: no benchmark {name}; there are {', '.join(commands)}")
        print(f"== {name}", flush=True)
        rows += figures(commands[name])

    write_table(
        arguments.output,
        "Benchmarks",
        "How fast is each part of pagelens, and how fast has it to be? `make bench` measured these figures\n"
        f"on {processor()} with {os.cpu_count()} CPUs and a load of {os.getloadavg()[1]:.1f} (five\n"
        "minutes). Compare the ratios, not the absolute figures.",
        ("figure", ">value", "unit", "required", "note"),
        map(shown, rows),
    )
    print(f"bench: wrote {arguments.output}")


if __name__ == "__main__":
    main()
