// Processors that the tests may use: one on a machine that has no more.
#pragma once

#include <sched.h>

#include <cstddef>
#include <vector>

inline std::vector<int> usable_cpus(std::size_t most) {
    cpu_set_t set;
    CPU_ZERO(&set);
    sched_getaffinity(0, sizeof set, &set);
    std::vector<int> cpus;
    for (int cpu = 0; cpu < CPU_SETSIZE && cpus.size() < most; ++cpu) {
        if (CPU_ISSET(static_cast<std::size_t>(cpu), &set)) cpus.push_back(cpu);
    }
    return cpus;
}
