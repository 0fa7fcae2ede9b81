"""What `pagelens explain` costs after tracing, in processor seconds.

Processor time, because that counts other people's work less than the clock does: a minute on two cores is
120 s of it.
"""

import resource
import subprocess
import sys
import tempfile
from pathlib import Path

from figures import ROOT, figure

PAGELENS = [sys.executable, "-m", "pagelens"]
KNL, SKYLAKE = ("--machine", "cori-knl-cache"), ("--machine", "skx-8160")
# Of a program, with its arguments: options, and the processor seconds wanted. cg with 68 ranks fills
# the cache of a node; without --nodes there are as many nodes as the medians need.
TRACED: tuple[tuple[tuple[str, ...], tuple[str, ...], str], ...] = (
    (("cg", "89", "3"), KNL, "<= 60"),
    (("hydro",), KNL, "<= 120"),
    (("fe",), KNL, "<= 120"),
    (("heat",), KNL, "<= 120"),
    (("cg", "50", "20"), (*SKYLAKE, "--nodes", "4"), "<= 60"),
)
DECLARED: tuple[tuple[tuple[str, ...], tuple[str, ...], str], ...] = (
    (("random-access", "13GiB"), (*KNL, "--nodes", "4", "--policies", "aged"), "<= 20"),
    (("stream-triad", "17.6GB"), (*KNL, "--nodes", "64"), "<= 340"),
    (("stream-triad", "17.6GB"), KNL, "<= 120"),
)


def processor_seconds(command: list[str]) -> float:
    """User and system time of a command and its children."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def explained(name: str, options: tuple[str, ...], wanted: str, what: list[str], folder: Path) -> None:
    """Explains a trace or declared loops, and says what it cost."""
    command = [*PAGELENS, "explain", "--quiet", *options, "--output", str(folder / name), *what]
    words = " ".join(option for option in options if option != "--machine")
    figure(f"explain {name}: {words}", processor_seconds(command), "s", wanted, "processor time")


def main() -> None:
    """Entry point."""
    with tempfile.TemporaryDirectory() as created:
        folder = Path(created)
        for program, options, wanted in TRACED:
            trace = folder / f"{'-'.join(program)}.trace"
            words = [str(ROOT / "build" / "examples" / program[0]), *program[1:]]
            subprocess.run(
                [*PAGELENS, "trace", "-o", str(trace), "--", *words], check=True, stdout=subprocess.DEVNULL
            )
            explained(" ".join(program), options, wanted, [str(trace)], folder)
        for number, ((loops, size), options, wanted) in enumerate(DECLARED):
            what = ["--workload", loops, "--size", size]
            explained(f"{loops} {size}", options, wanted, what, folder / str(number))


if __name__ == "__main__":
    main()
