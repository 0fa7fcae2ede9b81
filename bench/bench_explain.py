"""What `pagelens explain` costs after tracing: 64 nodes under six policies, in processor seconds.

Processor time, because that counts other people's work less than the clock does; three minutes on two cores
are 360 s of it.
"""

import resource
import subprocess
import sys
import tempfile
from pathlib import Path

from figures import ROOT, figure

# cg with 68 ranks fills the cache of a node; the others have the sizes that they take by themselves.
PROGRAMS = (("cg", "89", "3"), ("fe",), ("hydro",), ("heat",))
REQUIRED = "<= 340"
PAGELENS = [sys.executable, "-m", "pagelens"]


def processor_seconds(command: list[str]) -> float:
    """User and system time of a command and its children."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main() -> None:
    """Entry point."""
    with tempfile.TemporaryDirectory() as created:
        folder = Path(created)
        options = ["explain", "--quiet", "--machine", "cori-knl-cache", "--nodes", "64", "--output"]
        for name, *arguments in PROGRAMS:
            trace = folder / f"{name}.trace"
            program = [str(ROOT / "build" / "examples" / name), *arguments]
            subprocess.run(
                [*PAGELENS, "trace", "-o", str(trace), "--", *program], check=True, stdout=subprocess.DEVNULL
            )
            of_trace = processor_seconds([*PAGELENS, *options, str(folder / name), str(trace)])
            words = " ".join((name, *arguments))
            figure(
                f"explain 64x6: {words}, 68 ranks", of_trace, "s", REQUIRED, "after tracing; processor time"
            )
        triad = ["--workload", "stream-triad", "--size", "17.6GB"]
        declared = processor_seconds([*PAGELENS, *options, str(folder / "declared"), *triad])
        figure("explain 64x6: declared triad of 17.6 GB", declared, "s", REQUIRED, "processor time")


if __name__ == "__main__":
    main()
