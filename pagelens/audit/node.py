"""Audits one node: reads the machine, probes its memory on request, and draws findings."""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from pagelens.audit.findings import find
from pagelens.audit.model import Audit, Finding, Probe
from pagelens.audit.probe import Ground, Job, judge, take
from pagelens.audit.probe_limits import require_room
from pagelens.audit.read import read_audit
from pagelens.errors import UsageError
from pagelens.host.file_pages import CachedFile, read_cached
from pagelens.host.frame_map import FrameMap, read_frame_map
from pagelens.host.own_pages import PAGE_SIZES
from pagelens.host.system import System
from pagelens.machine import Machine, load_machine, parse_machine
from pagelens.machine.detect import detect
from pagelens.units import format_binary_size, parse_size

SCHEMA_VERSION = 1  # of to_json(); a version only adds fields

Report = Callable[[int, int], None]
Progress = Callable[[str], AbstractContextManager[Report]]  # from the name of a step to its (done, total)


@dataclass(frozen=True, repr=False)
class AuditReport:
    """What a node's memory is like for the next job: the readings, the probe and the findings."""

    audit: Audit  # holds what was read
    findings: tuple[Finding, ...]  # most important first
    probe: Probe | None = None  # None if no memory was probed

    def __repr__(self) -> str:
        """Return the machine and the codes of the findings."""
        codes = ", ".join(f"{finding.severity} {finding.code}" for finding in self.findings) or "no findings"
        return f"<AuditReport of {self.audit.machine}: {codes}>"

    def to_json(self) -> dict[str, Any]:
        """Return everything by name, as docs/audit.md lists it."""
        probe = None if self.probe is None else asdict(self.probe)
        head = {"schema": "pagelens audit", "version": SCHEMA_VERSION}
        return head | asdict(self.audit) | {"probe": probe, "findings": [asdict(f) for f in self.findings]}


def _silent(_: str) -> AbstractContextManager[Report]:
    return nullcontext(lambda done, total: None)


def audit(
    root: str | Path = "/",
    machine: Machine | str | None = None,
    *,
    probe: int | str | None = None,
    page_size: str = "4k",
    frame_flags: bool = True,
    files: Sequence[str | Path] = (),
    progress: Progress = _silent,
) -> AuditReport:
    """Judge how fit a node's memory is for the placement of the next job.

    Args:
        root: "/" for this machine, or the folder of a captured tree that holds proc/ and sys/.
        machine: the machine to take the node for; detected if None. A string is a name or a file.
        probe: bytes, or a size such as "8GiB", to allocate for a moment so that its frames can be judged.
        page_size: pages of the probe: "4k", "thp" (transparent), or "2m" and "1g" from the pools.
        frame_flags: whether to read the flags of every frame, which takes root about 0.04 s per GiB.
        files: files, or folders with files, whose pages in the page cache are counted by NUMA node.
        progress: shows the progress of each step.

    Raises:
        UsageError: if `root` is no such tree, the machine cannot be audited, the probe does not fit, or a
            file cannot be read.
        Failure: if the kernel cannot give the probe its memory.

    >>> report = audit(frame_flags=False)
    >>> {finding.severity for finding in report.findings} <= {"bad", "warning", "note"}
    True
    """
    folder = Path(root)
    if not folder.is_dir():
        raise UsageError(f"--root {root}: no such folder; name one that holds proc/ and sys/")
    if page_size not in PAGE_SIZES:
        raise UsageError(f"--page-size {page_size}: one of {', '.join(PAGE_SIZES)}")
    system = System(folder)
    if files and system.captured:
        raise UsageError(f"--files {files[0]}: the page cache is this machine's; leave out --root")
    size = parse_size(probe, "--probe") if isinstance(probe, str) else probe
    if size is not None and system.captured:
        raise UsageError(f"--probe {probe}: a probe takes memory of this machine; leave out --root")
    if not any((folder / name).is_dir() for name in ("proc", "sys")):  # else nothing would be found wrong
        raise UsageError(f"--root {root}: holds neither proc/ nor sys/; name a tree that does")
    model = _machine(machine, system)
    model.require_linux_pages("audit")
    with progress("reading frame flags") as report:
        frames = read_frame_map(system, report) if frame_flags else None
    found = replace(read_audit(system, model, frames), files=_files(files, progress))
    probed = None if size is None else _probe(Job(size, page_size), found, model, system, frames, progress)
    return AuditReport(found, find(found, probed), probed)


def _files(files: Sequence[str | Path], progress: Progress) -> tuple[CachedFile, ...]:
    found = []
    for each in files:
        with progress(f"looking at the pages of {Path(each).name}") as report:
            found.append(read_cached(Path(each), report))
    return tuple(found)


def may_be(machine: Machine, system: System) -> bool:
    """Return whether a machine file may describe this system.

    It may if detection wrote it, or if it is based on the same kind of processor.
    """
    here = detect(system)
    return machine.name == here.name or (here.base is not None and here.base in machine.base)


def _machine(machine: Machine | str | None, system: System) -> Machine:
    if machine is None:
        return parse_machine(detect(system).to_toml().encode(), "machine")
    return load_machine(machine) if isinstance(machine, str) else machine


def _probe(
    job: Job, found: Audit, model: Machine, system: System, free: FrameMap | None, progress: Progress
) -> Probe:
    """Take memory only if its frames can be seen; otherwise judge by the model's rule alone."""
    from pagelens import _probes  # takes time to load; other audits do not need it

    require_room(found, job.size, job.pages, _probes.available_bytes())
    frames = None
    if found.rights.frames:
        with progress(f"taking {format_binary_size(job.size)}") as report:
            frames = take(job, report)
    ground = Ground.of(found, model, not may_be(model, system), system, free)
    with progress("trying remedies") as report:
        return judge(job, frames, ground, report)
