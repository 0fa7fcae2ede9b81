// How many operations a core begins in a cycle, if nothing but its width and its ports hold it up.
#pragma once

#include <cstddef>
#include <vector>

namespace pagelens::probes {

enum class Mix {
    adds_and_loads,  // two additions for each load
    typical,         // also stores, a shift, logic, and branches that are not taken
};

struct IssueResult {
    std::vector<double> rates;  // operations in a cycle, of each repetition
};

// A comparison and a branch that follows it are one operation, as cores fuse them. All data stay in
// L1, and no operation waits for more than a few others. Each repetition is some microseconds, and
// a chain of additions before it, of which each takes one cycle, tells how long a cycle is. So the
// clock of the core needs not be known, and may change.
// std::invalid_argument: repeats of 0, cpu.
IssueResult issue(Mix mix, std::size_t repeats, int cpu);

}  // namespace pagelens::probes
