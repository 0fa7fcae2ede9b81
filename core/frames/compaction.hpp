// Compaction of whole zones, as /proc/sys/vm/compact_memory starts it: a scanner from below
// collects movable pages, one from above free pages, until they meet (mm/compaction.c, Linux 6.1).
#pragma once

#include <vector>

#include "core/frames/memory.hpp"

namespace pagelens {

// A page that went to another frame; who holds the page must be told.
struct Move {
    Frame from, to;
    friend bool operator==(const Move&, const Move&) = default;
};

// Compacts every zone; `cpu` does the work, and its per-cpu lists get what comes free. Moves no
// page twice. Compound pages, pinned ones, pageblocks that are wholly free and what lies in per-cpu
// lists stay as they are: compact_zone() drains the lists only for a request of a known order, and
// here there is none (order -1; Linux 6.1 and 6.12).
std::vector<Move> compact(Memory& memory, unsigned cpu);

}  // namespace pagelens
