// The NUMA balancing of Linux (kernel/sched/fair.c and mm/mempolicy.c, as of Linux 6.12): it takes
// away the access to pages in turn, looks at the faults that follow, and moves pages to the nodes
// of the threads that use them.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "core/accesses/program.hpp"

namespace pagelens {

struct NumaBalancing {
    std::vector<std::uint8_t> node_of_thread;  // of one copy of the program
    std::vector<double> line_s;  // [phase] seconds that pass while the program moves one line
    // The kernel's settings, numa_balancing_scan_delay_ms and so on, at their defaults.
    double scan_delay_s = 1, least_period_s = 1, most_period_s = 60;
    std::uint32_t scan_pages = 65536;  // of 4 KiB in one scan: 256 MiB
};

// Returns the program with a hint_fault before each op that meets one. Whether the page moves is
// decided as if each page lay on the node of the thread that wrote it first. Each address space is
// a process with scans of its own. Throws std::invalid_argument unless there is a node for each
// thread and a time for each phase, and the settings are above 0.
std::unique_ptr<Program> with_numa_balancing(std::shared_ptr<const Program> program,
                                             NumaBalancing balancing);

}  // namespace pagelens
