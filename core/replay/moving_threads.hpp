// Threads that are not bound: the scheduler moves them from one NUMA node to another.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "core/accesses/program.hpp"

namespace pagelens {

struct MovingThreads {
    std::vector<std::uint8_t> node_of_thread;  // at first: of all copies, one copy after the other
    std::vector<double> line_s;  // [phase] seconds that pass while one copy moves one line
    double stay_s = 0;           // that a thread stays on a node on average
    std::uint64_t seed = 0;
};

// Returns the program with swap_threads ops: each lets two threads on different nodes exchange
// their cores, so that all nodes stay equally busy. The threads are drawn, and the distances in
// time are equal. Throws std::invalid_argument unless there is a node for each thread of whole
// copies and a time for each phase, and stay_s is above 0.
std::unique_ptr<Program> with_moving_threads(std::shared_ptr<const Program> program,
                                             MovingThreads moving);

}  // namespace pagelens
