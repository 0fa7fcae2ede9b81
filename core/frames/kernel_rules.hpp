// The rules of the page allocator in which the modelled kernels differ. The defaults are those of
// Linux 6.1; docs/decisions/kernel-4.4.md says where each rule comes from, and what it is for.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace pagelens {

struct KernelRules {
    // Free lists. At boot, and when it comes online, memory goes to their tails; and so do blocks
    // that change their type. (Otherwise to the heads: the lists begin in falling order.)
    bool new_memory_to_tail = true;
    bool moved_to_tail = true;

    // What a type does that has run dry. While lower zones have memory, Normal's pageblocks keep
    // their types.
    bool no_fragment = true;
    // Where a pageblock cannot be claimed whole, the smallest block is taken, not the largest.
    bool steals_smallest = true;
    // After a steal the type's smallest block is taken, not the one that was found.
    bool takes_smallest_stolen = true;
    // Allocated pages that suit the new type count for a pageblock's claim, as free ones do.
    bool claims_alike = true;

    // The zones of a NUMA node serve in turns, each as many pages as lie between its low and high
    // watermarks (ALLOC_FAIR).
    bool fair_zones = false;

    // Per-cpu lists hold blocks of orders 1 to 3 and of 2 MiB, too.
    bool large_per_cpu_blocks = true;
    // They free twice as much each time that nothing was allocated in between.
    bool doubles_freed_batch = true;
    // They free from each list in turn, a page and then more, not one list after the other.
    bool frees_in_turns = false;
    std::uint32_t batch_kilobytes = 1024;  // most of a zone that four batches may be
    std::uint32_t high_in_batches = 0;     // what a CPU's lists hold; 0: by the low watermark

    // Watermarks: the largest min_free_kbytes that the square root rule gives, and the distance
    // between two watermarks in 10,000ths of the zone, if that is more than a quarter of the
    // lowest.
    std::uint32_t most_min_free_kilobytes = 262144;
    std::uint32_t watermark_scale = 10;
    // Reclaim goes on until no zone is below its high watermark, and takes each zone's own pages.
    bool reclaims_every_zone = false;

    // Compaction. The free scanner takes longer strides where it finds nothing, the migrate scanner
    // finishes a pageblock in one go, and pages are taken down to the lowest watermark.
    bool compacts_in_strides = true;
    bool finishes_pageblocks = true;
    bool compacts_to_min = true;
};

// The versions that are modelled, the usual one first.
inline constexpr std::array<std::string_view, 2> kernel_versions{"6.1", "4.4"};

// Returns the rules of a kernel by its version. Throws std::invalid_argument for others.
KernelRules kernel_rules(std::string_view version);

}  // namespace pagelens
