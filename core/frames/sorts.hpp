// Orders of the free lists that someone chooses: by address, by Intel's buckets, for a given cache
// (docs/zonesort.md), at random. None of them changes which blocks a list holds, but for the last
// step of evacuation that belongs to the second to last.
#pragma once

#include <cstdint>
#include <vector>

#include "core/frames/compaction.hpp"
#include "core/frames/memory.hpp"
#include "core/random/philox.hpp"

namespace pagelens {

// Sorts every list by ascending address.
void sort_by_address(Memory& memory);

// Sorts as Intel's zonesort module of 2017 did, for a cache of `slots` pages (its own was fixed at
// 16 GiB). Every list is sorted by address, but movable blocks of the largest order go into four
// buckets by how much of what comes before them lies in the slots of their first 2 MiB: nothing,
// less than 2 MiB, less than 4 MiB, more. Within a bucket the block met last comes first. Frames
// that are allocated and per-cpu lists are not looked at. Throws std::invalid_argument unless slots
// is a multiple of 1024.
void sort_by_buckets(Memory& memory, std::uint32_t slots);

// Sorts by the rule of docs/zonesort.md for a cache of `slots` pages a NUMA node, with the moves
// (step 2) if `evacuating`, else without; returns the pages that it moved. Throws
// std::invalid_argument unless slots is a multiple of 1024.
std::vector<Move> sort_for_cache(Memory& memory, std::uint32_t slots, bool evacuating,
                                 unsigned cpu);

// Does as page_alloc.shuffle=1 (mm/shuffle.c): puts the blocks of the largest order into random
// order now; from now on, blocks are freed to the head or the tail at random.
void shuffle(Memory& memory, Random& random);
// Does the second half of that, for lists that a running kernel has shuffled.
void shuffle_on_free(Memory& memory, Random& random);

}  // namespace pagelens
