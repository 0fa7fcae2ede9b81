// A trace's page uses through TLBs: each thread has one, and all lose what any thread unmaps.
//
// A trace does not have every use of a page: its page filter hides those that hit every TLB of a
// family (docs/trace-format.md). What misses is exact for a TLB whose first level is of that
// family; as a hit changes nothing below the first level, so is all that follows from a miss.
// Lookups are not known: those that the filter hid are missing.
#pragma once

#include <vector>

#include "core/accesses/trace_format.hpp"
#include "core/accesses/trace_reader.hpp"
#include "core/accesses/trace_walk.hpp"
#include "core/machine/tlb.hpp"

namespace pagelens {

// Returns whether the trace holds all that the TLB has to see, for data on pages of that size. A
// filter of several sets distinguishes 4 KiB pages only, by their lowest bits; one of a single set
// hides but the latest pages of all, which are as many large pages at most, in any set.
bool is_exact_for(const TraceHeader& header, const Tlb& tlb, PageSize size);

// All data on pages of one size. Exact as long as large ones are unmapped as a whole: of one that
// loses a part a kernel makes small ones, and uses of the rest may be hidden. [phase * threads +
// thread], the phases as TraceWalk::phases() has them. Throws std::invalid_argument if the TLB does
// not support the size or the trace is not exact for it; and what `poll` throws.
std::vector<TlbCounters> replay_pages(const TraceReader& reader, const Tlb& tlb, PageSize size,
                                      const Poll& poll = {});

}  // namespace pagelens
