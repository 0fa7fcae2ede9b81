"""The Epilog: it undoes what a job's Prolog set up, and writes the job's page."""

from __future__ import annotations

import shutil
import time
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from pagelens.errors import PagelensError
from pagelens.host.system import System
from pagelens.host.virtual_machine import in_virtual_machine
from pagelens.site.budget import Budget
from pagelens.site.config import SiteConfig
from pagelens.site.job_options import JobOptions, read_options
from pagelens.site.memory_steps import SORT
from pagelens.site.node_state import load_state, locked, other_jobs
from pagelens.site.record import Record
from pagelens.site.restore import keep, put_back

if TYPE_CHECKING:
    from pagelens.site.check import ProgramMemory


_STEPS_BETWEEN_LOOKS = 1000  # of SQLite's machine, at the clock: some microseconds


def run_epilog(config: SiteConfig, environment: Mapping[str, str]) -> Record:
    """Put the node back to how it was before the job that Slurm names in the environment."""
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
    if options.report is not None:
        node = environment.get("SLURMD_NODENAME", "node")
        _write_page(options.report, config, options, node, budget, record)
    shutil.rmtree(folder / "jobs" / options.job, ignore_errors=True)
    return record


# The imports below take up to a second. Only a job that has a page waits for them.


def _write_page(
    to: Path, config: SiteConfig, options: JobOptions, node: str, budget: Budget, record: Record
) -> None:
    from pagelens.site.job_page import as_user, write_job_page
    from pagelens.site.job_sample import FOLDER, kept_samples
    from pagelens.site.program_memory import leave, programs_of

    samples = kept_samples(config.node.state / FOLDER / options.job)
    programs = programs_of(samples)
    leave(config.node.state, options.job, programs)
    said = _beside_fleet(config, node, options.job, programs, budget)
    if in_virtual_machine() and any(sample.get("conflict_share") is not None for sample in samples):
        said = (
            f"{said} Node {node} is a virtual machine: which slots and banks its pages share is up to its "
            "host.".strip()
        )
    write = partial(write_job_page, to, options.job, node, samples, said)
    record.did("the job's page", budget.attempt(as_user(options.uid, write)))


def _beside_fleet(
    config: SiteConfig, node: str, job: str, programs: Sequence[ProgramMemory], budget: Budget
) -> str:
    """Return how this node and this job compare with others, if the history can be read from here.

    Half of the time that is left may go into it; a history that takes longer is left out.
    """
    if not config.history.database.is_file():
        return ""
    from pagelens.site.decision import rule_of
    from pagelens.site.history import open_history
    from pagelens.site.program_memory import beside_others
    from pagelens.site.standing import standings
    from pagelens.units import format_rate

    try:
        with open_history(config.history.database) as history:
            limit = time.monotonic() + budget.left_s / 2
            history.set_progress_handler(lambda: time.monotonic() > limit, _STEPS_BETWEEN_LOOKS)
            found = [one for one in standings(history, rule_of(config.decision)) if one.node == node]
            said = beside_others(history, node, job, programs, time.time())
    except PagelensError:
        return ""
    one = found[0] if found else None
    if one is not None and one.figure is not None and one.peers is not None:
        said.insert(
            0,
            f"Node {node} last reached {format_rate(one.figure)}, and nodes of its kind "
            f"{format_rate(one.peers)}; it is {one.state} ({one.reason}).",
        )
    return " ".join(said)
