// The options of a replay: the levels of the machine that depend on the placement, and what to
// count.
#pragma once

#include <cstdint>

#include "core/machine/cache_hierarchy.hpp"
#include "core/replay/sampling.hpp"

namespace pagelens {

struct RowModel;  // rows_behind.hpp

// The levels below what the program was compiled for.
struct Hierarchy {
    std::uint32_t l2_sets = 0;       // a power of two, at least 64; 0: already applied, or below
    std::uint32_t l2_ways = 0;       // at most 16
    std::uint32_t l2_shared_by = 1;  // neighbouring cores
    std::uint32_t slots = 0;         // of the memory-side cache, a power of two; 0: it has none
    std::uint32_t ways = 1;          // of the memory-side cache, a power of two, at most 16
    // L2, L3 and snoop filter of a group of cores, as they are in the beginning; it outlives the
    // replay. Instead of l2_sets: cores that share an L3 are slower to replay.
    const CacheHierarchy* caches = nullptr;
};

struct ReplayOptions {
    std::uint32_t ranks = 1;
    Sampling sampling;
    bool scaled = true;             // multiply sampled counts up to the whole
    bool two_way = false;           // also feed a two-way cache of the same size
    bool ideal = false;             // also feed the fully associative twin
    std::uint32_t map_bins = 8192;  // of Residency::map, a power of two
    std::uint64_t seed = 0;         // of the twin's random replacement
    std::uint32_t node = 0;
    // DRAM behind the memory-side cache; null: not timed. It outlives the replay.
    const RowModel* rows = nullptr;
};

}  // namespace pagelens
