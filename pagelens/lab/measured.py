"""A guest whose every access feeds the caches of a machine while one of its programs is measured."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pagelens.address.units import FRAME_BYTES, HUGE_PAGE_FRAMES
from pagelens.errors import UsageError
from pagelens.host.native_files import native_file
from pagelens.lab.emulator import Hardware
from pagelens.lab.guest import LIMIT_S, Guest
from pagelens.lab.initramfs import Initramfs
from pagelens.lab.kernels import Kernel
from pagelens.machine import Machine

TOOL = "/bin/lab"  # tracer/guest/lab.c, in the guest
# The plugin's L1 keeps the page numbers of 4-level paging; a process has as many page tables each time.
_OPTIONS = "no5lvl norandmaps"

Frames = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class MemorySide:
    """The memory-side cache of each node, with `slots` pages (0 if there is no cache) in sets of `ways`."""

    slots: int
    ways: int = 1

    def conflicts(self, frames: Frames, node_begins: Sequence[int] = (0,)) -> int:
        """Return how many frames share their slot with another one (decision 4), whatever the ways."""
        if self.slots == 0:
            return 0
        node = np.searchsorted(np.asarray(node_begins), frames, side="right") - 1
        _, inverse, counts = np.unique(
            node * self.slots + frames % self.slots, return_inverse=True, return_counts=True
        )
        return int((counts[inverse] > 1).sum())


@dataclass(frozen=True, slots=True)
class NodeLines:
    """Lines of 64 bytes that a NUMA node's memory reads and writes, behind all caches."""

    reads: int
    writes: int

    def __add__(self, other: NodeLines) -> NodeLines:
        return NodeLines(self.reads + other.reads, self.writes + other.writes)


@dataclass(frozen=True, slots=True)
class Phase:
    """The counts from one marker to the next. The columns are those of `Ensemble.placements`."""

    name: str
    counts: dict[str, int]
    nodes: Sequence[NodeLines]


@dataclass(frozen=True, slots=True)
class Job:
    """A program that ran in the guest as a phase."""

    status: int  # exit status, as a shell's
    output: str
    phases: list[Phase]  # the phase itself, then regions that the program marks
    frames: Frames = field(repr=False)  # held at its peak, and used; ascending
    huge_parts: Frames = field(repr=False)  # the number of these frames in each large page of 2 MiB


class MeasuredGuest(Guest):
    """A guest with the plugin loaded and /bin/lab in it. It takes the parameters of Guest, and a machine.

    `machine` gives the private caches, `memory_side` the size of what lies behind them.
    """

    def __init__(
        self,
        machine: Machine,
        memory_side: MemorySide,
        hardware: Hardware,
        kernel: str | Kernel,
        root: Initramfs,
        append: str = "",
        limit_s: float = LIMIT_S,
    ) -> None:
        root.add(TOOL, native_file("pagelens_guest_lab"), 0o755)
        self._outputs = tempfile.TemporaryDirectory(prefix="pagelens-lab-")
        folder = Path(self._outputs.name)
        self._results, self._data = folder / "results", folder / "data"
        self._results_read = self._data_read = 0
        self.machine, self.memory_side, self.hardware = machine, memory_side, hardware
        super().__init__(
            kernel=kernel,
            memory=hardware.memory_bytes,
            files=root,
            append=f"{_OPTIONS} {append}",
            nodes=hardware.nodes,
            cpus=hardware.cpus,
            fast=hardware.fast_bytes,
            speeds=hardware.speeds,
            plugin=self._plugin_option(),
            limit_s=limit_s,
        )

    def close(self) -> None:
        """End the emulator and remove what the plugin wrote."""
        super().close()
        self._outputs.cleanup()

    def job(
        self, phase: str, command: Sequence[str], on_output: Callable[[bytes], None] | None = None
    ) -> Job:
        """Run a program of the guest to its end as a phase of that name, and count its accesses."""
        self.reports(), self.handed_over()  # what was there before is not this job's
        done = self.run(TOOL, "job", phase, *command, on_output=on_output)
        reports = self.reports()
        if done.status in (125, 126, 127) and not reports:
            raise UsageError(f"{command[0]} does not run in the guest: {done.output.strip()}")
        phases = [_phase(report) for report in reports if "phase" in report]
        return Job(done.status, done.output, phases, *self._frames_of_job())

    def _frames_of_job(self) -> tuple[Frames, Frames]:
        """Return the frames of the last job. The plugin hands over those used, then the tool those held."""
        return frames_and_parts(self.handed_over(), self.hardware.frames_end)

    def reports(self) -> list[dict[str, Any]]:
        """Return what the plugin reported since the last call."""
        text = self._results.read_bytes()[self._results_read :]
        self._results_read += len(text)
        return [json.loads(line) for line in text.decode(errors="replace").splitlines()]

    def handed_over(self) -> bytes:
        """Return the bytes that the guest's programs handed over since the last call."""
        data = self._data.read_bytes()[self._data_read :]
        self._data_read += len(data)
        return data

    def _plugin_option(self) -> str:
        l1, l2 = self.machine.private_caches
        if l1.sets != FRAME_BYTES // 64:
            raise UsageError(
                f"--machine {self.machine.name}: its L1 has {l1.sets} sets; the lab needs 64, those of a page"
            )
        memory = self.memory_side
        options = {
            "file": native_file("libpagelens_lab.so"),
            "results": self._results,
            "data": self._data,
            "cores": max(self.hardware.cpus, self.hardware.nodes),
            "l1": l1.ways.value,
            "l2": f"{l2.sets}:{l2.ways.value}:{l2.shared_by.value}",
            "cache": f"{memory.slots}:{memory.ways}",
            "nodes": ":".join(map(str, self.hardware.node_begins)),
            "frames": self.hardware.frames_end,
        }
        return ",".join(f"{key}={str(value).replace(',', ',,')}" for key, value in options.items())


def _phase(report: dict[str, Any]) -> Phase:
    name, nodes = report.pop("phase"), report.pop("nodes")
    return Phase(name, report, [NodeLines(**node) for node in nodes])


def frames_and_parts(data: bytes, frames_end: int) -> tuple[Frames, Frames]:
    """Return `Job.frames` and `huge_parts` from three bitmaps: frames used, held, and large.

    The first bitmap covers all frames that exist. The other two have equal lengths. In them, a large page is
    one whose frames are all held and whose first frame is large. The kernel must say so, because small pages
    can fill 2 MiB too. Parts of a large page that were not used do not count.
    """
    end = -(-frames_end // 8)
    tail = data[end:]
    frames = np.zeros((3, -(-frames_end // HUGE_PAGE_FRAMES) * HUGE_PAGE_FRAMES), dtype=bool)
    for row, part in zip(frames, (data[:end], tail[: len(tail) // 2], tail[len(tail) // 2 :]), strict=True):
        bits = np.unpackbits(np.frombuffer(part, dtype=np.uint8), bitorder="little")
        row[: bits.size] = bits[: row.size]
    used, held, large = frames
    used &= held
    whole = held.reshape(-1, HUGE_PAGE_FRAMES).all(axis=1) & large[::HUGE_PAGE_FRAMES]
    parts = used.reshape(-1, HUGE_PAGE_FRAMES).sum(axis=1)[whole]
    return np.flatnonzero(used).astype(np.int64), parts.astype(np.int64)
