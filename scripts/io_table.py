"""Writes docs/results/io.md: programs recorded, predicted as they ran, advised, and the advice measured.

What people wrote below "What this shows" stays as it is. Needs dd, tar, sqlite3 and python3. fio, h5py,
MPICH and Open MPI are used if they are there. It takes some minutes, and 1 GB in the folder that is named.
Each step can also be run alone: three times `round`, then `replay`, and `write`.
"""

import argparse
import os
import pickle
import re
import shutil
import subprocess
from pathlib import Path

from results import commit
from wrapping import write_page

from pagelens.host.system import System
from pagelens.io import Explanation, Recording, explain_recording, open_recording, record_program, replayable
from pagelens.machine import Machine, choose_machine, parse_machine
from pagelens.measure.files import Measured, file_with_io, measure_folder, pooled, replay, variants

OUTPUT = Path(__file__).parent.parent / "docs/results/io.md"
BY_HAND = "\n## What this shows\n"  # people write what follows this heading, so it stays
RUNS = 3  # rounds, and repetitions of each replay
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
    "MPI-IO, 8 ranks": ["mpirun.mpich", "-n", "8", "./io_mpi", "grid"],
    "MPI-IO, Open MPI, 8 ranks": ["mpirun.openmpi", "--oversubscribe", "--allow-run-as-root", "-n", "8",
                                  "./io_openmpi", "grid"],
}  # fmt: skip


def main() -> None:
    """Entry point."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "folder", type=Path, help="where the programs run, and all is kept until it is written"
    )
    parser.add_argument(
        "step", nargs="?", choices=("round", "replay", "write"), help="only one step; else all"
    )
    arguments = parser.parse_args()
    folder: Path = arguments.folder / "io-table"
    folder.mkdir(parents=True, exist_ok=True)
    if arguments.step in (None, "round"):
        for _ in range(1 if arguments.step else RUNS):
            _round(folder)
    if arguments.step in (None, "replay"):
        _replays(folder)
    if arguments.step in (None, "write"):
        write_page(OUTPUT, _document(folder))


def _programs(folder: Path) -> dict[str, list[str]]:
    return {
        title: words for title, words in PROGRAMS.items() if shutil.which(words[0]) and _ready(title, folder)
    }


def _measure(folder: Path) -> None:
    """Measure, and keep it beside earlier measurements. A busy minute is then not one program's."""
    measured = measure_folder(folder, SECONDS, rounds=1)
    number = len(list(folder.glob("measured-*")))
    (folder / f"measured-{number}").write_bytes(pickle.dumps(measured))


def _round(folder: Path) -> None:
    """Record each program once, between two measurements."""
    if not (folder / "tree").exists():
        _tree(folder / "tree")
        _measure(folder)
    for title, words in _programs(folder).items():
        number = len(list(folder.glob(f"{_name(title)}-[0-9].plio")))
        _recorded(words, folder).write(folder / f"{_name(title)}-{number}.plio")
    _measure(folder)


def _name(title: str) -> str:
    return "-".join(re.findall(r"\w+", title)).lower()


def _measured(folder: Path) -> list[Measured]:
    return [pickle.loads(path.read_bytes()) for path in sorted(folder.glob("measured-*"))]


def _runs(title: str, folder: Path, machine: Machine) -> list[tuple[Explanation, Recording]]:
    """Return the runs of a program in the order of their processor times."""
    recordings = map(open_recording, sorted(folder.glob(f"{_name(title)}-[0-9].plio")))
    runs = [(explain_recording(recording, machine), recording) for recording in recordings]
    return sorted(runs, key=lambda run: run[0].recorded_cpu_s)


