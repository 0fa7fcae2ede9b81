// Compiles a trace for one machine and page size: threads merged, objects resolved, the private
// caches that lie below the page shift run once and for all placements, the
// lines that are left merged into page runs.
#pragma once

#include <memory>

#include "core/accesses/compiled_trace.hpp"
#include "core/accesses/trace_format.hpp"
#include "core/accesses/trace_reader.hpp"
#include "core/accesses/trace_walk.hpp"

namespace pagelens {

// Returns whether the trace holds what an L1 of this shape needs. It does if nothing was filtered,
// too.
bool is_exact_for(const TraceHeader& header, CacheShape l1);

// Throws std::invalid_argument if a cache's shape is impossible, indexed above the page shift, or
// not one that the trace is exact for.
void check(const TraceHeader& header, const CompileOptions& options);

// Throws what check() does; std::length_error if the trace touches more memory than the caches can
// tell apart; and what `poll` throws.
std::unique_ptr<const CompiledTrace> compile(const TraceReader& reader,
                                             const CompileOptions& options,
                                             const WalkPoll& poll = {});

}  // namespace pagelens
