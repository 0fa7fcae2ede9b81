"""Runs the benchmarks and writes their figures as a table; see bench/README.md."""

import argparse
import json
import os
import platform
import subprocess
import sys
from pathlib import Path


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

    lines = [
        "# Benchmarks",
        "",
        f"{processor()}, {os.cpu_count()} CPUs, load {os.getloadavg()[1]:.1f}",
        "(five minutes); written by `make bench`. Compare the ratios, not the absolute figures.",
        "",
        "| figure | value | unit | required | note |",
        "|---|---:|---|---|---|",
    ]
    for row in rows:
        value = row["value"]
        shown = f"{value:.4g}" if isinstance(value, float) else str(value)
        lines.append(
            f"| {row['name']} | {shown} | {row['unit']} | {row.get('required', '')} | {row.get('note', '')} |"
        )
    partial = arguments.output.with_suffix(".partial")
    partial.parent.mkdir(parents=True, exist_ok=True)
    partial.write_text("\n".join(lines) + "\n")
    partial.rename(arguments.output)
    print(f"bench: wrote {arguments.output}")


if __name__ == "__main__":
    main()
