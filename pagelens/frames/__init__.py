"""Frames: what a node's history makes of its free lists, and which frames a policy takes from them."""

from pagelens.frames.history import CORI_MIX, FLEET_GRAIN, JobMix, NodeState, age_node
from pagelens.frames.policies import Costs, Policy, policies

__all__ = ["CORI_MIX", "FLEET_GRAIN", "Costs", "JobMix", "NodeState", "Policy", "age_node", "policies"]
