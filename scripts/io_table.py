"""Writes docs/results/io.md: programs recorded, predicted as they ran, advised, and the advice measured.

Needs dd, tar, sqlite3 and python3. fio, h5py and MPICH are used if they are there. It takes some minutes, and
1 GB in the folder that is named.
"""

import argparse
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

from wrapping import write_page

from pagelens.host.system import System
from pagelens.io import Explanation, Recording, explain_recording, record_program, replayable
from pagelens.machine import Machine, choose_machine, parse_machine
from pagelens.measure.files import Measured, file_with_io, measure_folder, replay, variants

Run = tuple[Explanation, Recording]

OUTPUT = Path(__file__).parent.parent / "docs/results/io.md"
RUNS = 3
REQUEST = 1 << 20
SQL = "create table t(a,b); with recursive n(i) as (select 1 union all select i+1 from n where i<{rows}) \
insert into t select i, hex(randomblob(40)) from n; create index x on t(b); select count(*) from t;"
PYTHON = """
import random
with open("p", "wb", buffering=0) as f:
    for i in range(30000):
        f.write(b"x" * 1000)
with open("p", "rb", buffering=0) as f:
    for i in range(30000):
        f.seek(random.randrange(29000) * 1000)
        f.read(1000)
"""
H5PY = """
import h5py, numpy as np
rng = np.random.default_rng(1)
with h5py.File("x.h5", "w") as f:
    d = f.create_dataset("a", (4000, 4000), "f8", chunks=(100, 400))
    for i in range(0, 4000, 100):
        d[i : i + 100] = rng.random((100, 4000))
    for i in range(300):
        g = f.create_group(f"g{i}")
        g["v"] = np.arange(200.0)
with h5py.File("x.h5", "r") as f:
    for i in range(0, 4000, 400):
        f["a"][:, i : i + 400].sum()
    for i in range(300):
        f[f"g{i}/v"][:].sum()
"""
MPI_SOURCE = Path(__file__).parent.parent / "tests/programs/io_mpi.c"
PROGRAMS = {
    "dd, 4 KiB": ["dd", "if=/dev/zero", "of=a", "bs=4k", "count=50000"],
    "dd, 1 MiB": ["dd", "if=/dev/zero", "of=b", "bs=1M", "count=200"],
    "dd, direct": ["dd", "if=/dev/zero", "of=c", "bs=64k", "count=2000", "oflag=direct"],
    "cat": ["sh", "-c", "cat a b >/dev/null"],
    "tar": ["tar", "cf", "t.tar", "tree"],
    "sqlite3": ["sqlite3", "db", SQL.format(rows=100000)],
    "Python": ["/usr/bin/python3", "-c", PYTHON],
    "fio, randread": ["fio", "--name=r", "--rw=randread", "--bs=16k", "--size=64M", "--ioengine=psync",
                      "--thread", "--output=/dev/null"],
    "Python, h5py": ["/usr/bin/python3", "-c", H5PY],
    "MPI-IO, 8 ranks": ["mpirun.mpich", "-n", "8", "./io_mpi", "m"],
}  # fmt: skip


