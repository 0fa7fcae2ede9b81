// What a node's replay counts: by phase, and in each by stretch.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "core/machine/cache_hierarchy.hpp"
#include "core/machine/tlb.hpp"
#include "core/replay/dram_sums.hpp"

namespace pagelens {

// What was counted while one stretch of a phase went through the machine.
struct NodeStretch {
    std::uint64_t lines = 0;  // moved by all ranks, without cleared ones
    std::uint64_t cleared =
        0;  // pages of 4 KiB, by the kernel, where that changes more than counts
    std::array<std::uint64_t, cache_counters> caches{};  // of all cores
    TlbCounters tlb;
    std::vector<DramSums> drams;
};

// Page clearing is rare and comes in bursts, which stretches meet or miss by chance. So its lines
// are counted in the whole phase; each is a line written to memory. What DRAM takes for them is
// counted with a stretch's other lines, but for large pages: some of these are simulated apart.
struct NodePhase {
    std::uint64_t lines = 0;            // moved by all ranks, without cleared ones
    std::uint64_t cleared = 0;          // by the kernel; of sampled sets where sets are sampled
    std::uint64_t cleared_large = 0;    // of these, in large pages
    std::uint64_t simulated_large = 0;  // of these, through DRAM: `large_drams`
    std::vector<DramSums> large_drams;
    std::vector<NodeStretch> stretches;  // one where all of the phase is simulated
    // [object] lines of memory while stretches were counted, without cleared ones
    std::vector<std::uint64_t> object_reads, object_writes;
    // With several NUMA nodes. [((object * nodes + from) * nodes + to) * 2 + write] lines of
    // memory on node `to`, asked for by cores of `from`, while stretches were counted, without
    // cleared ones; [from * nodes + to] lines that the kernel cleared in the whole phase.
    std::vector<std::uint64_t> numa_lines, numa_cleared;
    // What NUMA balancing did in the whole phase: faults, pages that moved to another node, and
    // pages that left a node to make room for these.
    std::uint64_t hint_faults = 0, pages_moved = 0, pages_demoted = 0;
};

struct NodeCounters {
    std::vector<NodePhase> phases;
    std::uint64_t huge_pages = 0;       // 2 MiB or 1 GiB pages handed out
    std::uint64_t small_fallbacks = 0;  // times when one was wanted and there was none
    // Of all that went through the caches, counted or not. 0: without the filter all is the same.
    std::uint64_t sf_evictions = 0;
};

}  // namespace pagelens
