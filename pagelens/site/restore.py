"""Kernel settings for one job. They are written down first, and put back after the job."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from pagelens.host.system import System
from pagelens.site.budget import Budget
from pagelens.site.node_state import NodeState, save_state
from pagelens.site.record import Record


def keep(folder: Path, state: NodeState, record: Record) -> None:
    """Write the state. A full disk becomes a line in the record."""
    try:
        save_state(folder, state)
    except OSError as error:
        record.leave("state", f"cannot be written to {folder} ({error.strerror})")


def set_until_restored(
    system: System, budget: Budget, state: NodeState, folder: Path, path: str, value: str, before: str
) -> str:
    """Change a kernel setting, once its old value is on the disk. Return why that failed, if it did."""
    known = path in state.restore
    state.restore.setdefault(path, before)
    try:
        save_state(folder, state)
    except OSError as error:
        if not known:
            del state.restore[path]
        return f"not set, because it could not be noted in {folder} ({error.strerror})"
    return budget.attempt(partial(system.write, path, f"{value}\n"))


def put_back(
    system: System, budget: Budget, state: NodeState, folder: Path, record: Record, only: str = ""
) -> None:
    """Put back all settings that a job had, or only one.

    What cannot be put back now is tried again.
    """
    for path, value in list(state.restore.items()):
        if only and path != only:
            continue
        why = budget.attempt(partial(system.write, path, f"{value}\n"), 0.5)
        record.did(f"{path.rpartition('/')[2]} back to {value}", why)
        if not why:
            del state.restore[path]
    keep(folder, state, record)