def main() -> None:
    """Entry point."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, help="where the programs run")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=arguments.folder) as name:
        folder = Path(name)
        _tree(folder / "tree")
        write_page(OUTPUT, _document(folder))


def _tree(folder: Path) -> None:
    folder.mkdir()
    for number in range(2000):
        (folder / f"f{number}").write_bytes(b"x" * (number * 37 % 40000))


def _document(folder: Path) -> str:
    before = measure_folder(folder, 20)
    machine = parse_machine(file_with_io(choose_machine(None).text, before).encode(), "here")
    programs = {
        title: words for title, words in PROGRAMS.items() if shutil.which(words[0]) and _ready(title, folder)
    }
    found: dict[str, list[Run]] = {title: [] for title in programs}
    for _ in range(RUNS):  # programs take turns, so that a busy minute of the machine is not one program's
        for title, words in programs.items():
            found[title].append(_recorded(words, folder, machine))
    rows, replays = [], []
    for title, runs in found.items():
        runs.sort(key=lambda run: run[0].recorded_cpu_s)
        rows.append(_row(title, runs))
        print(rows[-1])
        replays += _replayed(title, *runs[0], folder, before)
    return "\n".join([*_head(before, folder), *rows, *_replay_head(), *replays]) + "\n"


def _ready(title: str, folder: Path) -> bool:
    """Make what a program needs. Return whether that is there."""
    if title == "Python, h5py":
        return subprocess.run(["/usr/bin/python3", "-c", "import h5py"], check=False).returncode == 0
    if title.startswith("MPI-IO"):
        words = ["mpicc.mpich", "-O2", "-o", str(folder / "io_mpi"), str(MPI_SOURCE)]
        return shutil.which(words[0]) is not None and subprocess.run(words, check=False).returncode == 0
    return True


def _recorded(words: list[str], folder: Path, machine: Machine) -> Run:
    here = Path.cwd()
    os.chdir(folder)
    try:
        for old in ("db", "r.0.0", "x.h5", "m"):
            Path(old).unlink(missing_ok=True)
        recording = record_program(words, str(folder / "it.plio")).recording
    finally:
        os.chdir(here)
    return explain_recording(recording, machine), recording


def _row(title: str, runs: list[Run]) -> str:
    e = runs[0][0]
    errors = sorted(each.error or 0.0 for each, _ in runs)
    best = e.ways[1] if len(e.ways) > 1 else None
    advice = "none" if best is None or best.verdict != "gains" else f"{best.title}, {best.gain:+.0%}"
    return (
        f"| {title} | {e.facts.operations:,} | {e.recorded_cpu_s * 1e3:.1f} | {e.cpu_s * 1e3:.1f} | "
        f"{e.error or 0:+.0%} ({errors[0]:+.0%} to {errors[-1]:+.0%}) | {advice} |"
    )


def _replayed(
    title: str, e: Explanation, recording: Recording, folder: Path, measured: Measured
) -> list[str]:
    transfers, lengths = replayable(recording)
    again = replay(transfers, lengths, folder, variants(REQUEST, measured.file_system.direct), RUNS)
    ways = {way.key: way for way in e.ways}
    lines = []
    for way, key in zip(again, ("as-it-ran", "merge", "merge-direct"), strict=False):
        predicted = ways.get(key)
        told = "" if predicted is None or predicted.cpu_s is None else f"{predicted.cpu_s * 1e3:.1f}"
        lines.append(f"| {title} | {way.title} | {told} | {way.cpu_s * 1e3:.1f} | {way.wall_s * 1e3:.1f} |")
    return lines


def _head(measured, folder):  # type: ignore[no-untyped-def]
    processor = System().fields("/proc/cpuinfo").get("model name", "unknown")
    kernel = subprocess.run(["uname", "-r"], capture_output=True, text=True, check=True).stdout.strip()
    return [
        "# Reads and writes of programs, predicted and measured",
        "",
        f"Written by `scripts/io_table.py` on {measured.file_system.type}, Linux {kernel}, {processor},",
        "in a virtual machine, beside other programs. First `pagelens measure io` measured what operations",
        f"take; then each program was recorded {RUNS} times, in turn. Processor times are in ms, of the",
        "operations that the model knows. *Recorded* is measured, in the run with the least processor",
        "time, which others disturbed least; *model* is predicted. The error is that of this run, with",
        "those of all runs in parentheses. The gain is modelled wall time.",
        "",
        "| program | operations | recorded | model | error of the model | advice, gain by the model |",
        "|---|---|---|---|---|---|",
    ]


def _replay_head() -> list[str]:
    return [
        "",
        "The advice, measured: `pagelens io replay` made the recorded reads, writes and syncs again on",
        f"scratch files, in turn, {RUNS} rounds, with requests of 1 MiB. The model takes the size of",
        "requests that it finds best, and its time has the other calls of the program in it.",
        "",
        "| program | way | model, processor ms | measured, processor ms | measured, wall ms |",
        "|---|---|---|---|---|",
    ]


if __name__ == "__main__":
    main()
