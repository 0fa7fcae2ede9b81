from .compare import (
    QUICK_RATIOS as QUICK_RATIOS,
    RATIOS as RATIOS,
    VARIANTS as VARIANTS,
    Comparison as Comparison,
    Row as Row,
    compare_states as compare_states,
)
from .compare_table import (
    command_line as command_line,
    markdown as markdown,
    progress_line as progress_line,
    render_comparison as render_comparison,
)
from .emulator import NumaSpeed as NumaSpeed
from .guest import LIMIT_S as LIMIT_S
from .kernels import DEFAULT_KERNEL as DEFAULT_KERNEL, find_kernel as find_kernel
from .planned_program import PlanOnNodes as PlanOnNodes, place_on as place_on
from .run import (
    PAGES as PAGES,
    Counted as Counted,
    Request as Request,
    Result as Result,
    StepDone as StepDone,
    run_history as run_history,
)
from .slow_core import (
    Written as Written,
    write_in_guest as write_in_guest,
)
from .validate import (
    DEFAULT_HISTORIES as DEFAULT_HISTORIES,
    Compared as Compared,
    Validation as Validation,
    failures as failures,
    shape_distance as shape_distance,
    validate_model as validate_model,
)
