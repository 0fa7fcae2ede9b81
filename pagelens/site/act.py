"""A pass over the fleet: a slow node is cleaned, then rebooted, then drained for people.

An action is in the history before Slurm hears of it. So a pass that is killed leaves nothing unknown: the
next pass checks whether Slurm heard, and asks again if not.
"""

from __future__ import annotations

import fcntl
import os
import sqlite3
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from pagelens.errors import Failure
from pagelens.site.config import SiteConfig
from pagelens.site.decision import rule_of
from pagelens.site.history import (
    Action,
    actions_of,
    actions_with,
    finish_action,
    open_history,
    record_action,
)
from pagelens.site.plan_actions import NOT_DONE, Planned, plan_actions, reason_for
from pagelens.site.slurm import Slurm, SlurmError, SlurmNode
from pagelens.site.standing import standings

BEGUN, DONE = "begun", "done"


@dataclass
class Pass:
    """What a pass did: one entry for each slow node, and lines on what kept it from doing more."""

    planned: list[Planned] = field(default_factory=list)
    failed: dict[str, str] = field(default_factory=dict)  # what Slurm answered, by node
    said: list[str] = field(default_factory=list)
    dry_run: bool = True

    def to_json(self) -> dict[str, Any]:
        """Return everything by name."""
        return {"schema": "pagelens site act", "version": 1, **asdict(self)}


def run_pass(
    config: SiteConfig,
    config_path: Path,
    dry_run: bool,
    slurm: Slurm | None = None,
    clock: Callable[[], float] = time.time,
) -> Pass:
    """Do what is due. If Slurm does not answer, do nothing and say so. Raises Failure."""
    found = Pass(dry_run=dry_run)
    with nullcontext(True) if dry_run else _only_pass(config.history.database) as alone:
        if not alone:
            found.said.append("another pass is at work; nothing was done")
            return found
        with open_history(config.history.database, write=not dry_run) as history:
            try:
                _work(found, history, config, config_path, slurm or Slurm(), clock())
            except SlurmError as error:
                found.said.append(f"Slurm does not answer ({error}); the next pass tries again")
    return found


def _work(
    found: Pass, history: sqlite3.Connection, config: SiteConfig, config_path: Path, slurm: Slurm, now: float
) -> None:
    nodes, cleaning = slurm.nodes(), slurm.cleaning()
    worker = _Worker(slurm, nodes, config, config_path)
    if not found.dry_run:
        _finish_begun(found, history, worker, cleaning)
    past = actions_of(history)
    busy = frozenset(
        action.name
        for number, action in actions_with(history, DONE)
        if action.step == "clean" and cleaning.get(number, False)
    )
    found.planned = plan_actions(
        standings(history, rule_of(config.decision), now), nodes, past, busy, config.act, now
    )
    if found.dry_run:
        return
    for planned in found.planned:
        if not planned.step:
            continue
        action = Action(now, planned.node, planned.step, planned.why, planned.figures, BEGUN)
        number = record_action(history, action)
        _carry_out(found, history, worker, number, action)


def _finish_begun(
    found: Pass, history: sqlite3.Connection, worker: _Worker, cleaning: Mapping[int, bool]
) -> None:
    """Finish what an earlier pass began before it was killed."""
    for number, action in actions_with(history, BEGUN):
        node = worker.nodes.get(action.name)
        if node is None:
            finish_action(history, number, f"{NOT_DONE}: Slurm has no such node")
        elif _was_heard(number, action, node, cleaning):
            finish_action(history, number, DONE)
        elif not node.is_ours or node.is_out:
            finish_action(history, number, f"{NOT_DONE}: the node is out by now")
        else:
            _carry_out(found, history, worker, number, action)


def _was_heard(number: int, action: Action, node: SlurmNode, cleaning: Mapping[int, bool]) -> bool:
    if action.step == "clean":
        return number in cleaning
    if f"#{number}," in node.reason:
        return True
    if action.step != "reboot":
        return False
    try:  # without a zone, Slurm's times are local ones
        return time.mktime(time.strptime(node.started, "%Y-%m-%dT%H:%M:%S")) >= action.at
    except ValueError:
        return False


def _carry_out(
    found: Pass, history: sqlite3.Connection, worker: _Worker, number: int, action: Action
) -> None:
    try:
        worker.do(number, action)
    except SlurmError as error:
        if "Unable to contact slurm controller" in str(error) or "no answer" in str(error):
            raise  # it stays begun, and the next pass asks again
        found.failed[action.name] = str(error)
        finish_action(history, number, f"failed: {error}")
    else:
        finish_action(history, number, DONE)


@dataclass(frozen=True)
class _Worker:
    """Asks Slurm for a step."""

    slurm: Slurm
    nodes: dict[str, SlurmNode]
    config: SiteConfig
    config_path: Path

    def do(self, number: int, action: Action) -> None:
        """Do the step. Raises SlurmError."""
        reason = reason_for(action.step, number, action.reason)
        match action.step:
            case "clean":
                user = self.config.act.clean_user
                command = [sys.executable, "-m", "pagelens", "site", "clean", "--config"]
                self.slurm.clean(
                    self.nodes[action.name],
                    number,
                    user,
                    [*command, str(self.config_path)] if user == "root" else ["true"],
                )
            case "reboot":
                self.slurm.reboot(action.name, reason)
            case _:
                self.slurm.drain(action.name, reason)


@contextmanager
def _only_pass(database: Path) -> Iterator[bool]:
    """Hold the lock of all passes over a history. It goes with the process."""
    path = database.with_name(f"{database.name}.act-lock")
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    except OSError as error:
        raise Failure(
            f"history: cannot lock {path} ({error.strerror}); run it as the history's owner"
        ) from None
    try:
        try:
            fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            yield False
        else:
            yield True
    finally:
        os.close(descriptor)
