"""Records where the memory of a job's processes lies, while they run. Only root sees frames.

A step's sampler looks after one second, two, four, up to every minute. It keeps what it saw when the
processes had most memory, and ends with the step.
"""

from __future__ import annotations

import json
import os
import re
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pagelens.address.units import FRAME_BYTES, LINE_BYTES
from pagelens.errors import PagelensError, UsageError
from pagelens.host.process_pages import read_process
from pagelens.host.system import System
from pagelens.site.config import SiteConfig
from pagelens.site.memory_steps import side_cache_bytes

FOLDER = "jobs"  # in the node's state folder
LEAST_BYTES = 8 << 20  # processes with less are a shell or a helper
_FIRST_S, _MOST_S = 1.0, 60.0
_MOST_OF_TIME = 0.05  # share of the time for looking: assumed
_MOST_FRAMES = 1 << 16  # of a process, whose lines are counted by bank
_LARGE = ("AnonHugePages", "ShmemPmdMapped", "FilePmdMapped", "Shared_Hugetlb", "Private_Hugetlb")


@dataclass(frozen=True)
class Banks:
    """The banks of a machine's DRAM, of all channels and ranks."""

    of: Callable[[NDArray[np.uint64]], NDArray[np.uint32]]  # the bank of each address
    count: int
    frames: int  # frames that the machine's map places


@dataclass(frozen=True)
class Sample:
    """One process. Sizes are in bytes."""

    step: str
    rank: int | None
    process: int
    program: str
    resident: int
    on_large_pages: int
    by_numa_node: dict[str, int]
    conflict_share: float | None = None  # None if no direct-mapped cache is known or no frames are seen
    banks: int | None = None  # banks with a line of it; None: no map of all frames, or no frames
    fullest_bank: float | None = None  # its lines over the mean of all banks


