"""Sources of accesses: the tracer, trace files (`trace`), declared sweeps; all yield a `workload.Workload`.

Nothing is imported here: to trace a program needs none of what reads its trace, which takes half a second.
"""
