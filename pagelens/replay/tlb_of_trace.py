"""Replays a trace through TLBs alone: what each thread misses with pages of one size."""

from pagelens import _core
from pagelens.accesses.trace import TraceWorkload
from pagelens.errors import UsageError
from pagelens.machine.tlb import PAGE_SIZES
from pagelens.units import format_binary_size


def replay_trace(
    workload: TraceWorkload, tlb: _core.Tlb, page_bytes: int
) -> dict[tuple[str, int], _core.TlbCounters]:
    """Return the counters of a traced program by phase and thread, with all its data on pages of that size.

    Each thread has a TLB like `tlb`, which has to be empty. All counters but `lookups` are exact, because the
    trace has only some of the lookups. Raises UsageError if the TLB does not have the page size, or if the
    trace is not exact for it.
    """
    size = PAGE_SIZES.get(page_bytes)
    if size is None or not tlb.supports(size):
        sizes = ", ".join(format_binary_size(b) for b, name in PAGE_SIZES.items() if tlb.supports(name))
        raise UsageError(f"page size: {page_bytes} B is none of this TLB's; use one of {sizes}")
    trace = workload.trace
    if not _core.trace_is_exact_for(trace, tlb, size):
        sets, ways = trace.page_filter
        raise UsageError(
            f"{workload.path}: its page filter of {sets} sets x {ways} ways hides what this TLB's first level"
            f" for {format_binary_size(page_bytes)} pages has to see; trace the program with --any-tlb"
        )
    counters = iter(_core.replay_pages(trace, tlb, size))
    threads = range(trace.threads)
    return {(phase, thread): next(counters) for phase in workload.phases for thread in threads}
