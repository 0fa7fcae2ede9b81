from .assumed_values import try_assumed as try_assumed
from .differences import diff as diff
from .ensembles import (
    MOST_NODES as MOST_NODES,
    WHOLE_RUN as WHOLE_RUN,
    Ensemble as Ensemble,
    check_ranks as check_ranks,
    choose_phase as choose_phase,
    fill_node as fill_node,
    sharing_cores as sharing_cores,
    simulate as simulate,
)
from .explanations import Explanation as Explanation, explain as explain
from .job_costs import JobCost as JobCost, job_cost as job_cost
from .modelled_machines import machine as machine, machines as machines
from .planned_remedy import PlannedRemedy as PlannedRemedy, write_nodes_plan as write_nodes_plan
from .real_machine import (
    audit as audit,
    conflicts as conflicts,
    measure as measure,
)
from .two_memories import place as place
from .workloads import (
    Declared as Declared,
    import_trace as import_trace,
    record as record,
    trace as trace,
    traces as traces,
    workload as workload,
)
