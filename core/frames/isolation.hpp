// Making ranges of memory free: evacuation as alloc_contig_range() does it, and memory offline and
// online. Free blocks of the range are kept from allocation meanwhile, and its movable pages go
// wherever the allocator puts them.
#pragma once

#include <vector>

#include "core/frames/compaction.hpp"
#include "core/frames/memory.hpp"

namespace pagelens {

// A range of units; `begin` and `end` are multiples of the largest free block.
struct UnitRange {
    Unit begin, end;
};

// Moves what is allocated out of the range, which then is free and merged. Returns false if
// something in it cannot move or memory is full; then nothing has changed but for the pages moved
// so far. Preconditions: no CPU but this one has anything in its per-cpu lists; the range lies
// inside one zone. A page may move again in a later call: apply moves in their order.
bool evacuate(Memory& memory, UnitRange range, unsigned cpu, std::vector<Move>& moves);

// Takes [begin, end) frames offline, evacuating it; they then belong to nobody. Returns false if
// something in it cannot move, or not all of it lies in one zone, as Linux does. Throws
// std::invalid_argument unless both are multiples of 4 MiB.
bool take_offline(Memory& memory, Frame begin, Frame end, unsigned cpu, std::vector<Move>& moves);
// Brings frames back that went offline: movable, at the tail of their lists.
void bring_online(Memory& memory, Frame begin, Frame end);

}  // namespace pagelens
