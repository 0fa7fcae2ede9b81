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

from results import commit
from wrapping import write_page

from pagelens.host.system import System
from pagelens.io import Explanation, Recording, explain_recording, record_program, replayable
from pagelens.machine import Machine, choose_machine, parse_machine
from pagelens.measure.files import Measured, file_with_io, measure_folder, pooled, replay, variants

OUTPUT = Path(__file__).parent.parent / "docs/results/io.md"
RUNS = 3
SECONDS = 6.0  # of each round of a measurement
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
    programs = {
        title: words for title, words in PROGRAMS.items() if shutil.which(words[0]) and _ready(title, folder)
    }
    recorded: dict[str, list[Recording]] = {title: [] for title in programs}
    rounds = [measure_folder(folder, SECONDS, rounds=1)]
    for _ in range(RUNS):  # measurements and programs take turns, so that a busy minute is not one program's
        for title, words in programs.items():
            recorded[title].append(_recorded(words, folder))
        rounds.append(measure_folder(folder, SECONDS, rounds=1))
    measured = pooled(rounds)
    whole, *each = (_machine(of) for of in (measured, *rounds))
    rows, replays = [], []
    for title, recordings in recorded.items():
        runs = [(explain_recording(recording, whole), recording) for recording in recordings]
        runs.sort(key=lambda run: run[0].recorded_cpu_s)
        middle = runs[len(runs) // 2]
        alone = [explain_recording(middle[1], machine) for machine in each]
        rows.append(_row(title, [e for e, _ in runs], alone))
        print(rows[-1], flush=True)
        replays += _replayed(title, *middle, folder, measured)
    return "\n".join([*_head(measured, folder), *rows, *_replay_head(), *replays]) + "\n"


def _machine(measured: Measured) -> Machine:
    return parse_machine(file_with_io(choose_machine(None).text, measured).encode(), "here")


def _ready(title: str, folder: Path) -> bool:
    """Make what a program needs. Return whether that is there."""
    if title == "Python, h5py":
        return subprocess.run(["/usr/bin/python3", "-c", "import h5py"], check=False).returncode == 0
    if title.startswith("MPI-IO"):
        words = ["mpicc.mpich", "-O2", "-o", str(folder / "io_mpi"), str(MPI_SOURCE)]
        return shutil.which(words[0]) is not None and subprocess.run(words, check=False).returncode == 0
    return True


def _recorded(words: list[str], folder: Path) -> Recording:
    here = Path.cwd()
    os.chdir(folder)
    try:
        for old in ("db", "r.0.0", "x.h5", "m"):
            Path(old).unlink(missing_ok=True)
        return record_program(words, str(folder / "it.plio")).recording
    finally:
        os.chdir(here)


def _row(title: str, runs: list[Explanation], alone: list[Explanation]) -> str:
    e = runs[len(runs) // 2]
    best = e.ways[1] if len(e.ways) > 1 else None
    advice = "none" if best is None or best.verdict != "gains" else f"{best.title}, {best.gain:+.0%}"
    recorded = _with_range(e.recorded_cpu_s, [each.recorded_cpu_s for each in runs])
    model = _with_range(e.cpu_s, [each.cpu_s for each in alone])
    return f"| {title} | {e.facts.operations:,} | {recorded} | {model} | {e.error or 0:+.0%} | {advice} |"


def _with_range(seconds: float, of: list[float]) -> str:
    return f"{seconds * 1e3:.1f} ({min(of) * 1e3:.1f} to {max(of) * 1e3:.1f})"


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
        f"Written by `scripts/io_table.py` at commit {commit()} on {measured.file_system.type},",
        f"Linux {kernel}, {processor},",
        "in a virtual machine, beside other programs. A round of `pagelens measure io` came before and after",
        f"each of the {RUNS} rounds in which the programs were recorded. Processor times are in ms, of the",
        "operations that the model knows. *Recorded* is measured: the median run, with the least and the",
        "greatest of the runs in parentheses. *Model* is predicted by what all rounds measured; in",
        "parentheses is the range that each round alone gives. The error is that of the median run. The gain",
        "is modelled wall time.",
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
