from .compiled import compile_flags as compile_flags
from .importers import find_importer as find_importer, importer_names as importer_names
from .job import JobWorkload as JobWorkload
from .program import locate as locate
from .rank_traces import (
    await_traces as await_traces,
    begin_trace as begin_trace,
    launch_began as launch_began,
    path_of_rank as path_of_rank,
)
from .trace import (
    CutOf as CutOf,
    TraceWorkload as TraceWorkload,
    describe_family as describe_family,
    is_trace as is_trace,
    open_trace as open_trace,
)
from .trace_end import end_in_words as end_in_words
from .trace_notes import (
    describe as describe,
    describe_end as describe_end,
    end_lines as end_lines,
    nothing_to_explain as nothing_to_explain,
)
from .trace_result import NoTrace as NoTrace
from .tracer import (
    DEFAULT_BUDGET as DEFAULT_BUDGET,
    STDERR as STDERR,
    TraceRequest as TraceRequest,
    trace_program as trace_program,
)
from .workload import ObjectInfo as ObjectInfo, Workload as Workload
