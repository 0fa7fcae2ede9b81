"""Sources of accesses: the tracer, trace files, declared sweeps; all yield a Workload."""

from pagelens.accesses.trace import TraceWorkload, is_trace, open_trace
from pagelens.accesses.workload import ObjectInfo, Workload

__all__ = ["ObjectInfo", "TraceWorkload", "Workload", "is_trace", "open_trace"]