def _replays(folder: Path) -> None:
    """Replay the median run of each program in each way."""
    measured = pooled(_measured(folder))
    for title in _programs(folder):
        runs = _runs(title, folder, _machine(measured))
        rows = _replayed(title, *runs[len(runs) // 2], folder, measured)
        (folder / f"{_name(title)}.replays").write_text("\n".join(rows))


def _tree(folder: Path) -> None:
    folder.mkdir()
    for number in range(2000):
        (folder / f"f{number}").write_bytes(b"x" * (number * 37 % 40000))


def _document(folder: Path) -> str:
    rounds = _measured(folder)
    measured = pooled(rounds)
    whole, *each = (_machine(of) for of in (measured, *rounds))
    rows, replays, ways = [], [], []
    for title in _programs(folder):
        runs = _runs(title, folder, whole)
        middle = runs[len(runs) // 2]
        alone = [explain_recording(middle[1], machine) for machine in each]
        rows.append(_row(title, [e for e, _ in runs], alone))
        ways.append(_ways(title, middle[0]))
        replays += (folder / f"{_name(title)}.replays").read_text().splitlines()
    parts = [*_head(measured, len(rounds) - 1), *rows, *_ways_head(), *ways, *_replay_head(), *replays]
    _, _, by_hand = OUTPUT.read_text().partition(BY_HAND) if OUTPUT.exists() else ("", "", "")
    return "\n".join(parts) + "\n" + (BY_HAND + by_hand if by_hand else "")


def _machine(measured: Measured) -> Machine:
    return parse_machine(file_with_io(choose_machine(None).text, measured).encode(), "here")


def _ready(title: str, folder: Path) -> bool:
    """Make what a program needs. Return whether that is there."""
    if title == "Python, h5py":
        return subprocess.run(["/usr/bin/python3", "-c", "import h5py"], check=False).returncode == 0
    if title.startswith("MPI-IO"):
        kind, name = ("openmpi", "io_openmpi") if "Open MPI" in title else ("mpich", "io_mpi")
        words = [f"mpicc.{kind}", "-O2", "-o", str(folder / name), str(MPI_SOURCE)]
        return (folder / name).exists() or (
            shutil.which(words[0]) is not None and subprocess.run(words, check=False).returncode == 0
        )
    return True


def _recorded(words: list[str], folder: Path) -> Recording:
    here = Path.cwd()
    os.chdir(folder)
    try:
        for old in ("db", "r.0.0", "x.h5", "grid"):
            Path(old).unlink(missing_ok=True)
        return record_program(words, str(folder / "it.plio")).recording
    finally:
        os.chdir(here)


def _row(title: str, runs: list[Explanation], alone: list[Explanation]) -> str:
    e = runs[len(runs) // 2]
    recorded = _with_range(e.recorded_cpu_s, [each.recorded_cpu_s for each in runs])
    stalls = _with_range(e.stalled_s, [each.stalled_s for each in runs]) if e.stalls else ""
    model = _with_range(e.cpu_s, [each.cpu_s for each in alone])
    walls = [(e.recorded_cpu_s + e.recorded_wait_s) * 1e3, (e.cpu_s + e.wait_s) * 1e3]
    errors = ", ".join("not known" if each.error is None else f"{each.error:+.0%}" for each in runs)
    return (
        f"| {title} | {e.facts.operations:,} | {recorded} | {stalls} | {model} | {errors} | {walls[0]:.1f} | "
        f"{walls[1]:.1f} |"
    )


def _ways(title: str, e: Explanation) -> str:
    """Return a line with all ways, by what the model says of them."""
    cells = []
    for verdict in ("gains", "not worth it", "loses"):
        of = (f"{way.title} ({100 * (way.gain or 0):+.0f}%)" for way in e.ways[1:] if way.verdict == verdict)
        cells.append("; ".join(of))
    return f"| {title} | {' | '.join(cells)} |"


def _with_range(seconds: float, of: list[float]) -> str:
    return f"{seconds * 1e3:.1f} ({min(of) * 1e3:.1f} to {max(of) * 1e3:.1f})"


def _replayed(
    title: str, e: Explanation, recording: Recording, folder: Path, measured: Measured
) -> list[str]:
    transfers, lengths = replayable(recording)
    depth = 8 if (transfers["flight"] > 0).any() else 1
    again = replay(transfers, lengths, folder, variants(REQUEST, measured.file_system.direct, depth), RUNS)
    ways = {way.key: way for way in e.ways}
    lines = []
    for way, key in zip(again, ("as-it-ran", "merge", "merge-direct", "queue-depth"), strict=False):
        predicted = ways.get(key)
        told = "" if predicted is None or predicted.cpu_s is None else f"{predicted.cpu_s * 1e3:.1f}"
        lines.append(f"| {title} | {way.title} | {told} | {way.cpu_s * 1e3:.1f} | {way.wall_s * 1e3:.1f} |")
    return lines


def _head(measured, rounds):  # type: ignore[no-untyped-def]
    processor = System().fields("/proc/cpuinfo").get("model name", "unknown")
    kernel = subprocess.run(["uname", "-r"], capture_output=True, text=True, check=True).stdout.strip()
    return [
        "# Reads and writes of programs, predicted and measured",
        "",
        "How near does the model come to what programs' reads and writes take?",
        f"`scripts/io_table.py` wrote this page at commit {commit()} on {measured.file_system.type},",
        f"Linux {kernel}, {processor},",
        "in a virtual machine. A round of `pagelens measure io` came before and after",
        f"each of the {rounds} rounds in which the programs were recorded. Processor times are in ms, of the",
        "operations that the model knows. *Recorded* is measured: the median run, with the least and the",
        "greatest of the runs in parentheses. Not in it are *stalls*, in which the machine's host mapped",
        "memory: [io.md](../io.md) says how they are told. *Model* is predicted by what all rounds measured;",
        "in parentheses is the range that each round alone gives. The errors are those of all runs, in the",
        "order of their recorded times, so the middle one is that of the median run. Wall times are in ms,",
        "too, and summed over all threads; in recorded ones, waits for a processor and stalls count.",
        "",
        "| program | operations | recorded | stalls | model | errors | recorded wall | model's wall |",
        "|---|---|---|---|---|---|---|---|",
    ]


def _ways_head() -> list[str]:
    return [
        "",
        "These other ways are open to each program. In parentheses is what a way saves of the program's",
        "time (modelled).",
        "",
        "| program | gain | not worth it | lose |",
        "|---|---|---|---|",
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
