"""Traces to test with: a C program that is compiled and traced to its end, and one that was kept."""

import subprocess
from pathlib import Path

from pagelens.accesses.tracer import TraceRequest, trace_program

GOLDEN = (
    Path(__file__).parent.parent / "data" / "trace-version-2.bin"
)  # version 2 of the format, the first that was released


def traced_c(folder: Path, source: str) -> Path:
    """The trace of the program of this source; both lie in `folder`."""
    code, app, trace = folder / "arrays.c", folder / "arrays", folder / "arrays.trace"
    code.write_text(source)
    subprocess.run(["gcc", "-O1", "-g", "-Wl,--build-id", "-o", app, code], check=True)
    trace_program(TraceRequest([str(app)], str(trace), accesses=0))
    return trace
