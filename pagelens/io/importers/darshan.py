"""Reads Darshan's logs with extended tracing (DXT), through pydarshan.

pydarshan calls a C library, which a damaged log can crash. So it reads in a process of its own, which is this
module run as a program. That process writes a recording.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from pagelens.errors import UsageError
from pagelens.io.importers.builder import RecordingBuilder
from pagelens.io.recording import Header, Recording, read_recording

_UNKNOWN = ["cpu_ns", "address", "cpu", "thread", "descriptor", "result"]
_NO_OPERATIONS = 3  # exit status
_LIMIT_S = 600


def read_darshan(path: Path) -> Recording:
    """Return the recording of a log. Raises UsageError if the log is damaged or has no operations."""
    if find_spec("darshan") is None:
        raise UsageError("Darshan log: pydarshan is not installed; pip install 'pagelens[darshan]'")
    with tempfile.TemporaryDirectory(prefix="pagelens-darshan-") as folder:
        made = Path(folder) / "it.plio"
        try:
            status = subprocess.run(
                [sys.executable, "-m", __name__, path.absolute(), made],
                capture_output=True, cwd=folder, timeout=_LIMIT_S, check=False,
            ).returncode  # fmt: skip
        except subprocess.TimeoutExpired:
            status = 1
        if status == _NO_OPERATIONS:
            raise UsageError(
                f"{path}: the log has counters, but not the operations; run the program with "
                "DXT_ENABLE_IO_TRACE=1"
            )
        if status != 0 or not made.exists():
            raise UsageError(f"{path}: pydarshan cannot read it; it is damaged, or no log of Darshan")
        return read_recording(made)


def _convert(path: Path, made: Path) -> int:
    import darshan

    report = darshan.DarshanReport(str(path), read_all=False)
    if "DXT_POSIX" not in report.modules:
        return _NO_OPERATIONS
    report.mod_read_all_dxt_records("DXT_POSIX", dtype="dict")
    job = report.metadata["job"]
    header = Header(
        source="darshan",
        command=str(report.metadata.get("exe") or "").split(),
        elapsed_ns=max(0, round(float(job.get("run_time", 0)) * 1e9)),
    )
    builder = RecordingBuilder(header, _UNKNOWN)
    mounts = sorted(report.mounts, key=lambda mount: -len(mount[0]))
    for record in report.records["DXT_POSIX"].to_dict():
        rank = int(record["rank"])
        builder.process(rank, rank=rank, program=header.command[0] if header.command else "")
        name = str(report.name_records.get(record["id"], record["id"]))
        system = next((kind for point, kind in mounts if name.startswith(point)), "")
        file = builder.file(name, file_system=system)
        for kind in ("read", "write"):
            for segment in record[f"{kind}_segments"]:
                _add(builder, kind, segment, {"process": rank, "thread": rank, "file": file})
    builder.build().write(made)
    return 0


def _add(builder: RecordingBuilder, kind: str, segment: dict[str, Any], of: dict[str, int]) -> None:
    begin, end = float(segment["start_time"]), float(segment["end_time"])
    builder.add(
        kind,
        start_ns=round(begin * 1e9),
        wall_ns=max(0, round((end - begin) * 1e9)),
        offset=int(segment["offset"]),
        size=int(segment["length"]),
        result=int(segment["length"]),
        **of,
    )


if __name__ == "__main__":
    sys.exit(_convert(Path(sys.argv[1]), Path(sys.argv[2])))
