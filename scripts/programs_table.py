"""Runs the programs of tests/real alone and under both engines of the tracer, and writes a table."""

import argparse
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parent.parent
sys.path.append(str(ROOT / "tests/python"))

import real_programs  # noqa: E402
from real_programs import RealProgram  # noqa: E402
from results import write_table  # noqa: E402

from pagelens.accesses.dynamorio import has_dynamorio  # noqa: E402

ENGINES = ("qemu", "dynamorio")
INTRODUCTION = """Written by `make real-programs`. Each program was run alone, and then by `pagelens trace`
with each engine. *Equal* means that its output, its exit status and its files were the same as when it ran
alone. The times are processor times of all its processes, measured in one run on a busy machine. They include
the 0.4 s that `pagelens trace` takes to start. Most programs are short, so the table says which programs run,
and what it costs to trace much code that runs a few times. [bench.md](bench.md) compares long loops. Traces
ended after 500 million accesses, as by default. The last column has the accesses that DynamoRIO counted."""


def row(program: RealProgram, folder: Path) -> tuple[list[str], bool]:
    """Return one row of the table, and whether nothing differed."""
    if program.missing:
        return [program.title, "", *(["not here: " + ", ".join(program.missing)] * 2), ""], True
    prepared, place = folder / f"{program.name}.prepared", folder / program.name
    real_programs.prepare(program, prepared)
    alone = real_programs.run(program, prepared, place, None)
    cells, good = [], True
    accesses = ""
    for engine in ENGINES:
        if engine == "dynamorio" and not has_dynamorio():
            cells.append("not built")
            continue
        if reason := program.refusal(engine):
            cells.append(f"does not run: {reason}")
            continue
        traced = real_programs.run(program, prepared, place, engine)
        differences = traced.outcome.differences(alone.outcome)
        equal = not differences and not traced.problems and traced.traced > 0
        print(f"{program.name}, {engine}: {'equal' if equal else differences or traced.problems}", flush=True)
        good &= equal
        accesses = f"{traced.traced / 1e6:.1f}"
        ratio = traced.processor_s / max(alone.processor_s, 0.01)
        cells.append(f"{'equal' if equal else 'DIFFERS'}, {traced.processor_s:.1f} s ({ratio:.0f}x)")
    return [program.title, f"{alone.processor_s:.2f}", *cells, accesses], good


def main() -> None:
    """Entry point."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--output", type=Path, required=True, help="Markdown file to write")
    parser.add_argument("names", nargs="*", help="programs of tests/real (default: all)")
    arguments = parser.parse_args()
    chosen = [p for p in real_programs.programs() if not arguments.names or p.name in arguments.names]
    with tempfile.TemporaryDirectory() as folder:
        rows = [row(program, Path(folder)) for program in chosen]
    columns = ("program", ">alone, s", "QEMU", "DynamoRIO", ">accesses, M")
    write_table(
        arguments.output, "Real programs under the tracer", INTRODUCTION, columns, (r for r, _ in rows)
    )
    if not all(good for _, good in rows):
        sys.exit(1)


if __name__ == "__main__":
    main()
