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

// Compacts every zone and drains the per-cpu lists; `cpu` does the work. Moves no page twice.
// Compound pages, pinned ones and pageblocks that are wholly free stay as they are.
std::vector<Move> compact(Memory& memory, unsigned cpu);

}  // namespace pagelens
