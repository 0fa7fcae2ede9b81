"""Cleans a slow node in a job that has the node for itself. It does the Prolog's work with more time."""

from __future__ import annotations

from collections.abc import Mapping

from pagelens.host.system import System
from pagelens.site.budget import Budget
from pagelens.site.config import SiteConfig
from pagelens.site.memory_steps import tidy
from pagelens.site.node_state import load_state, locked, other_jobs
from pagelens.site.record import Record


def run_clean(config: SiteConfig, environment: Mapping[str, str]) -> Record:
    """Drop caches, compact and sort, unless another job runs here."""
    budget = Budget(config.act.clean_budget_s)
    record = Record("cleaning", budget)
    record.job = environment.get("SLURM_JOB_ID", "")
    system = System(config.node.root)
    with locked(config.node.state, budget.end) as held:
        state = load_state(config.node.state, system)
        if not held:
            return record.leave("all", "a Prolog or an Epilog was at work")
        if others := other_jobs(state, system, record.job, config.prolog.forget_after_s):
            return record.leave("all", f"job {', '.join(others)} runs here, too")
        tidy(system, budget, config.prolog, config.prolog.sort == "auto", record)
    return record
