"""Decides which frames a job gets: the history of a node, and the policies that place a job on it."""

from pagelens.frames.language import parse_history
from pagelens.frames.mix import JobMix, load_mix
from pagelens.frames.modifiers import MODIFIERS, find_policy
from pagelens.frames.node import DEFAULT_HISTORY, Node, age_node, fleet_grain
from pagelens.frames.policies import (
    Costs,
    Host,
    Job,
    Policy,
    Remedy,
    RunOptions,
    placed_by,
    policies,
    register,
)
from pagelens.frames.steps import STEPS, Step

__all__ = [
    "DEFAULT_HISTORY",
    "MODIFIERS",
    "STEPS",
    "Costs",
    "Host",
    "Job",
    "JobMix",
    "Node",
    "Policy",
    "Remedy",
    "RunOptions",
    "Step",
    "age_node",
    "find_policy",
    "fleet_grain",
    "load_mix",
    "parse_history",
    "placed_by",
    "policies",
    "register",
]
