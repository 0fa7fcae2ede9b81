"""A site's nodes: what is done to their memory between jobs, and how fit they are over their age.

A Prolog must be short, so each name below is imported when it is used first.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pagelens.site.abilities import node_abilities
    from pagelens.site.act import Pass, run_pass
    from pagelens.site.calibration import Calibration, calibrate
    from pagelens.site.check import Check
    from pagelens.site.clean import run_clean
    from pagelens.site.collect import Collected, collect_lines, collect_spools
    from pagelens.site.config import SiteConfig, read_config
    from pagelens.site.decision import Rule, State, rule_of
    from pagelens.site.epilog import run_epilog
    from pagelens.site.history import Action, actions_of, export_checks, open_history, record_action
    from pagelens.site.job_sample import watch_job
    from pagelens.site.node_check import CheckRequest, measure_node
    from pagelens.site.prolog import run_prolog
    from pagelens.site.record import Record
    from pagelens.site.standing import Standing, standings
    from pagelens.site.status import FleetStatus, NodeStatus, fleet_status, node_status
    from pagelens.site.task_plan import task_plan

_MODULES = {
    "job_sample": ("watch_job",),
    "abilities": ("node_abilities",),
    "act": (
        "Pass",
        "run_pass",
    ),
    "calibration": (
        "Calibration",
        "calibrate",
    ),
    "check": ("Check",),
    "clean": ("run_clean",),
    "collect": (
        "Collected",
        "collect_lines",
        "collect_spools",
    ),
    "config": (
        "SiteConfig",
        "read_config",
    ),
    "decision": (
        "Rule",
        "State",
        "rule_of",
    ),
    "epilog": ("run_epilog",),
    "history": (
        "Action",
        "actions_of",
        "export_checks",
        "open_history",
        "record_action",
    ),
    "node_check": (
        "CheckRequest",
        "measure_node",
    ),
    "prolog": ("run_prolog",),
    "record": ("Record",),
    "standing": (
        "Standing",
        "standings",
    ),
    "status": (
        "FleetStatus",
        "NodeStatus",
        "fleet_status",
        "node_status",
    ),
    "task_plan": ("task_plan",),
}
_HOME = {name: module for module, names in _MODULES.items() for name in names}

__all__ = [
    "Action",
    "Calibration",
    "Check",
    "CheckRequest",
    "Collected",
    "FleetStatus",
    "NodeStatus",
    "Pass",
    "Record",
    "Rule",
    "SiteConfig",
    "Standing",
    "State",
    "actions_of",
    "calibrate",
    "collect_lines",
    "collect_spools",
    "export_checks",
    "fleet_status",
    "measure_node",
    "node_abilities",
    "node_status",
    "open_history",
    "read_config",
    "record_action",
    "rule_of",
    "run_clean",
    "run_epilog",
    "run_pass",
    "run_prolog",
    "standings",
    "task_plan",
    "watch_job",
]


def __getattr__(name: str) -> Any:
    """Imports what `name` stands for."""
    if name in _HOME:
        return getattr(import_module(f"pagelens.site.{_HOME[name]}"), name)
    raise AttributeError(f"module 'pagelens.site' has no attribute {name!r}")
