"""Makes a plan for a task of a job, as the preload library reads it."""

from pathlib import Path

from pagelens.accesses.program import locate
from pagelens.errors import Failure
from pagelens.run.plan_handover import hand_over


def write_task_plan(plan: Path, program: str) -> Path:
    """Return the file for the library. Raises UsageError, and Failure if the node has nothing of the plan."""
    found = hand_over(plan, locate(program), None, None)
    if found is None:
        raise Failure(f"--pagelens-plan {plan}: nothing of it can be had on this node")
    return found
