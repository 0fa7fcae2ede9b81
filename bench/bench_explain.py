"""What `pagelens explain` costs after tracing: 64 nodes under six policies, in processor seconds.

Processor time, because that counts other people's work less than the clock does; three minutes on two cores
are 360 s of it.
"""

import json
import resource
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parent.parent
PAGELENS = [sys.executable, "-m", "pagelens"]


def processor_seconds(command: list[str]) -> float:
    """User and system time of a command and its children."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def figure(name: str, value: float, note: str) -> None:
    """Prints one figure as bench/README.md has it."""
    row = {"name": name, "value": value, "unit": "s", "required": "<= 340", "note": note}
    print(json.dumps(row), flush=True)


def main() -> None:
    """Entry point."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        trace = folder / "cg.trace"
        program = [str(ROOT / "build" / "examples" / "cg"), "89", "3"]
        subprocess.run(
            [*PAGELENS, "trace", "-o", str(trace), "--", *program], check=True, stdout=subprocess.DEVNULL
        )
        options = ["explain", "--quiet", "--nodes", "64", "--output"]
        of_trace = processor_seconds([*PAGELENS, *options, str(folder / "traced"), str(trace)])
        figure("explain 64x6: cg 89 3, 68 ranks", of_trace, "after tracing; processor time")
        triad = ["--workload", "stream-triad", "--size", "17.6GB"]
        declared = processor_seconds([*PAGELENS, *options, str(folder / "declared"), *triad])
        figure("explain 64x6: declared triad of 17.6 GB", declared, "processor time")


if __name__ == "__main__":
    main()
