"""What is read and measured of the machine that this runs on."""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pagelens import _probes
from pagelens.address.pages import Pages, read_pages
from pagelens.audit import Audit, Finding, find, read_audit
from pagelens.audit.frame_map import read_frame_map
from pagelens.conflicts import Prediction, predict, socket_of
from pagelens.errors import UsageError
from pagelens.machine import Machine
from pagelens.machine.chosen import choose_machine
from pagelens.machine.detect import System
from pagelens.measure.kernels import KERNELS
from pagelens.measure.pages import parse_page_sizes, reserved
from pagelens.measure.plan import Settings
from pagelens.measure.results import Measured, evaluate
from pagelens.measure.trials import Setup, run_trials
from pagelens.spelling import nearest
from pagelens.units import parse_size


@dataclass(frozen=True)
class NodeAudit:
    """What was read of a node, and what it means for the next job."""

    read: Audit
    findings: tuple[Finding, ...]  # the worst first

    def __repr__(self) -> str:
        lines = (f"{one.severity}: {one.seen}" for one in self.findings)
        return "\n".join([self.read.machine, *lines])


def audit(machine: Machine | None = None, root: str | os.PathLike[str] = "/") -> NodeAudit:
    """Says how fit this node's memory is for the next job's placement.

    Needs no rights; root is shown more. `machine` is what the node is taken for, else what detection finds.
    `root` is the folder that holds proc/ and sys/, for a captured tree.

    >>> audit().read.nodes[0].size > 0
    True
    """
    system = System(Path(root))
    read = read_audit(system, machine or choose_machine(None, system).machine, read_frame_map(system))
    return NodeAudit(read, find(read, None))


def conflicts(
    machine: Machine,
    pages: Pages | str | os.PathLike[str],
    cores: int | None = None,
    held: str | int | None = None,
) -> Prediction:
    """Counts the lines of some pages that snoop filter and caches cannot hold at the same time.

        `pages` is a file with one physical address or frame number a line (docs/conflicts.md), or Pages. The
        lines are held by `cores` cores (else all of a socket), each L2 with `held` bytes of them (else full).
        `shares` of the result are the shares of lines beyond the ways of their sets, one for each window.

        Raises UsageError for a machine whose slices are not known, and for a file that lists no pages.

        >>> import numpy as np
        >>> from pagelens import _probes
    from pagelens.address.pages import Pages
        >>> pages = Pages(np.arange(16, dtype=np.uint64) << 21, np.full(16, 2 << 20))
        >>> float(conflicts(machine("skx-8160"), pages).shares.max()) < 1
        True
    """
    listed = pages if isinstance(pages, Pages) else read_pages(Path(pages), None, "pages")
    held_bytes = parse_size(held, "held") if isinstance(held, str) else held
    return predict(socket_of(machine), listed, cores, held_bytes)


def measure(
    benchmark: str, trials: int = 20, page_size: str = "4k", seed: int = 1, **settings: Any
) -> Measured:
    """Measures the speed of this machine as a distribution over page maps: each trial has a map of its own.

    `benchmark` is one that `pagelens measure --help` lists; `settings` are its options, such as n=1000000.
    `results` of what is returned has a summary for each point and page size; `values` are its trials' figures
    in the unit of the benchmark: GB/s, 10^9 updates a second, or ns a load.

    Raises UsageError for an unknown benchmark or page size.

    >>> [len(result.values) for result in measure("stream", trials=2, n=100_000, kernels="triad").results]
    [2]
    """
    if benchmark not in KERNELS:
        raise UsageError(
            f"benchmark: '{benchmark}' is unknown; did you mean {nearest(benchmark, [*KERNELS])}?"
        )
    cpus, pages = sorted(os.sched_getaffinity(0)), parse_page_sizes(page_size)
    known = choose_machine(None).machine
    cache_bytes = max(_probes.last_level_bytes(cpus), 1 << 20)
    plan = KERNELS[benchmark][0](Settings(cpus, 3, seed, cache_bytes, **settings))
    setup = Setup(
        points=plan.points,
        pages=pages,
        memory_bytes=plan.memory_bytes,
        arrays=plan.arrays,
        cpus=cpus,
        trials=trials,
        seed=seed,
        retries=3,
        ballast_bytes=0,
        scatter=0.5,
        overlapped=False,
        counted=lambda run: (run(), {}),
    )
    _probes.request_stop(False)
    with reserved(pages, plan.memory_bytes, plan.memory_bytes):
        done = list(run_trials(setup, lambda: False))
    return evaluate(plan, done, known, [], seed, interrupted=False)
