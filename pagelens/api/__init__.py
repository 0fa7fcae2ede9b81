"""The functions that notebooks and commands call; `import pagelens` offers them (docs/api.md)."""

from pagelens.api.differences import diff
from pagelens.api.ensembles import Ensemble, simulate
from pagelens.api.explanations import Explanation, explain
from pagelens.api.job_costs import JobCost, job_cost
from pagelens.api.modelled_machines import machine, machines
from pagelens.api.real_machine import audit, conflicts, measure
from pagelens.api.two_memories import place
from pagelens.api.workloads import Declared, import_trace, record, trace, workload

__all__ = [
    "Declared",
    "Ensemble",
    "Explanation",
    "JobCost",
    "audit",
    "conflicts",
    "diff",
    "explain",
    "import_trace",
    "job_cost",
    "machine",
    "machines",
    "measure",
    "place",
    "record",
    "simulate",
    "trace",
    "workload",
]
