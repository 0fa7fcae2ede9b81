from .abilities import node_abilities as node_abilities
from .act import Pass as Pass, run_pass as run_pass
from .calibration import Calibration as Calibration, calibrate as calibrate
from .check import Check as Check
from .clean import run_clean as run_clean
from .collect import (
    Collected as Collected,
    collect_lines as collect_lines,
    collect_spools as collect_spools,
)
from .config import SiteConfig as SiteConfig, read_config as read_config
from .decision import (
    Rule as Rule,
    State as State,
    rule_of as rule_of,
)
from .epilog import run_epilog as run_epilog
from .fleet_model import Inputs as Inputs, Simulated as Simulated, simulate_site as simulate_site
from .history import (
    Action as Action,
    actions_of as actions_of,
    export_checks as export_checks,
    open_history as open_history,
    record_action as record_action,
)
from .job_sample import watch_job as watch_job
from .monitoring import (
    metrics_text as metrics_text,
    monitoring_file as monitoring_file,
    write_metrics as write_metrics,
)
from .node_check import CheckRequest as CheckRequest, measure_node as measure_node
from .page import export_page as export_page, serve_page as serve_page
from .prolog import run_prolog as run_prolog
from .record import Record as Record
from .standing import Standing as Standing, standings as standings
from .status import (
    FleetStatus as FleetStatus,
    NodeStatus as NodeStatus,
    fleet_status as fleet_status,
    node_status as node_status,
)
from .task_plan import write_task_plan as write_task_plan
