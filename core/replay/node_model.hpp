// The machine of a node's replay, below the L1s.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "core/machine/cache_hierarchy.hpp"
#include "core/machine/dram.hpp"
#include "core/machine/tlb.hpp"

namespace pagelens {

// The parts as they are in the beginning: every replay has copies of its own.
struct NodeModel {
    std::uint32_t cores = 1;
    // Of caches.cores() neighbouring cores, as often as the node needs; without L1, which has run
    // with the program's compilation.
    CacheHierarchy caches;
    std::optional<Tlb> tlb;  // every core's; walks go through the caches
    // Each is fed all of memory's traffic: the machine's own, and twins of it.
    std::vector<Dram> drams;
    // The size of the pages by which a host maps the memory of a guest, which the node is
    // (host_memory.hpp).
    std::optional<PageSize> host_page = std::nullopt;
};

}  // namespace pagelens