def sample_step(
    system: System, step: str, stepd: int, cache_bytes: int | None, banks: Banks | None = None
) -> list[Sample]:
    """Return the processes of a step that have enough memory for a look."""
    found, frames = [], []
    for process in _descendants(system, stepd):
        folder = f"/proc/{process}"
        variables = _variables(system, process)
        sizes = _sizes(system.text(f"{folder}/smaps_rollup"))
        huge = sizes.get("Shared_Hugetlb", 0) + sizes.get("Private_Hugetlb", 0)
        resident = sizes.get("Rss", 0) + huge
        if "PAGELENS_RUN" not in variables or resident < LEAST_BYTES:
            continue
        rank = variables.get("SLURM_PROCID", "")
        found.append(
            Sample(
                step,
                int(rank) if re.fullmatch("[0-9]{1,9}", rank) else None,
                process,
                system.text(f"{folder}/comm")[:64],
                resident,
                min(resident, sum(sizes.get(name, 0) for name in _LARGE)),
                _numa(system.text(f"{folder}/numa_maps")),
            )
        )
        frames.append(_frames(system, process) if cache_bytes or banks else np.empty(0, dtype=np.int64))
    if cache_bytes:
        shares = conflict_shares(frames, cache_bytes // FRAME_BYTES)
        found = [replace(sample, conflict_share=share) for sample, share in zip(found, shares, strict=True)]
    if banks:
        found = [_with_banks(sample, own, banks) for sample, own in zip(found, frames, strict=True)]
    return found


def _with_banks(sample: Sample, frames: NDArray[np.int64], banks: Banks) -> Sample:
    if not len(frames) or int(frames.max()) >= banks.frames:  # the file is of a smaller machine
        return sample
    lines = lines_by_bank(frames, banks)
    return replace(sample, banks=int(np.count_nonzero(lines)), fullest_bank=float(lines.max() / lines.mean()))


def lines_by_bank(frames: NDArray[np.int64], banks: Banks) -> NDArray[np.int64]:
    """How many lines of these frames are in each bank of DRAM.

    Of more than 65,536 frames as many are drawn, so that a look stays short. They are not evenly spaced,
    because frames three apart may all be of the same channels.
    """
    if len(frames) > _MOST_FRAMES:
        frames = np.random.default_rng(0).choice(frames, _MOST_FRAMES)
    first = frames.astype(np.uint64) * np.uint64(FRAME_BYTES)
    lines = np.arange(0, FRAME_BYTES, LINE_BYTES, dtype=np.uint64)
    addresses: NDArray[np.uint64] = np.add.outer(first, lines).ravel()
    return np.bincount(banks.of(addresses).astype(np.int64), minlength=banks.count)


def conflict_shares(frames: list[NDArray[np.int64]], slots: int) -> list[float | None]:
    """Return for each process the share of its frames whose slot holds another frame of any process."""
    every = np.unique(np.concatenate(frames)) if frames else np.empty(0, dtype=np.int64)
    taken = np.bincount(every % slots, minlength=1) if len(every) else np.zeros(1, dtype=np.int64)
    return [float(np.mean(taken[own % slots] > 1)) if len(own) else None for own in frames]


def watch_job(config: SiteConfig, step: str, stepd: int) -> None:
    """Look at the step "JOB.STEP" until its slurmstepd has gone. Raises UsageError."""
    match = re.fullmatch(r"([0-9]{1,10})\.([0-9]{1,10}|script)", step)
    if match is None:
        raise UsageError(f"STEP {step}: a job and its step, as 12.0 or 12.script")
    system = System()
    cache = config.prolog.cache or side_cache_bytes(system)
    folder = config.node.state / FOLDER / match[1]
    watch_step(system, folder, match[2], stepd, cache, banks_of(config.node.machine))


def banks_of(machine: str) -> Banks | None:
    """Return the banks of that machine.

    Return None if no machine is named, or if its file has no [dram]. Raises UsageError.
    """
    if not machine:
        return None
    from pagelens.machine import load_machine  # takes up to a second

    dram = load_machine(machine).dram
    if dram is None:
        return None
    place = dram.map()
    return Banks(
        lambda addresses: place(addresses)[0],
        dram.channels * dram.banks_per_channel,
        dram.size // FRAME_BYTES,
    )


def watch_step(
    system: System, folder: Path, step: str, stepd: int, cache_bytes: int | None, banks: Banks | None = None
) -> None:
    """Look at a step until its slurmstepd has gone. The file in `folder` has the fullest look so far."""
    pause, most = _FIRST_S, 0
    started = _started(system, stepd)
    while True:
        time.sleep(pause)
        # A process that started later has only the number of this slurmstepd.
        if not system.text(f"/proc/{stepd}/cmdline") or _started(system, stepd) != started:
            return
        began = time.monotonic()
        samples = sample_step(system, step, stepd, cache_bytes, banks)
        total = sum(sample.resident for sample in samples)
        if total > most:
            most = total
            _keep(folder, step, samples)
        took = time.monotonic() - began
        pause = max(min(2 * pause, _MOST_S), took / _MOST_OF_TIME)


def _started(system: System, process: int) -> list[str]:
    """Return when a process started, as the kernel states it (proc(5): field 22 of stat)."""
    return system.text(f"/proc/{process}/stat").rpartition(")")[2].split()[19:20]


def _keep(folder: Path, step: str, samples: list[Sample]) -> None:
    partial = folder / f".{step}.partial"
    with suppress(OSError):  # a full disk: there is no page then
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        partial.write_text(json.dumps([asdict(sample) for sample in samples]))
        os.replace(partial, folder / f"{step}.json")


def kept_samples(folder: Path) -> list[dict[str, Any]]:
    """Return what the samplers of a job's steps kept."""
    found: list[dict[str, Any]] = []
    for path in sorted(folder.glob("*.json")):
        with suppress(OSError, ValueError):
            found += json.loads(path.read_text())
    return found


def _descendants(system: System, ancestor: int) -> Iterator[int]:
    children: dict[int, list[int]] = {}
    for name in system.names("/proc"):
        if name.isdigit():
            match = re.match(r"\d+ \(.*\) \S (\d+) ", system.text(f"/proc/{name}/stat"), re.DOTALL)
            if match:
                children.setdefault(int(match[1]), []).append(int(name))
    waiting = list(children.get(ancestor, []))
    while waiting:
        process = waiting.pop()
        yield process
        waiting += children.get(process, [])


def _variables(system: System, process: int) -> dict[str, str]:
    words = system.raw(f"/proc/{process}/environ").decode("utf-8", "replace").split("\0")
    return dict(word.partition("=")[::2] for word in words if "=" in word)


def _sizes(text: str) -> dict[str, int]:
    found = re.findall(r"^(\w+):\s+([0-9]{1,15}) kB$", text, re.MULTILINE)
    return {name: int(kilobytes) << 10 for name, kilobytes in found}


def _numa(text: str) -> dict[str, int]:
    found: dict[str, int] = {}
    for line in text.splitlines():
        size = re.search(r" kernelpagesize_kB=([0-9]{1,8})", line)
        for node, pages in re.findall(r" N([0-9]{1,4})=([0-9]{1,12})", line):
            found[node] = found.get(node, 0) + int(pages) * (int(size[1]) << 10 if size else FRAME_BYTES)
    return found


def _frames(system: System, process: int) -> NDArray[np.int64]:
    try:
        pages = read_process(process, system.root)
    except PagelensError:
        return np.empty(0, dtype=np.int64)
    first = (pages.addresses // FRAME_BYTES).astype(np.int64)
    count = pages.sizes // FRAME_BYTES
    starts = np.repeat(first - np.concatenate(([0], np.cumsum(count)[:-1])), count)
    return starts + np.arange(int(count.sum()))
