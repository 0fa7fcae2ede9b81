"""Checks of nodes that never were, for tests of the site's history, its rule and its page."""

import numpy as np

from pagelens.site.check import Check
from pagelens.site.fleet_model.synthetic import Fleet, synthetic_checks

NOW = 1_790_000_000.0  # the moment of the last check


def check(
    node: str = "n1",
    *,
    boot: int = 0,
    uptime: float = 100.0,
    job: str = "",
    figure: float | None = 3.5e11,
    board: str = "",
    time: float | None = None,
    disturbed: bool = False,
    mode: str = "cache",
) -> Check:
    """One check; its id follows from what it says."""
    began = NOW - 3e5 + 1e5 * boot
    key = (node, boot, uptime, job, figure, board)
    return Check(
        version=1, id=f"{abs(hash(key)) & (1 << 127) - 1:032x}", node=node, board=board, boot=f"{boot:x}",
        hardware="KNL", mode=mode, time=began + uptime if time is None else time, uptime=uptime, job=job,
        kernels={} if figure is None else {"triad": figure}, disturbed=disturbed, free_blocks=[3, 2, 1],
    )  # fmt: skip


def fleet(nodes: int, checks: int, bad: float = 0.02, seed: int = 1) -> list[Check]:
    """A site's checks, some of its nodes bad."""
    return list(
        synthetic_checks(
            Fleet(nodes=nodes, checks=checks, bad_share=bad, end=NOW), np.random.default_rng(seed)
        )
    )
