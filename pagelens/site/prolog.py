"""The Prolog: it puts a node's memory in order before a job, as far as time allows.

Whatever goes wrong is a line in the log, and never ends the job. A node that other jobs share is left alone,
because dropping caches and sorting would disturb them.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path

from pagelens.host.system import System
from pagelens.host.virtual_machine import in_virtual_machine
from pagelens.site import memory_steps
from pagelens.site.budget import Budget
from pagelens.site.config import SiteConfig
from pagelens.site.job_options import JobOptions, read_options
from pagelens.site.node_state import (
    NodeState,
    RunningJob,
    load_state,
    locked,
    other_jobs,
    uptime_s,
)
from pagelens.site.record import Record
from pagelens.site.restore import keep, put_back, set_until_restored

_INTERVAL = f"{memory_steps.SORT}/sort_interval"


def run_prolog(config: SiteConfig, environment: Mapping[str, str]) -> Record:
    """Prepare this node for the job that Slurm names in the environment."""
    budget = Budget(config.prolog.budget_s)
    record = Record("prolog", budget)
    options = read_options(environment)
    if options is None:
        return record.leave("all", "no SLURM_JOB_ID and SLURM_JOB_UID; let slurmd start this as its Prolog")
    record.job = options.job
    for value in options.ignored:
        record.leave(value, "is no valid value")
    system = System(config.node.root)
    with locked(config.node.state, budget.end) as held:
        if not held:
            return record.leave("all", "another Prolog or Epilog was at work")
        state = load_state(config.node.state, system)
        others = other_jobs(state, system, options.job, config.prolog.forget_after_s)
        state.jobs = {job: of for job, of in state.jobs.items() if job in others}
        _forget_looks(config.node.state / "jobs", state)
        state.jobs[options.job] = RunningJob(options.uid, uptime_s(system))
        keep(config.node.state, state, record)
        if others:
            put_back(system, budget, state, config.node.state, record, only=_INTERVAL)
            record.leave("all", f"job {', '.join(others)} runs here, too")
        else:
            put_back(system, budget, state, config.node.state, record)
            _prepare(system, budget, config, options, state, record)
        state.last = record.to_json()
        keep(config.node.state, state, record)
    return record


def _forget_looks(folder: Path, state: NodeState) -> None:
    """Remove what samplers kept of jobs whose Epilog was killed."""
    for path in folder.glob("*"):
        if path.name not in state.jobs:
            shutil.rmtree(path, ignore_errors=True)


def _prepare(
    system: System,
    budget: Budget,
    config: SiteConfig,
    options: JobOptions,
    state: NodeState,
    record: Record,
) -> None:
    wanted = config.prolog
    sorting = wanted.sort == "auto" and options.sort
    can_sort = memory_steps.tidy(system, budget, wanted, sorting, record)
    if options.pool_page_bytes and wanted.pool_share:
        _fill_pool(system, budget, config, options, state, record)
    if sorting and not can_sort:
        _order_without_module(system, budget, config, options, record)
    if can_sort and options.interval_s:
        seconds = max(options.interval_s, wanted.least_interval_s)
        why = set_until_restored(
            system, budget, state, config.node.state, _INTERVAL, f"{seconds}", before="0"
        )
        record.did(f"sort every {seconds} s", why)


def _fill_pool(
    system: System,
    budget: Budget,
    config: SiteConfig,
    options: JobOptions,
    state: NodeState,
    record: Record,
) -> None:
    size = options.pool_page_bytes
    what = f"pool of {'1 GiB' if size == 1 << 30 else '2 MiB'} pages"
    target = memory_steps.pool_target(system, size, config.prolog.pool_share)
    if target is None:
        record.leave(what, "the kernel has none")
        return
    path = memory_steps.pool_file(size)
    before = system.text(path)
    why = set_until_restored(system, budget, state, config.node.state, path, f"{target}", before)
    record.did(what, why, f"{system.text(path)} of {target}")


def _order_without_module(
    system: System, budget: Budget, config: SiteConfig, options: JobOptions, record: Record
) -> None:
    cache = config.prolog.cache or memory_steps.side_cache_bytes(system)
    if options.pool_page_bytes and cache and not system.captured and not in_virtual_machine():
        record.did("order the pool", memory_steps.order_pool(system, budget, options.pool_page_bytes, cache))
    elif cache:
        record.leave("sort", "the module zonesort_module is not here; see docs/zonesort.md")
    else:
        record.leave("sort", "no module zonesort_module, and no memory-side cache that is known of")
