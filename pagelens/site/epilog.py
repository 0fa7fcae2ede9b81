"""The Epilog: what a job's Prolog set up is taken back, and the job's page is written."""

from __future__ import annotations

from collections.abc import Mapping

from pagelens.host.system import System
from pagelens.site.budget import Budget
from pagelens.site.config import SiteConfig
from pagelens.site.job_options import read_options
from pagelens.site.memory_steps import SORT
from pagelens.site.node_state import load_state, locked, other_jobs
from pagelens.site.record import Record
from pagelens.site.restore import keep, put_back


def run_epilog(config: SiteConfig, environment: Mapping[str, str]) -> Record:
    """Puts the node back to how it was before the job that Slurm names in the environment."""
    budget = Budget(config.epilog.budget_s)
    record = Record("epilog", budget)
    options = read_options(environment)
    if options is None:
        return record.leave("all", "no SLURM_JOB_ID and SLURM_JOB_UID; let slurmd start this as its Epilog")
    record.job = options.job
    system, folder = System(config.node.root), config.node.state
    with locked(folder, budget.end) as held:
        if not held:
            return record.leave("all", "another Prolog or Epilog was at work")
        state = load_state(folder, system)
        if options.job in state.jobs:
            state.jobs[options.job].ended = True
        others = other_jobs(state, system, options.job, config.prolog.forget_after_s)
        # Pools stay while others run, because those may use them by now. The last Epilog puts them back.
        put_back(system, budget, state, folder, record, only=f"{SORT}/sort_interval" if others else "")
        state.jobs.pop(options.job, None)
        keep(folder, state, record)
    return record
