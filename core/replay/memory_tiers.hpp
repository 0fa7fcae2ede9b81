// Linux's tiers of memory (kernel/sched/fair.c, mm/migrate.c and mm/vmscan.c, as of Linux 6.12,
// with kernel.numa_balancing = 2 and demotion_enabled): pages of a slow node (NumaPlacing) that are
// used soon after a scan are promoted to the node of the thread that uses them. If that node is
// full, the pages that were used longest ago are demoted to a slow node.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "core/accesses/program.hpp"
#include "core/frames/numa_policy.hpp"
#include "core/frames/placement.hpp"

namespace pagelens {

// What `lines` of a hint_fault says.
struct HintFault {
    // A fault of NUMA balancing that moves nothing, or moves the page to the node of the thread; a
    // fault of a page of a slow node, which stays or is promoted; from `demoted` on there
    // is no fault, but the page leaves node `lines - demoted`.
    static constexpr std::uint64_t stays = 0, moves = 1, is_cold = 2, is_hot = 3, demoted = 4;
};

struct MemoryTiers {
    std::shared_ptr<const NumaPlacing> numa;
    std::uint32_t ranks = 1;
    std::vector<double> line_s;  // [phase] seconds that pass while the program moves one line
    // The kernel's settings, numa_balancing_scan_delay_ms and so on, at their defaults.
    double scan_delay_s = 1, least_period_s = 1, most_period_s = 60;
    std::uint32_t scan_pages = 65536;  // of 4 KiB in one scan: 256 MiB
    double hot_s = 1;                  // hot_threshold_ms, which the kernel adapts
    // numa_balancing_promote_rate_limit_MBps, of 4 KiB pages for each node: 64 GiB a second.
    double pages_a_second = 16777216;
};

// Returns the program with a hint_fault before each op that meets one, and one for each page that
// is demoted. Pages lie where the placement puts them on a node in its state. Each address space is
// a process with scans of its own. Throws std::invalid_argument unless there is a time for each
// phase and the settings are above 0; OutOfMemory when the node is too small.
std::unique_ptr<Program> with_memory_tiers(std::shared_ptr<const Program> program,
                                           std::shared_ptr<const Placement> placement,
                                           MemoryTiers tiers);

}  // namespace pagelens
