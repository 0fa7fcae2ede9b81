from .assignment import Assignment as Assignment
from .capacity import check_two_memories as check_two_memories, parse_capacity as parse_capacity
from .numa_nodes import (
    NodesReport as NodesReport,
    OnNodes as OnNodes,
    place_on_nodes as place_on_nodes,
)
from .object_list import read_list as read_list
from .outputs import (
    FIGURE as FIGURE,
    write_nodes as write_nodes,
    write_outputs as write_outputs,
)
from .plan import Plan as Plan, read_plan as read_plan, write_plan as write_plan
from .plan_builder import build_nodes_plan as build_nodes_plan
from .policies import ALL_FAST as ALL_FAST, OURS as OURS
from .profile import profiled_cut as profiled_cut
from .report import (
    ObjectRow as ObjectRow,
    PlaceReport as PlaceReport,
    PolicyRow as PolicyRow,
)
